"""The servers of a session, over a fake server in memory. With real ones: tests/session/mcp/test_host.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import McpError, NotFoundError
from tertulia.mcp.pool.session_server import ConfiguredServer
from tertulia.mcp.pool.session_servers import GRACE_S, REFRESH_GRACE_S, IdleServers, SessionServers
from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.events import BackgroundEvent, EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import McpServerStatus
from tertulia.session.views import server_visibility
from tertulia.testing.fake_mcp_server import fake_tool
from tests.deadlines import HANG_S
from tests.mcp.connected import recorded, until
from tests.mcp.fakes.number import lives
from tests.mcp.pool_stage import ECHO, PoolStage, caller, definition, launch, pool_stage
from tests.mcp.virtual_time import LoopClock, in_virtual_time, steps
from tests.session.mcp.test_host import pid_of
from tests.session.mcp_stage import calls, names, outputs, served, server

A, B = ConversationId("a"), ConversationId("b")


def now() -> float:
    return asyncio.get_running_loop().time()


def candidate(name: str = "fs", number: int = 1, **changes: Any) -> ConfiguredServer:
    return ConfiguredServer(name, definition(name, **changes), launch(number))


class ServersStage:
    """A session's servers, and what they tell."""

    def __init__(self, stage: PoolStage) -> None:
        self.stage, self.told = stage, list[EventData]()
        self.servers = SessionServers(stage.pool, "session", LoopClock(), self.told.append)

    def statuses(self, name: str = "fs") -> list[str]:
        return [line.status for line in self.told if isinstance(line, McpServerStatus) and line.name == name]

    def names(self, conversation: ConversationId | None = None) -> list[str]:
        return [spec.name for spec in self.servers.list_tools(conversation)]

    async def call(self, name: str, conversation: ConversationId) -> str:
        spec = next(spec for spec in self.servers.list_tools(conversation) if spec.name == name)
        answer = await self.servers.call(spec, {}, caller(conversation), timeout_s=30.0, on_progress=lambda *_: None)
        return answer.text


@asynccontextmanager
async def servers_stage(*candidates: ConfiguredServer) -> AsyncIterator[ServersStage]:
    async with pool_stage() as stage:
        made = ServersStage(stage)
        made.servers.begin(candidates)
        yield made
        await made.servers.close(8.0)
        await made.servers.close(8.0)
        assert stage.pool.leases() == 0


@in_virtual_time
async def test_all_start_at_once_and_are_told_of() -> None:
    """S000-20, S000-27"""
    async with servers_stage(candidate("b", 2), candidate("a", 1), ConfiguredServer("c", status="disabled")) as on:
        assert on.names() == []
        assert sorted(on.servers.absent()) == ["a", "b"]
        await on.servers.settle()
        assert on.names() == ["a__echo", "b__echo"]
        assert on.servers.list_tools() is on.servers.list_tools(), "one object while nothing changes"
        assert on.servers.absent() == []
        assert [(one.name, one.status, one.tools) for one in on.servers.reports()] == [
            ("a", "ready", 1),
            ("b", "ready", 1),
            ("c", "disabled", 0),
        ]
        assert [on.statuses(name) for name in "abc"] == [["starting", "ready"], ["starting", "ready"], ["disabled"]]


@in_virtual_time
async def test_one_that_does_not_come_up_is_waited_for_once_and_not_longer_than_the_grace() -> None:
    """Deliver 2: one slow server delays the first turn by a bounded grace, and no other."""
    async with servers_stage(candidate()) as on:
        on.stage.fake.starting.shut()
        began = now()
        await on.servers.settle()
        assert now() - began == pytest.approx(GRACE_S)
        await on.servers.settle()
        assert now() - began == pytest.approx(GRACE_S)
        on.stage.fake.starting.open()
        await steps()
        assert on.names() == ["fs__echo"]


def told(on: ServersStage) -> list[str]:
    return [data.message for data in on.told if isinstance(data, WarningEvent | BackgroundEvent)]


@in_virtual_time
async def test_what_is_waited_for_is_told_and_what_was_late_joins_later() -> None:
    """Issue 19, 11"""
    async with servers_stage(candidate(), candidate("other", 2)) as on:
        on.stage.fake.starting.shut()
        await on.servers.settle()
        await on.servers.settle()
        waiting, *late = told(on)
        assert waiting == "waiting up to 4 s for the MCP server 'fs', 'other'"
        assert [text.partition(" was")[0] for text in late] == ["MCP server 'fs'", "MCP server 'other'"]
        assert [data.code for data in on.told if isinstance(data, WarningEvent)] == ["mcp_server_not_ready"] * 2
        on.stage.fake.starting.open()
        await steps()
        assert told(on)[3:] == [
            "MCP server 'fs' is ready; its tools join at the next task",
            "MCP server 'other' is ready; its tools join at the next task",
        ]


