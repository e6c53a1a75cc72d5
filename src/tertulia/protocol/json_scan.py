"""How many parts a JSON text has and how deep it goes, told from its bytes before anything of it is built.

A few bytes of JSON can become twenty times as much memory, and millions of tiny parts hold the event loop for seconds.
So every text that comes from elsewhere is scanned first. Builds nothing, and does not say whether a text is valid: of
an invalid text it counts at least what a decoder builds before it refuses it.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate

MAX_PARTS = 200_000
"""Of one message. Some 16 MB of memory at most, and a few hundredths of a second for a decoder."""
MAX_DEPTH = 128
"""Deeper than any sane document, and shallow enough for every recursion further in."""
MAX_DIGITS = 4_000_000
"""Of all numbers of one message. Digits cost a decoder many times what other bytes do."""
SCANNED_FROM_BYTES = 128 * 1024
"""A shorter text cannot have parts enough to matter."""

_PIECE = 64 * 1024
_STEP = 512 * 1024
_MARKS = b"{[,:}]"
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))
_STEPS = [(byte in b"{[") - (byte in b"}]") for byte in range(256)]


class JsonScan:
    """Scans one text, piece by piece; however it is cut, the counts are the same. Time is in proportion to the bytes.

    A part is an object, a list, a member of one or an entry of the other, counted by the marks `{`, `[`, `:` and `,`
    outside of strings. There are never more values and names than parts, but for one.
    """

    __slots__ = ("_backslash", "_in_string", "_level", "deepest", "digits", "max_depth", "max_parts", "parts")

    def __init__(self, max_parts: int = MAX_PARTS, max_depth: int = MAX_DEPTH) -> None:
        self.max_parts = max_parts
        self.max_depth = max_depth
        self.parts = 0
        self.deepest = 0
        """Exact as long as it is within the limit."""
        self.digits = 0
        """How many digits the numbers have so far."""
        self._level = 0
        self._in_string = False
        self._backslash = False
        """The last piece ended in the middle of an escape."""

    def feed(self, data: bytes | bytearray | memoryview) -> str | None:
        """Scan so much more; what there is too much of, or None. After that nothing more is counted."""
        for start in range(0, len(data), _PIECE):
            if self.excess is not None:
                break
            self._take(bytes(data[start : start + _PIECE]))
        return self.excess

    @property
    def excess(self) -> str | None:
        """What there is too much of, in words; None: it is within the limits."""
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
            # In this order: a backslash that is escaped itself escapes nothing.
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
    """What a whole text has too much of, in words; None: it is within the limits. For texts of a few megabytes."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    # Most texts are short and flat, and counting a byte is next to nothing.
    if len(data) <= SCANNED_FROM_BYTES and data.count(b"{") + data.count(b"[") <= max_depth:
        return None
    return JsonScan(max_parts, max_depth).feed(data)


async def find_excess_in_steps(
    text: bytes | bytearray, max_parts: int = MAX_PARTS, max_depth: int = MAX_DEPTH
) -> str | None:
    """The same for a text of any length; the loop is never held for long."""
    if len(text) <= _STEP:
        return find_excess(text, max_parts, max_depth)
    scan, view = JsonScan(max_parts, max_depth), memoryview(text)
    for start in range(0, len(text), _STEP):
        if scan.feed(view[start : start + _STEP]) is not None:
            break
        await asyncio.sleep(0)
    return scan.excess
