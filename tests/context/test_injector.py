"""The injector: what it asks, in which order, and what becomes of the answers."""

from __future__ import annotations

import re
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.context.definitions import McpServerStdio
from tertulia.context.injector import (
    GROUP,
    TOOL_BLOCK,
    SessionContextInjector,
    installed_providers,
    tool_block,
    tool_lines,
)
from tertulia.context.provider import SessionContext
from tertulia.context.providers.canvas import CanvasContextProvider
from tertulia.context.providers.identity import CoreContextProvider
from tertulia.context.tokens import SessionTokenStore
from tertulia.errors import ClosedError, InvalidParamsError
from tertulia.events.bus import EventBus
from tertulia.events.journal import NoJournal
from tertulia.protocol.ids import new_session_id
from tertulia.testing import FakeClock


class Provider:
    """Says what it was told to say, and writes down when it was asked."""

    def __init__(self, name: str, *, servers: Any = None, tools: Any = None, text: Any = None) -> None:
        self.name = name
        self._answers = (servers, tools, text)
        self.asked: list[str] = []

    def get_mcp_servers(self, agent_name: str, meta: Any) -> Any:
        self.asked.append("servers")
        return self._answers[0]

    def get_tools(self, agent_name: str, meta: Any) -> Any:
        self.asked.append("tools")
        return self._answers[1]

    def get_system_context(self, agent_name: str, meta: Any) -> Any:
        self.asked.append("text")
        return self._answers[2]


class Text:
    """Has one method only."""

    def __init__(self, name: str, text: Any) -> None:
        self.name = name
        self._text = text

    async def get_system_context(self, agent_name: str, meta: Any) -> Any:
        return self._text


@pytest.fixture
def store() -> SessionTokenStore:
    return SessionTokenStore(FakeClock())


@pytest.fixture
def injector(bus: Any, store: SessionTokenStore) -> SessionContextInjector:
    injector = SessionContextInjector(clock=FakeClock(1_700_000_000.0))
    injector.set_event_bus(bus)
    injector.set_token_store(store)
    return injector


# ── providers ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_method_of_the_injector_does_its_part_in_one_life(bus: Any, meta: Any) -> None:
    """S001-07: bus and token store can be given later; register, list, prepared, revoke, unregister."""
    injector, store = SessionContextInjector(), SessionTokenStore()
    injector.set_event_bus(bus)
    injector.set_token_store(store)
    injector.register(Text("a", "one"))
    injector.register(Text("b", "two"))
    assert injector.list_providers() == ["a", "b"]
    first = await injector.prepare("ada", meta())
    assert first.system_context_additions == ["one", "two"]
    assert bus.types
    assert injector.revoke_tokens("ada") == 1
    injector.unregister("a")
    assert injector.list_providers() == ["b"]
    assert (await injector.prepare("ada", meta())).system_context_additions == ["two"]


def test_providers_are_listed_in_the_order_of_registration(injector: SessionContextInjector) -> None:
    """S001-10."""
    assert injector.list_providers() == []
    for name in ("b", "a", "c"):
        injector.register(Provider(name))
    assert injector.list_providers() == ["b", "a", "c"]


async def test_a_provider_of_the_same_name_replaces_the_other_in_its_place(injector: Any, meta: Any) -> None:
    """S001-08, X-41."""
    for name in ("a", "b"):
        injector.register(Text(name, f"old {name}"))
    injector.register(Text("a", "new a"))
    assert injector.list_providers() == ["a", "b"]
    assert (await injector.prepare("ada", meta())).system_context_additions == ["new a", "old b"]


def test_unregistering_removes_and_an_unknown_name_changes_nothing(injector: SessionContextInjector) -> None:
    """S001-09."""
    injector.register(Provider("a"))
    injector.unregister("b")
    assert injector.list_providers() == ["a"]
    injector.unregister("a")
    injector.unregister("a")
    assert injector.list_providers() == []