@in_virtual_time
async def test_one_that_is_up_soon_is_waited_for_without_a_word() -> None:
    async with servers_stage(candidate()) as on:
        await on.servers.settle()
        assert told(on) == []


@in_virtual_time
async def test_one_that_has_failed_is_not_waited_for_when_it_starts_again() -> None:
    """Issue 19, 11: one broken server costs a run no grace."""
    async with pool_stage() as stage:
        on = ServersStage(stage)
        stage.fake.start_errors.append("no such program")
        on.servers.begin([candidate()])
        await on.servers.settle()
        stage.fake.starting.shut()
        await asyncio.sleep(1)
        assert on.statuses() == ["starting", "failed", "starting"]
        began = now()
        await on.servers.settle()
        assert (now() - began, told(on)) == (0, [])
        await on.servers.close(8.0)


@in_virtual_time
async def test_why_a_tool_of_a_server_is_not_there() -> None:
    """Issue 19, 11: the model reads the reason."""
    inactive = ConfiguredServer("no", status="untrusted", error="you have not trusted it")
    async with servers_stage(
        candidate(), candidate("fs__more", 2), ConfiguredServer("off", status="disabled"), inactive
    ) as on:
        on.stage.fake.starting.shut()

        def why(tool: str) -> str | None:
            error = on.servers.absence(tool, A)
            return None if error is None else error.message

        assert why("fs__echo") == "MCP server 'fs' is still starting; its tools join at the next task, once it is ready"
        assert (why("fs__more__echo") or "").startswith("MCP server 'fs__more' is still")
        assert why("off__x") == "MCP server 'off' is disabled"
        assert why("no__x") == "MCP server 'no' is untrusted: you have not trusted it"
        assert why("stranger__x") is None
        on.stage.fake.starting.open()
        await on.servers.settle()
        assert why("fs__echo") == "MCP server 'fs' became ready after this task began; its tools join at the next"
        assert why("fs__nothing") is None


@in_virtual_time
async def test_a_list_that_has_run_out_is_asked_for_again_within_a_moment() -> None:
    """X-23: ttlMs; one that does not answer keeps its old list."""
    async with servers_stage(candidate()) as on:
        on.stage.fake.ttl_s = 30.0
        await on.servers.settle()
        on.stage.fake.tools = (ECHO, fake_tool("new"))
        await on.servers.catch_up()
        assert on.names() == ["fs__echo"], "it still holds"
        began = now()
        on.stage.fake.listing.shut()
        await asyncio.sleep(30)
        await on.servers.catch_up()
        assert now() - began == pytest.approx(30 + REFRESH_GRACE_S)
        assert on.names() == ["fs__echo"]
        on.stage.fake.listing.open()
        await on.servers.catch_up()
        assert on.names() == ["fs__echo", "fs__new"]


@in_virtual_time
async def test_a_required_server_that_fails_is_an_error_and_any_other_is_not() -> None:
    """`required`"""
    async with servers_stage(candidate("a", 1, required=True), ConfiguredServer("b", status="failed", error="x")) as on:
        await on.servers.require()
    async with pool_stage() as stage:
        on = ServersStage(stage)
        stage.fake.start_errors.append("no such program")
        on.servers.begin([candidate(required=True)])
        with pytest.raises(McpError, match="'fs' is required and failed: no such program"):
            await on.servers.require()
        await on.servers.close(8.0)


@in_virtual_time
async def test_a_required_server_that_is_switched_off_is_an_error_that_says_what_to_do() -> None:
    switched_off = ConfiguredServer("fs", definition("fs", required=True), status="disabled")
    async with servers_stage(switched_off) as on:
        with pytest.raises(McpError, match="is required and disabled: set enabled = true, or required = false"):
            await on.servers.require()


