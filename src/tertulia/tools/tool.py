"""The interface of a tool, and the outcomes of running one."""

from __future__ import annotations

import os.path
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Literal, Protocol

import msgspec

from tertulia.errors import DepthExceededError, LimitError
from tertulia.events.clock import Clock
from tertulia.mcp.server_connection import SamplingRequest, SamplingResult
from tertulia.policy.limits import Limits
from tertulia.policy.rights import Rights
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.inputs import InputItem, NewConversation
from tertulia.protocol.items import Part, ToolCall
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.protocol.worktree import OwnWorktree, WorktreeReport


class ChainView(msgspec.Struct, frozen=True, gc=False):
    """What a call is told about its chain."""

    depth: int = 0
    """How many conversations wait for an answer already; the one that calls is not among them."""
    interrupts: int = 0
    """Handoffs that the user's message has caused so far."""
    opened: int = 0
    """Conversations that it has opened so far."""
    callers: tuple[ConversationId, ...] = ()
    """The conversations that wait, the first caller first."""

    def may_deepen(self, limits: Limits) -> bool:
        """Whether one more conversation may wait."""
        return limits.max_interrupt_chain_depth is None or self.depth < limits.max_interrupt_chain_depth

    def check(self, limits: Limits, *, opens: bool) -> None:
        """Refuse a handoff that would break a limit; the error names it."""
        if not self.may_deepen(limits):
            raise DepthExceededError(
                f"{self.depth} conversations already wait for one another "
                f"(max_interrupt_chain_depth = {limits.max_interrupt_chain_depth})"
            )
        if limits.max_task_interrupts is not None and self.interrupts >= limits.max_task_interrupts:
            raise LimitError(f"this message has caused {self.interrupts} handoffs (max_task_interrupts)")
        if opens and limits.max_chain_conversations is not None and self.opened >= limits.max_chain_conversations:
            raise LimitError(f"this message has opened {self.opened} conversations (max_chain_conversations)")


class CallContext(msgspec.Struct, frozen=True):
    """What a running call is given."""

    conversation_id: ConversationId
    task_id: TaskId
    call_id: CallId
    cwd: str
    rights: Rights
    """The strictest of the whole chain, at the moment of the call."""
    publish: Callable[[EventData], object]
    """Publish an event; the receiver adds the ids of conversation and task."""
    clock: Clock
    chain: ChainView = ChainView()
    unhurried: Callable[[], AbstractContextManager[object]] = nullcontext
    """Suspends the tool's deadline inside its block: for approvals, and for calls with a deadline of their own."""
    aside: Callable[[SamplingRequest], Awaitable[SamplingResult]] | None = None
    """Ask the conversation's own model something that is not part of its history; None: there is none."""
    worktree: OwnWorktree | None = None
    """Where the conversation works, where that is not the session's own directory."""
    program: str = ""
    """Which of several programs calls, where they share one conversation: each has limits of its own."""

    def sees(self, path: str) -> bool:
        """Whether a path lies in the worktree, which is visible although a mask covers it.

        Args:
            path: An absolute path, whose links are followed.

        Returns:
            False where the conversation has no worktree.
        """
        if self.worktree is None:
            return False
        # Imported here, as below: few conversations have one.
        from tertulia.sandbox.masks.guarded_paths import is_inside

        return is_inside(os.path.realpath(path), self.worktree.path)

    def hidden(self, places: Sequence[str]) -> Sequence[str]:
        """The masked places that hold for this call.

        Args:
            places: Absolute paths that commands see as empty.

        Returns:
            All of them but the one that its worktree lies in.
        """
        if self.worktree is None:
            return places
        from tertulia.sandbox.masks.guarded_paths import is_inside

        path = self.worktree.path
        return [place for place in places if not is_inside(path, place)]


class Result(msgspec.Struct, frozen=True):
    """What the model gets back."""

    text: str
    success: bool = True
    parts: tuple[Part, ...] = ()
    """Pictures and the like, after the text."""
    storage: StoragePolicy | None = None
    """The strictest policy of what it was made from, when that is stricter than the conversation's own."""
    ends_task: bool = False
    """The calling conversation is closed by this call; it gets no further turn."""
    truncated: bool = False
    """Something was left out of the text already."""
    structured: Any = None
    """The same as plain JSON, for programs that call from outside; a model reads the text. Within the text's bound."""


class TargetResult(msgspec.Struct, frozen=True):
    """How the task that a handoff asked for ended."""

    conversation_id: ConversationId | None
    """None where it was to be opened and could not be."""
    status: Literal["completed", "failed", "cancelled"]
    text: str | None
    """The target's last answer in that task, partial if it failed."""
    code: str | None = None
    reason: str | None = None
    storage: StoragePolicy | None = None
    room: int | None = None
    """How many bytes of text the call's output may have; what is longer is cut."""
    worktree: WorktreeReport | None = None
    """What the target has come to in a worktree, where it has one."""


Rounds = Annotated[int, msgspec.Meta(ge=1)] | Literal["all"] | None
"""How much of a history: its newest rounds, all of it, or nothing."""


