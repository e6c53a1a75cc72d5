"""Reads the JSON that an executor writes: bytes in any pieces become objects of bounded size, and these become steps.

No field is trusted to have its type: `read_text` and the like return a value of the right type or treat it as missing.
"""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from tertulia.errors import ParseError
from tertulia.executors.executor import ForeignOutput, RunEnd, RunInterrupted, Step
from tertulia.executors.result_text import plain_text
from tertulia.protocol.json_scan import MAX_PARTS, SCANNED_FROM_BYTES, find_excess_in_steps
from tertulia.protocol.json_steps import StepwiseWork, read, run_to_end
from tertulia.protocol.line_framing import LineSplitter, OversizedLine

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 512
"""The deepest nesting of a long line: agents wrap the output of tools, which may be anything."""

MAX_ID = 200
_MAX_SPLIT = 16 * 1024
_OBJECT = re.compile(rb"\s{0,1000}\{")
# The id becomes a program argument: it must not look like an option or contain control characters.
_NATIVE_ID = re.compile(r"[!-,.-~][!-~]{0,199}")

Line = dict[str, Any]
"""A line, decoded as a JSON object."""


class DroppedLine(msgspec.Struct, frozen=True, gc=False):
    """Stands for a line that was dropped."""

    bytes: int
    why: str = ""
    """Which limit the line exceeded; empty: that of bytes."""


class JsonLines:
    """Decodes the lines of one stream. However the stream is split into chunks, the lines are the same.

    A line that is no JSON object is skipped and counted; an empty one is only skipped. Holds one unfinished line. A
    long line is scanned and decoded in short steps, between which other tasks can run.
    """

    __slots__ = ("_splitter", "passed_over")

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._splitter = LineSplitter(limit, sized=True)
        self.passed_over = 0

    async def feed(self, chunk: bytes) -> list[Line | DroppedLine]:
        """The lines that this chunk completes."""
        return await self._read(self._splitter.feed(chunk))

    async def end(self) -> list[Line | DroppedLine]:
        """The last line, which may lack a line feed."""
        return await self._read(self._splitter.end())

    async def _read(self, lines: Iterable[bytes | bytearray | OversizedLine]) -> list[Line | DroppedLine]:
        decoded: list[Line | DroppedLine] = []
        for line in lines:
            match line:
                case OversizedLine(size):
                    decoded.append(DroppedLine(size or 0))
                case _:
                    value = _decode(line) if len(line) <= SCANNED_FROM_BYTES else await _decode_in_steps(line)
                    if value is None:
                        self.passed_over += 1
                    else:
                        decoded.append(value)
        return decoded


def parse_steps(lines: Iterable[Line | DroppedLine], understood: Callable[[Line], Iterable[Step] | None]) -> list[Step]:
    """The steps of these lines. A line of an unknown kind or form is kept as it came."""
    steps: list[Step] = []
    for line in lines:
        if isinstance(line, DroppedLine):
            why = {"dropped_because": line.why} if line.why else {}
            steps.append(ForeignOutput({"dropped_line_bytes": line.bytes, **why}))
        else:
            meant = understood(line)
            steps.extend([ForeignOutput(line)] if meant is None else meant)
    return steps


def _decode(line: bytes | bytearray) -> Line | None:
    """The object of a line; None for a line that is none. Invalid UTF-8 and lone surrogates are replaced."""
    # Checked first: the decoders take their time over what they refuse.
    stripped = line.strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return None
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        value = _decode_loosely(line)
    return cast("Line", value) if isinstance(value, dict) else None


def _decode_loosely(line: bytes | bytearray) -> object:
    try:
        loose = json.loads(line.decode("utf-8", "replace"))
        return msgspec.json.decode(json.dumps(loose, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


async def _decode_in_steps(line: bytes | bytearray) -> Line | DroppedLine | None:
    """The same for a long line, but a line with invalid UTF-8 is refused, and one with too many parts is dropped."""
    if (excess := await find_excess_in_steps(line, MAX_PARTS, MAX_DEPTH)) is not None:
        return DroppedLine(len(line), excess)
    if not _OBJECT.match(line):
        return None
    try:
        value = await run_to_end(StepwiseWork(read(line, _decoder, MAX_DEPTH, _without_halves)))
    except (ParseError, ValueError):
        # ValueError: a number with more digits than Python reads.
        return None
    return cast("Line", value) if isinstance(value, dict) else None


def _refuse_constant(name: str) -> object:
    raise ParseError(f"{name} is not JSON")


def _without_halves(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


class JsonlParser(ABC):
    """Implements `executor.Parser`; a subclass translates the lines of one agent."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._lines = JsonLines(max_line_bytes)
        self._ending: RunEnd = RunInterrupted()
        """How the run would end by the lines so far; RunInterrupted while the work goes on."""

    @property
    def passed_over(self) -> int:
        """How many lines were skipped because they are no JSON objects."""
        return self._lines.passed_over

    @property
    def ended(self) -> bool:
        """Whether the agent has reported the end of its work, and has not continued since."""
        return not isinstance(self._ending, RunInterrupted)

    async def feed(self, chunk: bytes) -> list[Step]:
        """The steps of the lines that these bytes complete."""
        return parse_steps(await self._lines.feed(chunk), self._understood)

    async def end(self) -> list[Step]:
        """The steps of the last line, and how the run ended."""
        return [*parse_steps(await self._lines.end(), self._understood), self._ending]

    @abstractmethod
    def _understood(self, line: Line) -> Iterable[Step] | None:
        """The steps of a line; None where its kind or form is unknown."""


def read_table(value: object) -> dict[str, Any]:
    """The members of an object; empty for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def read_tables(value: object) -> list[dict[str, Any]]:
    """The objects of a list that has only objects; empty for any other value."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return items if all(isinstance(item, dict) for item in items) else []


def read_text(value: object) -> str | None:
    """The value if it is a text, else None."""
    return value if isinstance(value, str) else None


def read_id(value: object) -> str | None:
    """The id of a message or a call; None where the value cannot be one."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID else None


def read_native_id(*values: object) -> str | None:
    """The first value that can be the id of a session, or None."""
    return next((value for value in values if isinstance(value, str) and _NATIVE_ID.fullmatch(value)), None)


def read_exit_code(value: object) -> int | None:
    """A program's exit code, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31 else None


def read_argv(command: object) -> tuple[str, ...] | None:
    """A command as words, given as a text or a list of words; None for any other value."""
    if isinstance(command, list):
        words = cast("list[object]", command)
        return cast("tuple[str, ...]", tuple(words)) if words and all(isinstance(word, str) for word in words) else None
    return _words(command) if isinstance(command, str) else None


def _words(command: str) -> tuple[str, ...]:
    # Splitting a long text is slow, and a text that no shell could read is one word.
    if len(command) > _MAX_SPLIT:
        return (command,)
    try:
        return tuple(shlex.split(command)) or (command,)
    except ValueError:
        return (command,)


def content_text(value: object) -> str:
    """The text of a tool's content, which is a text or a list of parts."""
    return plain_text(value)


def joined_texts(value: object) -> str:
    """The texts of a list, one a line."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return "\n".join(item for item in items if isinstance(item, str) and item)
