"""Bodies of HTTP responses: bounded, repaired, without responses to other requests; long content replaced by a ticket.

The SDK would build, check and print a long message in one step of the loop. It gets a ticket in place of the content,
and `http_transport` puts the content back. Imports the SDK's HTTP library, so it is itself imported late.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import httpx2
import msgspec

from tertulia.errors import ParseError
from tertulia.mcp.client.error_text import NO_ANSWER, UNREADABLE, UNREADABLE_PREFIX
from tertulia.mcp.client.json_repair import MAX_DEPTH, MAX_REPAIRED, looks_like_request, repair_if_needed
from tertulia.mcp.client.jsonrpc_lines import SHORT, Envelope, MessageProblem, read_long, why_not
from tertulia.protocol.json_scan import MAX_PARTS, find_excess_in_steps

MAX_BODY = 16 << 20
"""Of a body that is not a stream of events, and of one event."""
MAX_LINES = 20_000
"""Of one event: the SDK takes its time over each line."""
_AT_ONCE = 32
"""Events that are passed on in one step of the loop: the SDK takes its time over each of them, too."""
_DATA = b"data:"
_ENDS = (b"\n", b"\r")
_NOTHING = b":\n\n"
"""A comment, which keeps the stream alive."""
_QUIET_AT_ONCE = 1024
_MOST_NAMES = 16 * 1024
"""Bytes of an event besides its data that are passed on."""

Event = bytes | bytearray
"""A bytearray for a long one, which is not copied."""


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None


def request_id_in(request: httpx2.Request) -> int | str | None:
    """The id of the JSON-RPC request in an HTTP request; None where it has none."""
    if request.method != "POST":
        return None
    message = _envelope(request.content)
    return None if message is None or message.method is None else message.id


def answers_other_request(body: bytes, request: int | str | None) -> bool:
    """Whether it is a response to another request (C7); False where it cannot be decoded."""
    message = _envelope(body)
    return request is not None and message is not None and message.method is None and message.id not in (request, None)


def _envelope(body: bytes) -> _Envelope | None:
    try:
        return msgspec.json.decode(body, type=_Envelope)
    except (ValueError, RecursionError):
        return None


class Unreadable(Exception):
    """A long text that is no message; the error's text says why."""


_decode = msgspec.json.Decoder(Envelope).decode


async def ticketed(text: bytes, request: int | str | None, tickets: Tickets) -> bytes | None:
    """A long message with a ticket for its content; None: it is a response to another request (C7). Unreadable."""
    if len(text) <= MAX_REPAIRED:
        text = text.decode("utf-8", "replace").encode()
    try:
        message = await read_long(text, _decode)
    except (ParseError, ValueError, RecursionError) as error:
        raise Unreadable(why_not(error)) from None
    if isinstance(message.method, str):
        return tickets.replace_content(message)
    if request is not None and message.id not in (request, None):
        return None
    if not isinstance(message.result, dict) and not isinstance(message.error, MessageProblem):
        raise Unreadable("it has neither a result nor an error")
    return tickets.replace_content(message)


class BodyFailure(NamedTuple):
    """Why a body cannot be used, and the code of the error."""

    why: str
    code: int = UNREADABLE


async def read_body(stream: httpx2.AsyncByteStream) -> bytes | BodyFailure:
    """The whole body, repaired where it is short; or why it cannot be used."""
    body = bytearray()
    try:
        async for piece in stream:
            body += piece
            if len(body) > MAX_BODY:
                return BodyFailure(f"{UNREADABLE_PREFIX}it has more than {MAX_BODY:,} bytes")
    except httpx2.TransportError:
        return BodyFailure("its answer broke off", NO_ANSWER)
    finally:
        await stream.aclose()
    answer = bytes(body)
    if (too_much := await find_excess_in_steps(answer, MAX_PARTS, MAX_DEPTH)) is not None:
        return BodyFailure(f"{UNREADABLE_PREFIX}it has {too_much}")
    return repair_if_needed(answer) if len(answer) <= SHORT else answer


class EventStreamBody(httpx2.AsyncByteStream):
    """A stream of events, event by event. It ends where the connection breaks. `drop` is called for what is left out.

    An event that is too large, or has too many parts, is replaced by an error: the SDK would build it. The content of a
    long one is replaced by a ticket.
    """

    def __init__(
        self, stream: httpx2.AsyncByteStream, request: int | str | None, drop: Callable[[], None], tickets: Tickets
    ) -> None:
        self._stream, self._request, self._drop, self._tickets = stream, request, drop, tickets

    async def __aiter__(self) -> AsyncIterator[bytes]:
        cut = SseSplitter()
        try:
            async for piece in self._stream:
                passed: list[bytes] = []
                quiet = 0
                for event in cut.feed(piece):
                    if event is not None and _DATA not in event:
                        # Comments and the like: a few of any number are enough.
                        quiet += 1
                        if quiet <= _AT_ONCE:
                            passed.append(_short(event))
                        elif quiet % _QUIET_AT_ONCE == 0:
                            await asyncio.sleep(0)
                        continue
                    passed.append(await self._checked(event))
                    if len(passed) >= _AT_ONCE:
                        yield b"".join(passed)
                        passed.clear()
                        await asyncio.sleep(0)
                if passed:
                    yield b"".join(passed)
        except httpx2.TransportError:
            pass
        if rest := cut.rest():
            yield await self._checked(rest) if _DATA in rest else _short(rest)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _checked(self, event: Event | None) -> bytes:
        if event is None:
            return await self._refused(b"", f"it has more than {MAX_BODY:,} bytes or {MAX_LINES:,} lines")
        names, data = _parted(event)
        if len(data) > SHORT:
            return await self._long(names, data)
        if (too_much := await find_excess_in_steps(data, MAX_PARTS, MAX_DEPTH)) is not None:
            return await self._refused(data, f"it has {too_much}")
        if isinstance(event, bytearray):
            # The rest of it was comments.
            event = b"data:%b\n\n" % data.replace(b"\n", b"\ndata:")
        whole = repair_if_needed(event)
        if answers_other_request(_data_of(whole), self._request):
            self._drop()
            return _NOTHING
        return whole

    async def _long(self, names: bytes, data: bytes) -> bytes:
        try:
            message = await ticketed(data, self._request, self._tickets)
        except Unreadable as error:
            return await self._refused(data, str(error))
        if message is None:
            self._drop()
            return _NOTHING
        return b"%bdata: %b\n\n" % (names, message)

    async def _refused(self, data: bytes, why: str) -> bytes:
        if self._request is None or await looks_like_request(data):
            self._drop()
            return _NOTHING
        return b"data: %b\n\n" % unreadable_error(self._request, why)


