"""We as an MCP server, in both eras of the protocol: the interface on one screen. `broker` speaks it.

Deliberately knows nothing of sessions, views and approvals: whoever is served from behind this lists tools and runs
calls, and asks back through the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from tertulia.mcp.server_connection import CallResult, Elicitation, ElicitationResult, ToolHints


class ServedTool(msgspec.Struct, frozen=True):
    """A tool as our clients see it."""

    name: str
    description: str
    schema: str
    """JSON Schema of the arguments, as text."""
    title: str | None = None
    hints: ToolHints = ToolHints()
    output_schema: str | None = None
    """JSON Schema of the structured content, as text, where every answer has one."""


class ServedCall(msgspec.Struct, frozen=True, eq=False):
    """A call that a client makes, and how it can be asked back."""

    tool: str
    arguments: dict[str, object]
    client: str
    """Who it says it is. Its word only."""
    can_be_asked: bool
    elicit: Callable[[Elicitation], Awaitable[ElicitationResult]]
    """Raises NoApprover where the client cannot be asked."""
    progress: Callable[[float, float | None, str | None], None]
    program: str = ""
    """Tells the clients of one address apart, as far as that can be done; empty: there is only one."""


class ToolSource(Protocol):
    """What is behind the server.

    Contract: an AgentError becomes the call's answer with its code and message; anything else is an internal error of
    which the client hears nothing. A call that the client gives up is cancelled.
    """

    async def tools(self) -> Sequence[ServedTool]:
        """What this client may use now, in an order that never varies."""
        ...

    async def call(self, call: ServedCall) -> CallResult:
        """Run it."""
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever the list may be another; returns what ends that."""
        ...


class ServedResource(msgspec.Struct, frozen=True):
    """Something to read, as our clients see it."""

    uri: str
    name: str
    title: str | None = None
    mime_type: str = "application/json"


class ResourceSource(Protocol):
    """What there is to read besides tools."""

    template: str
    """The form of every address, as a URI template."""

    async def resources(self) -> Sequence[ServedResource]:
        """What there is now."""
        ...

    async def read(self, uri: str) -> str:
        """One of them, as text; NotFound for any other address."""
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever there may be others, or under other names; returns what ends that."""
        ...
