"""An agent instance is a conversation: what it is told and given, and that nobody else is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.context.definitions import McpServerHttp
from tertulia.errors import ClosedError, InvalidParamsError, NotFoundError
from tertulia.protocol.items import ToolOutput
from tertulia.testing import call
from tests.mcp.fakes import bare
from tests.session.agents_stage import EMPLOYEE, HTML, Porter, bell, names, providers_of, told
from tests.session.lives import Lives
from tests.session.staging import BUILT_IN, Stage, stage
from tests.session.stored import stored_bytes
from tests.tables import each_row

CONV = ["conv_create", "conv_send", "conv_list", "conv_history", "conv_destroy"]


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


def clock_server(*tools: str, name: str = "clock") -> tertulia.McpServerStdio:
    command, *args = bare("--tools", ",".join(tools))
    return tertulia.McpServerStdio(name, command, args)


async def until_ready(acting: Stage, conversation: tertulia.Conversation) -> None:
    await acting.parts.servers.settle()


# ── what it is told ──────────────────────────────────────────────────────────────────────────────────────────


async def test_an_employee_is_told_who_it_is_then_the_canvas_and_the_tools_last(tmp_path: Path) -> None:
    """S001-23, S001-36, S001-37, X-50, X-64: the registered order; in a message of its own before the environment."""
    async with stage("hi", cwd=str(tmp_path)) as acting:
        agent = await acting.session.open(agent=EMPLOYEE, user_instructions="In French.")
        assert providers_of((await agent.context()).additions) == [
            "core-identity", "canvas", "workspace", "internal-tools",
        ]  # fmt: skip
        instructions, additions, environment = told(acting, agent)
        assert instructions.startswith("<user_instructions>")
        assert additions.startswith("<context_additions>\n\n## Who you are")
        assert additions.endswith("</context_additions>")
        assert additions.index("**ada**") < additions.index("## Your canvas") < additions.index("## Internal tools")
        assert environment.startswith("<environment_context>")
        await agent.message("go")
        (request,) = acting.model.requests
        assert [item.text for item in request.items][:3] == [instructions, additions, environment]
        assert acting.parts.agent_registry.token(agent.id) not in msgspec.json.encode(list(request.items)).decode()


@pytest.mark.parametrize("text", ["Only this.", ""])
async def test_an_override_stays_exactly_what_it_is(text: str) -> None:
    """DESIGN, Agent instance: additions are never glued to the instructions."""
    async with stage("hi") as acting:
        agent = await acting.session.open(agent=EMPLOYEE, base_instructions=text)
        await agent.message("go")
        assert acting.model.requests[0].instructions == text


async def test_without_agent_nothing_is_injected_and_a_history_is_the_same_to_the_byte() -> None:
    """DESIGN, Agent instance; issue 9, item 2: whether or not the session has providers, and agents."""
    histories: list[Any] = []
    for providers in ([], [Porter(text="psst", tools=[bell()], servers=[clock_server("echo")])]):
        async with stage("hi", providers=providers, cwd="/usr") as acting:
            if providers:
                await acting.session.open(agent=EMPLOYEE)
            plain = await acting.session.open(user_instructions="Be kind.", agent=None)
            await plain.message("go")
            (request,) = acting.model.requests
            histories.append((request.instructions, [item.text for item in request.items], request.tools))
            context = await plain.context()
            assert (context.additions, names(plain, "injector"), names(plain, "mcp")) == ([], [], [])
            for silent in (plain, acting.root):
                assert acting.parts.agent_registry.token(silent.id) is None
                assert acting.parts.agent_registry.environment(silent.id) == {}
    assert histories[0] == histories[1]


async def test_texts_of_the_application_come_after_ours() -> None:
    """S001-36: whoever starts the session only lists providers; it holds no text of theirs."""
    porters = [Porter("first", text="one"), Porter("second", text="two"), Porter("core-identity", text="mine")]
    async with stage(providers=porters, cwd="/usr") as acting:
        agent = await acting.session.open(agent={"name": "eva"})
        assert providers_of((await agent.context()).additions) == ["core-identity", "workspace", "first", "second"]
        assert "mine" in told(acting, agent)[0]


# ── what it gets ─────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("archetype", "scope"), list(itertools.product(["repo", "service", "employee"], ["all", "service", "employee"]))
)
async def test_a_tool_is_offered_from_its_scope_upwards(archetype: str, scope: str) -> None:
    """S001-14: all nine, through the session; what is not offered cannot be called either."""
    levels = {"repo": 0, "all": 0, "service": 1, "employee": 2}
    may = levels[archetype] >= levels[scope]
    ring = call("ring", {"times": 2})
    async with stage(ring, "done", providers=[Porter(tools=[bell(scope=scope)])]) as acting:
        agent = await acting.session.open(agent={"name": "ada", "archetype": archetype})
        assert ("ring" in names(agent, "injector")) is may
        assert (await agent.message("go")).text == "done"
        (output,) = acting.outputs(agent)
        assert output.success is may
        assert (output.text == '{"by":"ada","with":{"times":2}}') is may
        assert [record.ok for record in acting.parts.agent_registry.audit] == ([True] if may else [])


@pytest.mark.parametrize("archetype", ["wizard", "EMPLOYEE"])
async def test_an_unknown_archetype_has_the_rights_of_the_least(archetype: str) -> None:
    """X-47; issue 9, bad input."""
    async with stage(providers=[Porter(tools=[bell("a", "all"), bell("b", "service")])]) as acting:
        agent = await acting.session.open(agent={"name": "ada", "archetype": archetype})
        assert names(agent, "injector") == ["a"]
        with pytest.raises(InvalidParamsError, match="has no canvas"):
            acting.parts.agent_registry.canvases.update(agent.id, HTML)


async def test_tools_stand_in_their_fixed_order() -> None:
    """Issue 9, item 2: built-in, conversation, injector, functions, MCP."""

    @tertulia.tool
    def aardvark() -> str:
        """Says nothing."""
        return ""

    servers = {"zoo": {"command": bare()[0], "args": [*bare()[1:], "--tools", "echo"], "approval": "approve"}}
    porter = Porter(tools=[bell("zebra")], servers=[clock_server("pid")])
    async with stage(providers=[porter], tools=[aardvark], mcp_servers=servers) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        await until_ready(acting, agent)
        injected = ["canvas_update", "canvas_clear", "zebra"]
        assert [tool.name for tool in agent.tools()] == [
            *BUILT_IN, *CONV, *injected, "aardvark", "clock__pid", "zoo__echo",
        ]  # fmt: skip
        assert [tool.name for tool in acting.root.tools()] == [*BUILT_IN, *CONV, "aardvark", "zoo__echo"]


async def test_a_tool_with_the_name_of_ours_is_a_conflict_and_leaves_nothing() -> None:
    """S001-44: the agent does not start, and there is no token."""
    async with stage(providers=[Porter(tools=[bell("update_plan")])]) as acting:
        with pytest.raises(tertulia.TertuliaError, match="update_plan"):
            await acting.session.open(agent=EMPLOYEE)
        assert (acting.parts.agent_registry.tokens, len(acting.session.conversations())) == (0, 1)


async def test_its_servers_are_seen_by_it_alone_and_end_with_it(tmp_path: Path) -> None:
    """Issue 9, item 2: not by root, a sibling, a child or a fork."""
    record = tmp_path / "record"
    command, *args = bare("--record", str(record), "--tools", "echo,pid")
    server = {"name": "clock", "command": command, "args": args, "env": [{"name": "COLOUR", "value": "red"}]}
    async with stage(providers=[Porter(servers=[server])], approval_policy="never") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        assert names(agent, "mcp") == ["clock__echo", "clock__pid"]
        others = [acting.root, await acting.session.open(), await agent.fork()]
        others.append(await acting.session.open(parent_id=agent.id))
        assert [names(other, "mcp") for other in others] == [[]] * 4
        assert "clock" not in [server["name"] for server in acting.session.info.mcp]
        await agent.close()
        happened = record.read_text().splitlines()
        assert [line.split()[0] for line in happened][:1] == ["start"]
        assert happened[-1] in {"eof", "sigterm"}
        assert not acting.parts.servers.has_private(agent.id)


async def test_a_server_that_cannot_start_keeps_no_agent_from_starting() -> None:
    """X-45: its status says what is wrong."""
    porter = Porter(servers=[tertulia.McpServerStdio("gone", "/no/such/program"), {"name": "bad name", "command": "x"}])
    async with stage("hi", providers=[porter]) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        assert (await agent.message("go")).text == "hi"
        states = [event.data for event in acting.events.drain() if event.type == "mcp_server_status"]
        assert {(data.name, data.status) for data in states if data.status == "failed"} == {
            ("gone", "failed"), ("bad name", "failed"),
        }  # fmt: skip


# ── who it is not ────────────────────────────────────────────────────────────────────────────────────────────


async def test_children_and_forks_are_nobody() -> None:
    """X-64: neither agent nor token nor tools, nor what it was told unless it is history."""
    child = call("conv_create", {"user_instruction": "hello"})
    async with stage(child, "I am nobody.", "done") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        await agent.message("go")
        fork = await agent.fork()
        below = await acting.session.open(parent_id=agent.id)
        opened = [c for c in acting.session.conversations() if c.id not in (acting.root.id, agent.id)]
        assert len(opened) == 3
        for other in opened:
            assert names(other, "injector") == []
            assert (await other.context()).additions == []
            assert acting.parts.agent_registry.token(other.id) is None
        assert not any("context_additions" in text for text in told(acting, below))
        assert any("context_additions" in text for text in told(acting, fork))
        assert acting.parts.agent_registry.tokens == 1


async def test_what_a_conversation_is_cannot_be_changed_later() -> None:
    async with stage() as acting:
        plain, agent = await acting.session.open(), await acting.session.open(agent=EMPLOYEE)
        for conversation in (plain, agent, acting.root):
            before = (await conversation.context(), acting.parts.agent_registry.token(conversation.id))
            with pytest.raises(InvalidParamsError, match="agent: it is set when the conversation is opened"):
                await conversation.set_context(agent={"name": "mallory", "archetype": "employee"})
            assert (await conversation.context(), acting.parts.agent_registry.token(conversation.id)) == before
        opened = await agent.set_context(title="another", agent=None)
        assert (len(opened.context.additions), acting.parts.agent_registry.tokens) == (4, 1)


async def test_a_model_cannot_make_agents() -> None:
    """A child of `conv_create` is what its caller may make it, and nobody's colleague."""
    async with stage(call("conv_create", {"user_instruction": "x", "agent": EMPLOYEE}), "done") as acting:
        await acting.root.message("go")
        (output,) = acting.outputs(acting.root)
        assert not output.success
        assert (acting.parts.agent_registry.tokens, len(acting.session.conversations())) == (0, 1)