@pytest.mark.parametrize("name", [None, "", 5, "a\nb", "x" * 4096, "\0"], ids=lambda name: repr(name)[:10])
def test_a_provider_without_a_proper_name_is_refused(injector: SessionContextInjector, name: Any) -> None:
    """S001-08."""
    injector.register(Provider("a"))
    with pytest.raises(InvalidParamsError, match="name of a provider"):
        injector.register(Provider(name))
    with pytest.raises(InvalidParamsError, match="name of a provider"):
        injector.register(object())  # type: ignore[arg-type]
    assert injector.list_providers() == ["a"]


# ── collecting ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_provider_is_asked_for_servers_then_tools_then_text(injector: Any, meta: Any) -> None:
    """S001-05, S001-11."""
    order: list[str] = []
    providers = [Provider("first"), Provider("second")]
    for provider in providers:
        provider.asked = order
        injector.register(provider)
    await injector.prepare("ada", meta())
    assert order == ["servers", "tools", "text"] * 2


async def test_a_provider_is_given_the_agent_and_may_decide_by_it(injector: Any) -> None:
    """S001-05, S001-06."""

    class Choosy:
        name = "choosy"

        def get_system_context(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> str | None:
            return f"{agent_name} on {meta.backend_type}" if meta.archetype == "employee" else None

    injector.register(Choosy())
    prepared = await injector.prepare("ada", {"archetype": "employee", "backendType": "pi"})
    untold = await injector.prepare("eva", {"archetype": "repo"})
    assert prepared.system_context_additions == ["ada on pi"]
    assert untold.system_context_additions == []


async def test_of_two_servers_with_one_name_the_first_is_used(injector: Any, meta: Any) -> None:
    """S001-12."""
    injector.register(Provider("a", servers=[McpServerStdio("fs", "first"), McpServerStdio("git", "g")]))
    injector.register(Provider("b", servers=[{"name": "fs", "command": "second", "args": []}]))
    context = await injector.prepare("ada", meta())
    assert [(server.name, server.command) for server in context.mcp_servers] == [("fs", "first"), ("git", "g")]


async def test_of_two_tools_with_one_name_the_first_that_may_be_used_is(injector: Any, meta: Any, a_tool: Any) -> None:
    """S001-13, X-42."""
    injector.register(Provider("a", tools=[a_tool("x", "employee", description="A")]))
    injector.register(Provider("b", tools=[a_tool("x", "service", description="B"), a_tool("y")]))
    for archetype, expected in (("employee", "A"), ("service", "B")):
        context = await injector.prepare("ada", meta(archetype))
        assert [(tool.name, tool.description) for tool in context.tools] == [("x", expected), ("y", "Rings a bell.")]


async def test_the_archetype_decides_which_tools_there_are(injector: Any, meta: Any, a_tool: Any) -> None:
    """S001-14, X-47."""
    injector.register(Provider("a", tools=[a_tool(scope, scope) for scope in ("all", "service", "employee")]))
    counts = [len((await injector.prepare("ada", meta(kind))).tools) for kind in ("repo", "service", "employee", "?")]
    assert counts == [1, 2, 3, 1]


async def test_texts_are_all_kept_and_empty_ones_skipped(injector: Any, meta: Any) -> None:
    """S001-15."""
    for name, text in (("a", "same"), ("b", None), ("c", ""), ("d", " \n"), ("e", "same")):
        injector.register(Text(name, text))
    context = await injector.prepare("ada", meta())
    assert context.system_context_additions == ["same", "same"]
    assert [fragment.provider for fragment in context.fragments] == ["a", "e"]
    assert context.warnings == ()


async def test_an_injector_without_providers_gives_nothing(meta: Any) -> None:
    """S001-19, S001-20: neither bus nor store is needed."""
    context = await SessionContextInjector().prepare("ada", meta())
    assert context.mcp_servers == []
    assert context.tools == []
    assert context.system_context_additions == []
    assert context.token == ""


async def test_plain_and_asynchronous_methods_are_the_same_to_it(injector: Any, meta: Any) -> None:
    """S001-05."""

    class Hidden:
        name = "hidden"

        def get_system_context(self, *arguments: Any) -> Any:
            return Text("", "from a coroutine that looks like a plain function").get_system_context("", None)

    injector.register(Provider("plain", text="plain"))
    injector.register(Text("async", "async"))
    injector.register(Hidden())
    context = await injector.prepare("ada", meta())
    assert [text.split()[0] for text in context.system_context_additions] == ["plain", "async", "from"]


# ── the token and the tools ──────────────────────────────────────────────────────────────────────────────────


async def test_the_token_belongs_to_the_agent_and_the_session(injector: Any, store: Any, meta: Any) -> None:
    """S001-04, S001-16."""
    context = await injector.prepare("ada", meta(), "s1")
    assert re.fullmatch("[0-9a-f]{64}", context.token)
    entry = store.validate(context.token)
    assert (entry.agent_name, entry.session_id, context.session_id) == ("ada", "s1", "s1")


async def test_the_tools_are_told_of_last_with_the_token(injector: Any, meta: Any, a_tool: Any) -> None:
    """S001-17."""
    injector.register(Provider("a", tools=[a_tool()]))
    injector.register(Text("z", "z"))
    context = await injector.prepare("ada", meta())
    first, block = context.system_context_additions
    assert first == "z"
    assert "- ring: Rings a bell." in block
    assert context.token in block
    assert context.fragments[-1].provider == TOOL_BLOCK
    assert context.fragments[-1].sensitive
    assert not context.fragments[0].sensitive


async def test_an_agent_that_has_the_tools_another_way_does_not_read_the_token(
    injector: Any, meta: Any, a_tool: Any
) -> None:
    """X-44: in a prompt only as the last resort."""
    injector.register(Provider("a", tools=[a_tool()]))
    context = await injector.prepare("ada", meta(), token_in_prompt=False)
    assert context.token
    assert "- ring: Rings a bell." in context.system_context_additions[-1]
    assert context.token not in "".join(context.system_context_additions)
    assert not context.fragments[-1].sensitive


async def test_without_tools_or_without_a_store_there_is_no_word_of_tools(meta: Any, a_tool: Any) -> None:
    """S001-18."""
    injector = SessionContextInjector()
    injector.register(Provider("a", tools=[a_tool()]))
    without_store = await injector.prepare("ada", meta())
    assert (len(without_store.tools), without_store.token, without_store.system_context_additions) == (1, "", [])
    injector.set_token_store(SessionTokenStore())
    injector.register(Provider("a"))
    without_tools = await injector.prepare("ada", meta())
    assert without_tools.token
    assert without_tools.system_context_additions == []


async def test_a_session_id_is_made_where_none_is_given(injector: Any, store: Any, meta: Any) -> None:
    """S001-21, X-43: two of one moment do not revoke each other."""
    contexts = [await injector.prepare("ada", meta()) for _ in range(3)]
    assert len({uuid.UUID(context.session_id) for context in contexts}) == 3
    assert store.size == 3
    assert all(store.validate(context.token) for context in contexts)


async def test_tokens_of_an_agent_are_revoked_together(injector: Any, store: Any, meta: Any) -> None:
    """S001-22: safe with no store."""
    contexts = [await injector.prepare(name, meta()) for name in ("ada", "ada", "eva")]
    assert injector.revoke_tokens("ada") == 2
    assert [store.validate(context.token) is not None for context in contexts] == [False, False, True]
    assert injector.revoke_tokens("nobody") == 0
    assert SessionContextInjector().revoke_tokens("ada") == 0


async def test_an_employee_reads_identity_then_canvas_then_tools(injector: Any, meta: Any) -> None:
    """S001-23."""
    injector.register(CoreContextProvider())
    injector.register(CanvasContextProvider())
    identity, canvas, tools = (await injector.prepare("my-agent", meta("employee"))).system_context_additions
    assert "You are **my-agent**" in identity
    assert canvas.startswith("## Your canvas")
    assert "- canvas_update: " in tools
    repo = await injector.prepare("my-agent", meta("repo"))
    assert [fragment.provider for fragment in repo.fragments] == ["core-identity"]
    assert repo.tools == []


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_both_events_say_what_the_design_says(injector: Any, bus: Any, meta: Any, a_tool: Any) -> None:
    """S001-24, S001-25, S001-26: the block about tools counts too."""
    injector.register(Provider("a", servers=[McpServerStdio("fs", "x")], tools=[a_tool()], text="hello"))
    injector.register(Provider("b"))
    await injector.prepare("ada", meta())
    preparing, ready = bus.events
    assert (preparing.type, ready.type) == ("session:preparing", "session:context-ready")
    assert preparing["providerCount"] == 2
    assert (ready["mcpServerCount"], ready["toolCount"], ready["contextAdditions"]) == (1, 1, 2)
    for event in (preparing, ready):
        assert event["agentName"] == "ada"
        assert event["caller"] == {"type": "system", "id": "SessionContextInjector"}
        assert event["timestamp"] == "2023-11-14T22:13:20.000Z"


async def test_nobody_is_asked_before_the_first_event(injector: Any, bus: Any, meta: Any) -> None:
    """S001-24."""

    class Curious:
        name = "curious"

        async def get_system_context(self, *arguments: Any) -> str:
            return ",".join(bus.types)

    injector.register(Curious())
    assert (await injector.prepare("ada", meta())).system_context_additions == ["session:preparing"]


async def test_a_start_that_fails_leaves_no_token(injector: Any, store: Any, meta: Any) -> None:
    """S001-44, X-45."""

    class Closing:
        def publish(self, event: Any) -> None:
            if event.type == "session:context-ready":
                raise ClosedError("the session is closed")

    injector.set_event_bus(Closing())
    with pytest.raises(ClosedError):
        await injector.prepare("ada", meta())
    assert store.size == 0
    injector.set_token_store(None)
    with pytest.raises(ClosedError):
        await injector.prepare("ada", meta())


@pytest.mark.parametrize("name", ["../x", "x" * 4096, "a\0b", "", None])
async def test_a_bad_agent_name_is_refused_before_anything_happens(
    injector: Any, bus: Any, store: Any, meta: Any, name: Any
) -> None:
    """S001-51."""
    provider = Provider("a")
    injector.register(provider)
    with pytest.raises(InvalidParamsError, match="agent name"):
        await injector.prepare(name, meta())
    assert (bus.events, provider.asked, store.size) == ([], [], 0)


# ── refreshing and cutting ───────────────────────────────────────────────────────────────────────────────────


async def test_between_turns_everything_is_asked_anew_but_the_token_stays(
    injector: Any, bus: Any, store: Any, meta: Any, a_tool: Any
) -> None:
    """Issue 9: dynamic refresh between turns."""
    injector.register(Provider("a", tools=[a_tool()], text="one"))
    context: SessionContext = await injector.prepare("ada", meta(), "s1")
    assert await injector.refresh("ada", meta(), context) == context
    injector.register(Provider("a", tools=[a_tool()], text="two"))
    later = await injector.refresh("ada", meta(), context)
    assert later.system_context_additions == ["two", context.system_context_additions[1]]
    assert (later.token, later.session_id, store.size) == (context.token, "s1", 1)
    assert bus.types == ["session:preparing", "session:context-ready"]


async def test_what_was_cut_is_said_and_the_tools_are_cut_last(
    injector: Any, bus: Any, store: Any, meta: Any, a_tool: Any
) -> None:
    """Issue 9: a token budget with priorities; ten megabytes of context do not reach a model."""
    small = SessionContextInjector(max_tokens=500)
    small.set_event_bus(bus)
    small.set_token_store(store)
    small.register(Provider("a", tools=[a_tool()], text="short"))
    small.register(Text("b", "x" * 10_000_000))
    context = await small.prepare("ada", meta())
    assert sum(fragment.tokens for fragment in context.fragments) <= 500
    assert [fragment.provider for fragment in context.fragments] == ["a", "b", TOOL_BLOCK]
    assert context.token in context.system_context_additions[-1]
    assert [(cut.provider, cut.before) for cut in context.cut] == [("b", 2_500_000)]
    assert any("'b' was cut from 2,500,000 to" in warning for warning in context.warnings)
    assert [event.code for event in bus.events if event.type == "warning"] == ["context_cut"]
    assert bus.events[-1]["contextAdditions"] == 3


@pytest.mark.parametrize("session_id", ["a\nb", "x" * 201, "\0"])
async def test_a_session_id_that_could_not_be_shown_is_refused_first(
    injector: Any, bus: Any, store: Any, meta: Any, session_id: str
) -> None:
    with pytest.raises(InvalidParamsError, match="session_id"):
        await injector.prepare("ada", meta(), session_id)
    assert (bus.events, store.size) == ([], 0)


async def test_the_session_s_own_bus_is_a_bus(injector: Any, meta: Any) -> None:
    """DESIGN: an event bus is anything with `publish(event)`; both events reach a subscriber."""
    events = EventBus(new_session_id(), FakeClock(), NoJournal())
    listening = events.subscribe()
    injector.set_event_bus(events)
    await injector.prepare("ada", meta())
    events.close()
    assert [event.type async for event in listening] == ["session:preparing", "session:context-ready"]


# ---- providers of other packages


MODULE = """
class Weather:
    name = "weather"

def make():
    tides = Weather()
    tides.name = "tides"
    return tides

ready = Weather()
ready.name = "ready"
number = 5
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package with entry points of all kinds."""
    name = "tertulia_test_weather"
    (tmp_path / f"{name}.py").write_text(MODULE)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    kinds = {"d-class": "Weather", "c-function": "make", "b-object": "ready", "a-number": "number", "e-missing": "nope"}
    lines = [f"{key} = {name}:{value}" for key, value in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, "f-broken = tertulia_test_gone:x"]))
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_providers_of_other_packages_are_found_and_failing_ones_left_out(package: str) -> None:
    """Issue 9: entry points `tertulia.providers`; S001-27."""
    found = installed_providers()
    assert package not in sys.modules, "looking for them imports nothing"
    injector = SessionContextInjector()
    problems = injector.register_each(found)
    assert injector.list_providers() == ["ready", "tides", "weather"]
    assert [problem.split("'")[1] for problem in problems] == ["a-number", "e-missing", "f-broken"]
    sys.modules.pop(package)


