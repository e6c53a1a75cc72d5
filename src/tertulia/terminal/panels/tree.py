"""The tree of conversations: for each its state, its name, what is unread and what it does now.

Only visible lines are drawn, however many conversations there are.
"""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.looks.keys import movement_bindings, next_question_keys
from tertulia.terminal.panels.choices import (
    CloseRequested,
    ConversationChosen,
    InterruptRequested,
    NewRequested,
)
from tertulia.terminal.panels.lines import line
from tertulia.terminal.panels.panel import BoardPanel
from tertulia.terminal.panels.tree_look import TreeLook
from tertulia.terminal.panels.tree_rows import TreeRows
from tertulia.terminal.transcript.messages import NextQuestionRequested, WeaveRequested
from tertulia.view.board_state import BoardState

_LINES_EACH = 2
"""Lines of a conversation: its name, and what it does."""


class ConversationTree(BoardPanel, can_focus=True):
    """All conversations, each below its parent."""

    KEY_HINT = "j k move   Enter show   / filter   n new   i interrupt   x close   Esc back"
    """Shown in an empty composer while the tree has the focus."""
    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings(
            "tree",
            texts={
                "down": "next conversation",
                "up": "previous conversation",
                "first": "first conversation",
                "last": "last conversation",
            },
        ),
        Binding("enter", "choose", "show its transcript", id="tree.choose"),
        Binding("h,left", "fold", "fold, or go to the parent", id="tree.fold"),
        Binding("l,right", "unfold", "unfold, or go to the first child", id="tree.unfold"),
        Binding("slash", "filter", "filter by name", id="tree.filter"),
        Binding("a", "only_active", "only those that ask, run or have something new", id="tree.only_active"),
        Binding("w", "request('weave')", "weave it and those below it into one stream", id="tree.weave"),
        Binding("n", "request('new')", "a new conversation below it", id="tree.new"),
        Binding("x", "request('close')", "close it", id="tree.close"),
        Binding("i", "request('interrupt')", "interrupt it and all that work for it", id="tree.interrupt"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = TreeRows()
        self._now = 0.0
        self._top = 0
        self._typing = False
        """Whether typed keys go to the filter."""
        self._next_question = next_question_keys()

    def show(self, board: BoardState, seen: ConversationId | None, now: float = 0.0) -> None:
        """Show the conversations of a board.

        Args:
            board: What the session looks like now.
            seen: The conversation whose transcript is shown.
            now: Seconds since 1970, for how long something takes.
        """
        self._board, self._now = board, now
        self._rows.update(board)
        if seen is not None and seen != self._seen:
            self._rows.choose(seen)
        self._seen = seen
        self._scroll()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the panel, by its number from the top."""
        width, board, rows = self.size.width, self._board, self._rows
        if board is None:
            return line([], width)
        look = TreeLook(board, rows, self._seen, self._now, self._marks)
        if y == 0:
            return look.title(width, typing=self._typing)
        index, row = divmod(y - 1, _LINES_EACH)
        index += self._top
        if index >= len(rows.rows):
            return line([("  none of them", "dim")] if y == 1 and rows.total else [], width)
        style = "reverse" if self.has_focus and index == rows.index else ""
        return look.conversation(rows.rows[index], row, width, style)

    def _scroll(self) -> None:
        """Scroll so that the chosen row is visible."""
        page = max(1, (self.size.height - 1) // _LINES_EACH)
        last = max(0, len(self._rows.rows) - page)
        self._top = max(0, min(self._top, self._rows.index, last))
        self._top = max(self._top, self._rows.index - page + 1)

    def _again(self) -> None:
        if self._board is not None:
            self.show(self._board, self._seen, self._now)

    def on_key(self, event: events.Key) -> None:
        """While a filter is typed, every key goes to it; `]a` asks for the next conversation that asks."""
        if not self._typing:
            if self._next_question.take(event.key):
                event.stop()
                event.prevent_default()
                self.post_message(NextQuestionRequested())
            return
        if event.key in ("escape", "enter"):
            self._typing = False
            self._rows.filter = "" if event.key == "escape" else self._rows.filter
        elif event.key == "backspace":
            self._rows.filter = self._rows.filter[:-1]
        elif event.is_printable and event.character is not None:
            self._rows.filter += event.character
        else:
            return
        event.stop()
        event.prevent_default()
        self._again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Switch off all other actions while the filter is typed."""
        return not self._typing

    def on_resize(self) -> None:
        """Keep the chosen row visible."""
        self._scroll()

    def on_click(self, event: events.Click) -> None:
        """A click on a conversation shows it."""
        index = (event.y - 1) // _LINES_EACH + self._top
        if event.y > 0 and index < len(self._rows.rows):
            self._rows.choose(self._rows.rows[index].id)
            self.action_choose()

    def turn_wheel(self, direction: int) -> None:
        """The wheel chooses the next row or the one before."""
        self.action_move(direction)

    def action_move(self, by: int) -> None:
        """Choose a row below or above."""
        self._rows.move(by)
        self._again()

    def action_page(self, direction: int) -> None:
        """Choose a row a page below or above."""
        self.action_move(direction * max(1, (self.size.height - 1) // _LINES_EACH))

    def action_choose(self) -> None:
        """Have the transcript of the chosen row shown."""
        if (chosen := self._rows.chosen) is not None:
            self.post_message(ConversationChosen(chosen.id))

    def action_fold(self) -> None:
        """Hide the children of the chosen row, or go to its parent."""
        self._rows.fold()
        self._again()

    def action_unfold(self) -> None:
        """Show the children of the chosen row, or go to the first of them."""
        self._rows.unfold()
        self._again()

    def action_filter(self) -> None:
        """Start to type the filter, a part of a name."""
        self._typing = True
        self._rows.filter = ""
        self._again()

    def action_only_active(self) -> None:
        """Show only conversations that ask, run or have something new; or all again."""
        self._rows.only_active = not self._rows.only_active
        self._again()

    def action_request(self, what: str) -> None:
        """Ask for a new conversation, or for the end of the chosen one or of its work."""
        kinds = {
            "new": NewRequested, "close": CloseRequested, "interrupt": InterruptRequested, "weave": WeaveRequested,
        }  # fmt: skip
        if (chosen := self._rows.chosen) is not None:
            self.post_message(kinds[what](chosen.id))