async def test_agents_cannot_reach_each_others_canvas() -> None:
    """Issue 9, tests; S001-48: whose it is comes from the token, whatever the arguments say."""
    async with stage() as acting:
        agent_registry = acting.parts.agent_registry
        ada = await acting.session.open(agent=EMPLOYEE)
        eva = await acting.session.open(agent={"name": "eva", "archetype": "service"})
        await agent_registry.internal.call(
            agent_registry.token(eva.id), "canvas_update", {"html": "eva's"}, source="rpc"
        )
        for extra in ("agent_name", "agentName", "conversation_id", "session_id"):
            with pytest.raises(InvalidParamsError):
                mine = {"html": HTML, extra: eva.id}
                await agent_registry.internal.call(agent_registry.token(ada.id), "canvas_update", mine, source="rpc")
        await agent_registry.internal.call(agent_registry.token(ada.id), "canvas_clear", {}, source="rpc")
        assert agent_registry.canvases.get(eva.id).html == "eva's"
        with pytest.raises(NotFoundError):
            agent_registry.canvases.get(ada.id)
        assert [record.ok for record in agent_registry.audit] == [True, False, False, False, False, True]
        assert {record.agent_name for record in agent_registry.audit} == {"ada", "eva"}


async def test_two_agents_may_have_one_name_and_are_two() -> None:
    async with stage() as acting:
        agent_registry = acting.parts.agent_registry
        first, second = [await acting.session.open(agent=EMPLOYEE) for _ in range(2)]
        assert agent_registry.token(first.id) != agent_registry.token(second.id)
        await first.close()
        assert (agent_registry.token(first.id), agent_registry.tokens) == (None, 1)
        with pytest.raises(ClosedError):
            await first.context()
        assert agent_registry.internal.validate_token(agent_registry.token(second.id)).session_id == second.id


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    "agent",
    [
        {"name": "../x"}, {"name": "a" * 4096}, {"name": "a\0b"}, {"name": ""}, {"name": "a b"}, {"name": 3}, {}, [],
        {"name": "ada", "workspace_policy": "eternal"}, {"name": "ada", "launch_mode": "rocket"},
        {"name": "ada", "rank": 1}, {"name": "ada", "archetype": ""}, {"name": "ada", "archetype": "a\0"},
        {"name": "\ud800"}, "ada",
    ],
)  # fmt: skip
async def test_a_bad_agent_is_refused_before_a_provider_is_asked(agent: Any) -> None:
    """S001-51; issue 9, bad input."""
    counts: list[int] = []
    porter = Porter(before=lambda: counts.append(1))
    async with stage(providers=[porter]) as acting:
        with pytest.raises(InvalidParamsError):
            await acting.session.open(agent=agent)
        assert (counts, acting.parts.agent_registry.tokens, len(acting.session.conversations())) == ([], 0, 1)


