"""Shows in a fork the cells that it began with: it has no events of its own for them, but its original has."""

from __future__ import annotations

from copy import copy

from tertulia.protocol.ids import ConversationId
from tertulia.view.board_state import BoardState
from tertulia.view.cells import ApprovalCell, AssistantCell, ElicitationCell, UserCell
from tertulia.view.conversation_view import ConversationView


def copy_cells(board: BoardState, original_id: ConversationId, copy_id: ConversationId, messages: int) -> None:
    """Put the cells of the original into its copy, up to the last of so many messages and answers.

    A copy that shows anything already stays as it is. Questions belong to the original.
    """
    original = board.conversations.get(original_id)
    view = board.conversations.get(copy_id)
    if original is None or (view is not None and view.cells):
        return
    if view is None:
        view = board.conversations[copy_id] = ConversationView(id=copy_id)
    left = messages
    for cell in original.cells:
        if not left:
            break
        if isinstance(cell, UserCell | AssistantCell):
            left -= 1
        if not isinstance(cell, ApprovalCell | ElicitationCell):
            view.add(copy(cell))
            view.last_key = cell.key
