"""Runs one task from its start to its one terminal event, whatever happens in between.

The beginning and the end are synchronous: no cancellation can fall between the slot and `task_started`, or
between the last item and the terminal event.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from tertulia.conversation.backend import FindBackend, no_backend
from tertulia.conversation.cut_task import UNKNOWN, CutTask
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_handle import TaskHandle
from tertulia.conversation.task_scope import TaskScope, TaskServices, clean_partial, clean_texts
from tertulia.conversation.terms import NATIVE
from tertulia.conversation.turn import TurnLoop, run_turns
from tertulia.conversation.user_message import PREVIEW_CHARACTERS, announce
from tertulia.errors import OutcomeUnknownError, TertuliaError
from tertulia.events.bus import EventScope
from tertulia.events.clock import Timestamps
from tertulia.policy.log_redaction import log_text
from tertulia.policy.rights import Rights, meet
from tertulia.protocol.events import (
    AbortReason,
    ConversationCloseForced,
    ErrorEvent,
    EventData,
    TaskComplete,
    TaskContinued,
    TaskKind,
    TaskStarted,
    TurnAborted,
    WarningEvent,
)
from tertulia.protocol.ids import ConversationId, TaskId, new_span_id
from tertulia.protocol.message_events import MessageWay, UserMessageEvent
from tertulia.protocol.records import LONG_CHARACTERS, SubmissionRecord
from tertulia.protocol.storage import StoragePolicy
from tertulia.scheduler.handoffs import Handoffs
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.plan import (
    ABORT_TEXTS,
    CONVERSATION_CLOSED,
    Branch,
    Chain,
    ConversationSource,
    TaskEnd,
    TaskPlan,
    chain_storage,
)
from tertulia.scheduler.reply import Failure

_log = logging.getLogger(__name__)


class AgentTask(msgspec.Struct, frozen=True):
    """One running task and its chain."""

    task_id: TaskId
    conversation_id: ConversationId
    conversation: weakref.ReferenceType[ConversationState]
    sub_id: str
    kind: TaskKind
    handle: TaskHandle
    started_at: str
    chain: tuple[ConversationId, ...]
    """The conversations of the chain, the first caller first."""


class TaskRegistry:
    """Every running task; each is removed at its end, whatever that end is."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[TaskId, AgentTask] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def add(self, task: AgentTask) -> None:
        """List a task when it starts."""
        self._tasks[task.task_id] = task

    def remove(self, task_id: TaskId) -> None:
        """Drop a task at its end."""
        self._tasks.pop(task_id, None)

    def get(self, task_id: TaskId) -> AgentTask | None:
        """The running task of that id."""
        return self._tasks.get(task_id)

    def running(self) -> list[AgentTask]:
        """All running tasks; with one slot at most one."""
        return list(self._tasks.values())


