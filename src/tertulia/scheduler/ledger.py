"""What was submitted lately, by message id and by task id, so that nothing runs twice and nothing is lost.

Bounded: the oldest answered submissions are forgotten first, those that still wait never.
"""

from __future__ import annotations

from collections import OrderedDict

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.scheduler.plan import Chain

_KEPT = 1_000


class Ledger:
    """Recent submissions."""

    __slots__ = ("_by_message", "_by_task", "_kept")

    def __init__(self, kept: int = _KEPT) -> None:
        self._by_task: OrderedDict[TaskId, Chain] = OrderedDict()
        self._by_message: dict[tuple[ConversationId, str], Chain] = {}
        self._kept = kept

    def __len__(self) -> int:
        return len(self._by_task)

    def note(self, chain: Chain) -> None:
        """Remember a submission."""
        self._by_task[chain.task_id] = chain
        if chain.message_id is not None:
            self._by_message[chain.conversation_id, chain.message_id] = chain
        while len(self._by_task) > self._kept and self._forget_oldest():
            pass

    def by_message(self, conversation_id: ConversationId, message_id: str) -> Chain | None:
        """The submission that had this message id."""
        return self._by_message.get((conversation_id, message_id))

    def by_task(self, task_id: TaskId) -> Chain | None:
        """The submission whose first task this is."""
        return self._by_task.get(task_id)

    def _forget_oldest(self) -> bool:
        oldest = next(iter(self._by_task.values()))
        if not oldest.answer.done():
            return False
        del self._by_task[oldest.task_id]
        if oldest.message_id is not None:
            self._by_message.pop((oldest.conversation_id, oldest.message_id), None)
        return True
