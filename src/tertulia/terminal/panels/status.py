"""The status line: the model, what is allowed, the chains that run, and what the session has used."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual.strip import Strip

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.panels.lines import Part, clean, fit, line
from tertulia.terminal.panels.panel import BoardLine, brief_name
from tertulia.view.board_state import BoardState

_GAP = 2
"""Blanks between the parts of the line."""
_MAX_MODEL = 24


class StatusLine(BoardLine):
    """One line below everything else. In a narrow terminal the less important parts are left out."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._policy: dict[str, Any] = {}
        self._tier = ""
        self._text = "starting"

    def show(self, board: BoardState, seen: ConversationId | None) -> None:
        """Show a board.

        Args:
            board: What the session looks like now.
            seen: The conversation whose transcript is shown.
        """
        self._board, self._seen = board, seen
        self.refresh()

    def show_session(self, info: dict[str, Any]) -> None:
        """Show what the session may do.

        Args:
            info: The answer of `session/info`.
        """
        self._policy, self._tier = info.get("policy", {}), str(info.get("sandbox_tier") or "none")
        self.refresh()

    def show_rights(self, answer: dict[str, Any]) -> None:
        """Show what the seen conversation may do, which can be less than the session.

        Args:
            answer: What `rights/explain` answered for it.
        """
        held = {right["field"]: right.get("now", right["value"]) for right in answer["rights"]}
        names = {"sandbox": "sandbox", "approval": "approval_policy"}
        self._policy = {**self._policy, **{name: held[field] for name, field in names.items() if field in held}}
        self.refresh()

    def say(self, text: str) -> None:
        """Show this text as long as there is no board."""
        self._text = text
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line of the panel."""
        width, board = self.size.width, self._board
        if board is None or board.root_id is None:
            return line([(f" {self._text}", "dim")], width)
        view = board.conversations.get(self._seen) if self._seen is not None else None
        model = clean(view.model if view is not None and view.model else board.model)
        # The provider's id is shown only where there is room.
        left: list[Part] = [(f" {fit(model.rpartition('/')[2], _MAX_MODEL)}", "bold")]
        chains = self._chains(board)
        right = self._right(board)
        rights = f"  {self._policy.get('sandbox', '')} {self._marks.dot} {self._policy.get('approval', '')}"
        room = width - _width(left) - (_width(chains) + 2 * _GAP if chains else _GAP)
        if self._policy and room - _width(right[-1:]) >= cell_len(rights):
            left.append((rights, "red" if self._policy.get("sandbox") == "danger-full-access" else "dim"))
            room -= cell_len(rights)
        while right and _width(right) > room:
            del right[0]
        begin = max(_width(left) + _GAP, (width - _width(chains)) // 2 if _width(chains) else 0)
        begin = min(begin, max(_width(left) + _GAP, width - _width(right) - _width(chains) - _GAP))
        self._place(chains, begin, board)
        return line([*left, (" " * (begin - _width(left)), ""), *chains], width, right=right)

    def _chains(self, board: BoardState) -> list[Part]:
        """The chain of each running task, as `root › tester, then back`."""
        parts: list[Part] = []
        for id in board.running():
            chain = board.chain(id)
            names = [brief_name(board, link) for link in chain]
            text = f" {self._marks.arrow} ".join(names) + (", then back" if len(chain) > 1 else "")
            parts += [(f" {self._marks.dot} ", "dim")] if parts else []
            parts.append((text, "green"))
        return parts

    def _place(self, chains: list[Part], begin: int, board: BoardState) -> None:
        """Remember where each name of the chains stands, for clicks."""
        self._places = []
        at = begin
        for id in board.running():
            for link in board.chain(id):
                end = at + cell_len(brief_name(board, link))
                self._places.append((at, end, link))
                at = end + 3
            at += len(", then back") if len(board.chain(id)) > 1 else 0

    def _right(self, board: BoardState) -> list[Part]:
        """The usage, least important part first, because that is left out first."""
        view = board.conversations.get(self._seen) if self._seen is not None else None
        tokens = board.input_tokens + board.output_tokens
        parts: list[Part] = []
        if self._tier:
            parts.append((f"{self._tier}  ", "red" if self._tier == "none" else "dim"))
        if board.input_tokens:
            parts.append((f"{100 * board.cached_input_tokens // board.input_tokens} % cached  ", "dim"))
        parts.append((f"{tokens:,} tok  ", "dim"))
        if view is not None and view.context_window:
            fill = 100 * view.context_tokens // view.context_window
            parts.append((f"context {fill} %  ", "yellow" if fill >= 80 else "dim"))
        if board.cost_usd is not None:
            parts.append((f"${board.cost_usd:,.2f}  ", ""))
        return parts


def _width(parts: list[Part]) -> int:
    return sum(cell_len(text) for text, _ in parts)
