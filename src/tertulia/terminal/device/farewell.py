"""The lines that stay in the scrollback when the screen is gone: the last exchange, its cost, and how to resume."""

from __future__ import annotations

from tertulia.policy.display_text import printable
from tertulia.view.board_state import BoardState
from tertulia.view.cells import AssistantCell, UserCell
from tertulia.view.conversation_view import ConversationView

_MAX_LINES = 20
_MAX_REQUEST = 400


def farewell(board: BoardState, *, stored: bool) -> str:
    """The lines to print, each with its end; empty where nothing was written.

    Args:
        board: What the session looked like at its end.
        stored: Whether it can be resumed.
    """
    root = None if board.root_id is None else board.conversations.get(board.root_id)
    lines = [] if root is None else _exchange(root)
    if not lines:
        return ""
    tokens = board.input_tokens + board.output_tokens
    cost = "" if board.cost_usd is None else f", ${board.cost_usd:,.2f}"
    lines += ["", f"{tokens:,} tokens{cost}"] if tokens else [""]
    if stored and board.session_id is not None:
        lines.append(f"To go on: tertulia resume {board.session_id}")
    return "\n".join(lines) + "\n"


def _exchange(view: ConversationView) -> list[str]:
    """The last message of a person and the last answer to it."""
    requests = [index for index, cell in enumerate(view.cells) if isinstance(cell, UserCell)]
    if not requests:
        return []
    request = view.cells[requests[-1]]
    answers = [cell.text for cell in view.cells[requests[-1] :] if isinstance(cell, AssistantCell) and cell.text]
    text = request.text if isinstance(request, UserCell) else ""
    shown = text if len(text) <= _MAX_REQUEST else f"{text[:_MAX_REQUEST]}…"
    lines = [f"› {line}" for line in printable(shown).split("\n")]
    if answers:
        answer = printable(answers[-1]).split("\n")
        cut = len(answer) - _MAX_LINES
        lines += ["", *answer[-_MAX_LINES:]] if cut <= 0 else ["", f"… {cut} lines before", *answer[-_MAX_LINES:]]
    return lines
