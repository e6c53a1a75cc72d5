"""Servers that no view uses, in a session with real ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tertulia.mcp.pool.session_servers import IdleServers
from tests.mcp.connected import recorded, until
from tests.mcp.fakes.number import lives
from tests.session.mcp.test_host import pid_of
from tests.session.mcp_stage import calls, names, outputs, served, server


def idle_of(session) -> IdleServers:
    parts = session.parts
    return IdleServers(parts.servers.members, parts.clock, parts.views.sees(parts.conversations))


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
        async with asyncio.timeout(10), session.events(after=0) as news:
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
        async with asyncio.timeout(10):
            while session.info.mcp[0]["status"] == "ready":
                await idle.stop_unseen()
                await asyncio.sleep(0)


async def test_a_server_that_others_share_or_that_may_stay_is_not_stopped() -> None:
    """S002-40"""
    servers = {"ours": server("pid", idle_timeout_sec=0.01, share="host"), "off": server("pid", enabled=False)}
    async with served(servers) as session:
        await session.root.set_context(mcp_tool_allowlist=[])
        for _ in range(3):
            await idle_of(session).stop_unseen()
        assert {one["name"]: one["status"] for one in session.info.mcp} == {"ours": "ready", "off": "disabled"}
