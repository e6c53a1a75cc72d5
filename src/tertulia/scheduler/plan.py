"""Plans, frames and chains: what is to run, as data.

A chain is what one message causes: a stack of frames, the top one runs. A handoff puts a continuation on the
stack and its targets above it, so that the inner conversation always ends before the outer goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

from tertulia.conversation.output_check import OutputCheck
from tertulia.conversation.state import ConversationState, TaskHandle
from tertulia.conversation.task_scope import CostTotals, TaskScope
from tertulia.events.bus import EventScope
from tertulia.protocol.events import AbortReason, TaskKind
from tertulia.protocol.ids import ConversationId, TaskId, new_task_id, new_trace_id
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import ToolCall, UserMessage
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.scheduler.reply import Reply
from tertulia.tools.tool import ChainView, Result, Rounds, TargetResult


class TaskPlan(msgspec.Struct, frozen=True):
    """One task that is to run."""

    conversation_id: ConversationId
    kind: TaskKind
    input: tuple[UserMessage, ...] = ()
    """What is said to the model first; a continuation has none."""
    base_instructions_override: str | None = None
    """Holds for this task only."""
    output: OutputCheck | None = None
    """What the answer must be."""
    may_repair: bool = True
    """Whether the model may be asked once to repair an answer; not in a continuation of a task where it was."""
    task_type: Literal["code", "chat"] | None = None
    """What an executor is told of earlier messages depends on it."""
    previous_result: Any = None
    """What the step before this one of a pipeline came to."""
    sub_id: str | None = None
    """The submission; scheduled tasks get `conv/<task id>`."""
    work: Callable[[TaskScope], Awaitable[None]] | None = None
    """What the task does instead of turns with the model: a compaction, say."""
    task_id: TaskId = msgspec.field(default_factory=new_task_id)


class CallClosure(msgspec.Struct, frozen=True):
    """A call that a continuation has to answer."""

    call: ToolCall
    render: Callable[[TargetResult], Result]
    made_by: EventScope
    """The task in which the call was made."""
    begun: float
    """When, on the monotonic clock."""


class Frame:
    """A plan on a chain's stack, and where its result goes."""

    __slots__ = ("closures", "conversation", "deadline", "plan", "reports_to", "results", "targets")

    def __init__(
        self, plan: TaskPlan, *, reports_to: tuple[Frame, int] | None = None, deadline: float | None = None
    ) -> None:
        self.plan = plan
        self.deadline = deadline
        """On the loop's clock; handed on to everything that a target causes."""
        self.reports_to = reports_to
        """The continuation that waits for this frame, and which of its calls this is."""
        self.conversation: ConversationState | None = None
        """The conversation that waits. Its calls are answered even if it is closed meanwhile."""
        self.closures: tuple[CallClosure, ...] = ()
        self.results: list[TargetResult | None] = []
        self.targets: list[ConversationId | None] = []
        """The conversation asked, one for each call; None where there was none."""

    def wait_for(self, closures: tuple[CallClosure, ...], conversation: ConversationState) -> None:
        """This frame is a continuation: these calls are answered when it runs."""
        self.conversation = conversation
        self.closures = closures
        self.results = [None] * len(closures)
        self.targets = [None] * len(closures)

    def report(self, result: TargetResult) -> None:
        """Tell the frame that waits how it ended."""
        if self.reports_to is not None:
            waiting, index = self.reports_to
            waiting.results[index] = result


class Chain:
    """What one message causes, from its first task to its answer."""

    __slots__ = (
        "answer", "conversation_id", "frames", "handing", "handle", "interrupts", "message", "opened", "promised",
        "running", "started", "started_at", "stopped", "tally", "task_id", "task_ids", "trace_id", "waiters",
    )  # fmt: skip

    def __init__(self, plan: TaskPlan, started: float, message: str | None = None) -> None:
        self.frames: list[Frame] = [Frame(plan)]
        self.conversation_id = plan.conversation_id
        self.task_id = plan.task_id
        self.task_ids: set[TaskId] = {plan.task_id}
        """Every task of the chain, so that a stream of events can tell which are its own."""
        self.trace_id = new_trace_id()
        self.message = message
        """The key of the client's message id."""
        self.started = started
        self.started_at: str | None = None
        """When its first task began to run, for people."""
        self.tally = CostTotals()
        self.running: Frame | None = None
        self.handle: TaskHandle | None = None
        """Of the task that runs, or of the last one that did."""
        self.stopped: AbortReason | None = None
        """Set once the whole chain is to end."""
        self.handing = False
        """The task that runs is done and its handoffs are not on the stack yet."""
        self.opened = 0
        self.promised = 0
        """Conversations that were admitted in this answer and are not open yet."""
        self.interrupts = 0
        self.waiters = 0
        """How many callers wait for the answer; the last one to give up stops the chain."""
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    @property
    def members(self) -> tuple[ConversationId, ...]:
        """The conversations on the stack, the first caller first, the running one last."""
        stack = [frame.plan.conversation_id for frame in self.frames if frame.closures]
        if self.running is not None:
            stack.append(self.running.plan.conversation_id)
        return tuple(stack) or tuple(frame.plan.conversation_id for frame in self.frames[:1])

    @property
    def depth(self) -> int:
        """How many continuations are open."""
        return sum(1 for frame in self.frames if frame.closures)

    def view(self) -> ChainView:
        """What its calls may know of it."""
        callers = tuple(frame.plan.conversation_id for frame in self.frames if frame.closures)
        return ChainView(self.depth, self.interrupts, self.opened, callers)

    def finish(self, reply: Reply) -> None:
        """Answer, once. A caller that has given up hears nothing."""
        if not self.answer.done():
            self.answer.set_result(reply)


def recorded_chain(conversation_id: ConversationId, message: str | None, reply: Reply) -> Chain:
    """A chain of the past, for a client who asks again under the same message id."""
    chain = Chain(TaskPlan(conversation_id, "user", task_id=reply.task_id), 0.0, message)
    chain.trace_id = reply.trace_id
    chain.frames.clear()
    chain.finish(reply)
    return chain


class ConversationSource(Protocol):
    """What the scheduler needs of the session: its conversations."""

    def find(self, conversation_id: ConversationId) -> ConversationState:
        """The conversation; NotFound or Closed."""
        ...

    def peek(self, conversation_id: ConversationId) -> ConversationState | None:
        """The conversation, if it is open."""
        ...

    def check_child(self, spec: NewConversation, caller: ConversationState, promised: int) -> object:
        """Raise what `open_child` would raise once so many others, promised already, are open."""
        ...

    def open_child(
        self, spec: NewConversation, caller: ConversationState, cause: EventScope, shared: Rounds
    ) -> ConversationState:
        """A new conversation that narrows from its caller, and may begin with a part of its history."""
        ...


def chain_storage(chain: Chain, conversation: ConversationState, source: ConversationSource) -> StoragePolicy:
    """The strictest storage policy of a conversation and of all that are on the stack with it."""
    if not chain.frames:
        # The usual case, asked for at every word: no frame waits for it.
        return conversation.storage
    waiting = (source.peek(member) for member in chain.members)
    return strictest(conversation.storage, *(other.storage for other in waiting if other is not None))