class Handoff(msgspec.Struct, frozen=True):
    """The call cannot be answered here: another conversation must answer first.

    The caller's task ends as replaced, the target's task runs, and a continuation of the caller closes the call
    with what `render` makes of the result. A tool that returns one must have had no side effect.
    """

    target: ConversationId | NewConversation
    input: tuple[InputItem, ...]
    render: Callable[[TargetResult], Result]
    fork_history: Rounds = None
    """How much of the caller's history a new conversation begins with; it ends before the open call."""


Outcome = Result | Handoff


class Tool(Protocol):
    """One thing a model can do.

    Contract: `check` raises a TertuliaError to refuse, has no side effect and does not wait; all calls of an answer
    are checked before any runs. `run` may raise anything: dispatch turns it into an output with success=False.
    `run` must stop when it is cancelled. Arguments were validated against the schema before `check`.
    """

    @property
    def spec(self) -> ToolSpec:
        """The definition that the model sees."""
        ...

    @property
    def parallel_safe(self) -> bool:
        """May run at the same time as its siblings of one answer."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether a call changes nothing anywhere."""
        ...

    def check(self, arguments: Any, call: CallContext) -> None:
        """Raise a TertuliaError to refuse the call, before any call of the answer runs."""
        ...

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Run the call. Arguments are decoded JSON, or the text of a custom tool."""
        ...


class CallHooks(Protocol):
    """What the user has set up to be asked about calls.

    Contract: raises nothing but what is said here, and what `run` raises; it narrows and refuses, and never widens.
    """

    async def around(
        self,
        call: ToolCall,
        tool: Tool,
        arguments: Any,
        context: CallContext,
        run: Callable[[CallContext], Awaitable[Outcome]],
    ) -> Outcome:
        """Ask before a call that was checked, run it unless it is refused, and ask about its result."""
        ...

    async def check_step(self, name: str, arguments: Any, context: CallContext) -> None:
        """Ask before what another program is about to do through us; HookRefusedError where that is refused."""
        ...


def is_retry_safe(tool: Tool) -> bool:
    """Whether a call that a crash cut may run again: it changes nothing, or says that twice is as good as once."""
    return tool.read_only or getattr(tool, "retry_safe", False) is True


class ReadingTool:
    """The base of a tool that changes nothing: its calls may run at the same time."""

    __slots__ = ()
    parallel_safe = True
    read_only = True


class ChangingTool:
    """The base of a tool that may change something: its calls run one after another."""

    __slots__ = ()
    parallel_safe = False
    read_only = False


class ConversationEntries(msgspec.Struct, frozen=True):
    """What a call sees of other conversations: entries as plain JSON, made only when they are read."""

    count: int
    entry: Callable[[int], dict[str, Any]]
    """Takes an index from 0, oldest first."""
    storage: StoragePolicy | None = None
    """The strictest policy of what was seen, where that is stricter than the caller's own."""


class VisibleConversations(Protocol):
    """The session's conversations as the caller may see them.

    Contract: a conversation that the caller may not see is not found, like one that never existed. Nothing but
    `destroy` has an effect, and `prepare`, which is undone when the task ends without opening what was prepared; the
    checks raise what the operation would, and none of them waits.
    """

    @property
    def hidden(self) -> Sequence[str]:
        """Files and directories of which no tool reads anything."""
        ...

    def list(self, call: CallContext) -> ConversationEntries:
        """Every conversation, root first, then by creation."""
        ...

    def history(self, call: CallContext, conversation_id: str, limit: int | None) -> ConversationEntries:
        """The newest messages of a conversation; NotFound or Closed."""
        ...

    def check_create(self, call: CallContext, spec: NewConversation) -> None:
        """Refuse a conversation that could not be opened."""
        ...

    async def prepare(self, call: CallContext, spec: NewConversation) -> tuple[NewConversation, str]:
        """The conversation with its worktree, where it asks for one, and where that began, as text for people."""
        ...

    def check_send(self, call: CallContext, conversation_id: str) -> None:
        """Refuse a target that does not exist, or that could not answer."""
        ...

    def check_destroy(self, call: CallContext, conversation_id: str) -> None:
        """Refuse the root, what does not exist, and what waits for an answer."""
        ...

    async def destroy(self, call: CallContext, conversation_id: str) -> tuple[bool, str | None]:
        """Close it; whether it was the caller, whose task then ends with the call."""
        ...


Properties = Mapping[str, Mapping[str, Any]]


def define_tool(
    name: str, description: str, shown: Properties, required: Iterable[str], also: Properties | None = None
) -> ToolSpec:
    """A tool with these arguments; those of `also` are accepted and not shown. Optional ones may be null. No others."""
    needed = list(required)
    taken = {argument: schema if argument in needed else or_null(schema) for argument, schema in shown.items()}
    accepts = _object({**taken, **(also or {})}, needed)
    return ToolSpec.define(name, description, _object(shown, needed), accepts=accepts)


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema, with null allowed."""
    listed = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **listed}


def _object(properties: Properties, required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class Buffers(Protocol):
    """The texts that an editor holds.

    Contract: nothing raises, and everything comes back within seconds, whatever the editor does.
    """

    @property
    def can_write(self) -> bool:
        """Whether the editor supports `write`."""
        ...

    async def text(self, path: str) -> str | None:
        """The text of the file at an absolute path as a person sees it; None where there is no answer of use."""
        ...

    async def write(self, path: str, text: str) -> None:
        """Show and save the text. Success is not reported: a caller that must know reads the file again."""
        ...