@pytest.mark.parametrize("refused", [{"title": "x" * 201}, {"model": "nobody/none"}, {"parent_id": "nobody"}])
async def test_what_can_be_refused_is_refused_before_a_provider_is_asked(refused: dict[str, Any]) -> None:
    counts: list[int] = []
    async with stage(providers=[Porter(before=lambda: counts.append(1))]) as acting:
        with pytest.raises(tertulia.TertuliaError):
            await acting.session.open(agent=EMPLOYEE, **refused)
        assert (counts, acting.parts.agent_registry.tokens, len(acting.session.conversations())) == ([], 0, 1)


async def test_camel_case_describes_an_agent_too() -> None:
    async with stage() as acting:
        described = {"name": "ada", "backendType": "pi", "workspacePolicy": "ephemeral", "launchMode": "direct"}
        agent = await acting.session.open(agent=described)
        meta = acting.parts.conversations.find(agent.id).terms.agent.meta
        assert meta == {
            "name": "ada", "archetype": "repo", "backend_type": "pi", "workspace_policy": "ephemeral",
            "launch_mode": "direct",
        }  # fmt: skip


async def test_both_events_tell_whose_context_is_made() -> None:
    """S001-24, S001-25, S001-26."""
    async with stage(providers=[Porter(text="hi", servers=[clock_server("echo")])], cwd="/usr") as acting:
        await acting.session.open(agent=EMPLOYEE)
        data = {event.type: event.data for event in acting.events.drain() if event.type.startswith("session:")}
        preparing, ready = data["session:preparing"], data["session:context-ready"]
        assert (preparing.providerCount, preparing.agentName) == (5, "ada")
        assert (ready.mcpServerCount, ready.toolCount, ready.contextAdditions) == (1, 2, 5)
        assert ready.caller == {"type": "system", "id": "SessionContextInjector"}