def unreadable_error(request: int | str | None, why: str) -> bytes:
    """The error in place of a response that will not be read."""
    error = {"code": UNREADABLE, "message": f"{UNREADABLE_PREFIX}{why}"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request, "error": error})


class SseSplitter:
    """Cuts a stream into events, each with the empty line that ends it, however the bytes arrive.

    Holds at most one event, and never copies a long one. For one that is too long it yields None, as soon as that is
    certain, and nothing else.
    """

    def __init__(self, limit: int = MAX_BODY) -> None:
        self._limit = limit
        self._event = bytearray()
        """The beginning of one that has not ended."""
        self._lines = 0
        """How many lines of it have ended."""
        self._in_line = self._after_cr = self._skipping = False

    def feed(self, piece: bytes) -> Iterator[Event | None]:
        """The events that these bytes complete. Take all of them before feeding more."""
        if self._after_cr and piece.startswith(b"\n"):
            # It belongs to the line before, which may have ended its event.
            piece = piece[1:]
            if self._event:
                self._event += b"\n"
            elif not self._skipping:
                yield b"\n"
        self._after_cr = piece.endswith(b"\r")
        for line in piece.splitlines(keepends=True):
            has_ended = line.endswith(_ENDS)
            is_blank = has_ended and not self._in_line and not line.strip(b"\r\n")
            self._in_line = not has_ended
            if not self._skipping:
                self._event += line
                self._lines += has_ended
                if len(self._event) > self._limit or self._lines > MAX_LINES:
                    self._skipping = True
                    self._take()
                    yield None
                elif is_blank:
                    yield self._take()
            if is_blank:
                self._skipping = False

    def rest(self) -> Event:
        """The incomplete event at the end of the stream."""
        return self._take()

    def _take(self) -> Event:
        event, self._event, self._lines = self._event, bytearray(), 0
        return event if len(event) > SHORT else bytes(event)


def _short(quiet: Event) -> bytes:
    """An event without data, if it is short."""
    return bytes(quiet) if len(quiet) <= _MOST_NAMES else _NOTHING


def _data_of(event: Event) -> bytes:
    """The data of an event."""
    return _parted(event)[1]


def _parted(event: Event) -> tuple[bytes, bytes]:
    """The lines of an event that are no data, if they are short, and its data.

    A long event is emptied: its memory is needed for the result.
    """
    lines = event.splitlines()
    if isinstance(event, bytearray):
        event.clear()
    data = b"\n".join(memoryview(line)[len(_DATA) :] for line in lines if line.startswith(_DATA))
    names = b"".join(b"%b\n" % line for line in lines if line and not line.startswith(_DATA))
    return names if len(names) <= _MOST_NAMES else b"", data


KEPT_S = 30.0
"""How long content is kept for a message that the SDK may have dropped."""
_TICKET = "tertulia/ticket"
_MOST_WORDS = 10_000


class Tickets:
    """The content of long messages of one connection, by ticket. Tickets never leave this process."""

    def __init__(self) -> None:
        self._contents: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._contents)

    def replace_content(self, message: Envelope) -> bytes:
        """The message as JSON, with a ticket in place of its content."""
        fields: dict[str, Any] = {"jsonrpc": "2.0"}
        if message.id is not msgspec.UNSET:
            fields["id"] = message.id
        if isinstance(message.method, str):
            fields |= {"method": message.method, "params": self._ticket(message.params or {})}
        elif isinstance(message.result, dict):
            fields["result"] = self._ticket(message.result)
        elif isinstance(message.error, MessageProblem):
            # The message of an error is cut instead.
            fields["error"] = {"code": message.error.code, "message": message.error.message[:_MOST_WORDS]}
        return msgspec.json.encode(fields)

    def content(self, params: dict[str, Any]) -> dict[str, Any]:
        """The content for the ticket in this, once; without a ticket the same object."""
        ticket = params.get(_TICKET)
        return self._contents.pop(ticket, params) if isinstance(ticket, str) else params

    def clear(self) -> None:
        """Forget the content of all tickets."""
        self._contents.clear()

    def _ticket(self, content: dict[str, Any]) -> dict[str, Any]:
        ticket = secrets.token_hex(16)
        self._contents[ticket] = content
        asyncio.get_running_loop().call_later(KEPT_S, self._contents.pop, ticket, None)
        return {_TICKET: ticket}
