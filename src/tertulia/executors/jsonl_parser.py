"""What every parser of JSON lines does alike: cut, decode, keep what is not understood, remember how it ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from tertulia.executors.executor import Ending, Interrupted, Step
from tertulia.executors.lines import MAX_LINE_BYTES, JsonLines, Line, steps


class JsonlParser(ABC):
    """Implements `executor.Parser`; a subclass understands the lines of one agent."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._lines = JsonLines(max_line_bytes)
        self._ending: Ending = Interrupted()
        """By what has been said so far; Interrupted while the work goes on."""

    @property
    def passed_over(self) -> int:
        """How many lines made no sense."""
        return self._lines.passed_over

    @property
    def ended(self) -> bool:
        """Whether the agent has said how it ended, and has not gone on since."""
        return not isinstance(self._ending, Interrupted)

    def feed(self, chunk: bytes) -> list[Step]:
        """What these bytes make whole."""
        return steps(self._lines.feed(chunk), self._understood)

    def end(self) -> list[Step]:
        """The rest, and how it ended."""
        return [*steps(self._lines.end(), self._understood), self._ending]

    @abstractmethod
    def _understood(self, line: Line) -> Iterable[Step] | None:
        """What a line says; None where it is not known, in name or in form."""
