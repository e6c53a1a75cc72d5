"""Providers that change their minds, fail, hang, or have too much to say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.testing import FakeClock, ScriptedReply, call
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare
from tests.session.agents_stage import EMPLOYEE, Porter, bell, names, told
from tests.session.staging import Stage, stage
from tests.tables import each_row


def updates(acting: Stage, agent: Any) -> list[str]:
    return [text for text in told(acting, agent) if text.startswith("<context_update>")]


# ── between tasks ────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_provider_says_anew_is_told_once_before_the_next_task() -> None:
    """Issue 9, item 1: dynamic refresh. The history is added to, never rewritten."""
    porter = Porter(text="## Weather\n\nIt rains.\n\n## Lunch\n\nSoup.")
    async with stage("one", "two", "three", providers=[porter], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        before = told(acting, agent)
        await agent.message("go")
        assert updates(acting, agent) == []
        porter.text = "## Weather\n\nThe sun shines.\n\n## Lunch\n\nSoup."
        await agent.message("go")
        await agent.message("go")
        news = "<context_update>\n\n## Weather\n\nThe sun shines.\n\n</context_update>"
        assert told(acting, agent) == [*before, news]
        assert news in [item.text for item in acting.model.requests[1].items]
        additions = (await agent.context()).additions
        assert [addition["text"] for addition in additions if addition["provider"] == "porter"] == [porter.text]


async def test_what_is_said_no_longer_is_taken_back_and_can_be_said_again() -> None:
    porter = Porter(text="It rains.")
    async with stage("one", "two", "three", providers=[porter], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        porter.text = None
        await agent.message("go")
        porter.text = "It rains."
        await agent.message("go")
        taken, again = updates(acting, agent)
        assert "What was said above by porter no longer holds." in taken
        assert "It rains." in again


async def test_tools_are_those_of_now_and_their_list_is_told_anew() -> None:
    """An old one cannot be called any more, a new one can."""
    porter = Porter(tools=[bell("old")])
    async with stage("hi", call("old", {}), call("new", {}), "done", providers=[porter]) as acting:
        agent = await acting.session.open(agent={"name": "ada"})
        await agent.message("go")
        assert names(agent, "injector") == ["old"]
        porter.tools = [bell("new")]
        await agent.message("go")
        assert names(agent, "injector") == ["new"]
        assert [output.success for output in acting.outputs(agent)] == [False, True]
        (news,) = updates(acting, agent)
        assert "- new: Rings a bell." in news


async def test_inside_a_task_nothing_changes() -> None:
    """A list of tools holds for a whole task."""
    porter = Porter(text="one")

    def change(request: Any) -> Any:
        porter.text, porter.tools = "two", [bell()]
        return call("update_plan", {"plan": []})

    async with stage(change, "done", "again", providers=[porter], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        await agent.message("go")
        first, second = acting.model.requests
        assert first.tools == second.tools
        assert updates(acting, agent) == []
        await agent.message("go")
        assert len(updates(acting, agent)) == 1


async def test_a_server_that_a_provider_describes_later_joins() -> None:
    command, *args = bare("--tools", "echo")
    porter = Porter()
    async with stage("one", "two", providers=[porter]) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        porter.servers = [{"name": "clock", "command": command, "args": args}]
        await agent.message("go")
        assert names(agent, "mcp") == ["clock__echo"]
        assert names(acting.root, "mcp") == []


async def test_a_new_day_and_another_branch_cost_a_few_words(tmp_path: Path) -> None:
    """The rules of the project stand in the same text and are not repeated."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "AGENTS.md").write_text("Be tidy. " * 1000)
    clock = FakeClock()
    async with stage("one", "two", clock=clock, cwd=str(tmp_path)) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        assert "Be tidy." in told(acting, agent)[0]
        (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
        await agent.message("go")
        (news,) = updates(acting, agent)
        assert "topic" in news
        assert "Be tidy." not in news
        assert len(news) < 500


async def test_a_provider_that_fails_later_takes_nothing_back() -> None:
    """Nobody knows that what it said no longer holds; that it failed is told."""
    porter = Porter(text="It rains.")

    def fail() -> None:
        raise OSError("no weather")

    async with stage("one", "two", providers=[porter], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        porter.before = fail
        assert (await agent.message("go")).status == "completed"
        assert updates(acting, agent) == []
        warnings = [event.data for event in acting.events.drain() if event.type == "warning"]
        assert [(data.code, "porter" in data.message) for data in warnings] == [("provider_failed", True)]


async def test_one_that_closes_while_its_providers_are_asked_ends_well() -> None:
    arrived, never = asyncio.Event(), asyncio.Event()
    porter = Porter(text="x")

    def hang() -> Any:
        arrived.set()
        return never.wait()

    async with stage("one", providers=[porter]) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        porter.before = hang
        task = acting.begin(agent.message("go"))
        await asyncio.wait_for(arrived.wait(), HANG_S)
        await agent.close(timeout=1)
        assert (await task).status == "interrupted"
        assert (acting.parts.agent_registry.tokens, acting.parts.agent_registry.context(agent.id)) == (0, None)


# ── errors at the start ─────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_cut_is_said_when_it_is_opened() -> None:
    """Issue 9, bad input: 10 MB of context; and in the warnings of the answer."""
    async with stage("hi", providers=[Porter("talker", text="word " * 2_000_000, priority=1)], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        (warning,) = agent.warnings
        assert warning.startswith("the context of 'talker' was cut from 2,500,000 to ")
        additions = (await agent.context()).additions
        assert sum(addition["tokens"] for addition in additions) <= 32_000
        assert [addition["provider"] for addition in additions][-1] == "internal-tools"
        assert (await agent.message("go")).text == "hi"


async def test_what_was_cut_is_said_over_the_wire_too() -> None:
    async with stage(providers=[Porter("talker", text="word " * 100_000)], cwd="/usr") as acting:
        host = Host(acting.session.settings)
        done = await operate(host, acting.session, "conversation/open", {"agent": EMPLOYEE})
        answer = getattr(done, "answer", done)
        assert [text for text in answer.warnings if "'talker' was cut" in text]


@each_row("how", ["raises", "scope", "wrong", "cancels"])
async def test_a_provider_that_fails_is_left_out_and_named(how: str) -> None:
    """S001-27, X-45: the agent starts, and whoever opened it is told."""

    def broken() -> Any:
        match how:
            case "raises":
                raise ValueError("key=hunter2hunter2")
            case "cancels":
                raise asyncio.CancelledError
            case _:
                return None

    porter = Porter("bad", before=broken, text="x")
    if how == "wrong":
        porter.tools, porter.text = ["no tool"], "fine"
    if how == "scope":
        porter.tools = [{"name": "x", "scope": "galaxy", "description": "", "rpc_method": "x"}]
    async with stage("hi", providers=[porter, Porter("good", text="still here")], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        assert len(agent.warnings) == 1
        assert "'bad'" in agent.warnings[0]
        assert "hunter2" not in agent.warnings[0]
        assert "still here" in told(acting, agent)[0]
        assert (await agent.message("go")).text == "hi"


async def test_a_provider_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """S001-27: within its bound, here shortened; those after it are asked all the same."""
    never = asyncio.Event()
    porter = Porter("slow", text="x", before=never.wait)
    async with stage("hi", providers=[porter, Porter("good", text="still here")], cwd="/usr") as acting:
        monkeypatch.setattr(acting.parts.agent_registry._injector, "_timeout_s", 0.05)
        async with asyncio.timeout(HANG_S):
            agent = await acting.session.open(agent=EMPLOYEE)
        assert [text for text in agent.warnings if "'slow' did not answer within 0.05 s" in text]
        assert "still here" in told(acting, agent)[0]


async def test_many_agents_are_opened_at_once_and_each_is_itself() -> None:
    """The same providers, interleaved."""
    replies = [lambda request: ScriptedReply(text=request.conversation_id)] * 20
    async with stage(*replies, providers=[Porter(tools=[bell()])]) as acting:
        opened = await asyncio.gather(
            *(acting.session.open(agent={"name": f"agent-{number}", "archetype": "service"}) for number in range(20))
        )
        agent_registry = acting.parts.agent_registry
        assert agent_registry.tokens == 20
        owners = [agent_registry.internal.validate_token(agent_registry.token(agent.id)) for agent in opened]
        assert [(owner.agent_name, owner.session_id) for owner in owners] == [
            (f"agent-{number}", agent.id) for number, agent in enumerate(opened)
        ]


async def test_what_changes_while_it_waits_for_another_is_told_after_the_answer() -> None:
    """Between a call and its output some models accept nothing."""
    porter = Porter(text="It rains.")

    def change(request: Any) -> Any:
        porter.text = "The sun shines."
        return "answered"

    replies = [call("conv_create", {"user_instruction": "hello"}), change, "done", "and then"]
    async with stage(*replies, providers=[porter], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        assert (await agent.message("go")).text == "done"
        assert (await agent.message("go")).text == "and then"
        (news,) = updates(acting, agent)
        assert "The sun shines." in news
        kinds = [type(item).__name__ for item in acting.model.requests[-1].items]
        at = kinds.index("ToolCall")
        assert kinds[at + 1] == "ToolOutput"
