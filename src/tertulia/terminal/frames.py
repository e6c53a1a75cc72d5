"""Collects what events changed and has it painted: at once after a pause, and at most twelve times a second."""

from __future__ import annotations

from collections.abc import Callable

from textual.message_pump import MessagePump

from tertulia.protocol.ids import ConversationId
from tertulia.view.board_state import NOTHING, Changes

FRAME_S = 1 / 12


class Frame:
    """What changed since the last frame was painted."""

    __slots__ = ("conversations", "questions", "servers", "totals", "tree")

    def __init__(self) -> None:
        self.conversations: set[ConversationId] = set()
        """Conversations whose cells have changed."""
        self.tree = self.questions = self.servers = self.totals = False

    def add(self, changes: Changes) -> None:
        """Take the changes of one event."""
        if changes.conversation_id is not None and (changes.cell is not None or changes.removed):
            self.conversations.add(changes.conversation_id)
        self.tree = self.tree or changes.tree
        self.questions = self.questions or changes.questions
        self.servers = self.servers or changes.servers
        self.totals = self.totals or changes.totals


class Frames:
    """Calls `paint` with what changed. While nothing changes it holds no timer."""

    def __init__(self, pump: MessagePump, paint: Callable[[Frame], None]) -> None:
        """`pump`: its timers are used. `paint`: shows what changed."""
        self._pump = pump
        self._paint = paint
        self._frame: Frame | None = None
        self._resting = True

    def add(self, changes: Changes) -> None:
        """Have the changes of one event painted with the next frame."""
        if changes is NOTHING:
            return
        if self._frame is None:
            self._frame = Frame()
        self._frame.add(changes)
        if self._resting:
            self._resting = False
            self._pump.call_later(self._tick)

    def _tick(self) -> None:
        frame, self._frame = self._frame, None
        if frame is None:
            self._resting = True
            return
        self._pump.set_timer(FRAME_S, self._tick)
        self._paint(frame)
