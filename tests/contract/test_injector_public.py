"""The context injector by its public names alone, as somebody uses it who has his own injector_with."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import FakeClock, ScriptedModel
from tests.tables import each_row

META = {
    "name": "ada", "archetype": "employee", "backendType": "pi", "workspacePolicy": "ephemeral", "launchMode": "direct",
}  # fmt: skip


class Bus:
    """Anything with `publish(event)`."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def publish(self, event: Any) -> None:
        self.events.append(event)


def injector_with(*providers: Any, store: Any = None) -> tuple[tertulia.SessionContextInjector, Bus]:
    injector, bus = tertulia.SessionContextInjector(), Bus()
    injector.set_event_bus(bus)
    injector.set_token_store(store or tertulia.SessionTokenStore())
    for provider in providers:
        injector.register(provider)
    return injector, bus


async def test_what_an_employee_is_given_and_who_hears_of_it() -> None:
    """S001-04, S001-17, S001-23..26, S001-32..35, S001-38: both events are read like those of a session."""
    injector, bus = injector_with(tertulia.CoreContextProvider(), tertulia.CanvasContextProvider())
    assert injector.list_providers() == ["core-identity", "canvas"]
    context = await injector.prepare("ada", META, "s-1")
    assert isinstance(context, tertulia.SessionContext)
    identity, canvas, block = context.system_context_additions
    assert all(word in identity for word in ("**ada**", "employee", "pi", "ephemeral"))
    assert canvas == tertulia.load_template("canvas-context")
    assert re.fullmatch("[0-9a-f]{64}", context.token)
    assert context.token in block
    assert "- canvas_update: " in block
    tools = [(tool.name, tool.rpc_method, tool.scope) for tool in context.tools]
    assert tools == [("canvas_update", "canvas.update", "service"), ("canvas_clear", "canvas.clear", "service")]
    preparing, ready = bus.events
    assert (preparing.type, ready.type) == ("session:preparing", "session:context-ready")
    about = {"agentName": "ada", "caller": {"type": "system", "id": "SessionContextInjector"}}
    for event, counts in (
        (preparing, {"providerCount": 2}),
        (ready, {"mcpServerCount": 0, "toolCount": 2, "contextAdditions": 3}),
    ):
        data = dict(event.data)
        assert datetime.fromisoformat(data.pop("timestamp")).utcoffset() is not None
        assert data == {**counts, **about}
        assert all(event.data[key] == event.data.get(key) == value for key, value in counts.items())
        assert "token" not in event.data


async def test_a_provider_is_whatever_has_a_name() -> None:
    """S001-05, X-46, X-51: any of three methods, none of them, mappings in either spelling."""

    class Nothing(tertulia.ContextProvider):
        name = "nothing"

    class Mappings:
        name = "mappings"

        async def get_mcp_servers(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> list[Any]:
            return [{"name": meta.backend_type, "command": "run", "args": ["-v"], "env": [{"name": "A", "value": "1"}]}]

        def get_tools(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> list[Any]:
            written = {"description": "d", "scope": "all"}
            return [
                {**written, "name": "camel", "rpcMethod": "x.y", "parameters": {"n": {"type": "integer"}}},
                {**written, "name": "snake", "rpc_method": "x.z", "parameters": None},
            ]

    injector, _ = injector_with(Nothing(), Mappings())
    context = await injector.prepare("ada", {**META, "team": "blue"})
    (server,) = context.mcp_servers
    assert server == tertulia.McpServerStdio("pi", "run", ["-v"], {"A": "1"})
    assert [tool.name for tool in context.tools] == ["camel", "snake"]
    assert context.tools[0].parameters["properties"] == {"n": {"type": "integer"}}


def test_a_store_by_the_page() -> None:
    """S001-40..43, S001-46: one a session id, a property `size`, and nothing after its time."""
    clock = FakeClock()
    store = tertulia.SessionTokenStore(clock, ttl_s=60)
    first, second = store.generate("ada", "s-1"), store.generate("ada", "s-1", 42)
    assert store.validate(first) is None
    entry = store.validate(second)
    assert isinstance(entry, tertulia.SessionToken)
    assert (entry.token, entry.agent_name, entry.session_id, entry.pid) == (second, "ada", "s-1", 42)
    assert (store.revoke_session("s-1"), store.revoke_session("s-1"), store.size) == (True, False, 0)
    store.generate("ada", "s-2")
    store.generate("ada", "s-3")
    assert (store.revoke_by_agent("ada"), store.revoke_by_agent("ada"), store.size) == (2, 0, 0)
    last = store.generate("ada", "s-4")
    clock.advance(60)
    assert (store.validate(last), store.size) == (None, 0)


@each_row("name", ["../core-identity", "/etc/passwd", "a/../core-identity", "core-identity\0", "", "x.py"])
def test_a_template_is_one_of_those_that_are_shipped(name: str) -> None:
    """S001-28, X-52"""
    with pytest.raises(errors.TertuliaError):
        tertulia.load_template(name)


def test_an_unknown_scope_is_refused_when_a_tool_is_made() -> None:
    """X-47"""
    arguments: Any = {"name": "x", "description": "", "parameters": {}, "rpc_method": "x.y", "scope": "root"}
    with pytest.raises(errors.InvalidParamsError, match="root"):
        tertulia.ToolDefinition(**arguments)


async def test_what_a_provider_writes_is_never_filled_in() -> None:
    """S001-29, S001-45: a gap in somebody's description does not get the token."""

    class Curious:
        name = "curious"

        def get_tools(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> list[Any]:
            known: Any = {"parameters": None, "rpc_method": "x.y", "scope": "all"}
            return [tertulia.ToolDefinition(name="peek", description="{{token}} {{toolList}}", **known)]

    injector, _ = injector_with(Curious())
    context = await injector.prepare("ada", META)
    (block,) = context.system_context_additions
    assert "- peek: {{token}} {{toolList}}\n" in block
    assert block.count(context.token) == 1


@pytest.mark.parametrize("kind", [dict, tertulia.AgentInstanceMeta])
async def test_an_agent_is_described_by_a_mapping_or_by_its_type(kind: Any) -> None:
    """S001-01"""
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["hi"]))) as session:
        agent = await session.open(agent=kind(name="ada", archetype="service"))
        assert "- Archetype: service." in (await agent.context()).additions[0]["text"]


async def test_an_agent_that_another_program_runs_is_told_so() -> None:
    """S001-01: `backend_type` follows the backend, unless somebody says otherwise."""
    named = {"cat": {"command": "cat", "sandbox": {"workspace-write": []}}}
    settings = tertulia.Settings(model=ScriptedModel(["hi"]), executors=named)
    async with tertulia.Session.start(settings) as session:
        for fields, expected in (({}, "command:cat"), ({"backend_type": "pi"}, "pi")):
            agent = await session.open(agent={"name": "ada", **fields}, backend="command:cat")
            assert f"- Backend: {expected}\n" in (await agent.context()).additions[0]["text"]
