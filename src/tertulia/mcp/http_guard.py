"""Below the SDK's HTTP client: what goes wrong with one request becomes the answer to that request, and to no other.

Made by a function, because its base class comes with the SDK and that is loaded late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import msgspec

from tertulia.events.clock import Clock
from tertulia.mcp.trouble import words

if TYPE_CHECKING:
    import httpx2

MAX_BODY = 16 << 20
"""Of an answer that is not a stream of events."""
_BETWEEN_GETS_S = 0.25
"""A server may say how soon its stream is to be asked for again, but not that it is asked for without a pause."""
_CONNECTION_CLOSED = -32000
_EVENTS = "text/event-stream"


def guarded(inner: httpx2.AsyncBaseTransport, clock: Clock, lost: Callable[[str], None]) -> httpx2.AsyncBaseTransport:
    """The same, but it never raises: it answers 502 with an error in JSON-RPC.

    `lost` is told when the server is not there at all, or does not know our session any more.
    """
    import httpx2

    class Guard(httpx2.AsyncBaseTransport):
        last_get = -_BETWEEN_GETS_S

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.method == "GET":
                await self.wait()
            try:
                response = await inner.handle_async_request(request)
            except httpx2.ConnectError as error:
                lost(why := f"it cannot be reached: {words(str(error)) or 'no connection'}")
                return failure(why)
            except httpx2.TransportError as error:
                return failure(f"the request failed: {type(error).__name__}")
            if response.status_code == httpx2.codes.NOT_FOUND and "mcp-session-id" in request.headers:
                lost("it does not know our session any more")
            return self.bounded(response)

        def bounded(self, response: httpx2.Response) -> httpx2.Response:
            if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
                return failure("it answered in a compressed form that was not asked for", response)
            stream = response.stream
            assert isinstance(stream, httpx2.AsyncByteStream)
            events = response.headers.get("content-type", "").lower().startswith(_EVENTS)
            response.stream = Body(stream, None if events else MAX_BODY)
            return response

        async def wait(self) -> None:
            now = clock.monotonic()
            wait_s = self.last_get + _BETWEEN_GETS_S - now
            self.last_get = now + max(0.0, wait_s)
            if wait_s > 0:
                await asyncio.sleep(wait_s)

        async def aclose(self) -> None:
            await inner.aclose()

    class Body(httpx2.AsyncByteStream):
        """Ends where it breaks off, or where it is too long; then what was read is no answer."""

        def __init__(self, stream: httpx2.AsyncByteStream, bound: int | None) -> None:
            self.stream, self.bound = stream, bound

        async def __aiter__(self) -> AsyncIterator[bytes]:
            total = 0
            try:
                async for piece in self.stream:
                    total += len(piece)
                    if self.bound is not None and total > self.bound:
                        return
                    yield piece
            except httpx2.TransportError:
                return

        async def aclose(self) -> None:
            await self.stream.aclose()

    def failure(why: str, instead_of: httpx2.Response | None = None) -> httpx2.Response:
        error = {"code": _CONNECTION_CLOSED, "message": why}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
        response = httpx2.Response(502, headers={"content-type": "application/json"}, content=body)
        if instead_of is not None:
            response.stream = Replaced(body, instead_of)
        return response

    class Replaced(httpx2.AsyncByteStream):
        """Our words; and the connection of what they stand for is let go."""

        def __init__(self, body: bytes, response: httpx2.Response) -> None:
            self.body, self.response = body, response

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield self.body

        async def aclose(self) -> None:
            stream = self.response.stream
            assert isinstance(stream, httpx2.AsyncByteStream)
            await stream.aclose()

    return Guard()
