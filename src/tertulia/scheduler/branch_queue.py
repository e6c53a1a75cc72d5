"""Which branch runs next: chains first in, first out; of a chain the innermost branch; one branch per conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from tertulia.protocol.events import AbortReason
from tertulia.protocol.ids import ConversationId
from tertulia.scheduler.handoffs import Handoffs, Occupancy
from tertulia.scheduler.plan import Branch, Chain, TaskEnd
from tertulia.scheduler.reply import Failure

TOO_LATE = "it could not start in time; target_wait_s, or target_timeout_s of its caller, was over"


class WaitingChains:
    """The chains that have not begun. The first one that may begin is found without searching those that may not.

    A chain whose conversation is busy is set aside when its turn comes, and is looked at again when the
    conversation is free: ten thousand messages to one busy conversation cost the others nothing.
    """

    __slots__ = ("_aside", "_chains", "_counts", "_heap", "_last", "_occupancy")

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy
        self._chains: dict[Chain, None] = {}
        self._counts: dict[ConversationId, int] = {}
        """Of each conversation, how many chains wait for it."""
        self._heap: list[tuple[int, Chain]] = []
        self._aside: dict[ConversationId, list[tuple[int, Chain]]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._chains)

    def __iter__(self) -> Iterator[Chain]:
        return iter(tuple(self._chains))

    def __contains__(self, chain: object) -> bool:
        return chain in self._chains

    def add(self, chain: Chain) -> None:
        """Put a chain at the end."""
        self._last += 1
        chain.number = self._last
        self._chains[chain] = None
        self._counts[chain.conversation_id] = self._counts.get(chain.conversation_id, 0) + 1
        heappush(self._heap, (chain.number, chain))

    def has(self, conversation_id: ConversationId) -> bool:
        """Whether a chain waits for a conversation."""
        return conversation_id in self._counts

    def remove(self, chain: Chain) -> None:
        """Take a chain out, wherever it stands."""
        del self._chains[chain]
        left = self._counts.pop(chain.conversation_id) - 1
        if left:
            self._counts[chain.conversation_id] = left
        if self._occupancy.holder(chain.conversation_id) is None:
            self.freed(chain.conversation_id)

    def freed(self, conversation_id: ConversationId) -> None:
        """A conversation is free, or the chain that was to begin there was removed: consider the next one again."""
        aside = self._aside.get(conversation_id)
        while aside:
            entry = heappop(aside)
            if entry[1] in self._chains:
                heappush(self._heap, entry)
                break
        if aside is not None and not aside:
            del self._aside[conversation_id]

    def first(self) -> Chain | None:
        """The first chain that may begin; it stays where it is."""
        while self._heap:
            entry = self._heap[0]
            chain = entry[1]
            if chain in self._chains:
                if self._occupancy.holder(chain.conversation_id) is None:
                    return chain
                heappush(self._aside.setdefault(chain.conversation_id, []), entry)
            heappop(self._heap)
        return None


class BranchQueue:
    """Chooses the next branch, keeps in order what has begun and what waits, and ends what was stopped."""

    def __init__(
        self, occupancy: Occupancy, handoffs: Handoffs, end_cut_task: Callable[[Branch, AbortReason], None]
    ) -> None:
        """`end_cut_task`: ends a task that a crash had cut and that was stopped before it could go on."""
        self.occupancy = occupancy
        self._handoffs = handoffs
        self._end_cut_task = end_cut_task
        self.waiting = WaitingChains(occupancy)
        self.active: list[Chain] = []
        """The chains that have begun and are not answered, the oldest first."""

    def is_wanted(self, conversation_id: ConversationId) -> bool:
        """Whether a branch runs, waits or is to run in a conversation."""
        if self.occupancy.holder(conversation_id) is not None:
            return True
        ready = (branch for chain in (*self.active, *self.waiting) for branch in chain.ready)
        return any(branch.conversation_id == conversation_id for branch in ready)

    def is_taken(self, conversation_id: ConversationId) -> bool:
        """Whether a message to a conversation has to wait there, however many slots are free."""
        return self.occupancy.holder(conversation_id) is not None or self.waiting.has(conversation_id)

    def take(self, last: Branch | None) -> Branch | None:
        """Take the branch that runs next in the slot of the last one; None where none may run."""
        branch = None if last is None else self._heir(last)
        branch = branch or self.first()
        if branch is not None:
            self._begin(branch)
        return branch

    def first(self) -> Branch | None:
        """The branch whose turn it is; it stays where it is."""
        for chain in self.active:
            branch = self._first_runnable(reversed(chain.ready))
            if branch is not None:
                return branch
        chain = self.waiting.first()
        return None if chain is None else chain.root

    def end(self, branch: Branch, end: TaskEnd) -> None:
        """A branch is over: its conversation is free, and its caller goes on if it was the last one missing."""
        branch.state = "ended"
        branch.chain.branches.remove(branch)
        if self.occupancy.release(branch):
            self.waiting.freed(branch.conversation_id)
        if branch.caller is not None:
            branch.report(end.for_caller(branch))
            self.resume_if_reported(branch.caller)

    def resume_if_reported(self, branch: Branch) -> None:
        """Let a waiting branch run as soon as it has all its results, and its handoff is committed."""
        if branch.has_all_results and not branch.handing and branch.stopping is None:
            branch.state = "ready"
            branch.chain.ready.append(branch)

    def end_if_stopped(self, branch: Branch) -> bool:
        """End the outermost stopped branch around this one as soon as nothing of it runs any more; whether it was."""
        stopped = branch.stopping
        if stopped is None or stopped.state == "ended":
            return False
        below = stopped.chain.below(stopped)
        if any(other.handing or other.state == "running" for other in below):
            return False
        reason = stopped.stopped
        for other in reversed(below):
            if other.plan.cut is not None and other.state == "ready":
                self._end_cut_task(other, reason or "interrupted")
        self._handoffs.abandon_below(stopped)
        for other in reversed(below[1:]):
            self.end(other, TaskEnd("aborted", reason=reason))
        failure = Failure("timeout", TOO_LATE) if reason == "timeout" else None
        self.end(stopped, TaskEnd("aborted", failure=failure, reason=reason, gone=stopped.gone))
        return True

    def _heir(self, last: Branch) -> Branch | None:
        """What inherits a slot: the first target of a branch that waits now, or the caller that has all its results."""
        ready = last.chain.ready
        if last.state == "waiting":
            return self._first_runnable(branch for branch in reversed(ready) if branch.caller is last)
        return last.caller if last.caller in ready else None

    def _first_runnable(self, branches: Iterable[Branch]) -> Branch | None:
        return next((branch for branch in branches if self._is_runnable(branch)), None)

    def _is_runnable(self, branch: Branch) -> bool:
        if not self.occupancy.is_free_for(branch):
            return False
        caller = branch.caller
        if branch.started or caller is None or caller.max_parallel is None:
            return True
        under_way = sum(other.caller is caller and other.started for other in caller.chain.branches)
        return under_way < caller.max_parallel

    def _begin(self, branch: Branch) -> None:
        chain = branch.chain
        self.occupancy.take(branch)
        if chain in self.waiting:
            self.waiting.remove(chain)
            self.active.append(chain)
        chain.ready.remove(branch)
        branch.state = "running"
        branch.started = True
        if branch.timer is not None:
            branch.timer.cancel()
