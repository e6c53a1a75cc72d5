"""The interface on one screen: what a connection to an MCP server is asked, and what it answers.

Nothing here imports the MCP SDK: `connection` does, when the first server is reached. No session, conversation or tool
is known here either; whoever calls says in whose name, and is asked back through that alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Literal, Protocol

import msgspec

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Part

MODERN = "2026-07-28"
"""The first version of the era without sessions. They are dates."""

ServerStatus = Literal["starting", "ready", "failed", "untrusted", "disabled", "stopped"]

Spawn = Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[Any]]
"""Starts work of its own, under a name. Tasks have one owner, and it lives above us: see `scheduler/nursery.py`."""

OnProgress = Callable[[float, float | None, str | None], None]
"""How far, of how much, and in words."""


class ToolHints(msgspec.Struct, frozen=True, gc=False):
    """What a server says about a tool. It is only its word: a hint never widens anything."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool as its server defines it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    title: str | None = None
    hints: ToolHints = ToolHints()


class ToolListing(msgspec.Struct, frozen=True):
    """All tools of a server at one moment."""

    tools: tuple[RemoteTool, ...]
    ttl_s: float | None = None
    """How long the server says it holds; None: until it says that it changed."""
    left_out: tuple[str, ...] = ()
    """What it listed besides that is no tool: each in a sentence."""
    size: int = 0
    """Of all names, descriptions and schemas together, in bytes."""


class CallResult(msgspec.Struct, frozen=True):
    """What a server answered to a call, or the error that it reports. Bounded already: see `total_bytes`."""

    text: str
    is_error: bool = False
    parts: tuple[Part, ...] = ()
    """Pictures and the like, after the text."""
    structured: Any = None
    """Structured content as the server gave it, plain JSON."""
    total_bytes: int = 0
    """The true size of the text, before it was cut."""


class Elicitation(msgspec.Struct, frozen=True):
    """A server asks a person for something in the middle of a call."""

    server: str
    message: str
    schema: dict[str, Any]
    """JSON Schema of the answer; empty where a page is to be visited."""
    url: str | None = None


class ElicitationResult(msgspec.Struct, frozen=True):
    """What the person said."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class SamplingRequest(msgspec.Struct, frozen=True):
    """A server asks for an answer of the model in the middle of a call."""

    server: str
    messages: tuple[tuple[Literal["user", "assistant"], str], ...]
    system: str | None
    max_tokens: int


class SamplingResult(msgspec.Struct, frozen=True):
    """What the model said."""

    text: str
    model: str


class Caller(msgspec.Struct, frozen=True, eq=False):
    """In whose name a call is made, and how that one can be asked back while it lasts.

    Both handlers raise an AgentError to refuse; the server hears that it was refused, and not why.
    """

    conversation_id: ConversationId
    elicit: Callable[[Elicitation], Awaitable[ElicitationResult]]
    sample: Callable[[SamplingRequest], Awaitable[SamplingResult]]
    workspace: str | None = None
    """Where the conversation works; None: nowhere."""


class ServerConnection(Protocol):
    """A connection that is open. Any number of calls run through it at once.

    Contract: every method raises McpError (`closed` among the reasons) and nothing else but a cancellation; a cancelled
    or timed-out call is cancelled at the server too. What a server sends that nobody asked for is dropped and counted.
    A request of the server goes to the caller whose call caused it. Where that cannot be told (the old era) and calls
    of more than one conversation are under way it is refused, and from then on the calls of two conversations never
    overlap on this connection.
    """

    @property
    def protocol_version(self) -> str:
        """What was agreed on."""
        ...

    @property
    def gone(self) -> asyncio.Event:
        """Set when it is over, for whatever reason; `why` says it."""
        ...

    @property
    def why(self) -> str | None:
        """Why it ended by itself: the exit code, the last words of stderr."""
        ...

    @property
    def dropped(self) -> Mapping[str, int]:
        """What it sent that nobody asked for or that is no message: in words, and how often."""
        ...

    @property
    def asked_roots(self) -> bool:
        """Whether it has asked for the client's roots: such a server may go by what it was told."""
        ...

    async def list_tools(self) -> ToolListing:
        """All of them, however many pages; bounded in number and size."""
        ...

    async def call(
        self, tool: str, arguments: dict[str, Any], caller: Caller, *, timeout_s: float, on_progress: OnProgress
    ) -> CallResult:
        """One call. An error that the server reports is an answer; one of the protocol or transport is an McpError."""
        ...

    async def close(self) -> None:
        """Within a few seconds: asked politely, then told, then killed, with its whole tree. Twice does no harm."""
        ...
