"""The line below a replayed session: the position in the record, and the keys that move it."""

from __future__ import annotations

from textual.strip import Strip
from textual.widget import Widget

from tertulia.terminal.panels.lines import clean, line

_KEYS = (
    "←→ record  Shift+←→ request  Alt+←→ task  Home End  Space play",
    "p what the model saw  = diff of requests  w weave  f fork here  Esc leave",
)
_LEAST_RAIL, _BESIDE_RAIL = 20, 52
"""Cells of the rail at least, and of what stands beside it."""


class Scrubber(Widget):
    """A rail with a point on it, the number of the record, its time and what happened."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._place = self._count = 0
        self._time = self._word = ""
        self._plays = False

    def show(self, place: int, count: int, time: str, word: str, *, plays: bool) -> None:
        """Show this position, counted from 0, of so many."""
        self._place, self._count, self._time, self._word, self._plays = place, count, time, word, plays
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The rail, and below it the keys: those that move, and those that show or do something."""
        width = self.size.width
        if y:
            return line([(f" {_KEYS[y - 1]}", "dim")], width)
        last = max(_LEAST_RAIL, width - _BESIDE_RAIL) - 1
        at = round(self._place / max(1, self._count - 1) * last)
        rail = "─" * at + "●" + "─" * (last - at)
        number = f"{self._place + 1 if self._count else 0:,} / {self._count:,}"
        behind = f"  {self._time}  {clean(self._word)}"
        state = "plays " if self._plays else "paused"
        return line([(f" {state} ├{rail}┤ ", ""), (number, "bold"), (behind, "")], width)