async def test_an_agents_tool_is_called_as_any_other_and_its_canvas_shown() -> None:
    """Issue 9, items 6 and 7: in process."""
    draw = call("canvas_update", {"html": HTML, "title": "Hi"})
    async with stage(draw, call("canvas_update", {"html": 3}), "done") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        assert (await agent.message("go")).text == "done"
        good, bad = acting.outputs(agent)
        assert isinstance(good, ToolOutput)
        assert (good.success, good.text, bad.success) == (True, '{"ok":true,"revision":1}', False)
        canvas = acting.parts.agent_registry.canvases.get(agent.id)
        assert (canvas.html, canvas.title, canvas.revision) == (HTML, "Hi", 1)
        updated = [event for event in acting.events.drain() if event.type == "canvas_updated"]
        assert [(event.conversation_id, event.data.revision, event.data.bytes) for event in updated] == [
            (agent.id, 1, len(HTML))
        ]
        assert updated[0].task_id is not None, "it is part of the task that drew"
        (record,) = acting.parts.agent_registry.audit
        assert (record.source, record.agent_name, record.tool, record.ok) == ("native", "ada", "canvas_update", True)


async def test_a_page_that_was_answered_for_is_written_down(lives: Lives) -> None:
    """S001-49: whoever draws faster than the disk is written to waits."""
    async with lives.start() as session:
        agent = await session.open(agent=EMPLOYEE)
        agent_registry = session.parts.agent_registry
        for number in range(3):
            page = f"<p>page {number}</p>"
            await agent_registry.internal.call(
                agent_registry.token(agent.id), "canvas_update", {"html": page}, source="cli"
            )
            assert page.encode() in stored_bytes(session.id)


