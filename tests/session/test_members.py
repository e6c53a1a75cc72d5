"""Who is who in a session: the providers an agent hears from, and the tools made for definitions of others."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.session.remote_tools import InternalTool
from tertulia.tools.mcp_tool import McpTool
from tests.mcp.fakes import bare
from tests.session.agents_stage import EMPLOYEE, Porter
from tests.session.staging import stage


async def test_ours_come_first_then_the_applications() -> None:
    """S001-36, DESIGN, Fine print, Injector: the composition root only says the order."""
    async with stage(providers=[Porter("mine"), Porter("canvas"), Porter("yours")]) as acting:
        listed = acting.parts.agent_registry._injector.list_providers()
        assert listed == ["core-identity", "canvas", "workspace", "skills", "mine", "yours"]


async def test_a_provider_without_a_name_is_refused_when_the_session_starts() -> None:
    with pytest.raises(InvalidParamsError, match="name of a provider"):
        async with stage(providers=[object()]):
            pass


async def test_a_tool_of_a_provider_and_one_of_a_server_are_made_for_the_conversation_that_calls() -> None:
    command, *args = bare("--tools", "echo")
    servers = {"fake": {"command": command, "args": args}}
    async with stage(mcp_servers=servers) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        conversation = acting.parts.conversations.find(agent.id)
        offered = acting.parts.toolbox.offered(conversation.terms, conversation.terms.rights)
        reach = acting.parts.toolbox.reach(offered, conversation.id, conversation.terms)
        assert isinstance(reach.get("canvas_update"), InternalTool)
        assert isinstance(reach.get("fake__echo"), McpTool)
        assert reach.get("nobody") is None
