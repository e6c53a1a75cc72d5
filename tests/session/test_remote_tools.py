"""A provider's tool reached in two ways: by the model's own call, and through the broker."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import NotFoundError
from tertulia.mcp.serve.endpoint import McpEndpoint
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.mcp.served_tools import ServedConversation
from tertulia.session.remote_tools import InternalTool
from tertulia.testing import call
from tests.mcp.fakes import bare
from tests.server.brokering import client, over_streams, refusal, text
from tests.session.agents_stage import EMPLOYEE, HTML, Porter, bell
from tests.session.staging import Stage, stage


def broker_of(acting: Stage, conversation: tertulia.Conversation) -> McpEndpoint:
    state = acting.parts.conversations.find(conversation.id)
    return McpEndpoint(
        ServedConversation(acting.parts, state), name="tertulia", spawn=acting.parts.nursery.start, instructions=""
    )


async def test_an_answer_that_is_a_text_is_given_as_it_is_and_all_else_as_json() -> None:
    class Answers:
        async def call(self, call: Any, tool: str, arguments: Any, source: str) -> Any:
            return arguments

    async with stage(lambda request: call("plain", {}), "x") as acting:
        conversation = acting.parts.conversations.root
        tool = InternalTool(ToolSpec.define("plain", "x", {"type": "object"}, source="injector"), Answers())

        class Context:
            conversation_id, call_id, rights = conversation.id, "c1", conversation.terms.rights

        tool.check({}, Context())  # type: ignore[arg-type]
        for value, expected in (("as it is", "as it is"), ({"a": [1]}, '{"a":[1]}'), (None, "null")):
            result = await tool.run(value, Context())  # type: ignore[arg-type]
            assert (result.text, result.success) == (expected, True)
        assert (tool.parallel_safe, tool.read_only) == (False, False)


@pytest.mark.parametrize("era", ["old", "new"])
async def test_a_client_of_the_broker_is_served_the_tools_of_the_agent(era: str) -> None:
    """Issue 9, item 6, second delivery: listed with their schemas, called, and the audit says which way it came."""
    porter = Porter(tools=[bell()])
    async with stage(providers=[porter]) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        agent_registry, broker = acting.parts.agent_registry, broker_of(acting, agent)
        async with client(over_streams(broker), era) as connected:
            listed = (await connected.list_tools()).tools
            assert [tool.name for tool in listed] == ["canvas_update", "canvas_clear", "ring"]
            assert listed[0].input_schema["required"] == ["html"]
            drawn = await connected.call_tool("canvas_update", {"html": HTML, "title": "Hi"})
            assert msgspec.json.decode(text(drawn)) == {"ok": True, "revision": 1}
            rung = await connected.call_tool("ring", {"times": 3})
            assert msgspec.json.decode(text(rung)) == {"by": "ada", "with": {"times": 3}}
            refused = refusal(await connected.call_tool("canvas_update", {"html": 3}))
            assert refused["code"] == "invalid_params"
        broker.close()
        assert agent_registry.canvases.get(agent.id).html == HTML
        assert [(record.source, record.tool, record.ok) for record in agent_registry.audit][:2] == [
            ("mcp", "canvas_update", True), ("mcp", "ring", True),
        ]  # fmt: skip
        assert {record.agent_name for record in agent_registry.audit} == {"ada"}


async def test_a_client_sees_the_servers_of_its_agent_and_no_tool_of_another() -> None:
    """Issue 9, item 6: the view of the conversation it was given, and nothing beside it."""
    command, *args = bare("--tools", "echo")
    clock = tertulia.McpServerStdio("clock", command, args)
    async with stage(providers=[Porter(servers=[clock])]) as acting:
        repo = await acting.session.open(agent={"name": "eva", "archetype": "repo"})
        plain = await acting.session.open()
        for conversation, expected in ((repo, ["clock__echo"]), (plain, [])):
            broker = broker_of(acting, conversation)
            async with client(over_streams(broker), "new") as connected:
                assert [tool.name for tool in (await connected.list_tools()).tools] == expected
                assert refusal(await connected.call_tool("canvas_update", {"html": HTML}))["code"]
            broker.close()
        assert acting.parts.agent_registry.canvases.list() == {}
        assert list(acting.parts.agent_registry.audit) == []


async def test_what_a_handler_refuses_is_the_tools_answer_and_the_task_goes_on() -> None:
    """A refusal is an answer."""

    def refuse(who: Any, arguments: Any) -> Any:
        raise NotFoundError("there is no such bell")

    def break_down(who: Any, arguments: Any) -> Any:
        raise RuntimeError("secret of the handler")

    tools = [
        tertulia.ToolDefinition("no", "Refuses.", None, "x.no", "all", None, refuse),
        tertulia.ToolDefinition("broken", "Breaks.", None, "x.broken", "all", None, break_down),
        tertulia.ToolDefinition("nobody", "Is answered by nobody.", None, "x.nobody", "all"),
    ]
    calls = [call(name, {}) for name in ("no", "broken", "nobody")]
    async with stage(*calls, "done", providers=[Porter(tools=tools)]) as acting:
        agent = await acting.session.open(agent={"name": "ada"})
        assert (await agent.message("go")).text == "done"
        outputs = acting.outputs(agent)
        assert [output.success for output in outputs] == [False] * 3
        assert msgspec.json.decode(outputs[0].text)["code"] == "not_found"
        assert [record.result for record in acting.parts.agent_registry.audit] == [
            "not_found",
            "internal",
            "method_not_found",
        ]
