"""The ready queue and the slot: chains first in, first out, and one at a time.

A chain keeps the slot until its stack is empty. Taking and releasing are plain assignments between two awaits,
so nothing can come between the check and the act.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Literal

from tertulia.conversation.state import ConversationState, TaskHandle
from tertulia.errors import BusyError, ClosedError, TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.protocol.events import AbortReason, TurnAborted
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.records import message_key
from tertulia.scheduler.handoffs import Handoffs
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.plan import Chain, Frame, TaskPlan, recorded_chain
from tertulia.scheduler.reply import Failure, Reply, without_text
from tertulia.scheduler.task_runner import TaskEnd, TaskRunner

_KEPT = 1_000
_KEPT_CHARACTERS = 64 * 1024 * 1024
"""Characters of all answers together."""


class SubmissionLedger:
    """Recent submissions, by task and by message."""

    __slots__ = ("_answered", "_by_message", "_by_task", "_characters", "_ended", "_kept")

    def __init__(self, capacity: int = _KEPT) -> None:
        self._by_task: dict[TaskId, Chain] = {}
        self._by_message: dict[tuple[ConversationId, str], Chain] = {}
        self._answered: deque[Chain] = deque()
        self._ended: dict[tuple[ConversationId, str], Reply] = {}
        """The answers, without their texts, of those that made way."""
        self._characters = 0
        self._kept = capacity

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
        """It was answered: it makes way for newer ones."""
        self._answered.append(chain)
        self._characters += _answer_length(chain)
        while len(self._answered) > self._kept or (self._characters > _KEPT_CHARACTERS and len(self._answered) > 1):
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


MAX_QUEUED = 10_000
STOP_GRACE_S = 1.0
"""How long a caller that stops a task may wait for a tool that does not want to; a close says its own time."""


class Scheduler:
    """Decides which chain runs next, one at a time."""

    def __init__(
        self, runner: TaskRunner, interrupts: Handoffs, bus: EventBus, clock: Clock, nursery: Nursery, grace_s: float
    ) -> None:
        self._runner = runner
        self._interrupts = interrupts
        self._bus = bus
        self._clock = clock
        self._nursery = nursery
        self._grace_s = min(grace_s, STOP_GRACE_S)
        self._ready: deque[Chain] = deque()
        self.current: Chain | None = None
        """The slot: the chain that runs now."""
        self._driver: asyncio.Task[None] | None = None
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
        if if_busy == "fail" and (self.current is not None or self._ready):
            raise BusyError("another task is running; send it later, or with if_busy = wait", retry_after_s=1)
        if len(self._ready) >= MAX_QUEUED:
            raise BusyError(f"{MAX_QUEUED:,} messages are waiting already; send it later", retry_after_s=5)
        chain = Chain(plan, self._clock.monotonic(), message)
        self._ready.append(chain)
        self.ledger.note(chain)
        if self._driver is None:
            self._wake()
        return chain

    def find(self, task_id: TaskId) -> Chain | None:
        """The chain that a task belongs to; one that was answered lately is known by its first task."""
        for chain in (self.current, *self._ready):
            if chain is not None and task_id in chain.task_ids:
                return chain
        return self.ledger.by_task(task_id)

    def queued(self) -> list[Chain]:
        """Chains that wait for the slot, the next one first."""
        return list(self._ready)

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────

    def interrupt(self, conversation_id: ConversationId) -> bool:
        """Stop the chain that this conversation is a member of, if one runs."""
        chain = self.current
        if chain is None or conversation_id not in chain.members:
            return False
        return self._stop(chain, "interrupted", self._grace_s)

    def cancel(self, task_id: TaskId) -> bool:
        """Stop the chain that this task belongs to, whether it runs or still waits."""
        chain = self.find(task_id)
        return chain is not None and self.stop(chain)

    def stop(self, chain: Chain) -> bool:
        """Stop a chain wherever it is; whether it was still to be stopped."""
        if chain is self.current:
            return self._stop(chain, "interrupted", self._grace_s)
        if chain in self._ready:
            self._ready.remove(chain)
            self._drop(chain, "interrupted")
            return True
        return False

    def release(self, conversation: ConversationState, timeout_s: float) -> TaskHandle | None:
        """Take a closing conversation out of everything; the task, if any, whose end is to be waited for."""
        for chain in [c for c in self._ready if c.conversation_id == conversation.id]:
            self._ready.remove(chain)
            self._drop(chain, "interrupted")
        chain = self.current
        if chain is None or conversation.id not in chain.members:
            return None
        assert chain.handle is not None, "the chain in the slot has begun to run"
        chain.handle.abort("interrupted", timeout_s)
        return chain.handle

    def forsake(self, conversation: ConversationState) -> None:
        """The conversation goes now: if it still waits, what it waits with is answered first."""
        chain = self.current
        frames = [] if chain is None else chain.frames
        position = next((index for index, frame in enumerate(frames) if frame.conversation is conversation), None)
        if chain is not None and position is not None:
            self._forsake(chain, position)

    async def close(self, timeout_s: float) -> bool:
        """Stop everything and take nothing more; whether a task had to be abandoned. Idempotent."""
        self.closing = True
        while self._ready:
            self._drop(self._ready.popleft(), "shutdown")
        chain, driver = self.current, self._driver
        handle = chain.handle if chain is not None else None
        if chain is not None:
            self._stop(chain, "shutdown", timeout_s)
        if driver is not None:
            await asyncio.wait((driver,))
        return handle is not None and handle.abandoned

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def _wake(self) -> None:
        self._driver = self._nursery.start(self._drive(), "scheduler")

    async def _drive(self) -> None:
        try:
            while self._ready:
                self.current = chain = self._ready.popleft()
                try:
                    await self._run(chain)
                finally:
                    self.current = None
        finally:
            self._driver = None
            if self._ready:
                # It died with a chain. Those behind it have not.
                self._wake()

    async def _run(self, chain: Chain) -> None:
        own = TaskEnd("aborted", reason="interrupted")
        try:
            while chain.frames and chain.stopped is None:
                chain.running = frame = chain.frames.pop()
                end = await self._runner.run(chain, frame)
                chain.running = None
                if frame.reports_to is None:
                    # What a target said is for its caller; the message is answered by the conversation it went to.
                    own = end
                self._settle(chain, frame, end)
            self._abandon(chain, 0, chain.stopped or "interrupted")
            await self._bus.flush()
        except TertuliaError as error:
            # Not the task's own failure (the runner keeps those) but the journal's: nothing may be acknowledged.
            own = TaskEnd("failed", own.text, Failure.of(error))
        finally:
            chain.running = None
            self._abandon(chain, 0, "crash")
            chain.finish(self._reply(chain, own))

    def _settle(self, chain: Chain, frame: Frame, end: TaskEnd) -> None:
        if not end.handed:
            frame.report(end.for_caller(frame))
        position = self._interrupts.lost(chain)
        if position is not None:
            self._forsake(chain, position)

    def _forsake(self, chain: Chain, position: int) -> None:
        """A conversation was closed while it waited: it and all above it are dropped, its caller goes on."""
        lost = chain.frames[position]
        self._abandon(chain, position, "interrupted")
        lost.report(TaskEnd("aborted", reason="interrupted", gone=True).for_caller(lost))

    def _abandon(self, chain: Chain, position: int, reason: AbortReason) -> None:
        """Drop the frames from this position up, the inner ones first; every call they stand for is answered."""
        while len(chain.frames) > position:
            self._interrupts.abandon(chain, chain.frames.pop(), f"the chain was stopped ({reason})")

    def _stop(self, chain: Chain, reason: AbortReason, grace_s: float) -> bool:
        """Whether there was anything left to stop."""
        running = chain.handle is not None and chain.handle.abort(reason, grace_s)
        if chain.stopped is not None or not (running or chain.handing or chain.frames):
            return False
        chain.stopped = reason
        return True

    def _drop(self, chain: Chain, reason: AbortReason) -> None:
        """A chain that never ran: its task has a terminal event and its message an answer all the same."""
        plan = chain.frames.pop().plan
        self._runner.note_submission(chain, plan)
        sub_id = plan.sub_id or f"conv/{plan.task_id}"
        self._bus.publish(TurnAborted(reason), EventScope(sub_id, plan.conversation_id, plan.task_id, chain.trace_id))
        self._nursery.start(self._answer(chain, TaskEnd("aborted", reason=reason)), "answer")

    async def _answer(self, chain: Chain, end: TaskEnd) -> None:
        """Answer when all that was published is written down."""
        try:
            await self._bus.flush()
        except TertuliaError as error:
            end = TaskEnd("failed", failure=Failure.of(error))
        finally:
            chain.finish(self._reply(chain, end))

    def _reply(self, chain: Chain, end: TaskEnd) -> Reply:
        status: Literal["completed", "failed", "interrupted"] = "interrupted"
        if end.status == "completed":
            status = "completed"
        elif end.failure is not None:
            status = "failed"
        return Reply(
            text=end.text,
            status=status,
            usage=chain.tally.usage,
            tool_calls=chain.tally.tool_calls,
            duration=self._clock.monotonic() - chain.started,
            task_id=chain.task_id,
            trace_id=chain.trace_id,
            error=end.failure,
            last_seq=self._bus.last_seq,
        )
