"""A conversation's tools for a program that is not ours: its view, limits and approvals. Real servers, both eras."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest

import tertulia
from tertulia.mcp.view import NamedView
from tertulia.policy.limits import Limits
from tertulia.session.session import Session
from tests.mcp.connected import recorded, until
from tests.mcp.fakes import plain
from tests.server.brokering import WAITED_FOR, News, Person, bare_server, refusal, served_to, text
from tests.tables import each_row

eras = pytest.mark.parametrize("era", ["old", "new"])


def start_session(**settings: Any) -> Session:
    servers = settings.pop("mcp_servers", {"fake": bare_server()})
    return tertulia.Session.start(tertulia.Settings(model="scripted/tour", mcp_servers=servers, **settings))


@eras
async def test_a_client_sees_what_its_view_lets_through_and_can_call_nothing_else(era: str) -> None:
    """Issue 8, item 6; X-23: refused at the call too, and so is what is ours and not a server's."""
    view = NamedView(name="review", mcp_tool_allowlist=("fake__echo", "fake__pid"))
    async with start_session() as session, served_to(session, era, view) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["fake__echo", "fake__pid"]
        assert text(await client.call_tool("fake__echo", {"text": "hi"})) == "hi"
        for hidden in ("fake__env", "shell", "apply_patch", "update_plan", "conv_create", "conv.list", "nothing", ""):
            refused = refusal(await client.call_tool(hidden, {}))
            assert refused["code"] == "not_found", hidden
        assert session.root.id


@eras
async def test_arguments_are_checked_before_they_are_sent(era: str, tmp_path: Path) -> None:
    """C14."""
    record = tmp_path / "record"
    servers = {"fake": bare_server("--record", str(record))}
    async with start_session(mcp_servers=servers) as session, served_to(session, era) as client:
        assert refusal(await client.call_tool("fake__echo", {"text": 1}))["code"] == "invalid_params"
        assert "call echo" not in recorded(record)
        assert text(await client.call_tool("fake__echo", {"text": "1"})) == "1"
        assert recorded(record).count("call echo") == 1


@eras
async def test_pictures_structure_and_true_sizes_arrive(era: str) -> None:
    """Issue 8, item 5."""
    async with start_session() as session, served_to(session, era) as client:
        structured = await client.call_tool("fake__structured", {})
        assert structured.structured_content == {"n": 1, "list": [1, 2]}
        mixed = await client.call_tool("fake__mixed", {})
        assert "image" in [block.type for block in mixed.content]
        assert text(mixed).startswith("first")
        failed = await client.call_tool("fake__fail", {"text": "no luck"})
        assert (failed.is_error, text(failed)) == (True, "no luck")


@eras
async def test_what_is_too_long_is_cut_and_says_so(era: str) -> None:
    view = NamedView(name="small", limits=Limits(max_output_bytes=2_000))
    async with start_session() as session:
        async with served_to(session, era, view) as client:
            output = text(await client.call_tool("fake__size", {"bytes": 400_000}))
            assert len(output.encode()) <= 2_000
            assert "400,000 bytes" in output
        async with served_to(session, era) as client:
            output = text(await client.call_tool("fake__size", {"bytes": 4 << 20}))
            assert len(output.encode()) <= (1 << 20) + 200
            assert "4,194,304" in output


async def test_a_structure_that_is_longer_than_the_limit_is_left_out() -> None:
    view = NamedView(name="small", limits=Limits(max_output_bytes=10))
    async with start_session() as session, served_to(session, "new", view) as client:
        result = await client.call_tool("fake__structured", {})
        assert result.structured_content is None
        assert len(text(result)) <= 10


@eras
async def test_a_view_has_limits_of_its_own(era: str) -> None:
    """S002-39: concurrency 1, and nobody waits."""
    view = NamedView(name="one", limits=Limits(mcp_concurrency=1, mcp_wait_s=0.01))
    servers = {"fake": bare_server(parallel=True)}
    signal = asyncio.Event()

    async def hear(*_: object) -> None:
        signal.set()

    async with (
        start_session(mcp_servers=servers) as session,
        served_to(session, era, view) as client,
        served_to(session, era) as free,
        asyncio.TaskGroup() as group,
    ):
        slow = group.create_task(client.call_tool("fake__slow", {"seconds": 1}, progress_callback=hear))
        await signal.wait()
        refused = refusal(await client.call_tool("fake__echo", {"text": "x"}))
        assert refused["code"] == "limit"
        assert "mcp_concurrency" in refused["reason"]
        assert text(await free.call_tool("fake__echo", {"text": "y"})) == "y"
        assert text(await slow) == "done"


