"""The lines that stay in the scrollback when the screen is gone: the last exchange, its cost, and how to resume."""

from __future__ import annotations

from tertulia.policy.display_text import printable
from tertulia.view.board_state import BoardState
from tertulia.view.cells import AssistantCell, UserCell

_MAX_LINES = 20
_MAX_REQUEST = 400


def farewell(board: BoardState, *, stored: bool) -> str:
    """The lines to print, each with its end; empty where nothing was written.

    Args:
        board: What the session looked like at its end.
        stored: Whether it can be resumed.
    """
    request, answer = last_exchange(board)
    if request is None:
        return ""
    shown = request if len(request) <= _MAX_REQUEST else f"{request[:_MAX_REQUEST]}…"
    lines = [f"› {line}" for line in printable(shown).split("\n")]
    if answer:
        rows = printable(answer).split("\n")
        cut = len(rows) - _MAX_LINES
        lines += ["", *rows] if cut <= 0 else ["", f"… {cut} lines before", *rows[-_MAX_LINES:]]
    return "\n".join([*lines, "", *session_lines(board, stored=stored)]) + "\n"


def session_lines(board: BoardState, *, stored: bool) -> list[str]:
    """What the session cost, and how to go on with it."""
    tokens = board.input_tokens + board.output_tokens
    cost = "" if board.cost_usd is None else f", ${board.cost_usd:,.2f}"
    lines = [f"{tokens:,} tokens{cost}"] if tokens else []
    if stored and board.session_id is not None:
        lines.append(f"To go on: tertulia resume {board.session_id}")
    return lines


def last_exchange(board: BoardState) -> tuple[str | None, str | None]:
    """The last message of a person to the root, and the last answer to it; None where there is none."""
    root = None if board.root_id is None else board.conversations.get(board.root_id)
    cells = [] if root is None else root.cells
    requests = [(index, cell.text) for index, cell in enumerate(cells) if isinstance(cell, UserCell)]
    if not requests:
        return None, None
    index, text = requests[-1]
    answers = [cell.text for cell in cells[index:] if isinstance(cell, AssistantCell) and cell.text]
    return text, answers[-1] if answers else None
