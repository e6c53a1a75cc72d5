"""Reads and writes long JSON texts in short steps. The caller's decoder decides how values are built.

Not in a thread: a decoder written in C blocks all other threads until it is done, and a thread cannot be stopped. A
step here takes a few milliseconds, and a caller can stop between two steps.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Generator, Iterator
from io import SEEK_END, BytesIO
from json import JSONDecodeError, JSONDecoder
from time import thread_time
from typing import Any, Generic, TypeVar, cast
from uuid import uuid4

import msgspec

from tertulia.errors import ParseError
from tertulia.protocol.json_scan import MAX_DEPTH, JsonScan
from tertulia.protocol.records import LONG_CHARACTERS
from tertulia.protocol.validation_text import explain_json

MAX_CHARACTERS = 32 * 1024 * 1024
"""The most characters of one string; half of it for a string that is not ASCII. Python joins the pieces of a longer one
in a single step that takes too long."""
MAX_WIDE_BYTES = 16 * 1024 * 1024
"""The most bytes of one string in memory, if that is more than twice its size in the message: with one emoji in it,
each of its characters takes four bytes."""
MAX_CPU_S = 20.0
"""The CPU time for one message. The longest valid message takes a tenth of that on a slow machine."""

_STEP_S = 0.005
_PIECE = 64 * 1024
_PIECE_CHARACTERS = 16 * 1024
"""The characters of a long string that are written at once; each may take four bytes."""
_PIECES_A_BLOCK = 32
"""How many pieces of a long string are joined early: an allocator returns large blocks, but keeps small ones."""
_OFTEN = 256
"""How many parts are read before the reader yields, so that the time can be checked."""
_NEXT = re.compile(
    rb"[ \t\n\r]{0,65536}"
    rb'(?:([{}\[\],:])|"(?:([^"\\\x00-\x1f]{0,4096})")?|([^ \t\n\r{}\[\],:"]{1,65536}))?'
)
"""Matches blanks, then a mark, a string (a short one whole, else its opening quote), a number or word, or nothing."""
_BLANKS = b" \t\n\r"
_CUT = re.compile(rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z|[\xc0-\xff][\x80-\xbf]{0,2}\Z")
"""Matches an incomplete escape, character or surrogate pair at the end of a piece."""
_LONGEST_CUT = 11
_WIDE = re.compile("[\U00010000-\U0010ffff]")

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work as a generator: it yields often, and can be abandoned at each yield."""


class StepwiseWork(Generic[T]):
    """Work that is done by calling `step` until it returns True; then `value` is set."""

    value: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._used_s = 0.0

    def step(self) -> bool:
        """Work for a few milliseconds; returns whether all is done. Raises ParseError."""
        begun = thread_time()
        try:
            while (spent := thread_time() - begun) < _STEP_S:
                next(self._steps)
        except StopIteration as end:
            self.value = end.value
            return True
        self._used_s += spent
        if self._used_s > MAX_CPU_S:
            raise ParseError(f"it takes more than {MAX_CPU_S:g} s to read")
        return False


async def run_to_end(work: StepwiseWork[T]) -> T:
    """Do the work without blocking the event loop for long; returns its value. Can be cancelled. Raises ParseError."""
    for _ in iter(work.step, True):
        await asyncio.sleep(0)
    return work.value


def read(
    data: bytes | bytearray, decoder: JSONDecoder, max_depth: int = MAX_DEPTH, mend: Callable[[str], str] | None = None
) -> Steps[Any]:
    """Decode the JSON value in these bytes as `decoder` would; ParseError if it is invalid or exceeds a limit.

    `mend` replaces each piece of a string that is long or has escapes, after unescaping; no character is cut.
    """
    scan = JsonScan(max_depth=max_depth)
    view = memoryview(data)
    for start in range(0, len(data), _PIECE):
        if (too_much := scan.feed(view[start : start + _PIECE])) is not None:
            raise ParseError(too_much)
        yield
    return (yield from _Text(data, decoder, mend).value())


class _Open:
    """An object or a list whose end has not been read yet."""

    __slots__ = ("entries", "is_object", "key")

    def __init__(self, *, is_object: bool) -> None:
        self.is_object = is_object
        self.entries: list[Any] = []
        self.key = ""

    def add(self, value: Any) -> None:
        """Add an entry to the container."""
        self.entries.append((self.key, value) if self.is_object else value)


