"""The MCP servers of a session: who starts, who shares whom, who ends, and that a bad one harms nobody."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import tertulia
from tertulia.errors import McpError
from tertulia.mcp.pool import session_servers
from tertulia.testing import ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.mcp.connected import until
from tests.mcp.fakes.number import lives
from tests.session.mcp_stage import bad, calls, names, outputs, served, server, so_far
from tests.session.test_operations import client_stage


async def pid_of(session, conversation) -> int:
    await conversation.message("who are you?")
    return int((await outputs(session, conversation))[-1][1])


async def test_a_hundred_conversations_share_one_process_and_it_ends_with_the_session() -> None:
    """S002-37, S000-44: reuse; the leases and the process are gone after close."""
    async with served({"fs": server("pid")}, *(calls("fs__pid") * 20)) as session:
        found = set()
        for number in range(100):
            conversation = await session.open()
            if number % 5 == 0:
                found.add(await pid_of(session, conversation))
        assert len(found) == 1
        pool = session.parts.mcp_host.pool
        assert pool.leases() == 1
        (pid,) = found
        assert lives(pid)
    assert not lives(pid)
    assert pool.leases() == 0


async def test_a_conversation_may_have_a_server_of_its_own_and_takes_it_along() -> None:
    """`share = "conversation"`"""
    async with served({"fs": server("pid", share="conversation")}, *(calls("fs__pid") * 4)) as session:
        first, second = await session.open(), await session.open()
        pids = [await pid_of(session, server) for server in (first, second, first)]
        assert pids[0] == pids[2] != pids[1]
        await second.close()
        assert (lives(pids[0]), lives(pids[1])) == (True, False)


async def test_sessions_of_one_host_share_a_server_only_where_that_is_configured() -> None:
    """DESIGN: `share = session | host`; the process belongs to the host."""
    servers = {"mine": server("pid"), "ours": server("pid", share="host")}
    model = ScriptedModel([*calls("mine__pid"), *calls("ours__pid")] * 2)
    host = tertulia.Host(tertulia.Settings(model=model, mcp_servers=servers, approval_policy="never"))
    try:
        one, two = await host.start(), await host.start()
        pids = {
            name: [await pid_of(session, session.root) for _ in range(2)]
            for name, session in zip("ab", (one, two), strict=True)
        }
        assert pids["a"][0] != pids["b"][0]
        assert pids["a"][1] == pids["b"][1]
        await host.close_session(one)
        assert [lives(pid) for pid in (*pids["a"], *pids["b"])] == [False, True, True, True]
    finally:
        await host.close()
    assert not any(lives(pid) for pid in (*pids["a"], *pids["b"]))


async def test_a_bad_name_is_that_servers_error_and_the_others_start() -> None:
    """S000-31"""
    async with served({"bad name": server("echo"), "fs": server("echo")}) as session:
        assert {one["name"]: one["status"] for one in session.info.mcp} == {"bad name": "failed", "fs": "ready"}
        assert names(session.root) == ["fs__echo"]


async def test_a_server_that_dies_or_is_missing_is_told_and_harms_nobody() -> None:
    """HARDENING C11; bad input: missing executable."""
    gone = {"command": "/no/such/program"}
    servers = {"dead": bad("dies-at-start"), "gone": gone, "fs": server("echo", required=False)}
    async with served(servers, *calls("fs__echo", {"text": "fine"})) as session:
        status = {one["name"]: one for one in session.info.mcp}
        assert (status["dead"]["status"], status["gone"]["status"], status["fs"]["status"]) == (
            "failed",
            "failed",
            "ready",
        )
        assert "exit" in status["dead"]["error"]
        assert "/no/such/program" in status["gone"]["error"]
        names = [
            e.data.name for e in await so_far(session) if e.type == "mcp_server_status" and e.data.status == "failed"
        ]
        assert sorted(set(names)) == ["dead", "gone"]
        assert (await session.root.message("go")).status == "completed"
        assert await outputs(session, session.root) == [(True, "fine")]


async def test_a_server_that_hangs_delays_the_first_turn_by_a_grace_and_nobody_else(monkeypatch) -> None:
    """HARDENING C11, DESIGN: a bounded grace, then its tools are missing; allowlists may name it, with a warning."""
    monkeypatch.setattr(session_servers, "GRACE_S", 0.3)
    async with served({"slow": bad("hangs"), "fs": server("echo")}, "hello") as session:
        # On a busy machine the good one may take longer than this grace.
        await until(lambda: session.info.mcp[0]["status"] == "ready")
        assert {one["name"]: one["status"] for one in session.info.mcp} == {"slow": "starting", "fs": "ready"}
        assert (await session.root.message("go")).text == "hello"
        conversation = await session.open(mcp_tool_allowlist=["slow__echo", "fs__echo"])
        assert names(conversation) == ["fs__echo"]
        assert any("'slow' is not up" in warning for warning in conversation.warnings)


async def test_tools_of_a_slow_server_appear_when_it_is_up(monkeypatch) -> None:
    """X-23, X-24"""
    monkeypatch.setattr(session_servers, "GRACE_S", 0.05)
    async with served({"slow": bad("slow-start")}, "hello", "again") as session:
        conversation = await session.open(mcp_tool_allowlist=["slow__echo"])
        assert names(conversation) == []
        async for event in session.events(after=0):
            if event.type == "mcp_server_status" and event.data.status == "ready":
                break
        await conversation.message("now?")
        assert names(conversation) == ["slow__echo"]
        (news,) = [e.data for e in await so_far(session) if e.type == "mcp_tools_changed"]
        assert news.added == ["slow__echo"]


async def test_a_session_does_not_start_without_a_server_that_it_requires() -> None:
    """`required = true`: the error names the server, and nothing is left behind."""
    with pytest.raises(McpError, match="'dead' is required"):
        async with served({"dead": bad("dies-at-start", required=True), "fs": server("echo")}):
            raise AssertionError("it started")


async def test_a_crash_in_a_call_is_an_output_and_the_next_call_works() -> None:
    """HARDENING C11, S002-41: the conversation goes on; the pool starts the server again."""
    script = [call("fs__die"), say("it died"), *calls("fs__echo", {"text": "back"})]
    async with served({"fs": server("die", "echo")}, *script) as session:
        assert (await session.root.message("die")).text == "it died"
        async with asyncio.timeout(HANG_S):
            async for event in session.events(after=0):
                if event.type == "mcp_server_status" and event.data.status == "failed":
                    break
            while session.info.mcp[0]["status"] != "ready":
                await session.parts.servers.refresh()
        await session.root.message("and now?")
        assert [success for success, _ in await outputs(session, session.root)] == [False, True]


async def test_what_needs_asking_where_nobody_may_be_asked_is_refused_and_names_the_setting() -> None:
    """DESIGN: `approval = auto` asks for what is not read-only; HARDENING B, X-29."""
    async with served({"fs": server("echo", approval="auto")}, *calls("fs__echo", {"text": "x"})) as session:
        await session.root.message("go")
        ((success, output),) = await outputs(session, session.root)
        assert not success
        assert "no_approver" in output
        assert "[mcp_servers.fs] approval" in output


async def test_interrupting_a_call_reaches_the_server(tmp_path) -> None:
    """Calls: cancellation that reaches the server."""
    log = tmp_path / "log"
    table = server("slow")
    table["args"] = [*table["args"], "--record", str(log)]
    async with served({"fs": table}, call("fs__slow", {"seconds": 30})) as session:
        running = asyncio.ensure_future(session.root.message("take your time"))
        async for event in session.events(after=0):
            if event.type == "mcp_tool_call_begin":
                break
        async with asyncio.timeout(HANG_S):
            await until(lambda: "call slow" in log.read_text())
            await session.root.interrupt()
            assert (await running).status == "interrupted"
            await until(lambda: "cancelled slow" in log.read_text())


async def test_status_and_refresh_are_operations() -> None:
    """`mcp/status`, `mcp/refresh`"""
    off = server("echo", enabled=False, required=False)
    async with client_stage(mcp_servers={"fs": server("echo"), "off": off}) as on:
        listed = (await on("mcp/status"))["servers"]
        assert [(one["name"], one["status"], one["tools"]) for one in listed] == [
            ("fs", "ready", 1),
            ("off", "disabled", 0),
        ]
        assert listed[0]["latency_ms"] >= 0
        assert (await on("mcp/refresh", names=["fs"]))["servers"][0]["status"] == "ready"
        with pytest.raises(tertulia.errors.NotFoundError, match="nobody"):
            await on("mcp/refresh", names=["nobody"])


async def test_a_thousand_refreshes_leave_nothing_behind() -> None:
    """HARDENING C12"""
    async with served({"fs": server("echo")}) as session:

        def counted() -> tuple[int, int, int]:
            return (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), len(asyncio.all_tasks()))

        await session.parts.servers.refresh()
        before = counted()
        for _ in range(200):
            await session.root.set_context(refresh_mcp_view=True)
            await session.parts.servers.refresh()
        assert counted() == before


@pytest.mark.parametrize("share", ["session", "conversation", "host"])
async def test_a_server_is_told_of_the_workspace_of_the_conversation_that_calls_it(tmp_path: Path, share: str) -> None:
    """L8: nothing wider. One that goes by its roots is not shared by conversations that work elsewhere."""
    inside = tmp_path / "inside"
    inside.mkdir()
    servers = {"fake": server("roots", "pid", share=share), "none": server("roots", roots=[])}
    script = [*(calls("fake__roots") * 2), *calls("fake__pid")] * 2
    async with served(servers, *script, *calls("none__roots"), cwd=str(tmp_path)) as session:
        wide, narrow = await session.open(), await session.open(cwd=str(inside))
        for conversation in (wide, narrow):
            for _ in range(3):
                await conversation.message("go")
        (_, first), _, (_, one) = await outputs(session, wide)
        (_, second), (_, again), (_, other) = await outputs(session, narrow)
        assert f'"{tmp_path.as_uri()}"' in first
        assert inside.as_uri() in second
        assert again == second
        assert one != other
        await narrow.message("go")
        assert "file:" not in (await outputs(session, narrow))[-1][1]
