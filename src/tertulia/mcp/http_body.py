"""The bodies of answers over HTTP: bounded, mended, and those that answer something else left out.

Imports the SDK's HTTP library, so it is itself imported late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2
import msgspec

from tertulia.mcp.mending import MAX_CONTAINERS, MAX_MENDED, is_tangled, readable

MAX_BODY = 16 << 20
"""Of an answer that is not a stream of events, and of one event."""
_DATA = b"data:"
_ENDS = (b"\n", b"\r")


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None


def asked_in(request: httpx2.Request) -> int | str | None:
    """The id of the request that this one carries; None: it carries none."""
    if request.method != "POST":
        return None
    sent = _envelope(request.content)
    return None if sent is None or sent.method is None else sent.id


def answers_another(body: bytes, asked: int | str | None) -> bool:
    """Whether it is an answer, and not to what was asked (C7). Of what cannot be read that is not known."""
    told = _envelope(body)
    return asked is not None and told is not None and told.method is None and told.id not in (asked, None)


def _envelope(body: bytes) -> _Envelope | None:
    try:
        return msgspec.json.decode(body, type=_Envelope)
    except (ValueError, RecursionError):
        return None


async def whole(stream: httpx2.AsyncByteStream) -> bytes | str:
    """All of it, mended; or why there is nothing to be had from it."""
    body = bytearray()
    try:
        async for piece in stream:
            body += piece
            if len(body) > MAX_BODY:
                return f"its answer has more than {MAX_BODY:,} bytes"
    except httpx2.TransportError:
        return "its answer broke off"
    finally:
        await stream.aclose()
    if is_tangled(body):
        return f"its answer has more than {MAX_CONTAINERS:,} parts"
    return readable(bytes(body))


class Events(httpx2.AsyncByteStream):
    """A stream of events, line by line. It ends where it breaks off. `drop` is told of what was left out."""

    def __init__(self, stream: httpx2.AsyncByteStream, asked: int | str | None, drop: Callable[[], None]) -> None:
        self._stream, self._asked, self._drop = stream, asked, drop

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held: list[bytes] = []
        size, inside = 0, False
        try:
            async for piece in self._stream:
                held.append(piece)
                size += len(piece)
                if not inside and size <= MAX_MENDED and not any(end in piece for end in _ENDS):
                    # Joined once: a long line in small pieces would be copied again with each of them.
                    continue
                lines = b"".join(held).splitlines(keepends=True)
                rest = lines.pop() if lines and not lines[-1].endswith(_ENDS) else b""
                passed: list[bytes] = []
                for line in lines:
                    passed.append(line if inside else self._line(line))
                    inside = False
                if rest and (inside or len(rest) > MAX_MENDED):
                    # A line that is too long to be looked at is passed on as it comes.
                    passed.append(rest)
                    rest, inside = b"", True
                held, size = [rest], len(rest)
                if passed:
                    yield b"".join(passed)
        except httpx2.TransportError:
            pass
        if size:
            yield b"".join(held)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _line(self, line: bytes) -> bytes:
        line = readable(line)
        if line.startswith(_DATA) and answers_another(line[len(_DATA) :], self._asked):
            self._drop()
            return b":\n"
        return line
