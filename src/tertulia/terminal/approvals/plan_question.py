"""The question that plan mode ends with: whether the plan is to be carried out."""

from __future__ import annotations

import msgspec

from tertulia.protocol.ids import ConversationId
from tertulia.view.board_state import BoardState
from tertulia.view.cells import AssistantCell, TaskEndCell, UserCell


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that waits for a yes before anything is written."""

    conversation_id: ConversationId
    text: str
    """The plan, as the model wrote it."""
    key: str
    """The panel's key for this question: the end of the task that made the plan."""


def plan_to_ask(board: BoardState, mode: str) -> PlanQuestion | None:
    """The plan with which the root has ended in plan mode; None: there is none, or work goes on."""
    root = None if board.root_id is None else board.conversations.get(board.root_id)
    if root is None or mode != "plan" or root.task_id is not None:
        return None
    end: TaskEndCell | None = None
    for cell in reversed(root.cells):
        match cell:
            case TaskEndCell(status="completed") if end is None:
                end = cell
            case AssistantCell() if end is not None:
                return PlanQuestion(conversation_id=root.id, text=cell.text, key=f"plan:{end.key}")
            case TaskEndCell() | UserCell():
                return None
            case _:
                pass
    return None
