"""`mcp/status`: how servers do, who uses them, and which of their tools are withheld and why (UI.md 7.12)."""

from __future__ import annotations

import asyncio

from tertulia.session.mcp import server_infos
from tertulia.testing import call, say
from tests.deadlines import HANG_S
from tests.mcp.connected import until
from tests.session.mcp_stage import calls, served, server
from tests.session.test_operations import client_stage


async def test_a_server_that_was_not_called_yet_has_counts_and_no_durations() -> None:
    off = server("echo", enabled=False, required=False)
    async with client_stage(mcp_servers={"fs": server("echo"), "off": off}) as on:
        fs, unused = (await on("mcp/status"))["servers"]
        assert (fs["restarts"], fs["in_flight"], fs["waiting"], fs["withheld"]) == (0, 0, 0, [])
        assert (len(fs["users"]), fs["user_count"]) == (1, 1), "root sees it"
        assert (unused["status"], unused["users"], unused["user_count"]) == ("disabled", [], 0)
        assert not {"p50_ms", "p95_ms", "last_error_at", "error"} & set(fs), "what is not known is left out"


async def test_durations_come_with_calls_and_a_restart_is_counted_with_its_error() -> None:
    """S002-37: the process is another one, the counts go on."""
    script = [*calls("fs__echo", {"text": "x"}), *calls("fs__die", {"code": 3})]
    async with served({"fs": server("echo", "die")}, *script) as session:
        await session.root.message("echo")
        (fs,) = await session.mcp.status()
        assert fs.p50_ms is not None
        assert fs.p95_ms is not None
        assert 0 < fs.p50_ms <= fs.p95_ms < HANG_S * 1000
        assert (fs.restarts, fs.last_error_at) == (0, None)
        await session.root.message("die")
        async with asyncio.timeout(HANG_S):
            await until(lambda: server_infos.server_infos(session.parts)[0].last_error_at is not None)
            await until(lambda: session.info.mcp[0]["status"] != "ready")
        (fs,) = await session.mcp.refresh()
        assert (fs.status, fs.restarts, fs.in_flight) == ("ready", 1, 0)
        assert fs.last_error_at is not None
        assert fs.last_error_at.endswith("Z")


async def test_calls_under_way_and_calls_that_wait_are_told_apart() -> None:
    limits = {"concurrency": 1, "parallel": True}
    slow = say("", *(call("fs__slow", {"seconds": 600}) for _ in range(3)))
    async with served({"fs": server("slow", **limits)}, slow, say("done")) as session:
        running = asyncio.ensure_future(session.root.message("go"))

        def counted() -> tuple[int, int]:
            (fs,) = server_infos.server_infos(session.parts)
            return fs.in_flight, fs.waiting

        async with asyncio.timeout(HANG_S):
            await until(lambda: counted() == (1, 2))
            await session.root.interrupt()
            await running
        assert counted() == (0, 0)


async def test_a_changed_definition_is_withheld_with_its_reason_until_the_view_is_refreshed() -> None:
    """HARDENING C1: and the status itself changes no view."""
    tools = [{"name": "echo", "description": "another than before", "inputSchema": {"type": "object"}}]
    async with served({"fs": server("echo", "define")}, *calls("fs__define", {"tools": tools}), say("x")) as session:
        root = session.root
        assert (await session.mcp.status())[0].withheld == []
        await root.message("define")
        (fs,) = await session.mcp.refresh()
        (withheld,) = fs.withheld
        assert (withheld.tool, "definition changed" in withheld.because) == ("fs__echo", True)
        assert fs.users == [root.id], "it has called it, although it sees no tool of it now"
        await root.set_context(refresh_mcp_view=True)
        assert (await session.mcp.status())[0].withheld == []


async def test_a_name_that_two_servers_claim_is_withheld_at_both() -> None:
    """HARDENING C4"""
    async with served({"a__b": server("echo"), "a": server("b__echo", "pid")}) as session:
        first, second = await session.mcp.status()
        for info in (first, second):
            (withheld,) = info.withheld
            assert withheld.tool == "a__b__echo"
            assert "'a'" in withheld.because
            assert "'a__b'" in withheld.because
        assert (first.users, second.users) == ([session.root.id], [])


async def test_users_are_those_who_see_or_called_it_and_are_open() -> None:
    async with served({"fs": server("echo")}, *calls("fs__echo", {"text": "x"})) as session:
        await session.mcp.status()
        caller, other, blind = (
            await session.open(),
            await session.open(),
            await session.open(mcp_tool_allowlist=[]),
        )
        await caller.message("echo")
        (fs,) = await session.mcp.status()
        assert fs.users[0] == caller.id, "who has called it comes first"
        assert set(fs.users) == {session.root.id, caller.id, other.id}
        assert blind.id not in fs.users
        await caller.close()
        (fs,) = await session.mcp.status()
        assert (set(fs.users), fs.user_count) == ({session.root.id, other.id}, 2)
