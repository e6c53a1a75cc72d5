"""What panels of the screen share: the board and the conversation that they show, and the marks they draw with."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.looks.marks import UNICODE, PanelMarks
from tertulia.terminal.panels.choices import ConversationChosen
from tertulia.terminal.panels.lines import clean, fit
from tertulia.view.board_state import BoardState
from tertulia.view.text import name_of

_MAX_NAME = 16


class Panel(Widget):
    """Draws its own lines. A subclass that prepares lines beforehand prepares them again in `redraw`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._marks = UNICODE

    def use_marks(self, marks: PanelMarks) -> None:
        """Draw with these marks from now on."""
        self._marks = marks
        self.redraw()

    def redraw(self) -> None:
        """Draw again what is shown."""
        self.refresh()

    def turn_wheel(self, direction: int) -> None:
        """The wheel was turned down (1) or up (-1). A panel that has nothing to scroll ignores it."""

    def on_mouse_scroll_down(self) -> None:
        """The wheel was turned down."""
        self.turn_wheel(1)

    def on_mouse_scroll_up(self) -> None:
        """The wheel was turned up."""
        self.turn_wheel(-1)


class BoardPanel(Panel):
    """A panel that shows a board, with one conversation of it in view."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._board: BoardState | None = None
        self._seen: ConversationId | None = None


def brief_name(board: BoardState, conversation_id: ConversationId) -> str:
    """The name of a conversation for a line that has several of them."""
    view = board.conversations.get(conversation_id)
    return str(conversation_id)[:8] if view is None else fit(clean(name_of(view, board.root_id)), _MAX_NAME)


class BoardLine(BoardPanel):
    """One line with names of conversations; a click on a name shows that conversation."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._places: list[tuple[int, int, ConversationId]] = []
        """For each name its first cell, the end of its cells, and the conversation."""

    def on_click(self, event: events.Click) -> None:
        """A click on a name shows that conversation."""
        for begin, end, conversation_id in self._places:
            if begin <= event.x < end:
                self.post_message(ConversationChosen(conversation_id))