class _Text:
    """Parses one JSON text. Without recursion, so that Python's recursion limit does not limit the nesting."""

    def __init__(self, data: bytes | bytearray, decoder: JSONDecoder, mend: Callable[[str], str] | None) -> None:
        self._data = data
        self._decoder = decoder
        self._object_of: Callable[[list[tuple[str, Any]]], Any] = decoder.object_pairs_hook or dict
        self._mend = mend
        self._at = 0
        self._open: list[_Open] = []

    def value(self) -> Steps[Any]:
        """Parse the text, which must be one value with nothing after it."""
        count = 0
        while True:
            count += 1
            if count % _OFTEN == 0:
                yield
            token = self._token() or (yield from self._token_after_blanks())
            if token is None:
                raise self._wrong("a value is missing")
            if token[1] is None:
                value = (yield from self._string(token)) if token[3] is None else self._scalar(token[3])
            elif token[1] in b"{[":
                if (yield from self._opened(token[1] == b"{")):
                    continue
                value = self._made(self._open.pop())
            else:
                raise self._wrong(f"{token[1].decode()} in place of a value")
            value, is_whole = yield from self._put(value)
            if is_whole:
                return value

    def _opened(self, is_object: bool) -> Steps[bool]:
        """Begin an object or a list; returns whether it has any entries."""
        inner = _Open(is_object=is_object)
        self._open.append(inner)
        token = self._token() or (yield from self._token_after_blanks())
        if _is(token, b"}" if is_object else b"]"):
            return False
        if is_object:
            inner.key = yield from self._key(token)
        elif token is not None:
            # Go back, so that the token is read again as the first entry.
            self._at = token.start()
        return True

    def _put(self, value: Any) -> Steps[tuple[Any, bool]]:
        """Add a value to its container, and close the containers that end after it.

        Returns (the value of the whole text, True), or (None, False) if another entry follows.
        """
        while self._open:
            top = self._open[-1]
            top.add(value)
            token = self._token() or (yield from self._token_after_blanks())
            if _is(token, b","):
                if top.is_object:
                    top.key = yield from self._key(self._token() or (yield from self._token_after_blanks()))
                return None, False
            if not _is(token, b"}" if top.is_object else b"]"):
                raise self._wrong("a comma is missing")
            value = self._made(self._open.pop())
        if (self._token() or (yield from self._token_after_blanks())) is not None:
            raise self._wrong("something after the value")
        return value, True

    def _key(self, token: re.Match[bytes] | None) -> Steps[str]:
        if token is None or token[1] is not None or token[3] is not None:
            raise self._wrong("a key is missing")
        key = yield from self._string(token)
        if not _is(self._token() or (yield from self._token_after_blanks()), b":"):
            raise self._wrong("a colon is missing")
        return key

    def _made(self, ended: _Open) -> Any:
        return self._object_of(ended.entries) if ended.is_object else ended.entries

    def _string(self, token: re.Match[bytes]) -> Steps[str]:
        if token[2] is not None:
            return _text(token[2], self._at)
        blocks: list[str] = []
        pieces: list[str] = []
        start, done, length, width = self._at, False, 0, 1
        while not done:
            piece, done = self._piece()
            pieces.append(self._unescaped(piece) if piece else "")
            length += len(pieces[-1])
            width = max(width, _width(pieces[-1]))
            if len(pieces) == _PIECES_A_BLOCK:
                blocks.append("".join(pieces))
                pieces.clear()
            most = MAX_CHARACTERS if width == 1 else MAX_CHARACTERS // 2
            if length > most:
                raise ParseError(f"a string of more than {most:,} characters")
            self._at += len(piece) + done
            if MAX_WIDE_BYTES < length * width > 2 * (self._at - start):
                raise ParseError(f"a string of which a few characters make all others take {width} bytes each")
            yield
        return "".join([*blocks, *pieces])

    def _piece(self) -> tuple[bytes | bytearray, bool]:
        """(the next piece of a long string, whether the string ends there). No escape, character or pair is split."""
        near = self._data.find(b'"', self._at, self._at + _PIECE)
        if near >= 0 and self._data[near - 1 : near] != b"\\":
            return self._data[self._at : near], True
        piece = self._data[self._at : self._at + _PIECE]
        # Escaped backslashes and quotes are replaced by as many dots, so that positions are the same in both.
        bare = piece.replace(b"\\\\", b"..").replace(b'\\"', b"..")
        end = bare.find(b'"')
        if end >= 0:
            return piece[:end], True
        if self._at + len(piece) == len(self._data):
            raise self._wrong("a string has no end")
        found = _CUT.search(bare, max(0, len(bare) - _LONGEST_CUT))
        return piece[: found.start()] if found else piece, False

    def _token(self) -> re.Match[bytes] | None:
        """The next token; None at the end, or if more blanks come first than one match takes."""
        match = _NEXT.match(self._data, self._at)
        assert match is not None
        if match.lastindex is None and not match[0].endswith(b'"'):
            return None
        self._at = match.end()
        return match

    def _token_after_blanks(self) -> Steps[re.Match[bytes] | None]:
        """The next token after any number of blanks; None at the end."""
        while (token := self._token()) is None:
            match = _NEXT.match(self._data, self._at)
            assert match is not None
            self._at = match.end()
            if self._at == len(self._data):
                return None
            if self._data[self._at] not in _BLANKS:
                raise self._wrong("a character that does not belong there")
            yield
        return token

    def _scalar(self, word: bytes | bytearray) -> Any:
        try:
            return self._decoder.decode(word.decode())
        except (UnicodeDecodeError, JSONDecodeError):
            raise ParseError(f"not JSON: neither a number nor true, false or null before byte {self._at}") from None

    def _unescaped(self, raw: bytes | bytearray) -> str:
        try:
            text: str = self._decoder.decode(f'"{_text(raw, self._at)}"')
        except JSONDecodeError as error:
            raise ParseError(f"not JSON after byte {self._at}: {explain_json(error)}") from None
        return text if self._mend is None else self._mend(text)

    def _wrong(self, what: str) -> ParseError:
        return ParseError(f"not JSON: {what} at byte {self._at}")


