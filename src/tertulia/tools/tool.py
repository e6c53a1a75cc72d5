"""The interface of a tool, and what running one can come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from tertulia.events.clock import Clock
from tertulia.policy.narrowing import Rights
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.inputs import InputItem, NewConversation
from tertulia.protocol.items import Part
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.tool_spec import ToolSpec


class CallContext(msgspec.Struct, frozen=True):
    """What a running call may know of the world."""

    conversation_id: ConversationId
    task_id: TaskId
    call_id: CallId
    cwd: str
    rights: Rights
    """The strictest of the whole chain, at the moment of the call."""
    publish: Callable[[EventData], object]
    """Tell the session; the ids of conversation and task are put on by the receiver."""
    clock: Clock


class Result(msgspec.Struct, frozen=True):
    """What the model gets back."""

    text: str
    success: bool = True
    parts: tuple[Part, ...] = ()
    """Pictures and the like, after the text."""
    storage: StoragePolicy | None = None
    """The strictest policy of what it was made from, when that is stricter than the conversation's own."""
    ends_task: bool = False
    """The conversation that called is gone with this call; no further turn."""


class TargetResult(msgspec.Struct, frozen=True):
    """How the task that a handoff asked for ended."""

    conversation_id: ConversationId
    status: Literal["completed", "failed", "cancelled"]
    text: str | None
    """The target's last answer of that very task, partial if it failed."""
    code: str | None = None
    reason: str | None = None
    storage: StoragePolicy | None = None


class Handoff(msgspec.Struct, frozen=True):
    """The call cannot be answered here: another conversation must speak first.

    The caller's task ends as replaced, the target's task runs, and a continuation of the caller closes the call
    with what `render` makes of the result. A tool that returns one must have had no side effect.
    """

    target: ConversationId | NewConversation
    input: tuple[InputItem, ...]
    render: Callable[[TargetResult], Result]


Outcome = Result | Handoff


class Tool(Protocol):
    """One thing a model can do.

    Contract: `check` raises an AgentError to refuse, has no side effect and does not wait; all calls of an answer
    are checked before any runs. `run` may raise anything: dispatch turns it into an output with success=False.
    `run` must stop when it is cancelled. Arguments were validated against the schema before `check`.
    """

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        ...

    @property
    def parallel_safe(self) -> bool:
        """May run at the same time as its siblings of one answer."""
        ...

    @property
    def read_only(self) -> bool:
        """Changes nothing anywhere."""
        ...

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse now, or not at all."""
        ...

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Do it. Arguments are decoded JSON, or the text of a custom tool."""
        ...