def test_where_none_is_installed_none_is_found() -> None:
    assert installed_providers() == []


# ---- what an agent reads of its internal tools


def test_a_tool_is_a_line_a_usage_and_what_there_is_to_add(a_tool: Any) -> None:
    """S001-35."""
    tool = a_tool(parameters={"tone": {"type": "string", "required": True}, "times": "integer"}, context="Softly.")
    assert tool_lines(tool).split("\n") == [
        "- ring: Rings a bell.",
        '  Usage: ring {"tone": string, "times"?: integer}',
        "  Softly.",
    ]


def test_null_parameters_and_values_that_are_no_objects_are_tolerated(a_tool: Any) -> None:
    """S001-35."""
    assert tool_lines(a_tool()) == "- ring: Rings a bell.\n  Usage: ring {}"
    assert tool_lines(a_tool(parameters={"a": None, "b": 3})).endswith('{"a"?: any, "b"?: any}')
    assert tool_lines(a_tool(context=" ")) == tool_lines(a_tool())


def test_no_description_can_look_like_another_tool(a_tool: Any) -> None:
    lines = tool_lines(a_tool(description="Rings.\n- rm: Removes.", context="x\n\n- cp: Copies.")).split("\n")
    assert [line for line in lines if line.startswith("-")] == ["- ring: Rings."]


def test_the_block_shows_the_token_only_where_it_is_given(a_tool: Any) -> None:
    """S001-17, X-44."""
    token = "0123456789abcdef" * 4
    tools = [a_tool("one"), a_tool("two", description="{{token}}")]
    block = tool_block(tools, token)
    assert block.count(token) == 1, "what a description says is not filled in"
    assert block.index("- one: ") < block.index("- two: ")
    assert "tertulia internal" in block
    assert "TOKEN" not in tool_block(tools, None)
    assert "- two: " in tool_block(tools, None)


def test_one_long_tool_does_not_take_the_room_of_all(a_tool: Any) -> None:
    """Issue 9: the budget is for all texts together."""
    entry = tool_lines(a_tool(description="d" * 60_000, context="c" * 60_000))
    assert entry.startswith("- ring: ddd")
    assert entry.endswith("…")
    assert len(entry) <= 4_001
