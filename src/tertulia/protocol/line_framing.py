"""Cuts a stream of bytes into lines: for clients of our servers, and for the output of MCP servers and executors.

Chunks may be cut anywhere, lines may end in LF or CRLF and have any length. Knows nothing of JSON or of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

MAX_LINE_BYTES = 128 * 1024 * 1024


_EMPTY_LINES = re.compile(rb"\n(?:\r?\n)+")
_BLANKS = b" \t\r"
_LONG = 1 << 20
_PIECE = 64 * 1024

Line = bytes | bytearray
"""A long line is a bytearray, which saves a copy of up to a tenth of a second; its reader frees it: `release_line`."""


class OversizedLine(msgspec.Struct, frozen=True, gc=False):
    """Returned in place of a line that is longer than the limit."""

    bytes: int | None = None
    """The length of the line, if the splitter was made with `sized`."""


TOO_LONG: Final = OversizedLine()


class LineSplitter:
    """Cuts a stream of bytes at its newlines. Holds at most one line, and nothing of a line that is too long.

    A carriage return before the newline, blanks around a line and empty lines are dropped; each other line is returned
    once, without its end. A line that is too long is replaced by TOO_LONG, as soon as it exceeds the limit; with
    `sized` by an OversizedLine with its length, when it ends.
    """

    __slots__ = ("_held", "_limit", "_sized", "_skipped", "_skipping")

    def __init__(self, limit: int = MAX_LINE_BYTES, *, sized: bool = False) -> None:
        self._limit = limit
        self._sized = sized
        self._held = bytearray()
        self._skipping = False
        self._skipped = 0
        """How many bytes the line that is too long has so far."""

    def feed(self, chunk: bytes) -> Iterator[Line | OversizedLine]:
        """The lines that these bytes complete. Take all of them before feeding more."""
        # Runs of empty lines are removed at once: they are cheap to send, and handling each of them would be slow.
        *ends, rest = _EMPTY_LINES.sub(b"\n", chunk).split(b"\n")
        for end in ends:
            if self._held or self._skipping or len(end) > self._limit:
                yield from self._add(end)
                yield from self.end()
            elif line := end.strip(_BLANKS):
                yield line
        yield from self._add(rest)

    def end(self) -> Iterator[Line | OversizedLine]:
        """Return what is held as a line, because its newline or the end of the stream has come."""
        if self._skipping and self._sized:
            yield OversizedLine(self._skipped)
        held, self._held = self._held, bytearray()
        self._skipping = False
        line = bytes(held).strip(_BLANKS) if len(held) < _LONG else _stripped(held)
        if line:
            yield line

    def _add(self, part: bytes) -> Iterator[Line | OversizedLine]:
        if self._skipping:
            self._skipped += len(part)
        elif (size := len(self._held) + len(part)) > self._limit:
            self._held.clear()
            self._skipping, self._skipped = True, size
            if not self._sized:
                yield TOO_LONG
        else:
            self._held += part


def release_line(line: Line) -> None:
    """Free the memory of a long line that was read, because the code that passed it on may hold it for long."""
    if isinstance(line, bytearray):
        line.clear()


def _stripped(line: bytearray) -> bytearray:
    """The line without blanks at both ends, cut in place so that a long one is not copied."""
    held = 0
    while line and not held:
        tail = line[-_PIECE:]
        held = len(tail.rstrip(_BLANKS))
        del line[len(line) - len(tail) + held :]
    held = 0
    while line and not held:
        head = line[:_PIECE]
        held = len(head.lstrip(_BLANKS))
        del line[: len(head) - held]
    return line