async def test_a_view_has_a_rate_of_its_own() -> None:
    """S002-39."""
    view = NamedView(name="slow", limits=Limits(mcp_rate_per_s=0.01, mcp_wait_s=0.01))
    async with start_session() as session, served_to(session, "new", view) as client, served_to(session, "new") as free:
        assert text(await client.call_tool("fake__echo", {"text": "x"})) == "x"
        refused = refusal(await client.call_tool("fake__echo", {"text": "x"}))
        assert refused["code"] == "limit"
        assert "mcp_rate_per_s" in refused["reason"]
        assert text(await free.call_tool("fake__echo", {"text": "y"})) == "y"


async def test_two_clients_take_turns() -> None:
    """C17: who asks for one thing does not wait for all that another has asked for before."""
    order: list[str] = []
    servers = {"fake": bare_server(concurrency=1, parallel=True)}

    async def call(who: Any, name: str) -> None:
        assert text(await who.call_tool("fake__slow", {"seconds": 0.1})) == "done"
        order.append(name)

    async with (
        start_session(mcp_servers=servers) as session,
        served_to(session, "new") as greedy,
        served_to(session, "new") as modest,
        session.events() as news,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(10):
            group.create_task(call(greedy, "greedy"))
        waiting = 0
        async for event in news:
            waiting += event.type == "background_event"
            if waiting == 9:
                break
        group.create_task(call(modest, "modest"))
        # On a busy machine some of the others are done before it has asked at all.
        async for event in news:
            if event.type == "background_event":
                break
        done = len(order)
    assert len(order) == 11
    assert order.index("modest") <= done + 2


@eras
@each_row(
    ("answers", "code"),
    [
        ([{"decision": "allow"}], None),
        ([{"decision": "deny"}], "approval_denied"),
        ([{"decision": "whatever"}], "approval_denied"),
        (["decline"], "approval_denied"),
        (["cancel"], "approval_denied"),
    ],
)
async def test_an_approval_is_asked_through_the_client(era: str, answers: list[Any], code: str | None) -> None:
    """X-66: and nothing is called without a yes."""
    person = Person(*answers)
    servers = {"fake": bare_server(approval="prompt")}
    async with (
        start_session(mcp_servers=servers) as session,
        served_to(session, era, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("fake__echo", {"text": "hi"})
        if code is None:
            assert text(result) == "hi"
        else:
            assert refusal(result)["code"] == code
        assert (await session.metrics()).session.mcp.calls == (code is None)
        assert await session.approvals.pending() == []
    [question] = person.asked
    assert isinstance(question, t.ElicitRequestFormParams)
    assert "call echo of the MCP server fake" in question.message
    assert '"text": "hi"' in question.message


@eras
async def test_a_yes_for_good_is_this_clients_and_for_the_same_call(era: str) -> None:
    """B5."""
    always = {"decision": "allow always, until this client is gone"}
    servers = {"fake": bare_server(approval="prompt")}
    async with start_session(mcp_servers=servers) as session:
        mine, others = Person(always, "decline"), Person("decline")
        async with (
            served_to(session, era, elicitation_callback=mine) as client,
            served_to(session, era, elicitation_callback=others) as other,
        ):
            for _ in range(2):
                assert text(await client.call_tool("fake__echo", {"text": "hi"})) == "hi"
            assert len(mine.asked) == 1
            assert refusal(await client.call_tool("fake__echo", {"text": "ho"}))["code"] == "approval_denied"
            assert refusal(await other.call_tool("fake__echo", {"text": "hi"}))["code"] == "approval_denied"
        assert await session.approvals.grants() == []


async def test_a_call_that_is_given_up_while_somebody_is_asked_asks_nobody_any_more() -> None:
    person = Person({"decision": "allow"})
    person.may_answer.clear()
    servers = {"fake": bare_server(approval="prompt")}
    async with (
        start_session(mcp_servers=servers) as session,
        served_to(session, "old", elicitation_callback=person) as client,
    ):
        calling = asyncio.create_task(client.call_tool("fake__echo", {"text": "hi"}))
        await person.being_asked.wait()
        assert len(await session.approvals.pending()) == 1
        calling.cancel()
        await until(lambda: session.parts.command_services.approvals.pending() == [])
        person.may_answer.set()
        assert (await session.metrics()).session.mcp.calls == 0


@eras
async def test_where_the_client_cannot_ask_the_refusal_names_the_setting_at_once(era: str) -> None:
    """DESIGN, Fine print, MCP."""
    servers = {"fake": bare_server(approval="prompt")}
    async with start_session(mcp_servers=servers) as session, served_to(session, era) as client:
        refused = refusal(await client.call_tool("fake__echo", {"text": "hi"}))
        assert refused["code"] == "no_approver"
        assert '[mcp_servers.fake] approval = "approve"' in refused["reason"]
        assert (await session.metrics()).session.mcp.calls == 0


@eras
@pytest.mark.parametrize(("server", "view", "expected"), [("prompt", "approve", 0), ("approve", "prompt", 1)])
async def test_a_view_says_what_is_asked_about(era: str, server: str, view: Any, expected: int) -> None:
    """docs/mcp.md, named views: `approval` for all servers, and for this client alone."""
    person = Person({"decision": "allow"})
    servers = {"fake": bare_server(approval=server)}
    async with start_session(mcp_servers=servers) as session:
        named = NamedView(name="v", approval=view)
        async with served_to(session, era, named, elicitation_callback=person) as client:
            assert text(await client.call_tool("fake__echo", {"text": "hi"})) == "hi"
            assert len(person.asked) == expected
        assert session.parts.servers.approvals == {}


@eras
@pytest.mark.parametrize("kind", ["bare", "plain"])
async def test_what_a_server_asks_is_asked_by_the_client_of_that_call(era: str, kind: str) -> None:
    """Issue 8, item 5: in all four pairs of eras."""
    command, *args = plain()
    table = {"command": command, "args": args, "approval": "approve", **WAITED_FOR}
    servers = {"fake": bare_server() if kind == "bare" else table}
    mine, others = Person({"ok": True}, "decline"), Person()
    async with start_session(mcp_servers=servers) as session:
        async with (
            served_to(session, era, elicitation_callback=mine) as client,
            served_to(session, era, elicitation_callback=others) as _,
        ):
            assert "accept" in text(await client.call_tool("fake__ask", {"question": "May I?"}))
            assert "decline" in text(await client.call_tool("fake__ask", {"question": "May I?"}))
        async with served_to(session, era) as mute:
            assert "decline" in text(await mute.call_tool("fake__ask", {"question": "May I?"}))
        assert await session.approvals.elicitations() == []
    assert len(mine.asked) == 2
    assert all(question.message.startswith("The MCP server fake asks: ") for question in mine.asked)
    assert others.asked == []


@eras
async def test_giving_up_reaches_the_server(era: str, tmp_path: Path) -> None:
    """Issue 8, item 5."""
    record = tmp_path / "record"
    servers = {"fake": bare_server("--record", str(record))}
    async with start_session(mcp_servers=servers) as session, served_to(session, era) as client:
        signal = asyncio.Event()

        async def hear(*_: object) -> None:
            signal.set()

        calling = asyncio.create_task(client.call_tool("fake__slow", {"seconds": 30}, progress_callback=hear))
        await signal.wait()
        calling.cancel()
        await until(lambda: "cancelled slow" in recorded(record))
        assert text(await client.call_tool("fake__echo", {"text": "still here"})) == "still here"


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NEW = [
    {"name": "echo", "description": "another echo", "inputSchema": {"type": "object"}},
    {"name": "fresh", "description": "fresh", "inputSchema": {"type": "object"}},
    {"name": "define", "description": "define", "inputSchema": TEXT},
]


async def test_what_changed_is_told_and_a_changed_definition_is_withheld_in_the_old_era() -> None:
    """C1, X-25: for the client that saw the other definition; a new client sees the new one."""
    news = News()
    async with start_session() as session, served_to(session, "old", message_handler=news) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "fake__echo" in names
        news.came.clear()
        await client.call_tool("fake__define", {"tools": NEW})
        await news.came.wait()
        assert set(news.methods) == {"notifications/tools/list_changed"}
        await until(lambda: any(spec.name == "fake__fresh" for spec in session.parts.servers.list_tools()))
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert "fake__fresh" in listed
        assert not {"fake__echo", "fake__env"} & set(listed)
        refused = refusal(await client.call_tool("fake__echo", {"text": "hi"}))
        assert refused["code"] in ("not_found", "mcp_error")
        async with served_to(session, "old") as later:
            assert "fake__echo" in [tool.name for tool in (await later.list_tools()).tools]


async def test_a_listener_of_the_new_era_is_told_too() -> None:
    async with start_session() as session, served_to(session, "new") as client:
        await client.list_tools()
        async with client.listen(tools_list_changed=True) as listening:
            await client.call_tool("fake__define", {"tools": NEW})
            await anext(aiter(listening))
        await until(lambda: any(spec.name == "fake__fresh" for spec in session.parts.servers.list_tools()))
        assert "fake__fresh" in [tool.name for tool in (await client.list_tools()).tools]


async def test_nothing_of_a_client_is_left_when_it_is_gone() -> None:
    """C12: a hundred come and go."""
    async with start_session() as session:
        async with served_to(session, "new") as client:
            pid = text(await client.call_tool("fake__pid", {}))
        idle = len(session.parts.nursery)
        before = len(session.conversations())
        for number in range(100):
            async with served_to(
                session, "old" if number % 2 else "new", NamedView(name="v", approval="approve")
            ) as client:
                assert text(await client.call_tool("fake__pid", {})) == pid
        assert len(session.conversations()) == before == 1
        assert session.parts.servers.approvals == {}
        await until(lambda: len(session.parts.nursery) == idle)
