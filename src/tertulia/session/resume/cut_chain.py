"""A chain that goes on after a crash, as its record tells it: what was planned, what had begun, what had ended."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from tertulia.protocol import events as e
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.items import NO_USAGE, Usage
from tertulia.protocol.message_events import UserMessageEvent
from tertulia.protocol.records import PlanRecord
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ApprovalResolved,
    ExecCommandBegin,
    McpToolCallBegin,
    PatchApplyBegin,
    ToolCallBegin,
)
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.scheduler.chain_records import PlannedTask


class RecordedPlan(msgspec.Struct, frozen=True):
    """A task of the chain, as it was planned."""

    conversation_id: ConversationId
    task_id: TaskId
    ts: float
    planned: PlannedTask | None
    """None where it is not stored, or cannot be read."""


class RecordedTask:
    """What is known of a task of the chain."""

    def __init__(self) -> None:
        self.started: float | None = None
        self.end: e.TaskComplete | e.TurnAborted | None = None
        self.end_is_whole = True
        """Whether the text of that end is stored."""
        self.error: e.ErrorEvent | None = None
        self.spent: Usage = NO_USAGE
        self.last_text: str | None = None
        self.announced = False


class OpenQuestions:
    """Which calls of a conversation wait for a person, so that nothing of them has run."""

    def __init__(self) -> None:
        self._asked: dict[str, CallId] = {}
        self._settled: set[CallId] = set()
        """Calls that were answered, or that have run something."""

    @property
    def calls(self) -> frozenset[CallId]:
        """The calls that wait for an answer."""
        return frozenset(self._asked.values()) - self._settled

    def hear(self, data: e.EventData) -> None:
        """Take an event of the conversation."""
        match data:
            case ToolCallBegin(call_id=call_id):
                self._settled.discard(call_id)
                self._asked = {number: call for number, call in self._asked.items() if call != call_id}
            case ApprovalRequest(approval_id=number, call_id=str() as call_id):
                self._asked[number] = call_id
            case ApprovalResolved(approval_id=number) if (call_id := self._asked.pop(number, None)) is not None:
                self._settled.add(call_id)
            case (
                ExecCommandBegin(call_id=call_id) | McpToolCallBegin(call_id=call_id) | PatchApplyBegin(call_id=call_id)
            ):
                self._settled.add(call_id)
            case _:
                pass


class CutChain:
    """A fold over the steps and events of one chain."""

    def __init__(self, trace_id: str) -> None:
        self.trace_id = trace_id
        self.root: RecordedPlan | None = None
        self.plans: dict[TaskId, RecordedPlan] = {}
        self.tasks: dict[TaskId, RecordedTask] = {}
        self.stopped: dict[TaskId, str] = {}
        """Branches that were to end, by the task that ran or waited there, each with the reason."""
        self.attempts = 0
        self.answered = False
        self.usage: Usage = NO_USAGE
        self.tool_calls = 0

    def plan(self, record: PlanRecord, line: RecordLine) -> None:
        """Take a step of the chain."""
        match record.step:
            case "stopped":
                self.stopped[record.task_id] = str((record.plan or {}).get("reason", "interrupted"))
            case "continued":
                self.attempts += 1
            case "answered":
                self.answered = True
            case _:
                planned: PlannedTask | None = None
                with suppress(msgspec.ValidationError):
                    planned = None if record.plan is None else msgspec.convert(record.plan, PlannedTask)
                made = RecordedPlan(record.conversation_id, record.task_id, line.ts, planned)
                self.plans[record.task_id] = made
                self.root = made if record.step == "chain" else self.root

    def hear(self, event: e.Event, line: RecordLine) -> None:
        """Take an event that has the chain's trace."""
        if event.task_id is None:
            return
        task = self.task(event.task_id)
        match event.data:
            case e.TaskStarted():
                task.started = line.ts
            case e.TaskComplete() | e.TurnAborted():
                task.end, task.end_is_whole = event.data, not line.missing
            case e.ErrorEvent():
                task.error = event.data
            case e.TokenCount(usage=usage):
                task.spent += usage
                self.usage += usage
            case e.AgentMessage(text=text):
                task.last_text = text
            case ToolCallBegin():
                self.tool_calls += 1
            case UserMessageEvent():
                task.announced = True
            case _:
                pass

    def task(self, task_id: TaskId) -> RecordedTask:
        """What is known of a task."""
        return self.tasks.setdefault(task_id, RecordedTask())

    @property
    def has_begun(self) -> bool:
        """Whether its first task has started."""
        return self.root is not None and self.task(self.root.task_id).started is not None

    def branch(self, first: RecordedPlan) -> list[RecordedPlan]:
        """The plans of a branch that began with this one: the plan itself, then its continuations."""
        following = {plan.planned.after: plan for plan in self.plans.values() if plan.planned is not None}
        plans = [first]
        # Taken out, so that a record whose plans follow each other in a circle has an end.
        while (plan := following.pop(plans[-1].task_id, None)) is not None:
            plans.append(plan)
        return plans

    def stop_reason(self, plans: list[RecordedPlan]) -> str | None:
        """Why a branch was to end; None where it was not."""
        return next((self.stopped[plan.task_id] for plan in plans if plan.task_id in self.stopped), None)

    def target(self, waiting: TaskId, index: int) -> RecordedPlan | None:
        """The target of one of the calls that a continuation waits for."""
        for plan in self.plans.values():
            if plan.planned is not None and (plan.planned.caller, plan.planned.index) == (waiting, index):
                return plan
        return None
