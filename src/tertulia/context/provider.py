"""The interface of a context provider, and the context made of the answers of all providers."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

import msgspec

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.definitions import McpServer, ToolDefinition

T = TypeVar("T")
ProviderAnswer = T | None | Awaitable[T | None]
"""The answer, None, or an awaitable of either."""


class ContextProvider(Protocol):
    """Gives agents MCP servers, tools or a text before they start.

    A provider is any object with a `name` and those of the three methods that it needs, plain or `async`. The methods
    are called in this order, each time an agent starts and again before each of its tasks.

    Contract: a method answers for the agent it is given and stores nothing about it. It changes nothing, starts no
    server (it only describes it), and asks no model. A plain method runs in a thread of its own, so it may read a file,
    and must not touch objects of the event loop; an `async` one must not block, and stops when it is cancelled.

    The answer of a method that raises, takes too long or returns another type is left out, with a warning that names
    the method; the other methods and providers are still asked, and the agent starts.
    """

    name: str
    """Unique: a provider replaces an earlier one of the same name. An optional attribute `priority` (default 50)
    decides whose text is cut first when all texts together are too long: that of the lowest priority."""

    def get_mcp_servers(self, agent_name: str, meta: AgentInstanceMeta, /) -> ProviderAnswer[Sequence[McpServer]]:
        """Describe MCP servers for an agent. Of two with one name the first is used.

        Args:
            agent_name: The agent that is prepared.
            meta: Its description.

        Returns:
            The servers; None for none.
        """
        return None

    def get_tools(self, agent_name: str, meta: AgentInstanceMeta, /) -> ProviderAnswer[Sequence[ToolDefinition]]:
        """Define internal tools. Those above the agent's archetype are left out; of two with one name the first counts.

        Args:
            agent_name: The agent that is prepared.
            meta: Its description.

        Returns:
            The tools; None for none.
        """
        return None

    def get_system_context(self, agent_name: str, meta: AgentInstanceMeta, /) -> ProviderAnswer[str]:
        """Write a text for the agent's first instructions.

        Args:
            agent_name: The agent that is prepared.
            meta: Its description.

        Returns:
            The text. None and blank texts are left out; equal ones of two providers are not.
        """
        return None


class Fragment(msgspec.Struct, frozen=True):
    """One text of the context, and where it comes from."""

    provider: str
    text: str
    tokens: int
    priority: int = 50
    """The lowest is cut first."""
    sensitive: bool = False
    """Whether the text contains the token: then it is never stored or shown unredacted, and never cut in the middle."""

    def __repr__(self) -> str:
        return f"Fragment({self.provider!r}, {self.tokens} tokens, priority {self.priority})"


class FragmentCut(msgspec.Struct, frozen=True):
    """A text that was too long for the budget."""

    provider: str
    before: int
    after: int
    """The tokens that are left of the text; 0 if it was left out."""


class SessionContext(msgspec.Struct, frozen=True):
    """The combined context of one agent. Its repr shows no text, and only the first characters of the token."""

    mcp_servers: list[McpServer]
    tools: list[ToolDefinition]
    system_context_additions: list[str]
    """The texts, in the order of the providers; the block about tools is last."""
    token: str
    """64 hexadecimal digits; empty where there is no token store."""
    session_id: str = ""
    fragments: tuple[Fragment, ...] = ()
    """One fragment for each of `system_context_additions`, with the provider it comes from."""
    warnings: tuple[str, ...] = ()
    cut: tuple[FragmentCut, ...] = ()

    def __repr__(self) -> str:
        counts = f"{len(self.mcp_servers)} servers, {len(self.tools)} tools, {len(self.fragments)} texts"
        return f"SessionContext({counts}, token {self.token[:8]!r}…)"


class NamedProvider(Protocol):
    """The part of `ContextProvider` that every provider must have; the three methods are optional."""

    @property
    def name(self) -> str:
        """The name that identifies the provider."""
        ...
