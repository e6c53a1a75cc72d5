"""The rail: all conversations in one line, for terminals that are too narrow for the tree."""

from __future__ import annotations

from rich.cells import cell_len
from textual.strip import Strip

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.panels.activity import asking_text
from tertulia.terminal.panels.lines import Part, line
from tertulia.terminal.panels.panel import BoardLine, brief_name
from tertulia.terminal.panels.tree_look import STATE_STYLES
from tertulia.view.board_state import BoardState
from tertulia.view.conversation_view import ConversationView

_GAP = "  "


class Rail(BoardLine):
    """One line: state, name and unread of each conversation, as many as fit around the seen one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._now = 0.0

    def show(self, board: BoardState, seen: ConversationId | None, now: float = 0.0) -> None:
        """Show the conversations of a board.

        Args:
            board: What the session looks like now.
            seen: The conversation whose transcript is shown.
            now: Seconds since 1970, for how long questions wait.
        """
        self._board, self._seen, self._now = board, seen, now
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line of the panel."""
        width, board = self.size.width, self._board
        if board is None:
            return line([], width)
        right = self._questions(board)
        room = width - 1 - sum(cell_len(text) for text, _ in right)
        parts: list[Part] = [(" ", "")]
        at = 1
        self._places = []
        for view, text in self._window(board, room):
            end = at + cell_len(text)
            self._places.append((at, end, view.id))
            mark, rest = text[:1], text[1:]
            parts += [(mark, STATE_STYLES[view.state]), (rest, "bold underline" if view.id == self._seen else "")]
            parts.append((_GAP, ""))
            at = end + len(_GAP)
        return line(parts, width, right=right)

    def _window(self, board: BoardState, room: int) -> list[tuple[ConversationView, str]]:
        """The conversations that fit, with the seen one among them; from the first one where possible."""
        texts = [(view, self._text(view, board)) for view in board.tree() if not view.closed or view.id == self._seen]
        seen = next((index for index, (view, _) in enumerate(texts) if view.id == self._seen), 0)
        start, used = seen, 0
        widths = [cell_len(text) + len(_GAP) for _, text in texts]
        while start >= 0 and start < len(texts) and used + widths[start] <= room:
            used += widths[start]
            start -= 1
        start = min(start + 1, seen)
        shown: list[tuple[ConversationView, str]] = []
        for index in range(start, len(texts)):
            room -= widths[index]
            if room < 0 and shown:
                break
            shown.append(texts[index])
        return shown

    def _text(self, view: ConversationView, board: BoardState) -> str:
        unread = f" {view.unread}" if view.unread and view.id != self._seen else ""
        return f"{self._marks.states[view.state]} {brief_name(board, view.id)}{unread}"

    def _questions(self, board: BoardState) -> list[Part]:
        text = asking_text(board, self._now)
        return [(f" {text} ", STATE_STYLES["asking"])] if text else []
