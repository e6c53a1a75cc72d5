"""The submissions of a session, by task and by message: a message that is sent again finds its chain here. Those that a
crash cut and that go on take their places again, and begin when the session is ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.scheduler.branch_queue import BranchQueue
from tertulia.scheduler.chain_records import ChainRecords
from tertulia.scheduler.plan import Branch, Chain, recorded_chain
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


class CutChains:
    """Takes back what was cut. Between `restore` and `begin` nothing runs in the session; what is submitted waits."""

    def __init__(
        self,
        queue: BranchQueue,
        ledger: SubmissionLedger,
        records: ChainRecords,
        *,
        start: Callable[[], object],
        stop_late: Callable[[Branch], object],
    ) -> None:
        """`start`: lets the slots be taken. `stop_late`: ends a target that has waited too long."""
        self._queue = queue
        self._ledger = ledger
        self._records = records
        self._start = start
        self._stop_late = stop_late
        self.held = False
        """Whether nothing in the session starts yet."""
        self.chains: list[Chain] = []
        """Those that were taken back, in the order of their messages."""

    def restore(self, chain: Chain) -> None:
        """Take a chain back: branches that had begun have their conversations again, the others wait for theirs."""
        self.held = True
        # No caller waits for it any more: one that asks for its answer and gives up must not stop it.
        chain.waiters += 1
        self.chains.append(chain)
        self._ledger.note(chain)
        if not chain.root.started:
            self._queue.waiting.add(chain)
            return
        self._queue.active.append(chain)
        for branch in chain.branches:
            if branch.started:
                self._queue.occupancy.take(branch)
            elif branch.latest_start is not None:
                branch.timer = asyncio.get_running_loop().call_at(branch.latest_start, self._stop_late, branch)
        for branch in chain.branches:
            if branch.state == "waiting":
                self._queue.resume_if_reported(branch)

    def begin(self) -> Sequence[Chain]:
        """Let everything run that was held; the chains that go on. Called again it changes nothing."""
        if self.held:
            self.held = False
            for chain in self._queue.active:
                if chain.root.plan.work is None:
                    chain.attempt += 1
                    self._records.continued(chain)
            self._start()
        return self.chains

    def forget(self) -> Sequence[Chain]:
        """Drop what has not begun to run: its record stays as it is, for the next that resumes the session."""
        if not self.held:
            return ()
        self.held = False
        for chain in self.chains:
            if chain in self._queue.waiting:
                self._queue.waiting.remove(chain)
            else:
                self._queue.active.remove(chain)
            for branch in chain.branches:
                self._queue.occupancy.release(branch)
                if branch.timer is not None:
                    branch.timer.cancel()
        return self.chains
