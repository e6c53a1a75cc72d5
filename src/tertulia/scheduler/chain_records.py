"""Writes down the steps of a chain that goes on after a crash, so that it can be made again from the record.

Where a conversation has `on_restart = "close"`, which is usual, nothing is written. Each step is given to the journal
in the same pass of the loop as the events that it belongs to, so that both are committed together or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.protocol.events import AbortReason, WarningEvent
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.items import UserMessage
from tertulia.protocol.records import PlanRecord, PlanStep
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.store import allows_body
from tertulia.scheduler.plan import Branch, CallClosure, Chain, ConversationSource, TaskPlan, chain_storage
from tertulia.tools.conv_results import TargetRendering
from tertulia.tools.tool import TargetResult


class PlannedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a continuation has to answer, and the target that it waits for."""

    call_id: CallId
    sub_id: str
    task_id: TaskId | None
    span_id: str | None = None
    target: ConversationId | None = None
    code: str | None = None
    """Where no target could be had: why."""
    reason: str | None = None
    echoed: Mapping[str, Any] = {}
    began: str = ""


class PlannedTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task as it was planned; in the record as plain JSON."""

    input: tuple[UserMessage, ...] = ()
    override: str | None = None
    output_schema: str | None = None
    may_repair: bool = True
    task_type: Literal["code", "chat"] | None = None
    previous_result: Any = None
    sub_id: str | None = None
    message: str | None = None
    """Of the first task: the key of the client's message id."""
    queued: bool = False
    caller: TaskId | None = None
    """Of a target: the continuation that waits for it, and which of its calls this is."""
    index: int = 0
    deadline: float | None = None
    """Of a target: until when it may take, by the clock on the wall."""
    after: TaskId | None = None
    """Of a continuation: the task that it continues."""
    calls: tuple[PlannedCall, ...] = ()
    opened: int = 0
    interrupts: int = 0
    """How many conversations and handoffs the chain has caused so far."""


class ChainRecords:
    """Gives the steps of chains to the journal."""

    def __init__(
        self,
        source: ConversationSource,
        bus: EventBus,
        clock: Clock,
        keep: Callable[[PlanRecord], None],
        root_id: ConversationId,
    ) -> None:
        """`keep`: takes a record. `root_id`: the conversation that is always there."""
        self._source = source
        self._bus = bus
        self._clock = clock
        self._keep = keep
        self._root_id = root_id

    def submitted(self, chain: Chain) -> None:
        """A message was accepted. From here on it is known whether its chain goes on after a crash."""
        conversation, plan = self._source.peek(chain.conversation_id), chain.root.plan
        if conversation is None or conversation.terms.rights.on_restart == "close":
            return
        if plan.work is not None or not allows_body(conversation.storage):
            return
        chain.goes_on = True
        planned = _planned(plan, message=chain.message, queued=chain.queued)
        self._note(chain, plan, "chain", planned, conversation.storage)

    def handed(self, branch: Branch, scope: TaskScope, task_id: TaskId, targets: Sequence[Branch]) -> None:
        """A task has handed over: its continuation waits for these targets."""
        chain = branch.chain
        if not chain.goes_on:
            return
        found = zip(branch.calls, branch.targets, branch.results, strict=True)
        calls = tuple(_planned_call(made, target, result) for made, target, result in found)
        counts = {"opened": chain.opened, "interrupts": chain.interrupts}
        planned = _planned(branch.plan, after=task_id, calls=calls, **counts)
        self._note(chain, branch.plan, "continuation", planned, scope.storage())
        for target in targets:
            self._note_target(target, self._source.find(target.conversation_id))

    def _note_target(self, target: Branch, conversation: ConversationState) -> None:
        chain, caller, deadline = target.chain, target.caller, None
        if target.deadline is not None:
            deadline = self._clock.now() + target.deadline - asyncio.get_running_loop().time()
        waiting = None if caller is None else caller.plan.task_id
        planned = _planned(target.plan, caller=waiting, index=target.index, deadline=deadline)
        self._note(chain, target.plan, "target", planned, chain_storage(target, conversation, self._source))
        if not allows_body(conversation.storage):
            self._give_up(chain, f"conversation {conversation.id}, which takes part in it, keeps no texts")

    def stopped(self, branch: Branch, reason: AbortReason) -> None:
        """A branch is to end: it does not go on, even if the process dies before that is done."""
        self._mark(branch.chain, "stopped", branch.plan.task_id, {"reason": reason})

    def continued(self, chain: Chain) -> None:
        """A chain that a crash cut goes on."""
        self._mark(chain, "continued", chain.task_id, {"attempt": chain.attempt})

    def answered(self, chain: Chain) -> None:
        """A chain is over, and does not go on."""
        self._mark(chain, "answered", chain.task_id)

    def _mark(self, chain: Chain, step: PlanStep, task_id: TaskId, plan: dict[str, Any] | None = None) -> None:
        if chain.goes_on:
            is_open = self._source.peek(chain.conversation_id) is not None
            place = chain.conversation_id if is_open else self._root_id
            self._keep(PlanRecord(place, step, task_id, chain.trace_id, plan))

    def _note(self, chain: Chain, plan: TaskPlan, step: PlanStep, planned: PlannedTask, storage: StoragePolicy) -> None:
        try:
            plain = cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(planned)))
        except (TypeError, ValueError, RecursionError):
            plain = None
            self._give_up(chain, "its previous_result cannot be written as JSON")
        self._keep(PlanRecord(plan.conversation_id, step, plan.task_id, chain.trace_id, plain, storage))

    def _give_up(self, chain: Chain, why: str) -> None:
        """Publish, once, that a chain will be closed by a crash although its conversation asks for more."""
        if not chain.warned:
            chain.warned = True
            message = f"this task will not go on after a crash: {why}"
            self._bus.publish(WarningEvent(message, "cannot_continue"), EventScope("", chain.conversation_id))


def _planned(plan: TaskPlan, **more: Any) -> PlannedTask:
    return PlannedTask(
        input=plan.input,
        override=plan.base_instructions_override,
        output_schema=None if plan.output is None else plan.output.schema,
        may_repair=plan.may_repair,
        task_type=plan.task_type,
        previous_result=plan.previous_result,
        sub_id=plan.sub_id,
        **more,
    )


def _planned_call(made: CallClosure, target: ConversationId | None, result: TargetResult | None) -> PlannedCall:
    # A tool of a program's own may make something else of the result; that is a function, and cannot be written down.
    rendering = made.render if isinstance(made.render, TargetRendering) else TargetRendering()
    by, failed = made.made_by, (None, None) if result is None else (result.code, result.reason)
    return PlannedCall(
        made.call.call_id, by.sub_id, by.task_id, by.span_id, target, *failed, rendering.echoed, rendering.began
    )
