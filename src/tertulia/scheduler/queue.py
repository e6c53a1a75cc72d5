"""The slots: which branch of which chain runs next, and what becomes of it when its task has ended.

A slot is a worker: it takes a branch that may run, runs its task, and goes on with what that task has made
possible: its first target, or the caller that waited for it alone. Taking and releasing are plain assignments
between two awaits, so nothing can come between the check and the act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from tertulia.conversation.state import ConversationState, TaskHandle
from tertulia.errors import BusyError, ClosedError, TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.protocol.events import AbortReason, TurnAborted
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.inputs import StopScope
from tertulia.protocol.records import message_key
from tertulia.scheduler.handoffs import Handoffs
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.occupancy import Occupancy
from tertulia.scheduler.plan import Branch, Chain, TaskPlan
from tertulia.scheduler.reply import Failure, Reply
from tertulia.scheduler.submission_ledger import SubmissionLedger
from tertulia.scheduler.task_runner import TaskEnd, TaskRunner
from tertulia.scheduler.waiting_chains import WaitingChains

MAX_QUEUED = 10_000
STOP_GRACE_S = 1.0
"""How long a caller that stops a task may wait for a tool that does not want to; a close says its own time."""


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
    ) -> None:
        self._runner = runner
        self._handoffs = handoffs
        self._occupancy = occupancy
        self._bus = bus
        self._clock = clock
        self._nursery = nursery
        self._grace_s = min(grace_s, STOP_GRACE_S)
        self.slots = slots
        self._waiting = WaitingChains(occupancy)
        self.active: list[Chain] = []
        """The chains that have begun and are not answered, the oldest first."""
        self._workers: set[asyncio.Task[None]] = set()
        """One for each slot that is taken."""
        self.closing = False
        """Once it is set nothing more is taken: refused with `ClosedError`. What was taken waits, or runs."""
        self.ledger = SubmissionLedger()

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
        if if_busy == "fail" and not self._could_start(plan.conversation_id):
            raise BusyError("another task is running; send it later, or with if_busy = wait", retry_after_s=1)
        if len(self._waiting) >= MAX_QUEUED:
            raise BusyError(f"{MAX_QUEUED:,} messages are waiting already; send it later", retry_after_s=5)
        chain = Chain(plan, self._clock.monotonic(), message)
        self._waiting.add(chain)
        self.ledger.note(chain)
        self._start_workers(1)
        return chain

    def _could_start(self, conversation_id: ConversationId) -> bool:
        """Whether a message to this conversation would not have to wait."""
        if len(self._workers) >= self.slots or self._occupancy.holder(conversation_id) is not None:
            return False
        queued = (branch for chain in (*self.active, *self._waiting) for branch in chain.ready)
        return all(branch.conversation_id != conversation_id for branch in queued)

    def would_never_end(self, caller: ConversationId, target: ConversationId) -> bool:
        """Whether a caller that waits for this target would wait for itself."""
        return self._occupancy.would_never_end(caller, target)

    def find(self, task_id: TaskId) -> Chain | None:
        """The chain that a task belongs to; one that was answered lately is known by its first task."""
        for chain in (*self.active, *self._waiting):
            if task_id in chain.tasks:
                return chain
        return self.ledger.by_task(task_id)

    def queued(self) -> list[Chain]:
        """Chains that have not begun, the next one first."""
        return list(self._waiting)

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────

    def interrupt(self, conversation_id: ConversationId, scope: StopScope = "chain") -> bool:
        """Stop the chain that this conversation is a member of, if one runs, or only its branch of the chain."""
        branch = self._occupancy.holder(conversation_id)
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
        if chain in self.active:
            return self._stop(chain.root, "interrupted", self._grace_s)
        if chain in self._waiting:
            self._drop(chain, "interrupted")
            return True
        return False

    def release(self, conversation: ConversationState, timeout_s: float) -> list[TaskHandle]:
        """Take a closing conversation out of everything; the tasks whose end is to be waited for."""
        for chain in self._waiting:
            if chain.conversation_id == conversation.id:
                self._drop(chain, "interrupted")
        branch = self._occupancy.holder(conversation.id)
        if branch is None:
            return []
        running = [below.handle for below in branch.chain.below(branch) if below.state == "running"]
        branch.gone = True
        self._stop(branch, "interrupted", timeout_s)
        return [handle for handle in running if handle is not None]

    def forsake(self, conversation: ConversationState) -> None:
        """The conversation goes now: if it still waits, what it waits with is answered first."""
        branch = self._occupancy.holder(conversation.id)
        if branch is not None and branch.state != "running":
            branch.gone = True
            branch.stopped = branch.stopped or "interrupted"
            branch.chain.ready = [other for other in branch.chain.ready if not other.is_within(branch)]
            self._answer_calls_below(branch)
            self._end_if_stopped(branch)

    async def close(self, timeout_s: float) -> bool:
        """Stop everything and take nothing more; whether a task had to be abandoned. Idempotent."""
        self.closing = True
        for chain in self._waiting:
            self._drop(chain, "shutdown")
        handles = [branch.handle for chain in self.active for branch in chain.branches if branch.state == "running"]
        for chain in [*self.active]:
            self._stop(chain.root, "shutdown", timeout_s)
        while self._workers:
            await asyncio.wait(self._workers)
        return any(handle is not None and handle.abandoned for handle in handles)

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def _start_workers(self, most: int) -> None:
        """Take so many more slots, as far as there are."""
        for _ in range(min(most, self.slots - len(self._workers))):
            worker = self._nursery.start(self._work(), "scheduler")
            self._workers.add(worker)

    async def _work(self) -> None:
        """Keep one slot busy as long as there is a branch that may run."""
        try:
            branch = self._next(None)
            while branch is not None:
                await self._run(branch)
                branch = self._next(branch)
        finally:
            worker = asyncio.current_task()
            assert worker is not None
            self._workers.discard(worker)
            if self._may_run() is not None:
                # It died with its branch. The others have not.
                self._start_workers(1)

    def _next(self, last: Branch | None) -> Branch | None:
        """Take the branch that runs next in the slot where the last one ran."""
        branch = None if last is None else self._heir(last)
        branch = branch or self._may_run()
        if branch is not None:
            self._begin(branch)
        return branch

    def _heir(self, last: Branch) -> Branch | None:
        """What inherits a slot: the first target of a branch that waits now, or the caller that has all its results."""
        chain = last.chain
        if last.state == "waiting":
            return self._first(branch for branch in reversed(chain.ready) if branch.caller is last)
        caller = last.caller
        return caller if caller is not None and caller in chain.ready else None

    def _may_run(self) -> Branch | None:
        """The branch whose turn it is: of the chains that have begun the oldest, in each the innermost."""
        for chain in self.active:
            branch = self._first(reversed(chain.ready))
            if branch is not None:
                return branch
        chain = self._waiting.first()
        return None if chain is None else chain.root

    def _first(self, branches: Iterable[Branch]) -> Branch | None:
        return next((branch for branch in branches if self._is_runnable(branch)), None)

    def _is_runnable(self, branch: Branch) -> bool:
        if not self._occupancy.is_free_for(branch):
            return False
        caller = branch.caller
        if branch.started or caller is None or caller.max_parallel is None:
            return True
        under_way = sum(other.caller is caller and other.started for other in caller.chain.branches)
        return under_way < caller.max_parallel

    def _begin(self, branch: Branch) -> None:
        chain = branch.chain
        if chain in self._waiting:
            self.active.append(chain)
        self._occupancy.take(branch)
        if chain in self._waiting:
            self._waiting.remove(chain)
        chain.ready.remove(branch)
        branch.state = "running"
        branch.started = True
        if branch.timer is not None:
            branch.timer.cancel()

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
            chain.root.stopped = chain.root.stopped or "crash"
            self._settle(branch, TaskEnd("aborted", reason="crash"))
            if not chain.branches:
                self._finish(chain)
            raise
        self._settle(branch, end)
        if not chain.branches:
            await self._conclude(chain)

    def _settle(self, branch: Branch, end: TaskEnd) -> None:
        """A task has ended and that is committed: its targets may start, or its caller hears of it."""
        chain = branch.chain
        branch.handing = False
        if branch is chain.root:
            # What a target said is for its caller; the message is answered by the conversation it went to.
            chain.end = end
        if not end.handed:
            self._end(branch, end)
        elif branch.stopping is None:
            chain.ready += reversed(end.targets)
            for target in end.targets:
                self._limit_wait(target)
            self._resume_if_reported(branch)
            self._start_workers(len(end.targets) - 1)
        self._end_if_stopped(branch)

    def _end(self, branch: Branch, end: TaskEnd) -> None:
        """A branch is over: its conversation is free, and its caller goes on if it was the last one missing."""
        branch.state = "ended"
        branch.chain.branches.remove(branch)
        if self._occupancy.release(branch):
            self._waiting.freed(branch.conversation_id)
        if branch.caller is not None:
            branch.report(end.for_caller(branch))
            self._resume_if_reported(branch.caller)

    def _resume_if_reported(self, branch: Branch) -> None:
        if branch.has_all_results and branch.stopping is None:
            branch.state = "ready"
            branch.chain.ready.append(branch)

    def _limit_wait(self, target: Branch) -> None:
        assert target.caller is not None
        if (seconds := target.caller.max_wait_s) is not None:
            loop = asyncio.get_running_loop()
            target.timer = loop.call_later(seconds, self._stop, target, "timeout", self._grace_s)

    def _stop(self, branch: Branch, reason: AbortReason, grace_s: float) -> bool:
        """Stop a branch with all below it; whether there was anything left to stop."""
        chain = branch.chain
        below = chain.below(branch)
        running = [other.handle for other in below if other.state == "running"]
        aborted = [handle is not None and handle.abort(reason, grace_s) for handle in running]
        left = any(aborted) or any(other.handing or other.state != "running" for other in below)
        if branch.stopping is not None or not left:
            return False
        branch.stopped = reason
        chain.ready = [other for other in chain.ready if not other.is_within(branch)]
        if self._end_if_stopped(branch):
            # No worker was on it that would go on from here.
            if not chain.branches:
                self._nursery.start(self._conclude(chain), "answer")
            self._start_workers(1)
        return True

    def _end_if_stopped(self, branch: Branch) -> bool:
        """End the outermost stopped branch around this one as soon as nothing of it runs any more."""
        stopped = branch.stopping
        if stopped is None or stopped.state == "ended":
            return False
        if any(other.handing or other.state == "running" for other in stopped.chain.below(stopped)):
            return False
        self._end_stopped(stopped)
        return True

    def _end_stopped(self, branch: Branch) -> None:
        """Drop what is below a branch, the inner ones first, every call answered; then the branch itself."""
        self._answer_calls_below(branch)
        reason = branch.stopped
        failure = Failure("timeout", "it could not start in time (target_wait_s)") if reason == "timeout" else None
        for other in reversed(branch.chain.below(branch)[1:]):
            self._end(other, TaskEnd("aborted", reason=reason))
        self._end(branch, TaskEnd("aborted", failure=failure, reason=reason, gone=branch.gone))

    def _answer_calls_below(self, branch: Branch) -> None:
        reason = f"the {'branch' if branch.caller else 'chain'} was stopped ({branch.stopped})"
        for other in reversed(branch.chain.below(branch)):
            self._handoffs.abandon(other, reason)

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
        if chain in self.active:
            self.active.remove(chain)
        chain.finish(self._reply(chain))

    def _drop(self, chain: Chain, reason: AbortReason) -> None:
        """A chain that never ran: its task has a terminal event and its message an answer all the same."""
        self._waiting.remove(chain)
        chain.branches.clear()
        chain.ready.clear()
        plan = chain.root.plan
        self._runner.note_submission(chain, plan)
        sub_id = plan.sub_id or f"conv/{plan.task_id}"
        self._bus.publish(TurnAborted(reason), EventScope(sub_id, plan.conversation_id, plan.task_id, chain.trace_id))
        self._nursery.start(self._conclude(chain), "answer")

    def _reply(self, chain: Chain) -> Reply:
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
            duration=self._clock.monotonic() - chain.started,
            task_id=chain.task_id,
            trace_id=chain.trace_id,
            error=failure,
            last_seq=self._bus.last_seq,
        )
