"""A long JSON text, read in short steps: the same values and refusals as `strict_json.decode` gives for a short one.

Not in a thread: a decoder written in C keeps all other threads waiting until it is done, and a thread cannot be told
to stop. A step here is a few milliseconds, and whoever wants no more of it takes no more steps.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from json import JSONDecodeError
from time import thread_time
from typing import Any

from tertulia.errors import ParseError
from tertulia.protocol.json_scan import JsonScan
from tertulia.server.strict_json import decode, decoder, object_of

AT_ONCE_BYTES = 128 * 1024
"""A longer text is read in steps."""
MAX_CHARACTERS = 32 * 1024 * 1024
"""Of one string: twice what is accepted as a text. Python joins a longer one in a step that takes too long."""
MAX_CPU_S = 20.0
"""For one message. The longest that can be valid takes a tenth of that on a slow machine."""

_STEP_S = 0.005
_PIECE = 64 * 1024
_OFTEN = 256
"""So many parts are read before the time is looked at."""
_NEXT = re.compile(
    rb"[ \t\n\r]{0,65536}"
    rb'(?:([{}\[\],:])|"(?:([^"\\\x00-\x1f]{0,4096})")?|([^ \t\n\r{}\[\],:"]{1,65536}))?'
)
"""Blanks, then a mark, a string (a short one whole), a number or a word, or nothing."""
_BLANKS = b" \t\n\r"
_CUT = re.compile(rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z|[\xc0-\xff][\x80-\xbf]{0,2}\Z")
"""At the end of a piece: half of an escape, of a character, or of a pair."""

_LONGEST_CUT = 11

_Steps = Generator[None, None, Any]


async def decoded(data: bytes) -> Any:
    """The one value in these bytes, whatever their length. ParseError: see `strict_json.decode`.

    The loop is never held for long, and a cancellation ends it.
    """
    if len(data) <= AT_ONCE_BYTES:
        return decode(data)
    build = Build(data)
    for _ in iter(build.step, True):
        await asyncio.sleep(0)
    return build.value


class Build:
    """The reading of one text. `step` until it is done; then there is the `value`."""

    def __init__(self, data: bytes) -> None:
        self.value: Any = None
        self._steps = _read(data)
        self._used_s = 0.0

    def step(self) -> bool:
        """A few milliseconds of work; whether all is done. Raises ParseError."""
        begun = thread_time()
        try:
            while (spent := thread_time() - begun) < _STEP_S:
                next(self._steps)
        except StopIteration as end:
            self.value = end.value
            return True
        except RecursionError:
            raise ParseError("nested too deeply") from None
        self._used_s += spent
        if self._used_s > MAX_CPU_S:
            raise ParseError(f"it takes more than {MAX_CPU_S:g} s to read")
        return False


def _read(data: bytes) -> _Steps:
    scan = JsonScan()
    view = memoryview(data)
    for start in range(0, len(data), _PIECE):
        if (too_much := scan.feed(view[start : start + _PIECE])) is not None:
            raise ParseError(too_much)
        yield
    return (yield from _Text(data).value())


class _Text:
    """A text and the place up to which it is read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._count = 0

    def value(self) -> _Steps:
        """The one value, and nothing after it."""
        value = yield from self._value((yield from self._token()))
        if (yield from self._token()) is not None:
            raise self._wrong("something after the value")
        return value

    def _value(self, token: re.Match[bytes] | None) -> _Steps:
        if token is None:
            raise self._wrong("a value is missing")
        if token[1] == b"{":
            return (yield from self._object())
        if token[1] == b"[":
            return (yield from self._list())
        if token[3] is not None:
            return _scalar(token[3], self._at)
        if token[1] is None:
            return (yield from self._string(token))
        raise self._wrong(f"{token[1].decode()} in place of a value")

    def _object(self) -> _Steps:
        pairs: list[tuple[str, Any]] = []
        token = yield from self._token()
        while not (_is(token, b"}") and not pairs):
            if token is None or token[1] is not None or token[3] is not None:
                raise self._wrong("a key is missing")
            key = yield from self._string(token)
            if not _is((yield from self._token()), b":"):
                raise self._wrong("a colon is missing")
            pairs.append((key, (yield from self._value((yield from self._token())))))
            token = yield from self._token()
            if _is(token, b"}"):
                break
            if not _is(token, b","):
                raise self._wrong("a comma is missing")
            token = yield from self._token()
        return object_of(pairs)

    def _list(self) -> _Steps:
        entries: list[Any] = []
        token = yield from self._token()
        while not (_is(token, b"]") and not entries):
            entries.append((yield from self._value(token)))
            token = yield from self._token()
            if _is(token, b"]"):
                break
            if not _is(token, b","):
                raise self._wrong("a comma is missing")
            token = yield from self._token()
        return entries

    def _string(self, token: re.Match[bytes]) -> _Steps:
        if token[2] is not None:
            return _text(token[2], self._at)
        pieces: list[str] = []
        done, length = False, 0
        while not done:
            piece, done = self._piece()
            pieces.append(_unescaped(piece, self._at) if piece else "")
            length += len(pieces[-1])
            if length > MAX_CHARACTERS:
                raise ParseError(f"a string of more than {MAX_CHARACTERS:,} characters")
            self._at += len(piece) + done
            yield
        return "".join(pieces)

    def _piece(self) -> tuple[bytes, bool]:
        """So much more of a long string, and whether it ends there. Nothing that belongs together is cut apart."""
        near = self._data.find(b'"', self._at, self._at + _PIECE)
        if near >= 0 and self._data[near - 1 : near] != b"\\":
            return self._data[self._at : near], True
        piece = self._data[self._at : self._at + _PIECE]
        # The same length without what is escaped, so that a place in one is that place in the other.
        bare = piece.replace(b"\\\\", b"..").replace(b'\\"', b"..")
        end = bare.find(b'"')
        if end >= 0:
            return piece[:end], True
        if self._at + len(piece) == len(self._data):
            raise self._wrong("a string has no end")
        found = _CUT.search(bare, max(0, len(bare) - _LONGEST_CUT))
        return piece[: found.start()] if found else piece, False

    def _token(self) -> Generator[None, None, re.Match[bytes] | None]:
        """What comes next; None at the end."""
        self._count += 1
        if self._count % _OFTEN == 0:
            yield
        while True:
            match = _NEXT.match(self._data, self._at)
            assert match is not None
            blanks_only = match.lastindex is None and not match[0].endswith(b'"')
            self._at = match.end()
            if not blanks_only:
                return match
            if self._at == len(self._data):
                return None
            if self._data[self._at] not in _BLANKS:
                raise self._wrong("a character that does not belong there")
            yield

    def _wrong(self, what: str) -> ParseError:
        return ParseError(f"not JSON: {what} at byte {self._at}")


def _is(token: re.Match[bytes] | None, mark: bytes) -> bool:
    return token is not None and token[1] == mark


def _scalar(word: bytes, at: int) -> Any:
    try:
        return decoder.decode(word.decode())
    except (UnicodeDecodeError, JSONDecodeError):
        raise ParseError(f"not JSON: a word or number that is none before byte {at}") from None


def _text(raw: bytes, at: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"not UTF-8: {error.reason} before byte {at}") from None


def _unescaped(raw: bytes, at: int) -> str:
    try:
        return decoder.decode(f'"{_text(raw, at)}"')
    except JSONDecodeError as error:
        raise ParseError(f"not JSON: {error.msg} after byte {at}") from None
