"""Agents and tools for the tests of this stage."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.definitions import ToolDefinition
from tertulia.protocol.events import EventData


class Bus:
    """An event bus: anything with `publish(event)`."""

    def __init__(self) -> None:
        self.events: list[EventData] = []

    def publish(self, event: EventData) -> None:
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def meta() -> Any:
    """Makes the description of an agent."""

    def make(archetype: str = "employee", **changes: Any) -> AgentInstanceMeta:
        return AgentInstanceMeta(name="ada", archetype=archetype, **changes)

    return make


@pytest.fixture
def a_tool() -> Any:
    """Makes a tool."""

    def make(name: str = "ring", scope: Any = "all", **changes: Any) -> ToolDefinition:
        known = {"description": "Rings a bell.", "parameters": None, "rpc_method": "bell.ring", **changes}
        return ToolDefinition(name=name, scope=scope, **known)

    return make
