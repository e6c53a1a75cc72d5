"""Counts the parts and the nesting depth of a JSON text from its bytes, before it is decoded.

A few bytes of JSON can become twenty times as much memory, and millions of tiny parts block the event loop for seconds.
So every text that comes from outside is scanned first. Decodes nothing and does not validate: of an invalid text it
counts at least the parts that a decoder builds before it finds the error.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate

MAX_PARTS = 200_000
"""The most parts of one message: at most some 16 MB of memory, and a few hundredths of a second for a decoder."""
MAX_DEPTH = 128
"""Deeper than any reasonable document, and shallow enough for the recursive code that reads it later."""
MAX_DIGITS = 4_000_000
"""The most digits of all numbers of one message: a decoder takes many times longer for a digit than for other bytes."""
SCANNED_FROM_BYTES = 128 * 1024
"""The parts of a shorter text are not counted: there cannot be enough of them to matter."""

_PIECE = 64 * 1024
_STEP = 512 * 1024
_MARKS = b"{[,:}]"
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))
_STEPS = [(byte in b"{[") - (byte in b"}]") for byte in range(256)]


class JsonScan:
    """Scans one text, piece by piece, in linear time; the counts do not depend on how the text is cut into pieces.

    A part is an object, a list, a member of an object or an entry of a list, counted by the marks `{`, `[`, `:` and `,`
    outside of strings. The number of values and names is at most one more than that of parts.
    """

    __slots__ = ("_backslash", "_in_string", "_level", "deepest", "digits", "max_depth", "max_parts", "parts")

    def __init__(self, max_parts: int = MAX_PARTS, max_depth: int = MAX_DEPTH) -> None:
        self.max_parts = max_parts
        self.max_depth = max_depth
        self.parts = 0
        self.deepest = 0
        """The deepest level so far; exact as long as it is within the limit."""
        self.digits = 0
        """How many digits the numbers have so far."""
        self._level = 0
        self._in_string = False
        self._backslash = False
        """Whether the last piece ended in the middle of an escape."""

    def feed(self, data: bytes | bytearray | memoryview) -> str | None:
        """Scan the next piece; returns `excess`. Once a limit is exceeded, nothing more is counted."""
        for start in range(0, len(data), _PIECE):
            if self.excess is not None:
                break
            self._take(bytes(data[start : start + _PIECE]))
        return self.excess

    @property
    def excess(self) -> str | None:
        """Which limit the text exceeds, in words; None if it is within all limits."""
        if self.parts > self.max_parts:
            return f"more than {self.max_parts:,} parts"
        if self.digits > MAX_DIGITS:
            return f"numbers of more than {MAX_DIGITS:,} digits"
        return f"nested deeper than {self.max_depth} levels" if self.deepest > self.max_depth else None

    def _take(self, piece: bytes) -> None:
        if self._backslash:
            piece = b"\\" + piece
            self._backslash = False
        if b"\\" in piece:
            # In this order, because an escaped backslash does not escape the quote after it.
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
            self._backslash = piece.endswith(b"\\")
        between = piece.split(b'"')
        outside = between[1::2] if self._in_string else between[::2]
        self._in_string ^= len(between) % 2 == 0
        text = b"".join(outside)
        self.digits += len(text.translate(None, _NO_DIGITS))
        marks = text.translate(None, _OTHERS)
        if marks:
            self._count(marks)

    def _count(self, marks: bytes) -> None:
        opened = marks.count(b"{") + marks.count(b"[")
        closed = marks.count(b"}") + marks.count(b"]")
        self.parts += len(marks) - closed
        if self._level + opened > self.deepest:
            steps = map(_STEPS.__getitem__, marks)
            reached = max(accumulate(steps, initial=self._level))
            self.deepest = max(self.deepest, reached)
        self._level += opened - closed


def find_excess(text: bytes | bytearray | str, max_parts: int = MAX_PARTS, max_depth: int = MAX_DEPTH) -> str | None:
    """Which limit a whole text exceeds, in words; None if it is within all limits. For texts of a few megabytes."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    # Most texts are short and flat, and counting their brackets takes next to no time.
    if len(data) <= SCANNED_FROM_BYTES and data.count(b"{") + data.count(b"[") <= max_depth:
        return None
    return JsonScan(max_parts, max_depth).feed(data)


async def find_excess_in_steps(
    text: bytes | bytearray, max_parts: int = MAX_PARTS, max_depth: int = MAX_DEPTH
) -> str | None:
    """The same as `find_excess` for a text of any length, in steps that do not block the event loop for long."""
    if len(text) <= _STEP:
        return find_excess(text, max_parts, max_depth)
    scan, view = JsonScan(max_parts, max_depth), memoryview(text)
    for start in range(0, len(text), _STEP):
        if scan.feed(view[start : start + _STEP]) is not None:
            break
        await asyncio.sleep(0)
    return scan.excess
