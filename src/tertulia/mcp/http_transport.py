"""A server that runs already, behind an address: streamable HTTP.

Redirects are followed within the origin only (the SDK sees to that), so that credentials stay where they belong.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from tertulia.events.clock import Clock
from tertulia.mcp.launch import Launch
from tertulia.mcp.stdio_transport import Lost

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

CONNECT_S = 10.0
WRITE_S = 30.0


class HttpTransport:
    """Implements the SDK's `Transport`. Entered and left by one task, the owner."""

    ended_by_itself = False

    def __init__(self, launch: Launch, *, clock: Clock, lost: Lost) -> None:
        self.dropped: Counter[str] = Counter()
        self._launch, self._clock, self._lost = launch, clock, lost
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> TransportStreams:
        """Nothing is sent yet."""
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from tertulia.mcp.http_guard import MAX_BODY, Guard

        client = httpx2.AsyncClient(
            transport=Guard(httpx2.AsyncHTTPTransport(), self._clock, self._lost),
            headers={"accept-encoding": "identity", **self._launch.headers},
            # How long an answer may take is for the caller to say.
            timeout=httpx2.Timeout(None, connect=CONNECT_S, write=WRITE_S),
            trust_env=False,
        )
        await self._stack.enter_async_context(client)
        streams = streamable_http_client(self._launch.url, http_client=client, max_sse_event_size=MAX_BODY)
        return await self._stack.enter_async_context(streams)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Say goodbye where there is a session, and let go."""
        return await self._stack.__aexit__(kind, error, trace)
