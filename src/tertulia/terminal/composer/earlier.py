"""The list of earlier messages: one is chosen, edited, and sent in a fork that begins there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tertulia.terminal.looks.keys import row_bindings
from tertulia.terminal.panels.lines import clean, line

EarlierMessage = tuple[str, str]
"""The key of a message's cell, and its text."""
_KEYS = "↑↓ choose  Enter edit and fork there  Esc back"


class EarlierList(Widget, can_focus=True):
    """The messages of a conversation, one a row; the newest is chosen first."""

    DEFAULT_CSS = "EarlierList { height: 1fr; width: 1fr; }"

    def __init__(self, messages: Sequence[EarlierMessage]) -> None:
        super().__init__()
        self._messages = messages
        self._at = max(len(messages) - 1, 0)

    @property
    def chosen(self) -> EarlierMessage | None:
        """The message under the cursor."""
        return self._messages[self._at] if self._messages else None

    def move(self, step: int) -> None:
        """Go to the next message or the one before."""
        self._at = max(min(self._at + step, len(self._messages) - 1), 0)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row of the screen: the title, then the messages."""
        width = self.size.width
        if y == 0:
            title = "Which message do you want to write anew?" if self._messages else "There is no earlier message."
            return line([(title, "bold yellow")], width, right=[(_KEYS, "dim")])
        room = max(self.size.height - 1, 1)
        at = y - 1 + max(self._at + 1 - room, 0)
        if at >= len(self._messages):
            return line([], width)
        here = at == self._at
        return line([("› " if here else "  ", "bold"), (clean(self._messages[at][1]), "bold" if here else "")], width)


class EarlierScreen(Screen[EarlierMessage | None]):
    """Has the person choose one of these messages; None: none of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
        *row_bindings(),
        Binding("enter", "choose", show=False),
    ]

    def __init__(self, messages: Sequence[EarlierMessage]) -> None:
        super().__init__()
        self._list = EarlierList(messages)

    def compose(self) -> ComposeResult:
        """One widget that draws the rows in view."""
        yield self._list

    def action_leave(self) -> None:
        """Go back and choose none of them."""
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        """Go to the next message or the one before."""
        self._list.move(step)

    def action_choose(self) -> None:
        """Take the message under the cursor."""
        self.dismiss(self._list.chosen)