@in_virtual_time
async def test_a_refresh_is_of_all_or_of_some_and_of_no_stranger() -> None:
    """`mcp/refresh`"""
    async with servers_stage(candidate("a", 1), candidate("b", 2)) as on:
        await on.servers.settle()
        on.stage.fake.tools = (ECHO, fake_tool("new"))
        before = on.stage.fake.listing.reached
        with pytest.raises(NotFoundError, match="'c'; there is a, b"):
            await on.servers.refresh(["a", "c"])
        assert on.stage.fake.listing.reached == before
        await on.servers.refresh(["a"])
        assert on.names() == ["a__echo", "a__new", "b__echo"]
        on.stage.fake.list_errors.append("no")
        await on.servers.refresh()
        await on.servers.refresh()
        assert on.names() == ["a__echo", "a__new", "b__echo", "b__new"]


@in_virtual_time
async def test_with_one_process_a_conversation_each_has_its_own_and_takes_it_along() -> None:
    """`share = "conversation"`: the first gets the one that was started for the list, and ends it too."""
    async with servers_stage(candidate(share="conversation")) as on:
        await on.servers.settle()
        fake = on.stage.fake
        assert await on.call("fs__echo", A) == "a: {}"
        assert len(fake.launches) == 1
        assert await on.call("fs__echo", B) == "b: {}"
        assert (len(fake.launches), fake.open) == (2, 2)
        await on.servers.forget(A)
        assert fake.open == 1
        assert on.names() == ["fs__echo"], "what it offers is known"
        assert on.statuses()[-1] == "stopped"
        await on.servers.forget(B)
        assert fake.open == 0
        assert await on.call("fs__echo", ConversationId("c")) == "c: {}"
        assert (len(fake.launches), on.stage.pool.leases()) == (3, 1)


@in_virtual_time
async def test_a_private_server_is_seen_by_its_conversation_only_and_ends_with_it() -> None:
    """S002-38: servers of an agent."""
    async with servers_stage(candidate("fs", 1)) as on:
        on.servers.add_private(A, [candidate("own", 2), candidate("fs", 3)])
        on.servers.add_private(A, [candidate("own", 2)])
        await on.servers.settle()
        assert (on.names(A), on.names(B), on.names()) == (["fs__echo", "own__echo"], ["fs__echo"], ["fs__echo"])
        assert on.servers.has_private(A)
        assert [line.message for line in on.told if isinstance(line, WarningEvent)] == [
            "MCP server 'fs' is there already; the agent's is left out"
        ]
        assert await on.call("own__echo", A) == "a: {}"
        with pytest.raises(McpError, match="no MCP server 'own'"):
            on.servers.member("own", B)
        await on.servers.forget(A)
        assert (on.names(A), on.servers.has_private(A), on.stage.fake.open) == (["fs__echo"], False, 1)
        count = len(on.told)
        on.stage.fake.change(ECHO)
        await steps()
        assert len(on.told) == count


@in_virtual_time
async def test_a_thousand_private_servers_leave_nothing_behind() -> None:
    """S000-44, C12"""
    async with servers_stage() as on:
        for number in range(1_000):
            one = ConversationId(str(number))
            on.servers.add_private(one, [candidate("own", start="lazy")])
            await on.servers.forget(one)
        assert (on.stage.pool.leases(), on.stage.fake.open, on.stage.pool.servers) == (0, 0, ())
        names = [name for name, value in vars(on.servers).items() if isinstance(value, dict | list) and value]
        assert names == []


@in_virtual_time
async def test_what_cannot_be_offered_is_told_once() -> None:
    """Issue 8: a tool that is left out is a warning, not a silence."""
    async with servers_stage(candidate()) as on:
        on.stage.fake.tools = (ECHO, fake_tool("n" * 300))
        await on.servers.settle()
        warnings = [line.message for line in on.told if isinstance(line, WarningEvent)]
        assert len(warnings) == 1
        assert "left out" in warnings[0]
        await on.servers.refresh()
        assert len([line for line in on.told if isinstance(line, WarningEvent)]) == 1


@in_virtual_time
async def test_what_is_reached_is_what_there_is_now() -> None:
    """C1, X-66"""
    async with servers_stage(candidate()) as on:
        await on.servers.settle()
        (spec,) = on.servers.list_tools()
        assert on.servers.current(spec, A).digest == spec.digest
        on.servers.approvals[A] = "prompt"
        assert (
            on.servers.current(spec, A).definition.approval,
            on.servers.current(spec, B).definition.approval,
        ) == (
            "prompt",
            "auto",
        )
        on.stage.fake.change(fake_tool("echo", "Deletes."))
        await on.servers.refresh()
        assert on.servers.current(spec, A).digest != spec.digest
        on.stage.fake.change()
        await on.servers.refresh()
        with pytest.raises(McpError, match="no tool 'echo' any more"):
            on.servers.current(spec, A)
        await on.servers.forget(A)
        assert on.servers.approvals == {}


