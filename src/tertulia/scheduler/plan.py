"""Plans, branches and chains: what is to run, as data.

A chain is what one message causes: a tree of branches. A handoff adds a branch for each of its targets; the one
that called goes on when all of them have reported, so that the inner conversation always ends before the outer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from tertulia.conversation.cut_task import CutTask
from tertulia.conversation.output_check import OutputCheck
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_handle import TaskHandle
from tertulia.conversation.task_scope import CostTotals, TaskScope
from tertulia.conversation.turn import HandedOffCall
from tertulia.events.bus import EventScope
from tertulia.protocol.events import AbortReason, TaskKind
from tertulia.protocol.ids import ConversationId, TaskId, new_task_id, new_trace_id
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import ToolCall, UserMessage
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.protocol.worktree import WorktreeReport
from tertulia.scheduler.reply import Failure, Reply
from tertulia.tools.tool import ChainView, Result, Rounds, TargetResult

CONVERSATION_CLOSED = "the conversation was closed before it could answer"
ABORT_TEXTS: dict[AbortReason, str] = {
    "replaced": "interrupted: another task took its place",
    "interrupted": "interrupted: the task was stopped before it was done",
    "timeout": "interrupted: the task took too long",
    "shutdown": "interrupted: the session was closed",
    "crash": "interrupted: the process died",
    "limit": "interrupted: a limit was reached",
}


class TaskPlan(msgspec.Struct, frozen=True):
    """One task that is to run."""

    conversation_id: ConversationId
    kind: TaskKind
    input: tuple[UserMessage, ...] = ()
    """The messages for the model; a continuation has none."""
    base_instructions_override: str | None = None
    """Instructions for this task only."""
    output: OutputCheck | None = None
    """What the answer must be."""
    may_repair: bool = True
    """Whether the model may be asked to repair an answer; False in a continuation of a task in which it was."""
    task_type: Literal["code", "chat"] | None = None
    """It decides how much of the history an executor is told."""
    previous_result: Any = None
    """The result of the pipeline's step before this one."""
    sub_id: str | None = None
    """The submission; scheduled tasks get `conv/<task id>`."""
    work: Callable[[TaskScope], Awaitable[None]] | None = None
    """What the task does instead of turns with the model, such as a compaction."""
    task_id: TaskId = msgspec.field(default_factory=new_task_id)
    cut: CutTask | None = None
    """How far it had come when a crash cut it; None for a task that begins."""


class CallClosure(msgspec.Struct, frozen=True):
    """A call that a continuation has to answer."""

    call: ToolCall
    render: Callable[[TargetResult], Result]
    made_by: EventScope
    """The task in which the call was made."""
    begun: float
    """When it was made, on the monotonic clock."""


BranchState = Literal["ready", "running", "waiting", "ended"]


