"""An answer that is streamed as server-sent events: its lines, its silence, and the client that goes away meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tertulia.errors import TertuliaError
from tertulia.server.http.guard import Headers, Receive, Send

SILENCE_S = 10.0
"""Seconds after which a stream in which nothing is said gets a line that clients pass over."""
WAITING = b": the agent works\n\n"
_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")
_JSON = (b"content-type", b"application/json")


class StreamedAnswer:
    """The answer to one request: a JSON value, or a stream of them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def begin(self, headers: Headers | None = None) -> None:
        """Begin a stream, of which nothing is said yet."""
        await self._start(200, [_STREAM, *(headers or ())])
        self.has_begun = True

    async def data(self, value: Any) -> None:
        """Send one event, which waits while the client does not read."""
        await self._body(b"data: %b\n\n" % msgspec.json.encode(value))

    async def end(self) -> None:
        """End the stream; nothing follows."""
        await self._body(b"", more=False)

    async def whole(self, status: int, value: Any, headers: Headers | None = None) -> None:
        """Answer with one JSON value, where no stream has begun."""
        body = msgspec.json.encode(value)
        await self._start(status, [_JSON, (b"content-length", b"%d" % len(body)), *(headers or ())])
        await self._body(body, more=False)

    @asynccontextmanager
    async def unbroken(self) -> AsyncGenerator[None]:
        """Keep the connection open inside the block while nothing is said."""
        try:
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(self._break_silence())
                try:
                    yield
                finally:
                    waiting.cancel()
        except BaseExceptionGroup as errors:
            # What the block raises comes out as it is: callers tell a refusal by its type.
            raise errors.exceptions[0] from None

    async def _break_silence(self) -> None:
        while True:
            await asyncio.sleep(SILENCE_S)
            await self._body(WAITING)

    async def _start(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


async def until_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work; cancel it when the client is gone. Raises the TertuliaError of the work."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(_settled(work))
        gone = group.create_task(_wait_until_gone(receive))
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        working.cancel()
    if not working.cancelled() and (error := working.result()) is not None:
        raise error


async def _settled(work: Coroutine[Any, Any, None]) -> TertuliaError | None:
    """Returns a refusal instead of raising it, which a task group would wrap."""
    try:
        await work
    except TertuliaError as error:
        return error
    return None


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
