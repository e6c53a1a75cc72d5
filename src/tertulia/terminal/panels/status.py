"""The status line: the model, the chain that runs, and what the session has used."""

from __future__ import annotations

from textual.strip import Strip
from textual.widget import Widget

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.panels.lines import clean, line
from tertulia.view.board_state import BoardState


class StatusLine(Widget):
    """One line below everything else."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._strip: Strip | None = None
        self._board: BoardState | None = None

    def show(self, board: BoardState, seen: ConversationId | None) -> None:
        """Show a board.

        Args:
            board: What the session looks like now.
            seen: The conversation whose transcript is shown.
        """
        self._board = board
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line of the panel."""
        width = self.size.width
        if self._board is None:
            return line([(" starting", "dim")], width)
        tokens = self._board.input_tokens + self._board.output_tokens
        return line([(f" {clean(self._board.model)}", "")], width, right=[(f"{tokens:,} tok ", "dim")])