@in_virtual_time
async def test_who_watches_hears_of_changes_until_it_stops() -> None:
    async with servers_stage(candidate()) as on:
        heard: list[None] = []
        unwatch = on.servers.watch(lambda: heard.append(None))
        await on.servers.settle()
        assert heard
        unwatch()
        before = len(heard)
        on.stage.fake.die()
        await steps()
        assert len(heard) == before


@in_virtual_time
async def test_nothing_is_told_of_a_session_that_is_over() -> None:
    async with servers_stage(candidate()) as on:
        await on.servers.settle()
        before = list(on.told)
        await on.servers.close(8.0)
        await steps()
        assert on.told == before
        assert on.stage.fake.open == 0


@in_virtual_time
async def test_what_a_server_sent_amiss_is_told_after_the_call() -> None:
    """C7: dropped, and an event; the call has its answer."""
    async with servers_stage(candidate()) as on:
        await on.servers.settle()

        async def odd(*_: object) -> CallResult:
            on.stage.fake.connections[-1].dropped["a response to no request"] += 1
            return CallResult("fine")

        on.stage.fake.handlers["echo"] = odd
        for _ in range(2):
            assert await on.call("fs__echo", A) == "fine"
        warnings = [line for line in on.told if isinstance(line, WarningEvent)]
        assert [(warning.code, warning.message) for warning in warnings] == [
            ("mcp_server", "MCP server 'fs' sent a response to no request; it was dropped")
        ]


# ---- servers that no view uses, in a session with real ones


def idle_of(session) -> IdleServers:
    parts = session.parts
    return IdleServers(parts.servers.members, parts.clock, server_visibility(parts.conversations))


async def test_a_server_that_nobody_sees_is_stopped_after_its_time_and_started_again_by_a_call() -> None:
    """S002-40: idle reclaim when no view uses it."""
    async with served({"fs": server("pid", idle_timeout_sec=0.01)}, *(calls("fs__pid") * 2)) as session:
        before, idle = await pid_of(session, session.root), idle_of(session)
        await idle.stop_unseen()
        assert lives(before), "somebody sees it"
        await session.root.set_context(mcp_tool_allowlist=[])
        await idle.stop_unseen()
        assert lives(before), "its time is not over"
        watching = asyncio.create_task(idle.watch(0.005))
        async with asyncio.timeout(HANG_S), session.events(after=0) as news:
            async for event in news:
                if event.type == "mcp_server_status" and event.data.status == "stopped":
                    break
        assert session.info.mcp[0]["status"] == "stopped"
        await until(lambda: not lives(before))
        watching.cancel()
        await session.root.set_context(mcp_tool_allowlist=None)
        assert names(session.root) == ["fs__pid"], "what it offers is still known"
        await idle.stop_unseen()
        assert await pid_of(session, session.root) != before


async def test_a_server_is_not_stopped_in_the_middle_of_a_call_that_nobody_could_make_any_more(tmp_path: Path) -> None:
    """S002-40: a view may be narrowed while one of its calls is under way."""
    record = tmp_path / "record"
    table = server(idle_timeout_sec=0.001)
    table["args"] += ["--record", str(record)]
    async with served({"fs": table}, *calls("fs__slow", {"seconds": 0.2})) as session:
        asking = asyncio.ensure_future(session.root.message("go"))
        await until(lambda: "call slow" in recorded(record))
        await session.root.set_context(mcp_tool_allowlist=[])
        idle = idle_of(session)
        while not asking.done():
            await idle.stop_unseen()
            await asyncio.sleep(0)
        assert await outputs(session, session.root) == [(True, "done")]
        async with asyncio.timeout(HANG_S):
            while session.info.mcp[0]["status"] == "ready":
                await idle.stop_unseen()
                await asyncio.sleep(0)


async def test_a_server_that_others_share_or_that_may_stay_is_not_stopped() -> None:
    """S002-40"""
    servers = {
        "ours": server("pid", idle_timeout_sec=0.01, share="host"),
        "off": server("pid", enabled=False, required=False),
    }
    async with served(servers) as session:
        await session.root.set_context(mcp_tool_allowlist=[])
        for _ in range(3):
            await idle_of(session).stop_unseen()
        assert {one["name"]: one["status"] for one in session.info.mcp} == {"ours": "ready", "off": "disabled"}
