"""The submissions of a session, by task and by message: a message that is sent again finds its chain here."""

from __future__ import annotations

from collections import deque

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.scheduler.plan import Chain, recorded_chain
from tertulia.scheduler.reply import Reply, without_text

_KEPT = 1_000
_MAX_CHARACTERS = 64 * 1024 * 1024
"""Characters of all answers together."""


class SubmissionLedger:
    """Recent submissions, by task and by message."""

    __slots__ = ("_answered", "_by_message", "_by_task", "_capacity", "_characters", "_ended")

    def __init__(self, capacity: int = _KEPT) -> None:
        self._by_task: dict[TaskId, Chain] = {}
        self._by_message: dict[tuple[ConversationId, str], Chain] = {}
        self._answered: deque[Chain] = deque()
        self._ended: dict[tuple[ConversationId, str], Reply] = {}
        """The answers, without their texts, of submissions that were dropped."""
        self._characters = 0
        self._capacity = capacity

    def __len__(self) -> int:
        return len(self._by_task)

    def note(self, chain: Chain) -> None:
        """Remember a submission; the oldest that ended are dropped."""
        self._by_task[chain.task_id] = chain
        if chain.message is not None:
            self._by_message[chain.conversation_id, chain.message] = chain
        chain.answer.add_done_callback(lambda _: self._retire(chain))

    def by_message(self, conversation_id: ConversationId, message: str) -> Chain | None:
        """The submission whose message id has this key."""
        chain = self._by_message.get((conversation_id, message))
        if chain is None and (reply := self._ended.get((conversation_id, message))) is not None:
            chain = recorded_chain(conversation_id, message, reply)
        return chain

    def by_task(self, task_id: TaskId) -> Chain | None:
        """The submission whose first task this is."""
        return self._by_task.get(task_id)

    def _retire(self, chain: Chain) -> None:
        """An answered submission may be dropped for newer ones."""
        self._answered.append(chain)
        self._characters += _answer_length(chain)
        while len(self._answered) > self._capacity or (self._characters > _MAX_CHARACTERS and len(self._answered) > 1):
            oldest = self._answered.popleft()
            self._characters -= _answer_length(oldest)
            del self._by_task[oldest.task_id]
            if oldest.message is not None:
                key = (oldest.conversation_id, oldest.message)
                del self._by_message[key]
                if not oldest.answer.cancelled():
                    self._ended[key] = without_text(oldest.answer.result())


def _answer_length(chain: Chain) -> int:
    """Characters of a chain's answer; a cancelled one has none."""
    return 0 if chain.answer.cancelled() else len(chain.answer.result().text or "")