class Branch:
    """One conversation's part in a chain: its first task, and the continuations of that task, one after another.

    It waits for the branches that its task has handed over to, and holds no slot meanwhile.
    """

    __slots__ = (
        "caller", "calls", "chain", "conversation", "deadline", "gone", "handing", "handle", "index", "latest_start",
        "max_parallel", "max_wait_s", "plan", "promised", "results", "started", "state", "stopped", "targets", "timer",
    )  # fmt: skip

    def __init__(
        self, chain: Chain, plan: TaskPlan, caller: Branch | None = None, index: int = 0, deadline: float | None = None
    ) -> None:
        self.chain = chain
        self.plan = plan
        """The task that runs, or that runs next."""
        self.caller = caller
        """The branch that waits for this one; None for the first of a chain."""
        self.index = index
        """Which of the caller's calls this is."""
        self.deadline = deadline
        """On the loop's clock; handed on to everything that a target causes."""
        self.state: BranchState = "ready"
        self.started = False
        """Whether it has had a slot before."""
        self.stopped: AbortReason | None = None
        """Set once this branch, with all below it, is to end."""
        self.gone = False
        """Whether it is to end because its conversation is closed."""
        self.handing = False
        """Whether its task is done and its targets cannot start yet."""
        self.handle: TaskHandle | None = None
        """Of the task that runs, or of the last one that did."""
        self.promised: list[ConversationId | None] = []
        """What the task that runs will hand over to: admitted, not begun. None for a new conversation."""
        self.conversation: ConversationState | None = None
        """The conversation, while it waits. Its calls are answered even if it is closed meanwhile."""
        self.calls: tuple[CallClosure, ...] = ()
        self.results: list[TargetResult | None] = []
        self.targets: list[ConversationId | None] = []
        """The conversation asked, one for each call; None where there was none."""
        self.max_parallel: int | None = None
        """How many of the branches that it waits for may be under way at once."""
        self.max_wait_s: float | None = None
        """How long they may wait for a slot and for their conversation."""
        self.timer: asyncio.TimerHandle | None = None
        """The timer that ends its wait for a slot."""
        self.latest_start: float | None = None
        """Of a target that waited when a crash came: until when it may wait, on the loop's clock."""

    @property
    def conversation_id(self) -> ConversationId:
        """The conversation whose part it is."""
        return self.plan.conversation_id

    @property
    def callers(self) -> tuple[ConversationId, ...]:
        """The conversations that wait for it, the first caller first."""
        above: list[ConversationId] = []
        caller = self.caller
        while caller is not None:
            above.append(caller.conversation_id)
            caller = caller.caller
        return tuple(reversed(above))

    @property
    def awaited(self) -> list[ConversationId]:
        """The conversations that it waits for, or is about to wait for."""
        missing = (target for target, result in zip(self.targets, self.results, strict=True) if result is None)
        return [target for target in (*missing, *self.promised) if target is not None]

    @property
    def has_all_results(self) -> bool:
        """Whether every branch that it waits for has reported."""
        return None not in self.results

    @property
    def stopping(self) -> Branch | None:
        """The outermost branch, itself or above it, that is to end; None where it may go on."""
        found, branch = None, self
        while branch is not None:
            found = branch if branch.stopped is not None else found
            branch = branch.caller
        return found

    def is_within(self, other: Branch) -> bool:
        """Whether it is that branch, or below it."""
        branch: Branch | None = self
        while branch is not None and branch is not other:
            branch = branch.caller
        return branch is not None

    def stop(self, reason: AbortReason) -> None:
        """Mark it as to be ended: nothing of it begins any more."""
        self.stopped = reason
        self.chain.ready = [other for other in self.chain.ready if not other.is_within(self)]

    def wait_for(self, plan: TaskPlan, calls: tuple[CallClosure, ...], conversation: ConversationState) -> None:
        """The task has handed over: this continuation of it answers the calls when all targets have reported."""
        self.plan = plan
        self.state = "waiting"
        self.conversation = conversation
        self.calls = calls
        self.results = [None] * len(calls)
        self.targets = [None] * len(calls)

    def take_calls(self) -> Iterator[tuple[CallClosure, TargetResult | None, ConversationId | None]]:
        """The calls that are to be answered now, each with what was reported; it stands for none afterwards."""
        answered = zip(self.calls, self.results, self.targets, strict=True)
        self.calls, self.results, self.targets, self.conversation = (), [], [], None
        return answered

    def report(self, result: TargetResult) -> None:
        """Tell the branch that waits how this one ended."""
        if self.caller is not None and self.caller.calls:
            self.caller.results[self.index] = result

    def view(self) -> ChainView:
        """What its calls are told about the chain."""
        callers = self.callers
        return ChainView(len(callers), self.chain.interrupts, self.chain.opened, callers)


class TaskEnd(msgspec.Struct, frozen=True):
    """How a task ended, and its text."""

    status: Literal["completed", "failed", "aborted", "handed"]
    text: str | None = None
    failure: Failure | None = None
    reason: AbortReason | None = None
    handed: tuple[HandedOffCall, ...] = ()
    storage: StoragePolicy | None = None
    """The storage policy of its text."""
    gone: bool = False
    """Whether its conversation was closed."""
    targets: tuple[Branch, ...] = ()
    """The branches that it has handed over to; they may start when its end is committed."""
    worktree: WorktreeReport | None = None
    """What its conversation has come to in a worktree, where it has one."""

    def for_caller(self, branch: Branch) -> TargetResult:
        """The result as the waiting continuation gets it."""
        id, worktree = branch.conversation_id, self.worktree
        result = TargetResult(id, "completed", self.text, storage=self.storage, worktree=worktree)
        if self.status == "completed":
            return result
        if self.failure is not None:
            return replace(result, status="failed", code=self.failure.code, reason=self.failure.message)
        if self.gone:
            return replace(result, status="cancelled", code="closed", reason=CONVERSATION_CLOSED)
        return replace(result, status="cancelled", code="cancelled", reason=ABORT_TEXTS[self.reason or "interrupted"])


