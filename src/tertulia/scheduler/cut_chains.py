"""Chains that a crash cut and that go on: they take their places again, and begin when the session is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tertulia.scheduler.branch_queue import BranchQueue
from tertulia.scheduler.chain_records import ChainRecords
from tertulia.scheduler.ledger import SubmissionLedger
from tertulia.scheduler.plan import Branch, Chain


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
