"""The pool with real servers behind it: processes that start, die, hang, change and will not go."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import McpError
from tertulia.events.clock import SystemClock
from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.config.launch import Launch, resolve_launch
from tertulia.mcp.pool.pooled_server import PooledServer
from tertulia.mcp.pool.server_pool import ServerPool
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tests.deadlines import HANG_S, QuietTime
from tests.mcp.connected import Asked, recorded, until
from tests.mcp.fakes import VARIABLES, bare, by_http, by_stdio, hostile, plain, web
from tests.mcp.fakes.number import lives

TIME = str(Path(sys.executable).with_name("mcp-server-time"))


@asynccontextmanager
async def pool(home: Path | None = None) -> AsyncIterator[ServerPool]:
    """Closed at the end, when no task must be left."""
    nursery, sandbox = Nursery(), Sandbox(clock=SystemClock())
    made = ServerPool(spawn=nursery.start, clock=SystemClock(), runner=lambda: sandbox, home=home)
    try:
        yield made
        await made.close()
        await until(lambda: not len(nursery))
    finally:
        await nursery.close(10)
        await sandbox.close()


async def ready(servers: ServerPool, reached: tuple[ServerDefinition, Launch], scope: str = "session") -> PooledServer:
    server = servers.lease(*reached, scope).server
    await server.monitor.wait_until_known()
    assert server.status == "ready", server.error
    return server


async def call(server: PooledServer, tool: str, **arguments: Any) -> str:
    answer = await server.call(tool, arguments, Asked().caller, timeout_s=HANG_S, on_progress=lambda *_: None)
    return answer.text


@contextmanager
def running(argv: tuple[str, ...]) -> Iterator[None]:
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.kill()


def starts(record: Path) -> list[int]:
    """The processes that it was so far."""
    return [int(line.split()[1]) for line in recorded(record) if line.startswith("start ")]


async def test_a_real_server_serves_many_from_one_process() -> None:
    """S002-37, S002-41: reuse, and no answer goes to another."""
    stdio = Stdio(command=TIME, args=("--local-timezone", "UTC"))
    definition = ServerDefinition(name="time", transport=stdio)
    async with pool() as servers:
        leases = [servers.lease(definition, resolve_launch(definition, VARIABLES), "s") for _ in range(100)]
        server = leases[0].server
        await server.monitor.wait_until_known()
        assert server.status == "ready", server.error
        assert [tool.name for tool in server.tools] == ["convert_time", "get_current_time"]
        zones = ["Europe/Madrid", "Asia/Tokyo"] * 25
        answers = await asyncio.gather(*(call(server, "get_current_time", timezone=zone) for zone in zones))
        assert all(zone in text for zone, text in zip(zones, answers, strict=True))
        assert server.tool_cache.latency_ms is not None
        assert server.tool_cache.latency_ms > 0
        assert server.connection is not None
        assert server.connection.protocol_version


async def test_a_server_that_dies_at_the_start_fails_with_its_last_words_and_is_not_tried_at_once() -> None:
    """C11: exits at start."""
    async with pool() as servers:
        server = servers.lease(*by_stdio(hostile("dies-at-start"), start="lazy"), "s").server
        with pytest.raises(McpError, match="no key"):
            await call(server, "echo")
        assert server.status == "failed"
        with pytest.raises(McpError, match=r"exited with code 3.*the next try is in 0\.\d s"):
            await call(server, "echo")


async def test_a_program_that_does_not_exist_fails_by_name() -> None:
    async with pool() as servers:
        server = servers.lease(*by_stdio(("/nowhere/server",), start="lazy"), "s").server
        await server.monitor.wait_until_known()
        assert server.status == "failed"
        assert "/nowhere/server" in (server.error or "")


async def test_an_address_that_nobody_listens_at_fails() -> None:
    async with pool() as servers:
        server = servers.lease(*by_http("http://127.0.0.1:9/mcp", start="lazy"), "s").server
        await server.monitor.wait_until_known()
        assert (server.status, server.error is not None) == ("failed", True)


async def test_a_server_that_dies_in_a_call_fails_the_call_and_serves_again(tmp_path: Path) -> None:
    """C11: exits mid-call; an eager one comes back by itself."""
    record = tmp_path / "record"
    async with pool() as servers:
        server = await ready(servers, by_stdio(bare("--record", str(record))))
        with pytest.raises(McpError):
            await call(server, "die", code=7)
        await until(lambda: server.status == "failed")
        assert "exited with code 7" in (server.error or "")
        await until(lambda: server.status == "ready")
        assert await call(server, "echo", text="again") == "again"
        first, second = starts(record)
        assert not lives(first)
        assert lives(second)
    assert not lives(second)


async def test_a_server_that_hangs_fails_within_its_time_and_is_killed(tmp_path: Path) -> None:
    """C11: hangs in initialize."""
    record = tmp_path / "record"
    async with pool() as servers:
        loop = asyncio.get_running_loop()
        hangs = by_stdio(hostile("hangs", "--record", str(record)), startup_timeout_s=1.5, start="lazy")
        quick = await ready(servers, by_stdio(bare()))
        time_taken, began = QuietTime(), loop.time()
        slow = servers.lease(*hangs, "s").server
        assert await call(quick, "echo", text="not delayed") == "not delayed"
        assert slow.status == "starting"
        with pytest.raises(McpError, match=r"did not start within 1\.5 s"):
            await call(slow, "echo")
        assert loop.time() - began >= 1.5
        assert time_taken.seconds < 5
        await until(lambda: starts(record) and not any(map(lives, starts(record))))


async def test_a_server_that_ignores_sigterm_is_gone_when_the_pool_is_closed(tmp_path: Path) -> None:
    """C11: ignores SIGTERM; and four of them take no longer than one."""
    records = [tmp_path / str(number) for number in range(4)]
    async with pool() as servers:
        deaf = [by_stdio(hostile("ignores-sigterm", "--record", str(record))) for record in records]
        await asyncio.gather(*(ready(servers, server) for server in deaf))
        pids = [pid for record in records for pid in starts(record)]
        assert all(map(lives, pids))
        time_taken = QuietTime()
        await servers.close()
        assert time_taken.seconds < 8
        assert (len(pids), [pid for pid in pids if lives(pid)]) == (4, [])


async def test_a_definition_that_changes_is_noticed_and_its_tool_not_called(tmp_path: Path) -> None:
    """C1: by list_changed, and by a restart."""
    record = tmp_path / "record"
    async with pool() as servers:
        server = await ready(servers, by_stdio(bare("--record", str(record)), start="lazy"))
        [before] = [tool for tool in server.tools if tool.name == "echo"]
        changed = {"name": "echo", "description": "Sends it to a stranger.", "inputSchema": {"type": "object"}}
        await call(server, "define", tools=[changed])
        await until(lambda: server.tool_cache.revision == 2)
        with pytest.raises(McpError, match="otherwise than before"):
            await server.call("echo", {}, Asked().caller, timeout_s=HANG_S, on_progress=lambda *_: None, pinned=before)
        assert "call echo" not in recorded(record)
        # The process that comes next knows the old definition only: for whoever saw the new one it has changed again.
        [seen] = server.tools
        await server.stop()
        with pytest.raises(McpError, match="otherwise than before"):
            await call(server, "echo", text="x")
        assert server.tool_cache.revision == 3
        assert seen.description != before.description
        assert "call echo" not in recorded(record)


async def test_a_storm_of_changes_is_survived() -> None:
    async with pool() as servers:
        server = await ready(servers, by_stdio(hostile("storm")))
        before = server.tool_cache.revision
        assert await call(server, "echo", text="still here") == "still here"
        await server.refresh()
        assert (server.status, server.tool_cache.revision) == ("ready", before)


async def test_of_two_tools_of_one_name_one_is_offered_and_of_far_too_many_none() -> None:
    async with pool() as servers:
        double = await ready(servers, by_stdio(hostile("duplicate-tools")))
        assert [tool.name for tool in double.tools].count("echo") == 1
        many = servers.lease(*by_stdio(hostile("many-tools"), start="lazy"), "s").server
        await many.monitor.wait_until_known()
        assert (many.status, many.tools) == ("failed", ())
        assert "10,000 tools" in (many.error or "")


async def test_a_lazy_server_starts_at_its_first_call(tmp_path: Path) -> None:
    record = tmp_path / "record"
    lazy = by_stdio(bare("--record", str(record)), start="lazy")
    async with pool(tmp_path) as servers:
        known = (await ready(servers, lazy)).tools
    assert len(starts(record)) == 1
    async with pool(tmp_path) as servers:
        server = servers.lease(*lazy, "s").server
        await server.monitor.wait_until_known()
        assert (server.status, server.tools) == ("stopped", known)
        assert len(starts(record)) == 1
        assert await call(server, "echo", text="hi") == "hi"
        assert len(starts(record)) == 2


async def test_an_idle_server_is_stopped_and_its_process_gone(tmp_path: Path) -> None:
    """S002-40."""
    record = tmp_path / "record"
    async with pool() as servers:
        lease = servers.lease(*by_stdio(bare("--record", str(record)), idle_timeout_s=0.05), "s")
        await lease.server.monitor.wait_until_known()
        [pid] = starts(record)
        assert lives(pid)
        lease.release()
        await until(lambda: not servers.servers)
        assert (lease.server.status, lives(pid)) == ("stopped", False)


@pytest.mark.slow
async def test_a_thousand_refreshes_and_leases_leave_nothing_behind(tmp_path: Path) -> None:
    """C12, S000-44: processes, descriptors and tasks are as many as before."""
    record = tmp_path / "record"
    reached = by_stdio(bare("--record", str(record)))
    async with pool() as servers:
        server = await ready(servers, reached)
        await server.refresh()
        before = (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()))
        for _ in range(1_000):
            lease = servers.lease(*reached, "session")
            await lease.server.refresh()
            lease.release()
        await until(lambda: (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before)
        assert (len(starts(record)), servers.leases()) == (1, 1)


@pytest.mark.slow
async def test_many_restarts_leave_nothing_behind(tmp_path: Path) -> None:
    """C12: reconnects."""
    record = tmp_path / "record"
    async with pool() as servers:
        server = await ready(servers, by_stdio(bare("--record", str(record)), start="lazy"))
        await server.stop()
        before = (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()))
        for _ in range(20):
            assert await call(server, "echo", text="x") == "x"
            await server.stop()
        await until(lambda: (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before)
        assert (len(starts(record)), [pid for pid in starts(record) if lives(pid)]) == (21, [])


async def test_both_eras_are_reached_through_the_pool() -> None:
    async with pool() as servers:
        old, new = await asyncio.gather(*(ready(servers, by_stdio(argv)) for argv in (bare(), plain())))
        assert old.connection is not None
        assert new.connection is not None
        assert old.connection.protocol_version < "2026-07-28" <= new.connection.protocol_version
        assert await call(new, "echo", text="hi") == "hi"


async def test_a_server_behind_an_address_that_goes_away_is_there_again_when_it_is_back() -> None:
    """C11, over HTTP: the calls in between fail with a reason."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    async with pool() as servers:
        with running(web("json", port=port)):
            server = servers.lease(*by_http(f"http://127.0.0.1:{port}/mcp"), "s").server
            await until(lambda: server.status == "ready")
            assert await call(server, "echo")
        with pytest.raises(McpError, match="cannot be reached"):
            await call(server, "echo")
        await until(lambda: server.status == "failed")
        assert "cannot be reached" in (server.error or "")
        with running(web("json", port=port)):
            await until(lambda: server.status == "ready")
            assert await call(server, "echo")
