"""A board as bytes: for a reader that comes late, and for going back in time."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tertulia.view import cells as c
from tertulia.view.board import Board
from tertulia.view.conversation_view import ConversationView


def write_snapshot(board: Board, max_cells: int | None = None) -> bytes:
    """The board as JSON.

    Args:
        board: What is written; it stays as it is.
        max_cells: Of each conversation the last so many; those before count as `dropped`.
    """
    return msgspec.json.encode(without_links(board, max_cells))


def without_links(board: Board, max_cells: int | None = None) -> Board:
    """A copy to be written, in which nothing stands twice. It shares its cells with the board."""
    return replace(
        board, conversations={id: _without_links(view, max_cells) for id, view in board.conversations.items()}
    )


def _without_links(view: ConversationView, max_cells: int | None) -> ConversationView:
    # What is open is found again by its cell, which would stand there twice.
    cells = view.cells if max_cells is None else view.cells[max(0, len(view.cells) - max_cells) :]
    shown = {id(cell) for cell in cells}
    # A call that is still open is part of what happens now, however long ago it began.
    still_open = [call for call in view.open_calls.values() if id(call) not in shown]
    dropped = view.dropped + len(view.cells) - len(cells) - len(still_open)
    return replace(view, cells=[*still_open, *cells], dropped=dropped, growing={}, open_calls={}, plan=None)


def read_snapshot(written: bytes) -> Board:
    """The board that `write_snapshot` wrote; it takes the events that follow `seq`."""
    board = msgspec.json.decode(written, type=Board)
    for view in board.conversations.values():
        for index, cell in enumerate(view.cells):
            match cell:
                case c.ApprovalCell() | c.ElicitationCell() if cell.key in board.questions:
                    view.cells[index] = board.questions[cell.key]
                case c.AssistantCell() | c.ReasoningCell() if not cell.done and view.task_id is not None:
                    view.growing[cell.item_id] = cell
                case c.ToolCallCell() | c.CommandCell() | c.PatchCell() | c.HandoffCell() if not cell.done:
                    view.open_calls[cell.call_id] = cell
                case c.PlanCell() if not cell.done:
                    view.plan = cell
                case _:
                    pass
    return board