class Chain:
    """What one message causes, from its first task to its answer: a tree of branches."""

    __slots__ = (
        "_callers", "answer", "attempt", "branches", "conversation_id", "end", "failed", "goes_on", "interrupts",
        "message", "number", "opened", "queued", "ready", "root", "started", "started_at", "tally", "task_id", "tasks",
        "trace_id", "waiters", "warned",
    )  # fmt: skip

    def __init__(self, plan: TaskPlan, started: float, message: str | None = None) -> None:
        self.root = Branch(self, plan)
        self.branches: list[Branch] = [self.root]
        """All branches that have not ended, each after its caller."""
        self.ready: list[Branch] = [self.root]
        """The branches that may run as soon as a slot and their conversation are free; the last one runs first."""
        self.number = 0
        """Its number in the order of submission."""
        self.queued = False
        """Whether it had to wait before it could begin, and that was published."""
        self.conversation_id = plan.conversation_id
        self.task_id = plan.task_id
        self.tasks: dict[TaskId, Branch] = {plan.task_id: self.root}
        """Every task of the chain, so that a stream of events can tell which are its own."""
        self.trace_id = new_trace_id()
        self.message = message
        """The key of the client's message id."""
        self.started = started
        self.started_at: str | None = None
        """When its first task began to run, for people."""
        self.tally = CostTotals()
        self.end: TaskEnd | None = None
        """How the last task of its first conversation ended."""
        self.failed: TaskEnd | None = None
        """Why nothing of it may be acknowledged: the journal's failure."""
        self.goes_on = False
        """Whether its steps are written down, so that it can go on after a crash."""
        self.attempt = 0
        """How often it has gone on."""
        self.warned = False
        """Whether it was published that it will not go on."""
        self.opened = 0
        self.interrupts = 0
        self.waiters = 0
        """How many callers wait for the answer; the last one to give up stops the chain."""
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._callers: set[asyncio.Future[Reply]] = set()

    @property
    def scope(self) -> EventScope:
        """Under which ids its events are published as long as it has not begun."""
        plan = self.root.plan
        return EventScope(plan.sub_id or f"conv/{plan.task_id}", self.conversation_id, plan.task_id, self.trace_id)

    @property
    def members(self) -> tuple[ConversationId, ...]:
        """The conversations that wait or run in it, the first caller first."""
        begun = tuple(branch.conversation_id for branch in self.branches if branch.state != "ready" or branch.calls)
        return begun or (self.conversation_id,)

    @property
    def not_begun(self) -> Iterator[Branch]:
        """The branches that wait for their first slot, the next one first."""
        return (branch for branch in reversed(self.ready) if not branch.started)

    def below(self, branch: Branch) -> list[Branch]:
        """A branch and all that were caused by it and have not ended, callers first."""
        return [other for other in self.branches if other.is_within(branch)]

    def finish(self, reply: Reply) -> None:
        """Set the answer, once. A caller that has given up gets none."""
        if not self.answer.done():
            self.answer.set_result(reply)
        for caller in self._callers:
            if not caller.done():
                caller.set_result(reply)

    async def wait(self) -> Reply:
        """Wait for the answer. A caller that is cancelled does not affect the other callers."""
        if self.answer.done():
            return self.answer.result()
        # Not `asyncio.shield(answer)`, which wakes its caller one pass of the loop later.
        own: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._callers.add(own)
        try:
            return await own
        finally:
            self._callers.discard(own)


def recorded_chain(conversation_id: ConversationId, message: str | None, reply: Reply) -> Chain:
    """An answered chain of a record, for a client that sends the same message id again."""
    chain = Chain(TaskPlan(conversation_id, "user", task_id=reply.task_id), 0.0, message)
    chain.trace_id = reply.trace_id
    chain.branches.clear()
    chain.ready.clear()
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


def chain_storage(branch: Branch, conversation: ConversationState, source: ConversationSource) -> StoragePolicy:
    """The strictest storage policy of a conversation and of all that wait for its branch."""
    waiting = (source.peek(caller) for caller in branch.callers)
    return strictest(conversation.storage, *(other.storage for other in waiting if other is not None))
