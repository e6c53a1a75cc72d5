"""The bodies of answers over HTTP: bounded, mended, and those that answer something else left out.

Imports the SDK's HTTP library, so it is itself imported late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import NamedTuple

import httpx2
import msgspec

from tertulia.mcp.mending import MAX_DEPTH, MAX_MENDED, readable
from tertulia.mcp.trouble import NO_ANSWER
from tertulia.mcp.unreadable import PREFIX, UNREADABLE, is_asking
from tertulia.protocol.json_scan import MAX_PARTS, excess_in_steps

MAX_BODY = 16 << 20
"""Of an answer that is not a stream of events, and of one event."""
MAX_LINES = 20_000
"""Of one event: whoever reads it takes its time over each."""
_AT_ONCE = 32
"""Events that are handed on in one step of the loop: the SDK takes its time over each of them, too."""
_DATA = b"data:"
_ENDS = (b"\n", b"\r")
_NOTHING = b":\n\n"
"""A comment: it keeps the stream alive, and says nothing."""
_QUIET_AT_ONCE = 1024


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


class NoBody(NamedTuple):
    """Why there is nothing to be had from an answer, and the number of the error that says so."""

    why: str
    code: int = UNREADABLE


async def whole(stream: httpx2.AsyncByteStream) -> bytes | NoBody:
    """All of it, mended; or why not."""
    body = bytearray()
    try:
        async for piece in stream:
            body += piece
            if len(body) > MAX_BODY:
                return NoBody(f"{PREFIX}it has more than {MAX_BODY:,} bytes")
    except httpx2.TransportError:
        return NoBody("its answer broke off", NO_ANSWER)
    finally:
        await stream.aclose()
    answer = bytes(body)
    if (too_much := await excess_in_steps(answer, MAX_PARTS, MAX_DEPTH)) is not None:
        return NoBody(f"{PREFIX}it has {too_much}")
    return readable(answer)


class Events(httpx2.AsyncByteStream):
    """A stream of events, event by event. It ends where it breaks off. `drop` is told of what was left out.

    An event that is too large, or has too many parts, is answered with an error in its place: the SDK would build it.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, asked: int | str | None, drop: Callable[[], None]) -> None:
        self._stream, self._asked, self._drop = stream, asked, drop

    async def __aiter__(self) -> AsyncIterator[bytes]:
        cut = EventCut()
        try:
            async for piece in self._stream:
                passed: list[bytes] = []
                quiet = 0
                for event in cut.feed(piece):
                    if event is not None and _DATA not in event:
                        # Comments and the like: of any number a few are enough.
                        quiet += 1
                        if quiet <= _AT_ONCE:
                            passed.append(event)
                        elif quiet % _QUIET_AT_ONCE == 0:
                            await asyncio.sleep(0)
                        continue
                    passed.append(await self._looked_at(event))
                    if len(passed) >= _AT_ONCE:
                        yield b"".join(passed)
                        passed.clear()
                        await asyncio.sleep(0)
                if passed:
                    yield b"".join(passed)
        except httpx2.TransportError:
            pass
        if rest := cut.rest():
            yield await self._looked_at(rest)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _looked_at(self, event: bytes | None) -> bytes:
        if event is None:
            return self._refused(b"", f"it has more than {MAX_BODY:,} bytes or {MAX_LINES:,} lines")
        data = _data_of(event)
        if (too_much := await excess_in_steps(data, MAX_PARTS, MAX_DEPTH)) is not None:
            return self._refused(data, f"it has {too_much}")
        if len(event) <= MAX_MENDED:
            event = readable(event)
            data = _data_of(event)
        if answers_another(data, self._asked):
            self._drop()
            return _NOTHING
        return event

    def _refused(self, data: bytes, why: str) -> bytes:
        if self._asked is None or is_asking(data):
            self._drop()
            return _NOTHING
        return b"data: %b\n\n" % unreadable_answer(self._asked, why)


def unreadable_answer(asked: int | str | None, why: str) -> bytes:
    """The error that stands in place of an answer that will not be read."""
    error = {"code": UNREADABLE, "message": f"{PREFIX}{why}"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": asked, "error": error})


class EventCut:
    """Cuts a stream into events, each with the empty line that ends it; however it comes in pieces, they are the same.

    Holds at most one event. Of one that is too long comes None, as soon as that is certain, and nothing else.
    """

    def __init__(self, limit: int = MAX_BODY) -> None:
        self._limit = limit
        self._event = bytearray()
        """The whole lines of an event that has not ended."""
        self._lines = 0
        """How many they are."""
        # In pieces: a long line would be copied again with each of them.
        self._line: list[bytes] = []
        self._size = 0
        self._after_cr = self._skipping = False

    def feed(self, piece: bytes) -> Iterator[bytes | None]:
        """The events that these bytes complete. Take all of them before feeding more."""
        if self._after_cr and piece.startswith(b"\n"):
            # It belongs to the line that has ended already, and that may have ended its event.
            piece = piece[1:]
            if self._event:
                self._event += b"\n"
            elif not self._skipping:
                yield b"\n"
        self._after_cr = piece.endswith(b"\r")
        self._line.append(piece)
        self._size += len(piece)
        if any(end in piece for end in _ENDS):
            yield from self._cut(b"".join(self._line).splitlines(keepends=True))
        if self._size > self._limit or self._lines > MAX_LINES:
            if not self._skipping:
                yield None
            self._skipping = True
            # Something of the line, so that its end is not taken for an empty line.
            self._event, self._lines = bytearray(), 0
            self._line, self._size = [b":"] if self._line else [], 0

    def rest(self) -> bytes:
        """What was begun when the stream ended."""
        return b"" if self._skipping else b"".join((bytes(self._event), *self._line))

    def _cut(self, lines: list[bytes]) -> Iterator[bytes | None]:
        rest = lines.pop() if not lines[-1].endswith(_ENDS) else b""
        self._line = [rest] if rest else []
        for line in lines:
            self._event += line
            self._lines += 1
            if not line.strip(b"\r\n"):
                if not self._skipping:
                    fits = len(self._event) <= self._limit and self._lines <= MAX_LINES
                    yield bytes(self._event) if fits else None
                self._event, self._lines, self._skipping = bytearray(), 0, False
        self._size = len(rest) + len(self._event)


def _data_of(event: bytes) -> bytes:
    """What an event says; its names and numbers are the SDK's."""
    lines = (line[len(_DATA) :] for line in event.splitlines() if line.startswith(_DATA))
    return b"\n".join(lines)
