"""Bytes as they come become lines: any cut between them, any line end, any length.

Deliberately not aware of JSON, and of where the bytes come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

MAX_LINE_BYTES = 128 * 1024 * 1024


class Oversized(Enum):
    """Stands where a line was longer than the limit."""

    LINE = "a line longer than the limit"


TOO_LONG: Final = Oversized.LINE


class Lines:
    """Cuts a stream of bytes at its newlines. Holds at most one line, and of one that is too long nothing.

    A carriage return before the newline, blanks around a line and empty lines are dropped; each other line is given
    once, without its end. Of a line that is too long comes TOO_LONG, once, as soon as that is certain.
    """

    __slots__ = ("_held", "_limit", "_skipping")

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | Oversized]:
        """The lines that these bytes complete. Take all of them before feeding more."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield from self._add(end)
            yield from self.end()
        yield from self._add(rest)

    def end(self) -> Iterator[bytes | Oversized]:
        """What stands there counts as a line: its newline has come, or no more will."""
        line = bytes(self._held).strip(b" \t\r")
        self._held.clear()
        self._skipping = False
        if line:
            yield line

    def _add(self, part: bytes) -> Iterator[bytes | Oversized]:
        if self._skipping:
            return
        if len(self._held) + len(part) > self._limit:
            self._held.clear()
            self._skipping = True
            yield TOO_LONG
        else:
            self._held += part
