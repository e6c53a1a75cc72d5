"""What a conversation knows of the agent that it is."""

from __future__ import annotations

import msgspec
import pytest

from tertulia.conversation.terms import Agent, ContextAddition, Terms


def test_a_conversation_is_no_agent_unless_it_is_said() -> None:
    """DESIGN, Agent instance."""
    (field,) = [field for field in msgspec.structs.fields(Terms) if field.name == "agent"]
    assert field.default is None


def test_it_is_replaced_and_never_changed() -> None:
    agent = Agent("ada", "employee", {"name": "ada"}, (ContextAddition("core-identity", "You are ada.", 3),))
    with pytest.raises(AttributeError):
        agent.name = "eva"  # type: ignore[misc]
    assert msgspec.structs.replace(agent, tools=()) == agent
    assert Agent("ada", "repo", {}).additions == ()