def _width(text: str) -> int:
    """How many bytes each character of the text takes in memory, which depends on the widest one."""
    return 1 if text.isascii() else 4 if _WIDE.search(text) else 2


def _is(token: re.Match[bytes] | None, mark: bytes) -> bool:
    return token is not None and token[1] == mark


def _text(raw: bytes | bytearray, at: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ParseError(f"not UTF-8 before byte {at}") from None


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

_encode = msgspec.json.Encoder().encode
_MARK = uuid4().hex
"""Placeholder for long strings while the rest is encoded. It is random and never revealed, so no text contains it."""
_MARKED = re.compile(rb'"%b([0-9]+)"' % _MARK.encode())


def encoded_pieces(value: Any) -> Iterator[bytes]:
    """The same bytes, and the same errors, as `msgspec.json.encode`, with long strings in pieces."""
    long: list[str] = []
    skeleton = _encode(_without_long(msgspec.to_builtins(value), long))
    for index, part in enumerate(_MARKED.split(skeleton)):
        if index % 2 == 0:
            yield part
            continue
        text = long[int(part)]
        yield b'"'
        for start in range(0, len(text), _PIECE_CHARACTERS):
            yield _encode(text[start : start + _PIECE_CHARACTERS])[1:-1]
        yield b'"'


def encode(value: Any, before: bytes = b"", after: bytes = b"") -> Steps[bytes]:
    """Encode a value in steps, between the bytes `before` and `after`."""
    # Not joined at the end: all pieces would be in memory twice.
    written = BytesIO()
    written.write(before)
    for piece in encoded_pieces(value):
        written.write(piece)
        yield
    written.write(after)
    return written.getvalue()


def encode_long(value: Any, before: bytes = b"", after: bytes = b"", *, bare: bool = False) -> bytes:
    """The same as `encode`, in one call. `bare`: without the brackets or quotes around the value.

    Not `msgspec.json.encode`: it would cache the UTF-8 form of a text that is not ASCII for the life of the text.
    """
    written = BytesIO()
    written.write(before)
    is_first = True
    for piece in filter(None, encoded_pieces(value)):
        written.write(piece[1:] if bare and is_first else piece)
        is_first = False
    if bare:
        written.seek(-1, SEEK_END)
    written.write(after)
    written.truncate()
    return written.getvalue()


async def encode_json(value: Any, before: bytes = b"", after: bytes = b"") -> bytes:
    """The same as `encode`, without blocking the event loop for long."""
    return await run_to_end(StepwiseWork(encode(value, before, after)))


def _without_long(value: Any, long: list[str]) -> Any:
    """The value with a placeholder for each long string; the strings are added to `long`."""
    match value:
        case str() if len(value) > LONG_CHARACTERS:
            long.append(value)
            return f"{_MARK}{len(long) - 1}"
        case list() | tuple():
            return [_without_long(entry, long) for entry in cast("list[Any]", value)]
        case dict():
            return {key: _without_long(entry, long) for key, entry in cast("dict[Any, Any]", value).items()}
        case _:
            return value