class TaskRunner:
    """Runs the next task of a branch and returns how it ended. Holds nothing between two tasks."""

    def __init__(
        self, source: ConversationSource, around: TaskServices, nursery: Nursery, registry: TaskRegistry,
        handoffs: Handoffs,
        grace_s: float, *, find_backend: FindBackend = no_backend,
    ) -> None:  # fmt: skip
        self._source = source
        self._around = around
        self._nursery = nursery
        self._registry = registry
        self._handoffs = handoffs
        self._grace_s = grace_s
        self._find_backend = find_backend
        self._timestamps = Timestamps(around.clock)

    async def run(self, branch: Branch) -> TaskEnd:
        """Run the next task. Its terminal event is published and committed when this returns."""
        conversation = self._source.peek(branch.conversation_id)
        if conversation is None:
            return TaskEnd("aborted", failure=Failure("closed", CONVERSATION_CLOSED))
        handle = TaskHandle(branch.plan.task_id, self._around.clock.monotonic())
        scope = self._open(branch, conversation, handle)
        unpublished = _publish_input(scope, branch)
        job = self._nursery.start(self._work(branch, scope, handle, unpublished), f"task {branch.plan.task_id}")
        handle.attach(job)
        deadline = self._deadline(branch, scope.rights(), handle)
        try:
            await handle.stopped
            await _publish_long_input(scope, unpublished)
            await clean_partial(scope)
            if self._around.at_end is not None:
                await self._around.at_end(scope, _status(self._judge(job, handle, scope)))
        finally:
            if deadline is not None:
                deadline.cancel()
            end = self._close(scope, handle, self._judge(job, handle, scope))
            self._handoffs.withdraw(branch)
            # Also for a worker that is cancelled now: this is how the calls that wait get their answers.
            targets = self._handoffs.expand(branch, scope, end.handed) if end.handed else ()
        end = replace(end, storage=scope.storage(), gone=conversation.closed, targets=targets)
        if self._around.report_worktree is not None:
            end = replace(end, worktree=await self._around.report_worktree(scope))
        await self._around.bus.flush()
        return end

    def note_submission(self, chain: Chain, plan: TaskPlan) -> None:
        """Record under which message id a task runs, or ends without having run, so that it is answered once."""
        conversation = self._source.peek(plan.conversation_id)
        if chain.message is not None and plan.kind == "user" and conversation is not None:
            conversation.note(SubmissionRecord(conversation.id, plan.task_id, chain.trace_id, chain.message))

    def _open(self, branch: Branch, conversation: ConversationState, handle: TaskHandle) -> TaskScope:
        chain, plan = branch.chain, branch.plan
        sub_id = plan.sub_id or f"conv/{plan.task_id}"
        scope = EventScope(sub_id, conversation.id, plan.task_id, chain.trace_id, new_span_id())
        task_scope = TaskScope(
            plan.task_id,
            conversation,
            scope,
            self._around,
            self._rights(branch, conversation),
            chain.tally,
            chain=branch.view,
            storage=self._storage(branch, conversation),
        )
        handle.writer = task_scope
        conversation.task = branch.handle = handle
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
                (*branch.callers, conversation.id),
            )
        )
        if plan.cut is not None:
            _take_over(task_scope, plan.cut)
            if plan.work is None:
                task_scope.publish(TaskContinued(plan.kind, chain.attempt))
            return task_scope
        self.note_submission(chain, plan)
        task_scope.say(plan.input)
        preview = plan.input[-1].text[:PREVIEW_CHARACTERS] if plan.input else None
        task_scope.publish(TaskStarted(plan.kind, preview))
        if branch.calls:
            self._handoffs.answer_calls(branch, task_scope)
        return task_scope

    async def _work(
        self, branch: Branch, scope: TaskScope, handle: TaskHandle, unpublished: list[UserMessageEvent]
    ) -> TaskEnd:
        """The asynchronous part of a task. Raises nothing but CancelledError."""
        plan = branch.plan
        try:
            await _publish_long_input(scope, unpublished)
            await scope.commit()
            if self._around.make_ready is not None:
                await self._around.make_ready(scope)
            work = plan.work
            if work is None and scope.conversation.terms.backend != NATIVE:
                backend = self._find_backend(scope.conversation)
                work = partial(backend.run, commission=plan) if plan.cut is None else _refuse_repetition
            if work is not None:
                await work(scope)
                await scope.commit()
                return TaskEnd("completed", scope.last_text)
            run = run_turns if plan.cut is None else _resumed_turns(plan.cut)
            handed = await run(scope, plan, lambda handoff: self._handoffs.admit(branch, scope, handoff))
            branch.handing = bool(handed)
            return TaskEnd("handed" if handed else "completed", scope.last_text, handed=handed)
        except TertuliaError as error:
            return TaskEnd("failed", scope.last_text, Failure.of(error))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            # A model wire or a tool that breaks its contract, whatever it raises, ends its own task and nothing else.
            _log.error("task %s failed: %s", plan.task_id, log_text(error, scope.storage()))
            return TaskEnd("failed", scope.last_text, Failure("internal", f"{type(error).__name__}: {error}"))
        finally:
            handle.stop()

    def _judge(self, job: asyncio.Task[TaskEnd], handle: TaskHandle, scope: TaskScope) -> TaskEnd:
        if job.done() and not job.cancelled():
            end = job.result()
            # A task that fails while it is being stopped counts as stopped.
            if handle.reason is None or end.failure is None:
                return end
        elif handle.reason is None and job.done():
            return TaskEnd("failed", scope.last_text, Failure("cancelled", "the task was cancelled from inside"))
        reason = handle.reason or "shutdown"
        late = Failure(reason, ABORT_TEXTS[reason]) if reason in ("timeout", "limit") else None
        return TaskEnd("aborted", scope.last_text, late, reason)

    def _close(self, scope: TaskScope, handle: TaskHandle, end: TaskEnd) -> TaskEnd:
        if handle.abandoned:
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
                scope.tidy(ABORT_TEXTS[reason])
                end = replace(end, text=scope.last_text)
                scope.publish(TurnAborted(reason))
        scope.revoke()
        handle.end()
        conversation = scope.conversation
        conversation.task = None
        conversation.touch()
        self._registry.remove(scope.task_id)
        return end

    def end_cut_task(self, branch: Branch, reason: AbortReason) -> None:
        """A task that a crash cut was stopped before it could go on: its calls get their outputs, and it its end."""
        assert branch.plan.cut is not None, "only what was cut has an end to come"
        handle = TaskHandle(branch.plan.task_id, self._around.clock.monotonic())
        scope = self._open(branch, branch.plan.cut.conversation, handle)
        self._close(scope, handle, TaskEnd("aborted", reason=reason))

    def _rights(self, branch: Branch, conversation: ConversationState) -> Callable[[], Rights]:
        if branch.caller is None:
            # The usual case, needed several times a turn: no branch waits for it.
            return lambda: conversation.terms.rights

        def strictest() -> Rights:
            rights = conversation.terms.rights
            for caller in branch.callers:
                waiting = self._source.peek(caller)
                if waiting is not None:
                    rights = meet(rights, waiting.terms.rights)
            return rights

        return strictest

    def _storage(self, branch: Branch, conversation: ConversationState) -> Callable[[], StoragePolicy]:
        if branch.caller is None:
            return lambda: conversation.terms.rights.storage_policy
        return lambda: chain_storage(branch, conversation, self._source)

    def _deadline(self, branch: Branch, rights: Rights, handle: TaskHandle) -> asyncio.TimerHandle | None:
        loop, limits = asyncio.get_running_loop(), rights.limits
        is_target = branch.plan.kind == "target"
        seconds = limits.target_timeout_s if is_target else limits.task_timeout_s
        elapsed = 0.0 if branch.plan.cut is None else branch.plan.cut.elapsed_s
        own = None if seconds is None else loop.time() + seconds - elapsed
        earliest = min((when for when in (own, branch.deadline) if when is not None), default=None)
        if is_target:
            branch.deadline = earliest
        return None if earliest is None else loop.call_at(earliest, handle.abort, "timeout", self._grace_s)


