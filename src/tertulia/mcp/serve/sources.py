"""The interface of what is served to MCP clients: tools, resources and prompts. `endpoint` speaks MCP for them.

It knows nothing of sessions, views and approvals: a source lists tools and runs calls, and asks back through the call.
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
    """JSON Schema of the structured content, as text, where every result has one."""


class ServedCall(msgspec.Struct, frozen=True, eq=False):
    """A call that a client makes, and how it can be asked back."""

    tool: str
    arguments: dict[str, object]
    client: str
    """Its own name and version, not verified."""
    can_be_asked: bool
    elicit: Callable[[Elicitation], Awaitable[ElicitationResult]]
    """Ask the client's user; raises NoApproverError where the client cannot be asked."""
    progress: Callable[[float, float | None, str | None], None]
    program: str = ""
    """Tells the clients of one HTTP address apart, as far as possible; empty: there is only one."""


class ToolSource(Protocol):
    """Tools that are served.

    Contract: a TertuliaError becomes the result of the call with its code and message; any other error is an internal
    one, of which the client learns nothing. A call that the client cancels is cancelled.
    """

    async def tools(self) -> Sequence[ServedTool]:
        """The tools that the client may use now, in a stable order."""
        ...

    async def call(self, call: ServedCall) -> CallResult:
        """Run a call to its result."""
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever the list may have changed; returns a function that ends it."""
        ...


class ServedResource(msgspec.Struct, frozen=True):
    """Something to read, as our clients see it."""

    uri: str
    name: str
    title: str | None = None
    mime_type: str = "application/json"


class ResourceSource(Protocol):
    """Resources that are served beside tools."""

    template: str
    """The form of every URI, as a URI template."""

    async def resources(self) -> Sequence[ServedResource]:
        """The resources that there are now."""
        ...

    async def read(self, uri: str) -> str:
        """The text of a resource; NotFoundError for any other URI."""
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever the list may have changed; returns a function that ends it."""
        ...

    async def check(self, uri: str) -> None:
        """NotFoundError for what is no resource now."""
        ...

    def watch_content(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call this with the URI of each resource that has changed; returns a function that ends it."""
        ...


class PromptArgument(msgspec.Struct, frozen=True):
    """Something that a prompt is to be filled with, a text."""

    name: str
    description: str
    required: bool = False


class ServedPrompt(msgspec.Struct, frozen=True):
    """A prompt as our clients see it."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


class PromptSource(Protocol):
    """Prompts that are served beside tools."""

    async def prompts(self) -> Sequence[ServedPrompt]:
        """The prompts that there are now."""
        ...

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """A prompt as a message for the client's model; has no other effect. NotFoundError, InvalidParamsError."""
        ...
