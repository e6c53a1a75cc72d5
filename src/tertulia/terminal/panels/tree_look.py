"""Draws the lines of the tree, with the styles for the states of conversations."""

from __future__ import annotations

from textual.strip import Strip

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.looks.marks import PanelMarks
from tertulia.terminal.panels.activity import activity, asking_text
from tertulia.terminal.panels.lines import Part, clean, line
from tertulia.terminal.panels.tree_rows import TreeRows
from tertulia.view.board_state import BoardState
from tertulia.view.conversation_view import ConversationState, ConversationView
from tertulia.view.text import name_of

STATE_STYLES: dict[ConversationState, str] = {
    "idle": "dim",
    "running": "green",
    "waiting": "yellow",
    "asking": "bold magenta",
    "failed": "red",
    "closed": "dim",
}
_MAX_INDENT = 6
"""Levels that are indented; deeper ones are not indented further, so that names stay readable."""


class TreeLook:
    """Draws single lines of a tree."""

    __slots__ = ("_board", "_marks", "_now", "_rows", "_seen")

    def __init__(
        self, board: BoardState, rows: TreeRows, seen: ConversationId | None, now: float, marks: PanelMarks
    ) -> None:
        """`seen`: the conversation whose transcript is shown. `now`: seconds since 1970."""
        self._board, self._rows, self._seen, self._now, self._marks = board, rows, seen, now, marks

    def title(self, width: int, *, typing: bool) -> Strip:
        """The first line: the number of conversations and questions with the time of the first, or the filter."""
        rows = self._rows
        if typing or rows.filter:
            cursor = "_" if typing else ""
            return line([(f" /{clean(rows.filter)}{cursor}", "bold")], width, right=[(f"{len(rows.rows)} ", "dim")])
        parts: list[Part] = [(" Conversations", "bold"), (f" {rows.total}", "dim")]
        if rows.only_active:
            parts = [(" Active", "bold"), (f" {len(rows.rows)} of {rows.total}", "dim")]
        asking = asking_text(self._board, self._now)
        return line(parts, width, right=[(f" {asking}", STATE_STYLES["asking"])] if asking else [])

    def conversation(self, view: ConversationView, row: int, width: int, style: str) -> Strip:
        """The first line of a conversation, or with `row` 1 the second."""
        bar: Part = (self._marks.bar if view.id == self._seen else " ", "cyan")
        depth = min(view.depth, _MAX_INDENT)
        if row:
            doing = activity(view, self._board, self._now)
            return line([bar, (f"  {'  ' * depth}{doing}", "dim")], width, style=style)
        name = clean(name_of(view, self._board.root_id))
        branch = "  " * (depth - 1) + self._marks.branch if depth else ""
        folded = f" {self._marks.folded}" if view.id in self._rows.folded else ""
        weight = "bold" if view.id == self._seen else "dim" if view.closed else ""
        state: Part = (f"{self._marks.states[view.state]} ", STATE_STYLES[view.state])
        unread: list[Part] = [(f" {view.unread} ", "bold")] if view.unread and view.id != self._seen else []
        parts = [bar, state, (branch, "dim"), (name, weight), (folded, "dim")]
        return line(parts, width, right=unread, style=style)
