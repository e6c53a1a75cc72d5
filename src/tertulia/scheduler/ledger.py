"""What was submitted lately, by message id and by task id, so that nothing runs twice and nothing is lost.

Bounded: of the answered ones only the newest are kept whole. Those that still wait are never forgotten; how many there
are is for the queue to bound. Of an older one that had a message id it stays known how it ended: it must not run again.
"""

from __future__ import annotations

from collections import deque

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.scheduler.plan import Chain, answered_chain
from tertulia.scheduler.reply import Reply, without_text

_KEPT = 1_000
_KEPT_CHARACTERS = 64 * 1024 * 1024
"""Of all answers together."""


class Ledger:
    """Recent submissions."""

    __slots__ = ("_answered", "_by_message", "_by_task", "_characters", "_ended", "_kept")

    def __init__(self, kept: int = _KEPT) -> None:
        self._by_task: dict[TaskId, Chain] = {}
        self._by_message: dict[tuple[ConversationId, str], Chain] = {}
        self._answered: deque[Chain] = deque()
        self._ended: dict[tuple[ConversationId, str], Reply] = {}
        """The answers, without their texts, of those that made way."""
        self._characters = 0
        self._kept = kept

    def __len__(self) -> int:
        return len(self._by_task)

    def note(self, chain: Chain) -> None:
        """Remember a submission."""
        self._by_task[chain.task_id] = chain
        if chain.message is not None:
            self._by_message[chain.conversation_id, chain.message] = chain
        chain.answer.add_done_callback(lambda _: self._retire(chain))

    def by_message(self, conversation_id: ConversationId, message: str) -> Chain | None:
        """The submission whose message id has this key."""
        chain = self._by_message.get((conversation_id, message))
        if chain is None and (reply := self._ended.get((conversation_id, message))) is not None:
            chain = answered_chain(conversation_id, message, reply)
        return chain

    def by_task(self, task_id: TaskId) -> Chain | None:
        """The submission whose first task this is."""
        return self._by_task.get(task_id)

    def _retire(self, chain: Chain) -> None:
        """It was answered: it makes way for newer ones."""
        self._answered.append(chain)
        self._characters += _length(chain)
        while len(self._answered) > self._kept or (self._characters > _KEPT_CHARACTERS and len(self._answered) > 1):
            oldest = self._answered.popleft()
            self._characters -= _length(oldest)
            del self._by_task[oldest.task_id]
            if oldest.message is not None:
                key = (oldest.conversation_id, oldest.message)
                del self._by_message[key]
                if not oldest.answer.cancelled():
                    self._ended[key] = without_text(oldest.answer.result())


def _length(chain: Chain) -> int:
    """Characters of a chain's answer; a chain nobody could answer has none."""
    return 0 if chain.answer.cancelled() else len(chain.answer.result().text or "")