def _status(end: TaskEnd) -> str:
    """How a task ends, in one word."""
    return "replaced" if end.status == "handed" else end.reason or end.status


def _take_over(scope: TaskScope, cut: CutTask) -> None:
    # Imported here and below: few tasks are cut by a crash.
    from tertulia.conversation.resumed_turn import take_over

    take_over(scope, cut)


def _resumed_turns(cut: CutTask) -> TurnLoop:
    from tertulia.conversation.resumed_turn import resume_turns

    return partial(resume_turns, cut)


async def _refuse_repetition(scope: TaskScope) -> None:
    """An executor was at work when the process died: what it has done is not known, so it is not asked again."""
    raise OutcomeUnknownError(f"{UNKNOWN} (backend {scope.conversation.terms.backend} was at work when a crash cut it)")


def _abandoned_event(conversation: ConversationState, handle: TaskHandle) -> EventData:
    """The event of a task that did not stop in time, by the reason it was stopped for."""
    if conversation.closed or handle.reason == "shutdown":
        return ConversationCloseForced(handle.grace_s)
    return WarningEvent(f"the task did not stop within {handle.grace_s:g} s and was abandoned", "abandoned")


def _publish_input(scope: TaskScope, branch: Branch) -> list[UserMessageEvent]:
    """Publish what the task was asked, each message whole and once; returns the events that take longer to redact."""
    plan = branch.plan
    if not plan.input or (plan.cut is not None and plan.cut.announced):
        return []
    how: MessageWay = "delegated" if plan.kind == "target" else "queued" if branch.chain.queued else "message"
    caller = None if branch.caller is None else branch.caller.conversation_id
    events = [announce(message, how, caller) for message in plan.input]
    if any(len(event.text) > LONG_CHARACTERS for event in events):
        return events
    for event in events:
        scope.publish(event)
    return []


async def _publish_long_input(scope: TaskScope, events: list[UserMessageEvent]) -> None:
    """Publish the rest. Called again after a cancellation it goes on where it was stopped: none is lost or repeated."""
    while events:
        await clean_texts(scope, [events[0].text])
        scope.publish(events.pop(0))