async def test_a_secret_of_a_providers_server_is_in_no_record(lives: Lives) -> None:
    """E6: as those of the configuration."""
    command, *args = bare("--tools", "env")
    server = tertulia.McpServerStdio("clock", command, args, {"API_KEY": "correct-horse-battery"})
    replies = (call("clock__env", {"name": "API_KEY"}), "done")
    async with lives.start(*replies, providers=[Porter(servers=[server])], approval_policy="never") as session:
        agent = await session.open(agent=EMPLOYEE)
        session.parts.servers.approvals[agent.id] = "approve"
        await agent.message("go")
        conversation = session.parts.conversations.find(agent.id)
        text = str(list(conversation.history.snapshot()))
        assert ("correct-horse-battery" in text, "[redacted:secret]" in text) == (False, True), "it has it, and says so"
    assert b"correct-horse-battery" not in stored_bytes(session.id)


async def test_a_server_may_be_one_that_runs_already() -> None:
    """X-51: reached by its address, with headers; nobody is there."""
    porter = Porter(servers=[McpServerHttp("far", "http://127.0.0.1:9/mcp", {"X-Key": "correct-horse"})])
    async with stage("hi", providers=[porter]) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        assert (await agent.message("go")).text == "hi"
        states = [event.data for event in acting.events.drain() if event.type == "mcp_server_status"]
        assert states[-1].name == "far"
        assert not any("correct-horse" in str(state) for state in states)


async def test_a_package_whose_provider_cannot_be_loaded_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """S001-39: looked for with the first agent, and no session fails for it."""

    def broken() -> object:
        raise ImportError("no such module")

    found = [("the entry point lobby", lambda: Porter("lobby", text="Welcome.")), ("the entry point bad", broken)]
    monkeypatch.setattr("tertulia.context.injector.installed_providers", lambda: found)
    async with stage(cwd="/usr") as acting:
        assert "lobby" not in acting.parts.agent_registry._injector.list_providers()
        for name in ("ada", "eva"):
            agent = await acting.session.open(agent={"name": name})
            assert "Welcome." in told(acting, agent)[0]
        warnings = [event.data.message for event in acting.events.drain() if event.type == "warning"]
        assert len(warnings) == 1
        assert "the entry point bad" in warnings[0]
