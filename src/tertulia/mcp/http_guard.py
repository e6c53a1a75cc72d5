"""Below the SDK's HTTP client: what goes wrong with one request becomes the answer to that request, and to no other.

The SDK ends the whole connection when a request fails below it, and with that the calls of everybody else. Imports the
SDK's HTTP library, so it is itself imported late, by `http_transport`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx2
import msgspec

from tertulia.events.clock import Clock
from tertulia.mcp.trouble import words

MAX_BODY = 16 << 20
"""Of an answer that is not a stream of events, and of one event."""
GOODBYE_S = 2.0
BETWEEN_GETS_S = 0.25
"""A server may say how soon its stream is to be asked for again, but not that it is asked for without a pause."""
_CONNECTION_CLOSED = -32000
_NOT_FOUND = 404
_BAD_GATEWAY = 502
_UNWELCOME = (401, 403)
_CREDENTIALS = "it wants other credentials; see bearer_token_env_var, http_headers and env_http_headers"


class Guard(httpx2.AsyncBaseTransport):
    """Never raises: where there is no answer it gives one, an error in JSON-RPC.

    `lost` is told when the server is not there at all, or does not know our session any more.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, clock: Clock, lost: Callable[[str], None]) -> None:
        self._inner, self._clock, self._lost = inner, clock, lost
        self._next_get = 0.0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it."""
        if request.method == "GET":
            await self._pause()
        if request.method == "DELETE":
            return await self._goodbye(request)
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.ConnectError as error:
            why = f"it cannot be reached: {words(str(error)) or 'no connection'}"
            self._lost(why)
            return _failure(why)
        except httpx2.TransportError as error:
            return _failure(f"the request failed: {type(error).__name__}")
        if response.status_code == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._lost("it does not know our session any more")
        if response.status_code in _UNWELCOME:
            # Whatever it says about how to get in, we follow none of it.
            await response.aclose()
            return _failure(_CREDENTIALS, response.status_code, response.status_code)
        return await _bounded(response)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._inner.aclose()

    async def _goodbye(self, request: httpx2.Request) -> httpx2.Response:
        """The end of a session, which nobody waits for long."""
        try:
            async with asyncio.timeout(GOODBYE_S):
                response = await self._inner.handle_async_request(request)
                await response.aclose()
        except (TimeoutError, httpx2.TransportError):
            return _failure("it does not hear that the session is over")
        return httpx2.Response(response.status_code)

    async def _pause(self) -> None:
        now = self._clock.monotonic()
        wait_s = self._next_get - now
        self._next_get = max(now, self._next_get) + BETWEEN_GETS_S
        if wait_s > 0:
            await asyncio.sleep(wait_s)


class _Body(httpx2.AsyncByteStream):
    """Ends where it breaks off, and where it is too long: what was read until then is taken for no answer."""

    def __init__(self, stream: httpx2.AsyncByteStream, bound: int | None) -> None:
        self._stream, self._bound = stream, bound

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        try:
            async for piece in self._stream:
                total += len(piece)
                if self._bound is not None and total > self._bound:
                    return
                yield piece
        except httpx2.TransportError:
            return

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bounded(response: httpx2.Response) -> httpx2.Response:
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        # Nobody asked for it, and a few bytes of it can become any number.
        await stream.aclose()
        return _failure("its answer is compressed, which was not asked for")
    events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    response.stream = _Body(stream, None if events else MAX_BODY)
    return response


def _failure(why: str, code: int = _CONNECTION_CLOSED, status: int = _BAD_GATEWAY) -> httpx2.Response:
    error = {"code": code, "message": why}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)
