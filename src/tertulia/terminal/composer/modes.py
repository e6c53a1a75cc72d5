"""The modes of a session, least rights first: which one comes next, and whether it must be confirmed. Pure."""

from __future__ import annotations

from typing import Literal

Mode = Literal["plan", "ask", "auto"]
MODES: tuple[Mode, ...] = ("plan", "ask", "auto")
MEANINGS: dict[Mode, str] = {
    "plan": "nothing is written; the plan is shown for a yes first",
    "ask": "what is not known to be safe is asked first",
    "auto": "what stays in the sandbox runs without a question",
}
CONFIRM_S = 0.3
"""Seconds after the question in which a yes does not count."""


class ModeChoice:
    """The mode that holds, and the wider one that waits for a yes."""

    def __init__(self, mode: Mode = "ask") -> None:
        self.mode: Mode = mode
        self.wanted: Mode | None = None
        self._since = 0.0

    @property
    def question(self) -> str:
        """The question before a mode that allows more; empty where none is asked."""
        if self.wanted is None:
            return ""
        return f"{self.wanted} mode?  y yes, any other key no: {MEANINGS[self.wanted]}"

    def cycle(self, now: float) -> bool:
        """Choose the next mode. True: it holds now. False: it allows more, and waits for a yes."""
        at = MODES.index(self.wanted or self.mode)
        following = MODES[(at + 1) % len(MODES)]
        if MODES.index(following) <= MODES.index(self.mode):
            changed = following != self.mode
            self.mode, self.wanted = following, None
            return changed
        self.wanted, self._since = following, now
        return False

    def answer(self, key: str, now: float) -> bool:
        """Handle a key while a mode waits. True: it was a yes that counts. Every other key is a no."""
        wanted, self.wanted = self.wanted, None
        if wanted is None or key != "y" or now - self._since < CONFIRM_S:
            return False
        self.mode = wanted
        return True
