"""The interface of a connection to an MCP server, and the data that goes through it.

Nothing here imports the MCP SDK: `client.connection` does. It knows no session and no conversation either: each call
names its `Caller`, and questions of the server go to that caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Part

if TYPE_CHECKING:
    # Not needed to run: the relay of the broker imports this file and has to start fast.
    import asyncio

    from tertulia.events.clock import Clock
    from tertulia.mcp.login.browser import BrowserLogin
    from tertulia.mcp.login.login_store import LoginStore
    from tertulia.sandbox.runner import CommandRunner

MODERN = "2026-07-28"
"""The first protocol version without sessions (the "new" protocol; versions are dates)."""

ServerStatus = Literal["starting", "ready", "failed", "untrusted", "disabled", "stopped"]

Spawn: TypeAlias = "Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[Any]]"
"""Starts a task under a name. Tasks are owned by a nursery, above this stage: see `scheduler/nursery.py`."""

OnProgress = Callable[[float, float | None, str | None], None]
"""Progress, total if known, and a message."""


class ToolHints(msgspec.Struct, frozen=True, gc=False):
    """What a server says about a tool. It is not verified, so a hint never widens anything."""

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
    """How long it holds by the server's word; None: until the server announces a change."""
    left_out: tuple[str, ...] = ()
    """Tools that were left out: name and reason, a sentence each."""
    size: int = 0
    """Bytes of all names, descriptions and schemas together."""


class CallResult(msgspec.Struct, frozen=True):
    """The result of a call, or the error that the server reports. Already bounded: see `total_bytes`."""

    text: str
    is_error: bool = False
    parts: tuple[Part, ...] = ()
    """Images, to be shown after the text."""
    structured: Any = None
    """Structured content as the server gave it, plain JSON."""
    total_bytes: int = 0
    """The true size of the text, before it was cut."""


class Elicitation(msgspec.Struct, frozen=True):
    """A server asks the user something in the middle of a call."""

    server: str
    message: str
    schema: dict[str, Any]
    """JSON Schema of the answer; empty where the user is to visit a page."""
    url: str | None = None


class ElicitationResult(msgspec.Struct, frozen=True):
    """The user's answer to an elicitation."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class SamplingRequest(msgspec.Struct, frozen=True):
    """A server asks for an answer of the model in the middle of a call."""

    server: str
    messages: tuple[tuple[Literal["user", "assistant"], str], ...]
    system: str | None
    max_tokens: int


class SamplingResult(msgspec.Struct, frozen=True):
    """The model's answer to a sampling request."""

    text: str
    model: str


class Caller(msgspec.Struct, frozen=True, eq=False):
    """The conversation that makes a call, and how the server can ask back while the call lasts.

    Both handlers raise a TertuliaError to refuse; the server learns that it was refused, and not why.
    """

    conversation_id: ConversationId
    elicit: Callable[[Elicitation], Awaitable[ElicitationResult]]
    sample: Callable[[SamplingRequest], Awaitable[SamplingResult]]
    workspace: str | None = None
    """The workspace of the conversation, if it has one."""


class ConnectionServices(NamedTuple):
    """What a connection to a server uses while it lasts."""

    runner: CommandRunner
    spawn: Spawn
    clock: Clock
    tools_changed: Callable[[], None]
    """Called on the loop whenever the server announces a change of its tools, however often."""
    logins: LoginStore | None = None
    """Where logins to servers are kept; None: none counts."""
    browser: BrowserLogin | None = None
    """Who can log in now."""


class ServerConnection(Protocol):
    """A connection that is open. Any number of calls run through it at once.

    Contract: every method raises McpError (`closed` among the reasons) and nothing else but a cancellation; a cancelled
    or timed-out call is cancelled at the server too. Messages that answer no request are dropped and counted. A request
    of the server goes to the caller whose call caused it. Where that is not known (before version 2026-07-28) and calls
    of several conversations are in progress, it is refused, and from then on the calls of two conversations never
    overlap on this connection.
    """

    @property
    def protocol_version(self) -> str:
        """The protocol version that was agreed on."""
        ...

    @property
    def gone(self) -> asyncio.Event:
        """Set when the connection is over; `why` has the reason."""
        ...

    @property
    def why(self) -> str | None:
        """Why it ended by itself: the exit code, the last words of stderr."""
        ...

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many messages were dropped, by kind: responses to no request, lines that are no message."""
        ...

    @property
    def asked_roots(self) -> bool:
        """Whether it has asked for the client's roots: such a server depends on the workspace."""
        ...

    async def list_tools(self) -> ToolListing:
        """All tools, however many pages; bounded in number and size."""
        ...

    async def call(
        self, tool: str, arguments: dict[str, Any], caller: Caller, *, timeout_s: float, on_progress: OnProgress
    ) -> CallResult:
        """Call a tool. An error that the tool reports is a result; one of the protocol or transport is an McpError."""
        ...

    async def close(self) -> None:
        """End the server within a few seconds: end of input, SIGTERM, SIGKILL, with its whole tree. Idempotent."""
        ...
