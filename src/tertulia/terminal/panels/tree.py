"""The tree of conversations: of each its state, its name, what is unread and what it does now."""

from __future__ import annotations

from textual.strip import Strip
from textual.widget import Widget

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.panels.lines import Part, clean, line
from tertulia.view.board_state import BoardState
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import STATE_MARKS, STATE_WORDS, name_of

ROWS_EACH = 2
"""Lines of a conversation: its name, and what it does."""


class ConversationTree(Widget, can_focus=True):
    """All conversations, each below its parent."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._views: list[ConversationView] = []
        self._seen: ConversationId | None = None
        self._root: ConversationId | None = None

    def show(self, board: BoardState, seen: ConversationId | None) -> None:
        """Show the conversations of a board.

        Args:
            board: What the session looks like now.
            seen: The conversation whose transcript is shown.
        """
        self._views, self._seen, self._root = board.tree(), seen, board.root_id
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the panel, by its number from the top."""
        width = self.size.width
        if y == 0:
            return line([(f" Conversations  {len(self._views)}", "bold")], width)
        index, row = divmod(y - 1, ROWS_EACH)
        if index >= len(self._views):
            return Strip.blank(width)
        view = self._views[index]
        bar: Part = ("▌", "cyan") if view.id == self._seen else (" ", "")
        indent = "  " * view.depth
        if row == 0:
            right: list[Part] = [(f"{view.unread} ", "bold")] if view.unread else []
            name = clean(name_of(view, self._root))
            return line([bar, (f"{STATE_MARKS[view.state]} ", ""), (indent + name, "")], width, right=right)
        return line([bar, (f"  {indent}{STATE_WORDS[view.state]}", "dim")], width)
