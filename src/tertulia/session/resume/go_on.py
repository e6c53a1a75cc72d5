"""Makes chains again that a crash cut, so that they go on: branches, calls that wait, deadlines and counters.

It only makes them; the scheduler runs them. What cannot go on is left to `close_open`, and why is published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from tertulia.conversation.cut_task import CutTask
from tertulia.conversation.output_check import OutputCheck, check_by_schema, is_repair_request
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.terms import NATIVE
from tertulia.errors import InvalidParamsError, LimitError
from tertulia.events.bus import EventScope
from tertulia.protocol import events as e
from tertulia.protocol.events import AbortReason, TaskKind, WarningEvent
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, UserMessage
from tertulia.protocol.records import PAUSE, PlanRecord
from tertulia.scheduler.chain_records import PlannedCall, PlannedTask
from tertulia.scheduler.plan import ABORT_TEXTS, Branch, CallClosure, Chain, TaskEnd, TaskPlan
from tertulia.scheduler.reply import Failure
from tertulia.session.parts import SessionParts
from tertulia.session.resume.cut_chain import CutChain, RecordedPlan
from tertulia.session.resume.rebuild import RestoredConversation
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedState
from tertulia.tools.conv_results import TargetRendering
from tertulia.tools.tool import TargetResult

MAX_ATTEMPTS = 3
_CLOSED = "interrupted: the process died before the other conversation had answered"
_NOT_STORED = "what it was asked, or what it has said, is not stored, or not any more"
_ABORTS: dict[str, AbortReason] = {name: name for name in ABORT_TEXTS}


class _CannotGoOnError(Exception):
    """Why a chain is closed."""


class ChainsThatGoOn(msgspec.Struct, frozen=True):
    """The chains that go on, and what of the record must not be closed."""

    chains: tuple[Chain, ...] = ()
    tasks: frozenset[TaskId] = frozenset()
    conversations: frozenset[ConversationId] = frozenset()
    """Those whose open calls are answered by what goes on."""


def restore_chains(
    parts: SessionParts, past: RecordedState, restored: Sequence[RestoredConversation], *, wanted: bool
) -> ChainsThatGoOn:
    """Make the chains that go on. Of all others it is recorded that they are over; `wanted`: whether any goes on."""
    chains: list[Chain] = []
    for cut in past.cut.values():
        if cut.root is None or cut.answered:
            continue
        chain = _restore(parts, past, restored, cut) if wanted else None
        if chain is not None:
            chains.append(chain)
        else:
            parts.journal.keep(PlanRecord(parts.root_id, "answered", cut.root.task_id, cut.trace_id))
    live = [branch for chain in chains for branch in chain.branches]
    native = (b for b in live if b.started and _state(parts, b).terms.backend == NATIVE)
    return ChainsThatGoOn(
        tuple(chains),
        frozenset(branch.plan.task_id for branch in live),
        frozenset(branch.conversation_id for branch in native),
    )


def _state(parts: SessionParts, branch: Branch) -> ConversationState:
    return parts.conversations.find(branch.conversation_id)


def _restore(
    parts: SessionParts, past: RecordedState, restored: Sequence[RestoredConversation], cut: CutChain
) -> Chain | None:
    """The chain; None where it is over, or cannot go on, which is published."""
    assert cut.root is not None
    conversation_id = cut.root.conversation_id
    conversation, plans = parts.conversations.peek(conversation_id), cut.branch(cut.root)
    if conversation is None or cut.task(plans[-1].task_id).end is not None or cut.stop_reason(plans) is not None:
        return None
    try:
        if past.damaged or past.missing_records:
            raise _CannotGoOnError("records of this session are damaged or missing")
        if conversation.terms.rights.on_restart == "close":
            raise _CannotGoOnError("on_restart is close now, by the settings or the storage policy")
        return ChainRestorer(parts, past, restored, cut).chain()
    except _CannotGoOnError as why:
        message = f"a task that was cut does not go on, and is closed: {why}"
        parts.bus.publish(WarningEvent(message, "cannot_continue"), EventScope("", conversation_id))
        return None


class ChainRestorer:
    """Makes one chain from its record."""

    def __init__(
        self, parts: SessionParts, past: RecordedState, restored: Sequence[RestoredConversation], cut: CutChain
    ) -> None:
        self._parts = parts
        self._past = past
        self._restored = {entry.conversation.id: entry for entry in restored}
        self._cut = cut
        self._now = parts.clock.now()
        self._loop = asyncio.get_running_loop()
        self._placed: set[TaskId] = set()

    def chain(self) -> Chain:
        """The chain, ready to run; raises where it cannot be."""
        cut, root = self._cut, self._cut.root
        assert root is not None
        first = self._planned(root)
        begun = cut.task(root.task_id).started
        since = 0.0 if begun is None else self._now - begun
        chain = Chain(self._plan(root, "user"), self._parts.clock.monotonic() - since, first.message)
        chain.trace_id, chain.goes_on, chain.queued = cut.trace_id, True, first.queued
        chain.attempt, chain.tally.usage, chain.tally.tool_calls = cut.attempts, cut.usage, cut.tool_calls
        for plan in cut.plans.values():
            planned = self._planned(plan)
            chain.opened, chain.interrupts = (
                max(chain.opened, planned.opened),
                max(chain.interrupts, planned.interrupts),
            )
            chain.tasks[plan.task_id] = chain.root
        if begun is not None:
            chain.started_at = self._parts.timestamps.at(begun)
        chain.branches, chain.ready = [], []
        exhausted = cut.has_begun and cut.attempts >= MAX_ATTEMPTS
        self._place(chain.root, root, exhausted=exhausted)
        chain.ready.reverse()
        for branch in chain.branches:
            if branch.conversation is not None:
                branch.conversation.awaiting += 1
        return chain

    def _place(self, branch: Branch, first: RecordedPlan, *, exhausted: bool = False) -> None:
        """Put a branch where it was: it runs again, waits again, or has not begun."""
        cut, chain = self._cut, branch.chain
        if first.task_id in self._placed:
            raise _CannotGoOnError("its record makes no sense")
        self._placed.add(first.task_id)
        last = cut.branch(first)[-1]
        kind: TaskKind = "continuation" if last is not first else branch.plan.kind
        branch.plan = self._plan(last, kind)
        if exhausted:
            branch.plan = replace(branch.plan, work=_fail_exhausted)
        self._require_texts(last)
        chain.branches.append(branch)
        chain.tasks[last.task_id] = branch
        began, task = cut.task(first.task_id).started, cut.task(last.task_id)
        branch.started = began is not None
        branch.deadline = self._deadline(branch, first)
        if task.started is not None:
            branch.plan = replace(branch.plan, cut=self._cut_task(last))
            chain.ready.append(branch)
        elif last is not first:
            self._wait(branch, last, exhausted=exhausted)
        else:
            chain.ready.append(branch)

    def _wait(self, branch: Branch, last: RecordedPlan, *, exhausted: bool) -> None:
        """Let a branch wait again for the targets of its calls."""
        conversation, calls = self._conversation(branch.conversation_id), self._planned(last).calls
        open_calls = {call.call_id: call for call in conversation.history.open_call_items()}
        closures = tuple(self._closure(call, open_calls) for call in calls)
        branch.wait_for(branch.plan, closures, conversation)
        limits = conversation.terms.rights.limits
        branch.max_parallel, branch.max_wait_s = limits.max_parallel_targets, limits.target_wait_s
        for index, call in enumerate(calls):
            branch.targets[index] = call.target
            target = None if exhausted else self._cut.target(last.task_id, index)
            branch.results[index] = self._result(branch, call, target, index)

    def _closure(self, call: PlannedCall, open_calls: dict[CallId, ToolCall]) -> CallClosure:
        if call.call_id not in open_calls:
            raise _CannotGoOnError(_NOT_STORED)
        made_by = EventScope(call.sub_id, None, call.task_id, self._cut.trace_id, call.span_id)
        rendering = TargetRendering(call.echoed, call.began)
        item = open_calls[call.call_id]
        return CallClosure(item, rendering, made_by, self._parts.clock.monotonic())

    def _result(
        self, branch: Branch, call: PlannedCall, target: RecordedPlan | None, index: int
    ) -> TargetResult | None:
        """What a call has come to; None where its target goes on."""
        if call.code is not None:
            return TargetResult(None, "failed", None, call.code, call.reason)
        if target is None:
            return TargetResult(call.target, "cancelled", None, "cancelled", _CLOSED)
        below = Branch(branch.chain, TaskPlan(target.conversation_id, "target"), branch, index)
        if (result := self._ended(below, target)) is not None:
            return result
        state = self._parts.conversations.peek(target.conversation_id)
        if state is None or state.terms.rights.on_restart == "close":
            return TargetResult(call.target, "cancelled", None, "cancelled", _CLOSED)
        if branch.max_wait_s is not None:
            below.latest_start = self._on_loop(target.ts + branch.max_wait_s)
        self._place(below, target)
        return None

    def _ended(self, below: Branch, target: RecordedPlan) -> TargetResult | None:
        """How a target has ended, from the record of its end; None where it has not."""
        cut, plans = self._cut, self._cut.branch(target)
        task, gone = cut.task(plans[-1].task_id), self._past.conversations[target.conversation_id].closed
        stopped = cut.stop_reason(plans)
        if task.end is None and stopped is None:
            return None
        if not task.end_is_whole:
            raise _CannotGoOnError(_NOT_STORED)
        match task.end:
            case e.TaskComplete(status="completed", last_assistant_message=text):
                end = TaskEnd("completed", text)
            case e.TaskComplete(last_assistant_message=text):
                code, message = ("failed", "it failed") if task.error is None else (task.error.code, task.error.message)
                end = TaskEnd("failed", text, Failure(code, message))
            case e.TurnAborted(reason=reason):
                end = _aborted(reason, task.last_text, gone=gone)
            case None:
                end = _aborted(_ABORTS.get(stopped or "", "interrupted"), task.last_text, gone=gone)
        return end.for_caller(below)

    # ── one task ─────────────────────────────────────────────────────────────────────────────────────────────

    def _planned(self, plan: RecordedPlan) -> PlannedTask:
        if plan.planned is None:
            raise _CannotGoOnError(_NOT_STORED)
        return plan.planned

    def _plan(self, recorded: RecordedPlan, kind: TaskKind) -> TaskPlan:
        planned = self._planned(recorded)
        return TaskPlan(
            recorded.conversation_id,
            kind,
            planned.input,
            base_instructions_override=planned.override,
            output=_output(planned.output_schema),
            may_repair=planned.may_repair,
            task_type=planned.task_type,
            previous_result=planned.previous_result,
            sub_id=planned.sub_id,
            task_id=recorded.task_id,
        )

    def _cut_task(self, recorded: RecordedPlan) -> CutTask:
        task, old = self._cut.task(recorded.task_id), self._past.conversations[recorded.conversation_id]
        conversation = self._conversation(recorded.conversation_id)
        items = tuple(conversation.history.snapshot())
        pause, last = old.notes.get(PAUSE), items[-1] if items else None
        paused = last is not None and pause is not None and (pause.value or {}).get("item") == last.id
        return CutTask(
            conversation,
            elapsed_s=max(0.0, self._now - (task.started or self._now)),
            begun=frozenset(old.begun),
            asking=old.questions.calls & frozenset(old.begun),
            outputs=tuple(old.ended.values()),
            last_text=task.last_text,
            answered=isinstance(last, AssistantMessage | Reasoning) and not paused,
            announced=task.announced,
            repaired=_was_repaired(reversed(items), recorded),
            spent=task.spent,
        )

    def _require_texts(self, recorded: RecordedPlan) -> None:
        """Refuse a member of which texts of this chain are missing."""
        entry = self._restored.get(recorded.conversation_id)
        if entry is None or entry.forgotten is not None or self._cut.root is None:
            raise _CannotGoOnError(_NOT_STORED)
        old, since = self._past.conversations[recorded.conversation_id], self._cut.root.ts
        if _misses_texts(old, since):
            raise _CannotGoOnError(_NOT_STORED)

    def _conversation(self, conversation_id: ConversationId) -> ConversationState:
        return self._restored[conversation_id].conversation

    def _deadline(self, branch: Branch, first: RecordedPlan) -> float | None:
        """Of a target that has begun: as it was given it, and by its own limit from its first start on."""
        if branch.caller is None:
            return None
        started, deadline = self._cut.task(first.task_id).started, self._planned(first).deadline
        limit = self._conversation(first.conversation_id).terms.rights.limits.target_timeout_s
        own = None if started is None or limit is None else started + limit
        earliest = min((when for when in (deadline, own) if when is not None), default=None)
        return None if earliest is None else self._on_loop(earliest)

    def _on_loop(self, moment: float) -> float:
        return self._loop.time() + moment - self._now


def _misses_texts(old: RecordedConversation, since: float) -> bool:
    return any(piece.missing for piece in old.pieces if piece.ts >= since)


def _was_repaired(newest_first: Iterator[object], recorded: RecordedPlan) -> bool:
    """Whether the model was asked, since the task's own message, to repair its answer."""
    own = {message.id for message in (recorded.planned.input if recorded.planned else ())}
    for item in newest_first:
        if isinstance(item, UserMessage):
            if item.id in own:
                return False
            if is_repair_request(item):
                return True
    return False


def _aborted(reason: AbortReason, text: str | None, *, gone: bool) -> TaskEnd:
    late = Failure(reason, ABORT_TEXTS[reason]) if reason in ("timeout", "limit") else None
    return TaskEnd("aborted", text, late, reason, gone=gone)


def _output(schema: str | None) -> OutputCheck | None:
    if schema is None:
        return None
    try:
        return check_by_schema(msgspec.json.decode(schema))
    except (InvalidParamsError, msgspec.DecodeError):
        raise _CannotGoOnError("the schema of its answer cannot be read") from None


async def _fail_exhausted(scope: TaskScope) -> None:
    raise LimitError(
        f"the process died while this task ran, and each of the {MAX_ATTEMPTS} times that it went on; it is closed"
    )
