"""The slots: which branch of which chain runs next, and what follows when its task has ended.

A slot is a worker: it takes a branch that may run, runs its task, and continues with what follows from it: its first
target, or the caller that waited only for it. Taking and releasing are plain assignments between two awaits, so nothing
can come between the check and the act.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_handle import TaskHandle
from tertulia.conversation.user_message import announce_queued
from tertulia.errors import BusyError, ClosedError, TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.protocol.events import AbortReason, TurnAborted, WarningEvent
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.inputs import StopScope
from tertulia.protocol.records import message_key
from tertulia.scheduler.branch_queue import BranchQueue
from tertulia.scheduler.handoffs import Handoffs, Occupancy
from tertulia.scheduler.host_slots import HostSlots
from tertulia.scheduler.ledger import CutChains, SubmissionLedger
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.plan import Branch, Chain, TaskEnd, TaskPlan
from tertulia.scheduler.reply import Failure, Reply
from tertulia.scheduler.task_runner import TaskRunner

MAX_QUEUED = 10_000
ONE_SLOT = (
    "this message waits because another conversation is working and the session has one slot; "
    "set `slots` (in config.toml, Settings(slots=4), --slots 4) to let conversations work side by side"
)
STOP_GRACE_S = 1.0
"""Seconds that a caller which stops a task waits for a tool that does not end; closing has a timeout of its own."""


class Scheduler:
    """Decides which branch runs next, at most `slots` at a time and one in a conversation."""

    def __init__(
        self,
        runner: TaskRunner,
        handoffs: Handoffs,
        occupancy: Occupancy,
        bus: EventBus,
        clock: Clock,
        nursery: Nursery,
        *,
        grace_s: float,
        slots: int = 1,
        host_slots: HostSlots | None = None,
    ) -> None:
        self._runner = runner
        self._handoffs = handoffs
        self._records = handoffs.records
        self.occupancy = occupancy
        self._queue = BranchQueue(occupancy, handoffs, runner.end_cut_task)
        self.active = self._queue.active
        """The chains that have begun and are not answered, the oldest first."""
        self._bus = bus
        self._clock = clock
        self._nursery = nursery
        self._grace_s = min(grace_s, STOP_GRACE_S)
        self.slots = slots
        self._host_slots = host_slots
        self._workers: set[asyncio.Task[None]] = set()
        """One for each slot that is taken."""
        self._warned = False
        self.closing = False
        """Once it is set, submissions are refused with `ClosedError`. Those that were accepted wait or run."""
        self.ledger = SubmissionLedger()
        self.cut_chains = CutChains(
            self._queue,
            self.ledger,
            self._records,
            start=lambda: self._start_workers(self.slots),
            stop_late=lambda target: self._stop(target, "timeout", self._grace_s),
        )
        """What a crash cut and goes on."""

    # ── submitting ───────────────────────────────────────────────────────────────────────────────────────────

    def submit(
        self, plan: TaskPlan, *, message_id: str | None = None, if_busy: Literal["wait", "fail"] = "wait"
    ) -> Chain:
        """Queue a chain that starts with this plan, or give back the one that already has this message id."""
        message = None if message_id is None else message_key(message_id, self._bus.session_id)
        if message is not None:
            known = self.ledger.by_message(plan.conversation_id, message)
            if known is not None:
                return known
        if self.closing:
            raise ClosedError("the session is closing")
        if if_busy == "fail" and (len(self._workers) >= self.slots or self._queue.is_wanted(plan.conversation_id)):
            raise BusyError("another task is running; send it later, or with if_busy = wait", retry_after_s=1)
        if len(self._queue.waiting) >= MAX_QUEUED:
            raise BusyError(f"{MAX_QUEUED:,} messages are waiting already; send it later", retry_after_s=5)
        self._warn_of_one_slot(plan)
        chain = Chain(plan, self._clock.monotonic(), message)
        if plan.input and (len(self._workers) >= self.slots or self._queue.is_taken(plan.conversation_id)):
            chain.queued = True
            self._bus.publish(announce_queued(plan.input[-1]), chain.scope)
        self._queue.waiting.add(chain)
        self.ledger.note(chain)
        self._records.submitted(chain)
        self._start_workers(1)
        return chain

    def find(self, task_id: TaskId) -> Chain | None:
        """The chain that a task belongs to; one that was answered lately is known by its first task."""
        for chain in (*self._queue.active, *self._queue.waiting):
            if task_id in chain.tasks:
                return chain
        return self.ledger.by_task(task_id)

    def _warn_of_one_slot(self, plan: TaskPlan) -> None:
        """Publish once that a message waits for another conversation, which its user may not expect."""
        if self._warned or self.slots > 1 or not self._workers or self._queue.is_wanted(plan.conversation_id):
            return
        self._warned = True
        self._bus.publish(WarningEvent(ONE_SLOT, "one_slot"), EventScope("", plan.conversation_id))

    def queued(self) -> list[Chain]:
        """Chains that have not begun, the next one first."""
        return list(self._queue.waiting)

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────

    def interrupt(self, conversation_id: ConversationId, scope: StopScope = "chain") -> bool:
        """Stop the chain that this conversation is a member of, if one runs, or only its branch of the chain."""
        branch = self.occupancy.holder(conversation_id)
        if branch is None:
            return False
        return self._stop(branch.chain.root if scope == "chain" else branch, "interrupted", self._grace_s)

    def cancel(self, task_id: TaskId, scope: StopScope = "chain") -> bool:
        """Stop the chain that this task belongs to, or only its branch, whether it runs or still waits."""
        chain = self.find(task_id)
        if chain is None:
            return False
        branch = chain.tasks.get(task_id, chain.root)
        if scope == "chain" or branch is chain.root:
            return self.stop(chain)
        return branch in chain.branches and self._stop(branch, "interrupted", self._grace_s)

    def stop(self, chain: Chain) -> bool:
        """Stop a chain wherever it is; whether it was still to be stopped."""
        if chain in self._queue.active:
            return self._stop(chain.root, "interrupted", self._grace_s)
        if chain in self._queue.waiting:
            self._drop(chain, "interrupted")
            return True
        return False

    def release(self, conversation: ConversationState, timeout_s: float) -> list[TaskHandle]:
        """Take a closing conversation out of everything; the tasks whose end is to be waited for."""
        for chain in self._queue.waiting:
            if chain.conversation_id == conversation.id:
                self._drop(chain, "interrupted")
        branch = self.occupancy.holder(conversation.id)
        if branch is None:
            return []
        running = [below.handle for below in branch.chain.below(branch) if below.state == "running"]
        branch.gone = True
        self._stop(branch, "interrupted", timeout_s)
        return [handle for handle in running if handle is not None]

    def forsake(self, conversation: ConversationState) -> None:
        """A conversation is removed: its open calls are answered first, if it still waits."""
        branch = self.occupancy.holder(conversation.id)
        if branch is not None and branch.state != "running":
            branch.gone = True
            self._stop(branch, "interrupted", self._grace_s)
            self._handoffs.abandon_below(branch)

    async def close(self, timeout_s: float) -> bool:
        """Stop everything and take nothing more; whether a task had to be abandoned. Idempotent."""
        self.closing = True
        for chain in self.cut_chains.forget():
            chain.finish(_reply(chain, self._clock.monotonic(), self._bus.last_seq))
        for chain in self._queue.waiting:
            self._drop(chain, "shutdown")
        handles = [
            branch.handle for chain in self._queue.active for branch in chain.branches if branch.state == "running"
        ]
        for chain in [*self._queue.active]:
            self._stop(chain.root, "shutdown", timeout_s)
        if self._host_slots is not None:
            self._host_slots.forget(self)
        while self._workers:
            await asyncio.wait(self._workers)
        return any(handle is not None and handle.abandoned for handle in handles)

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def _start_workers(self, most: int) -> None:
        """Take so many more slots, as far as there are."""
        if self.cut_chains.held:
            return
        for _ in range(min(most, self.slots - len(self._workers))):
            worker = self._nursery.start(self._work(), "scheduler")
            self._workers.add(worker)
            # A task that is cancelled before its first step never reaches its `finally`.
            worker.add_done_callback(self._leave)

    async def _work(self) -> None:
        """Keep one slot busy as long as there is a branch that may run."""
        host_slots, branch = self._host_slots, None
        try:
            # Without work it takes no slot of the host: waiting for one would keep its own slot busy.
            while host_slots is None or (self._queue.first() is not None and await host_slots.take(self)):
                try:
                    branch = self._queue.take(branch)
                    if branch is None:
                        break
                    if len(self._workers) < self.slots and self._queue.first() is not None:
                        # The last task may have made several branches ready, and it freed its conversation.
                        self._start_workers(1)
                    await self._run(branch)
                finally:
                    if host_slots is not None:
                        host_slots.give_back()
        finally:
            worker = asyncio.current_task()
            assert worker is not None
            self._leave(worker)

    def _leave(self, worker: asyncio.Task[None]) -> None:
        """Free the slot of a worker that has ended, once."""
        if worker in self._workers:
            self._workers.remove(worker)
            if self._queue.first() is not None:
                # The worker failed with its branch. The other workers go on.
                self._start_workers(1)

    async def _run(self, branch: Branch) -> None:
        chain = branch.chain
        try:
            end = await self._runner.run(branch)
        except TertuliaError as error:
            # Not the task's own failure (the runner keeps those) but the journal's: nothing may be acknowledged.
            end = chain.failed = TaskEnd("failed", failure=Failure.of(error))
            self._stop(chain.root, "crash", self._grace_s)
        except BaseException:
            # The worker was cancelled: what waits for its task is answered now, the message too.
            chain.root.stop(chain.root.stopped or "crash")
            self._settle(branch, TaskEnd("aborted", reason="crash"))
            if not chain.branches:
                self._finish(chain)
            raise
        self._settle(branch, end)
        if not chain.branches:
            await self._conclude(chain)

    def _settle(self, branch: Branch, end: TaskEnd) -> None:
        """A task has ended and that is committed: its targets may start, or its caller gets the result."""
        chain = branch.chain
        branch.handing = False
        if branch is chain.root:
            # A target's text goes to its caller; the conversation that got the message answers it.
            chain.end = end
        if branch.state != "waiting":
            self._queue.end(branch, end)
        elif branch.stopping is None:
            # One may have been stopped while the end of its caller's task was written down.
            targets = [target for target in end.targets if target.state == "ready"]
            chain.ready += reversed(targets)
            if (until := _latest_start(branch, self.slots)) is not None:
                for target in targets:
                    loop = asyncio.get_running_loop()
                    target.timer = loop.call_at(until, self._stop, target, "timeout", self._grace_s)
            self._queue.resume_if_reported(branch)
            self._start_workers(len(targets) - 1)
        self._queue.end_if_stopped(branch)

    def _stop(self, branch: Branch, reason: AbortReason, grace_s: float) -> bool:
        """Stop a branch with all below it; returns whether there was anything to stop."""
        chain = branch.chain
        below = chain.below(branch)
        running = [other.handle for other in below if other.state == "running"]
        aborted = [handle is not None and handle.abort(reason, grace_s) for handle in running]
        left = any(aborted) or any(other.handing or other.state != "running" for other in below)
        if branch.stopping is not None or not left:
            return False
        branch.stop(reason)
        self._records.stopped(branch, reason)
        if self._queue.end_if_stopped(branch):
            # No worker runs it, so it is ended here.
            if not chain.branches:
                self._nursery.start(self._conclude(chain), "answer")
            self._start_workers(1)
        return True

    # ── answering ────────────────────────────────────────────────────────────────────────────────────────────

    async def _conclude(self, chain: Chain) -> None:
        """Answer the message when all that was published is written down."""
        try:
            await self._bus.flush()
        except TertuliaError as error:
            chain.failed = TaskEnd("failed", failure=Failure.of(error))
        finally:
            self._finish(chain)

    def _finish(self, chain: Chain) -> None:
        if chain in self._queue.active:
            self._queue.active.remove(chain)
        self._records.answered(chain)
        chain.finish(_reply(chain, self._clock.monotonic(), self._bus.last_seq))

    def _drop(self, chain: Chain, reason: AbortReason) -> None:
        """End a chain that never ran: its task has a terminal event, and its message an answer, all the same."""
        self._queue.waiting.remove(chain)
        chain.branches.clear()
        chain.ready.clear()
        self._runner.note_submission(chain, chain.root.plan)
        self._bus.publish(TurnAborted(reason), chain.scope)
        self._nursery.start(self._conclude(chain), "answer")


def _latest_start(caller: Branch, slots: int) -> float | None:
    """Until when its targets may wait, on the loop's clock: by the limit for waiting, and by the caller's own deadline.

    With one slot they wait only for each other, and the one that runs has that deadline already.
    """
    limit = None if caller.max_wait_s is None else asyncio.get_running_loop().time() + caller.max_wait_s
    deadline = caller.deadline if slots > 1 else None
    return min((when for when in (limit, deadline) if when is not None), default=None)


def _reply(chain: Chain, now: float, last_seq: int) -> Reply:
    end = chain.end or TaskEnd("aborted", reason="interrupted")
    failure = end.failure if chain.failed is None else chain.failed.failure
    status: Literal["completed", "failed", "interrupted"] = "interrupted"
    if failure is not None:
        status = "failed"
    elif end.status == "completed":
        status = "completed"
    return Reply(
        text=end.text,
        status=status,
        usage=chain.tally.usage,
        tool_calls=chain.tally.tool_calls,
        duration=now - chain.started,
        task_id=chain.task_id,
        trace_id=chain.trace_id,
        error=failure,
        last_seq=last_seq,
        worktree=end.worktree,
    )
