"""Runs one task from its start to its one terminal event, whatever happens in between.

The beginning and the end are synchronous: no cancellation can fall between the slot and `task_started`, or
between the last word and the terminal event.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec
from msgspec.structs import replace

from tertulia.conversation.backend import FindBackend, no_backend
from tertulia.conversation.state import ConversationState, TaskHandle
from tertulia.conversation.task_scope import TaskScope, TaskServices
from tertulia.conversation.terms import NATIVE
from tertulia.conversation.turn import HandedOffCall, run_turns
from tertulia.errors import TertuliaError
from tertulia.events.bus import EventScope
from tertulia.events.clock import Timestamps
from tertulia.policy.narrowing import Rights, meet
from tertulia.policy.redaction import log_text
from tertulia.protocol.events import (
    AbortReason,
    ConversationCloseForced,
    ErrorEvent,
    EventData,
    TaskComplete,
    TaskStarted,
    TurnAborted,
    WarningEvent,
)
from tertulia.protocol.ids import new_span_id
from tertulia.protocol.records import SubmissionRecord
from tertulia.protocol.storage import StoragePolicy
from tertulia.scheduler.handoffs import Handoffs
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.plan import Chain, ConversationSource, Frame, TaskPlan, chain_storage
from tertulia.scheduler.reply import Failure
from tertulia.scheduler.task_registry import AgentTask, TaskRegistry
from tertulia.tools.tool import TargetResult

_log = logging.getLogger(__name__)
_PREVIEW = 120
CONVERSATION_CLOSED = "the conversation was closed before it could answer"
_ABORT_TEXTS = {
    "interrupted": "interrupted: the task was stopped before it was done",
    "timeout": "interrupted: the task took too long",
    "shutdown": "interrupted: the session was closed",
    "crash": "interrupted: the process died",
    "limit": "interrupted: a limit was reached",
}


class TaskEnd(msgspec.Struct, frozen=True):
    """How a task ended, and its text."""

    status: Literal["completed", "failed", "aborted", "handed"]
    text: str | None = None
    failure: Failure | None = None
    reason: AbortReason | None = None
    handed: tuple[HandedOffCall, ...] = ()
    storage: StoragePolicy | None = None
    """The policy that its text was said under."""
    gone: bool = False
    """Whether its conversation was closed."""

    def for_caller(self, frame: Frame) -> TargetResult:
        """The result as the waiting continuation gets it."""
        result = TargetResult(frame.plan.conversation_id, "completed", self.text, storage=self.storage)
        if self.status == "completed":
            return result
        if self.failure is not None:
            return replace(result, status="failed", code=self.failure.code, reason=self.failure.message)
        if self.gone:
            return replace(result, status="cancelled", code="closed", reason=CONVERSATION_CLOSED)
        return replace(result, status="cancelled", code="cancelled", reason=_ABORT_TEXTS[self.reason or "interrupted"])


class TaskRunner:
    """Takes a frame, gives back how it ended. Owns nothing between two tasks."""

    def __init__(
        self, source: ConversationSource, around: TaskServices, nursery: Nursery, registry: TaskRegistry,
        interrupts: Handoffs,
        grace_s: float, *, find_backend: FindBackend = no_backend,
    ) -> None:  # fmt: skip
        self._source = source
        self._around = around
        self._nursery = nursery
        self._registry = registry
        self._interrupts = interrupts
        self._grace_s = grace_s
        self._find_backend = find_backend
        self._timestamps = Timestamps(around.clock)

    async def run(self, chain: Chain, frame: Frame) -> TaskEnd:
        """Run it. The terminal event is out, and committed, when this returns."""
        conversation = self._source.peek(frame.plan.conversation_id)
        if conversation is None:
            return TaskEnd("aborted", failure=Failure("closed", CONVERSATION_CLOSED))
        handle = TaskHandle(frame.plan.task_id, self._around.clock.monotonic())
        scope = self._open(chain, frame, conversation, handle)
        job = self._nursery.start(self._work(chain, scope, frame.plan), f"task {frame.plan.task_id}")
        handle.attach(job)
        deadline = self._deadline(frame, scope.rights(), handle)
        try:
            await asyncio.wait((job, handle.forced), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if deadline is not None:
                deadline.cancel()
            end = self._close(scope, handle, self._judge(job, handle, scope))
        end = replace(end, storage=scope.storage(), gone=conversation.closed)
        if end.handed:
            self._interrupts.expand(chain, frame, scope, end.handed)
        await self._around.bus.flush()
        return end

    def note_submission(self, chain: Chain, plan: TaskPlan) -> None:
        """Write down under which message id a task runs, or ends without having run: it is answered once."""
        conversation = self._source.peek(plan.conversation_id)
        if chain.message is not None and plan.kind == "user" and conversation is not None:
            conversation.note(SubmissionRecord(conversation.id, plan.task_id, chain.trace_id, chain.message))

    def _open(self, chain: Chain, frame: Frame, conversation: ConversationState, handle: TaskHandle) -> TaskScope:
        plan = frame.plan
        sub_id = plan.sub_id or f"conv/{plan.task_id}"
        scope = EventScope(sub_id, conversation.id, plan.task_id, chain.trace_id, new_span_id())
        task_scope = TaskScope(
            plan.task_id,
            conversation,
            scope,
            self._around,
            self._rights(chain, conversation),
            chain.tally,
            chain=chain.view,
            storage=lambda: chain_storage(chain, conversation, self._source),
        )
        conversation.task = chain.handle = handle
        started_at = self._timestamps()
        chain.started_at = chain.started_at or started_at
        self._registry.add(
            AgentTask(
                plan.task_id,
                conversation.id,
                weakref.ref(conversation),
                sub_id,
                plan.kind,
                handle,
                started_at,
                chain.members,
            )
        )
        self.note_submission(chain, plan)
        task_scope.say(plan.input)
        preview = plan.input[-1].text[:_PREVIEW] if plan.input else None
        task_scope.publish(TaskStarted(plan.kind, preview))
        if frame.closures:
            self._interrupts.answer_calls(frame, task_scope)
        return task_scope

    async def _work(self, chain: Chain, scope: TaskScope, plan: TaskPlan) -> TaskEnd:
        """The part that waits. Nothing but a cancellation comes out of it."""
        try:
            await scope.commit()
            if self._around.make_ready is not None:
                await self._around.make_ready(scope)
            work = plan.work
            if work is None and scope.conversation.terms.backend != NATIVE:
                backend = self._find_backend(scope.conversation)
                work = partial(backend.run, commission=plan)
            if work is not None:
                await work(scope)
                await scope.commit()
                return TaskEnd("completed", scope.last_text)
            handed = await run_turns(scope, plan, lambda handoff: self._interrupts.admit(chain, scope, handoff))
            chain.handing = bool(handed)
            return TaskEnd("handed" if handed else "completed", scope.last_text, handed=handed)
        except TertuliaError as error:
            return TaskEnd("failed", scope.last_text, Failure.of(error))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            # A model wire or a tool that breaks its contract, whatever it raises, ends its own task and nothing else.
            _log.error("task %s failed: %s", plan.task_id, log_text(error, scope.storage()))
            return TaskEnd("failed", scope.last_text, Failure("internal", f"{type(error).__name__}: {error}"))

    def _judge(self, job: asyncio.Task[TaskEnd], handle: TaskHandle, scope: TaskScope) -> TaskEnd:
        if job.done() and not job.cancelled():
            end = job.result()
            # To fail while being stopped is to be stopped.
            if handle.reason is None or end.failure is None:
                return end
        elif handle.reason is None and job.done():
            return TaskEnd("failed", scope.last_text, Failure("cancelled", "the task was cancelled from inside"))
        reason = handle.reason or "shutdown"
        late = Failure(reason, _ABORT_TEXTS[reason]) if reason in ("timeout", "limit") else None
        return TaskEnd("aborted", scope.last_text, late, reason)

    def _close(self, scope: TaskScope, handle: TaskHandle, end: TaskEnd) -> TaskEnd:
        if handle.forced.done():
            scope.publish(_abandoned_event(scope.conversation, handle))
        match end:
            case TaskEnd("handed"):
                scope.publish(TurnAborted("replaced", end.handed[0].call.call_id))
            case TaskEnd("completed"):
                scope.publish(TaskComplete("completed", end.text, scope.spent))
            case TaskEnd("failed", _, Failure(code, message)):
                scope.tidy(f"failed: {message}")
                end = replace(end, text=scope.last_text)
                scope.publish(ErrorEvent(code, message))
                scope.publish(TaskComplete("failed", scope.last_text, scope.spent))
            case _:
                reason = end.reason or "interrupted"
                scope.tidy(_ABORT_TEXTS[reason])
                end = replace(end, text=scope.last_text)
                scope.publish(TurnAborted(reason))
        scope.revoke()
        handle.end()
        conversation = scope.conversation
        conversation.task = None
        conversation.touch()
        self._registry.remove(scope.task_id)
        return end

    def _rights(self, chain: Chain, conversation: ConversationState) -> Callable[[], Rights]:
        def strictest() -> Rights:
            rights = conversation.terms.rights
            for member in chain.members:
                waiting = self._source.peek(member)
                if waiting is not None:
                    rights = meet(rights, waiting.terms.rights)
            return rights

        return strictest

    def _deadline(self, frame: Frame, rights: Rights, handle: TaskHandle) -> asyncio.TimerHandle | None:
        loop, limits = asyncio.get_running_loop(), rights.limits
        is_target = frame.plan.kind == "target"
        seconds = limits.target_timeout_s if is_target else limits.task_timeout_s
        own = None if seconds is None else loop.time() + seconds
        earliest = min((when for when in (own, frame.deadline) if when is not None), default=None)
        if is_target:
            frame.deadline = earliest
        return None if earliest is None else loop.call_at(earliest, handle.abort, "timeout", self._grace_s)


def _abandoned_event(conversation: ConversationState, handle: TaskHandle) -> EventData:
    """The event of a task that did not stop in time, by the reason it was stopped for."""
    if conversation.closed or handle.reason == "shutdown":
        return ConversationCloseForced(handle.grace_s)
    return WarningEvent(f"the task did not stop within {handle.grace_s:g} s and was abandoned", "abandoned")
