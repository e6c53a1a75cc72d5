"""A server that runs already, behind an address: streamable HTTP.

Redirects are followed within the origin only (the SDK sees to that), so that credentials stay where they belong.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from tertulia.events.clock import Clock
from tertulia.mcp.client.content_tickets import Tickets
from tertulia.mcp.client.json_repair import repair_result
from tertulia.mcp.client.stdio_transport import OnLost
from tertulia.mcp.config.launch import Launch

if TYPE_CHECKING:
    import contextvars

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

CONNECT_S = 10.0
WRITE_S = 30.0


class HttpTransport:
    """Implements the SDK's `Transport`. Entered and left by one task, the owner."""

    ended_by_itself = False

    def __init__(self, launch: Launch, *, clock: Clock, lost: OnLost) -> None:
        self.dropped: Counter[str] = Counter()
        self._launch, self._clock, self._lost = launch, clock, lost
        self._stack = AsyncExitStack()
        self._tickets = Tickets()
        self._reads: _Reads | None = None

    async def __aenter__(self) -> TransportStreams:
        """Nothing is sent yet."""
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from tertulia.mcp.client.http_body import MAX_BODY
        from tertulia.mcp.client.http_errors import HttpErrorTransport

        client = httpx2.AsyncClient(
            transport=HttpErrorTransport(
                httpx2.AsyncHTTPTransport(), self._clock, self._lost, self.dropped, self._tickets
            ),
            headers={"accept-encoding": "identity", **self._launch.headers},
            # How long an answer may take is for the caller to say.
            timeout=httpx2.Timeout(None, connect=CONNECT_S, write=WRITE_S),
            trust_env=False,
        )
        await self._stack.enter_async_context(client)
        streams = streamable_http_client(self._launch.url, http_client=client, max_sse_event_size=MAX_BODY)
        reads, writes = await self._stack.enter_async_context(streams)
        self._reads = _Reads(reads, self._tickets)
        return self._reads, writes

    def speak(self, version: str) -> None:
        """That version was agreed on."""
        if self._reads is not None:
            self._reads.version = version

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Say goodbye where there is a session, and let go."""
        self._tickets.clear()
        return await self._stack.__aexit__(kind, error, trace)


class _Reads:
    """The SDK's own stream, with answers mended, and what is long in place of its ticket."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], tickets: Tickets) -> None:
        from mcp_types import JSONRPCError, JSONRPCResponse

        self.version = ""
        self._inner, self._tickets = inner, tickets
        self._response, self._error = JSONRPCResponse, JSONRPCError

    @property
    def last_context(self) -> contextvars.Context | None:
        """In whose name the request was sent that brought the last message."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        item = await self._inner.receive()
        if isinstance(item, Exception):
            return item
        message = item.message
        if isinstance(message, self._response):
            message.result = self._tickets.content(message.result)
            repair_result(message.result, self.version)
        elif not isinstance(message, self._error) and message.params is not None:
            message.params = self._tickets.content(message.params)
        return item

    async def aclose(self) -> None:
        """No more is read."""
        await self._inner.aclose()

    def __aiter__(self) -> _Reads:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Reads:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()
