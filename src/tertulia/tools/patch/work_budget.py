"""How much work one patch may be. A thread cannot be ended from outside: so the work in it asks whether to go on.

Also how it is cut: one call into C on all of a large file would keep every other thread waiting, the loop's too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import thread_time
from typing import TypeVar

from tertulia.errors import LimitError

MAX_CPU_S = 3.0
"""Of its thread's own time, so that a busy machine refuses nothing that a quiet one accepts."""
AT_ONCE = 20_000
"""Lines for one call into C: a few milliseconds."""
CHARACTERS_AT_ONCE = 1 << 20

T = TypeVar("T")


class WorkBudget:
    """The work for one patch. Made anywhere, spent in one thread, stopped from any."""

    __slots__ = ("_began_at", "_limit_s", "_stopped")

    def __init__(self, limit_s: float = MAX_CPU_S) -> None:
        self._limit_s = limit_s
        self._began_at: float | None = None
        self._stopped = False

    def stop(self) -> None:
        """The result is not wanted any more: the work ends at its next check."""
        self._stopped = True

    def check(self) -> None:
        """Limit when it took too long, or is not wanted any more. The time counts from the first check."""
        now = thread_time()
        if self._began_at is None:
            self._began_at = now
        if self._stopped:
            raise LimitError("the work on this patch was stopped; nothing was changed")
        if now - self._began_at > self._limit_s:
            raise LimitError(
                f"finding the places of this patch takes more than {self._limit_s:g} s; "
                "give more context, split it, or put all changes of a file under one `*** Update File`"
            )

    def some(self, entries: Sequence[T]) -> Iterator[Sequence[T]]:
        """All of them, in slices that are short work each, with a check before every one."""
        for start in range(0, len(entries), AT_ONCE):
            self.check()
            yield entries[start : start + AT_ONCE]

    def joined(self, texts: Sequence[str], between: str = "") -> str:
        """One text of many."""
        return between.join([between.join(some) for some in self.some(texts)])

    def lines(self, content: str) -> list[str]:
        """The content, cut at its newlines."""
        lines: list[str] = []
        begin = 0
        while True:
            self.check()
            # At the last newline of a slice; a line that is longer than one is taken whole.
            end = content.rfind("\n", begin, begin + CHARACTERS_AT_ONCE)
            if end < 0:
                end = content.find("\n", begin)
            if end < 0:
                lines.append(content[begin:])
                return lines
            lines += content[begin:end].split("\n")
            begin = end + 1

    @staticmethod
    def free(entries: list[str]) -> None:
        """Let go of them. All at once would be one long call into C, too."""
        while entries:
            del entries[-AT_ONCE:]

    def find(self, text: str, wanted: str, begin: int) -> int:
        """Where it stands first from there on; -1: nowhere."""
        step = max(CHARACTERS_AT_ONCE, len(wanted))
        for start in range(begin, max(begin + 1, len(text)), step):
            self.check()
            found = text.find(wanted, start, start + step + len(wanted) - 1)
            if found >= 0:
                return found
        return -1
