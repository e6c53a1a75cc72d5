"""The agent that a conversation is, if it is one: what it was told before it began, and the tools it got."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.protocol.tool_spec import ToolSpec


class Addition(msgspec.Struct, frozen=True):
    """A text that a context provider gave the agent."""

    provider: str
    text: str
    tokens: int


class Agent(msgspec.Struct, frozen=True):
    """An agent instance. Replaced whole when its providers have something new to say."""

    name: str
    archetype: str
    meta: dict[str, Any]
    """All that was said of it, in wire spelling: what it is made from again after a resume."""
    additions: tuple[Addition, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    """Internal tools, in the order of the providers."""
