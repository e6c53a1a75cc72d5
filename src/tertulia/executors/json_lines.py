"""The lines of an agent's output: bytes in any pieces go in, JSON objects of bounded size come out, and then steps."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from tertulia.errors import ParseError
from tertulia.executors.executor import ForeignOutput, RunEnd, RunInterrupted, Step
from tertulia.protocol.json_scan import MAX_PARTS, SCANNED_FROM_BYTES, JsonScan
from tertulia.protocol.json_steps import StepwiseWork, read, run_to_end

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 512
"""Levels of a long line; agents wrap what tools say, and tools say anything."""

Line = dict[str, Any]


class DroppedLine(msgspec.Struct, frozen=True, gc=False):
    """Stands for a line that was dropped."""

    bytes: int
    why: str = ""
    """What else there was too much of, and not only bytes."""


class JsonLines:
    """Cuts one stream into lines and decodes them. However the stream is cut into chunks, the lines are the same.

    A line that is no JSON object is passed over and counted; an empty one is skipped. Holds one unfinished line. A long
    line is decoded in short steps, between which others have their turn.

    Not `protocol/line_framing.py`: each piece of a long line is scanned when it comes, so that no step of the loop is
    long, and a line that is dropped is reported at its end, with all its bytes.
    """

    __slots__ = ("_limit", "_line", "_scan", "_size", "passed_over")

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._line = bytearray()
        self._size = 0
        self._scan: JsonScan | None = None
        """Of a line that may have too many parts: scanned as it comes, so that no step of the loop is long."""
        self.passed_over = 0

    async def feed(self, chunk: bytes) -> list[Line | DroppedLine]:
        """The lines that this chunk completes."""
        *whole, rest = chunk.split(b"\n")
        lines: list[Line | DroppedLine] = []
        for piece in whole:
            self._add(piece)
            await self._take(lines)
        self._add(rest)
        return lines

    async def end(self) -> list[Line | DroppedLine]:
        """The last line, which may have no end."""
        lines: list[Line | DroppedLine] = []
        await self._take(lines)
        return lines

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit or self._has_excess(piece):
            self._line = bytearray()
        else:
            self._line += piece

    def _has_excess(self, piece: bytes) -> bool:
        if self._scan is None:
            if self._size <= SCANNED_FROM_BYTES:
                return False
            self._scan = JsonScan(MAX_PARTS, MAX_DEPTH)
            self._scan.feed(self._line)
        return self._scan.feed(piece) is not None

    async def _take(self, lines: list[Line | DroppedLine]) -> None:
        size, line = self._size, self._line
        too_much = None if self._scan is None else self._scan.excess
        self._size, self._scan, self._line = 0, None, bytearray()
        if size > self._limit or too_much is not None:
            lines.append(DroppedLine(size, too_much or ""))
        elif line and not line.isspace():
            decoded = _decode(line) if len(line) <= SCANNED_FROM_BYTES else await _decode_in_steps(line)
            if decoded is None:
                self.passed_over += 1
            else:
                lines.append(decoded)


def parse_steps(lines: Iterable[Line | DroppedLine], understood: Callable[[Line], Iterable[Step] | None]) -> list[Step]:
    """What the lines say. A line that is not understood, in name or in form, is kept as it came."""
    steps: list[Step] = []
    for line in lines:
        if isinstance(line, DroppedLine):
            why = {"dropped_because": line.why} if line.why else {}
            steps.append(ForeignOutput({"dropped_line_bytes": line.bytes, **why}))
        else:
            meant = understood(line)
            steps.extend([ForeignOutput(line)] if meant is None else meant)
    return steps


def _decode(line: bytearray) -> Line | None:
    """The object; None for what is none. Bytes that are not UTF-8 and halves of characters cost themselves only."""
    # Before the decoders: each takes its time over what it refuses.
    stripped = line.strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return None
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        value = _decode_loosely(line)
    return cast("Line", value) if isinstance(value, dict) else None


def _decode_loosely(line: bytearray) -> object:
    try:
        loose = json.loads(line.decode("utf-8", "replace"))
        return msgspec.json.decode(json.dumps(loose, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


async def _decode_in_steps(line: bytearray) -> Line | None:
    """The same for a long line, but bytes that are not UTF-8 cost the line."""
    if not _OBJECT.match(line):
        return None
    try:
        value = await run_to_end(StepwiseWork(read(line, _decoder, MAX_DEPTH, _without_halves)))
    except (ParseError, ValueError):
        # The latter for a number of more digits than Python reads.
        return None
    return cast("Line", value) if isinstance(value, dict) else None


def _refuse_constant(name: str) -> object:
    raise ParseError(f"{name} is not JSON")


def _without_halves(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_OBJECT = re.compile(rb"\s{0,1000}\{")


class JsonlParser(ABC):
    """Implements `executor.Parser`; a subclass understands the lines of one agent."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._lines = JsonLines(max_line_bytes)
        self._ending: RunEnd = RunInterrupted()
        """By what has been said so far; Interrupted while the work goes on."""

    @property
    def passed_over(self) -> int:
        """How many lines made no sense."""
        return self._lines.passed_over

    @property
    def ended(self) -> bool:
        """Whether the agent has said how it ended, and has not gone on since."""
        return not isinstance(self._ending, RunInterrupted)

    async def feed(self, chunk: bytes) -> list[Step]:
        """The steps of the lines that these bytes complete."""
        return parse_steps(await self._lines.feed(chunk), self._understood)

    async def end(self) -> list[Step]:
        """The steps of the last line, and how the run ended."""
        return [*parse_steps(await self._lines.end(), self._understood), self._ending]

    @abstractmethod
    def _understood(self, line: Line) -> Iterable[Step] | None:
        """What a line says; None where it is not known, in name or in form."""
