"""The broker on standard input and output, for one program alone."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Shell
from tests.cli.serving import configure
from tests.deadlines import HANG_S
from tests.mcp.connected import recorded, until
from tests.mcp.fakes import bare
from tests.server.brokering import WAITED_FOR, alive, client, over_pipes, text

eras = pytest.mark.parametrize("era", ["old", "new"])
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


def pid_in(record: Path) -> int:
    [first] = [line for line in recorded(record) if line.startswith("start")]
    return int(first.split()[1])


@eras
async def test_one_program_is_served_and_the_servers_go_with_it(shell: Shell, era: str, tmp_path: Path) -> None:
    """Issue 8, item 6: over stdio."""
    record = tmp_path / "record"
    configure(shell, "fake", bare("--record", str(record)), approval="approve", **WAITED_FOR)
    async with client(over_pipes("--alone"), era) as connected:
        assert "fake__echo" in [tool.name for tool in (await connected.list_tools()).tools]
        assert text(await connected.call_tool("fake__echo", {"text": "hi"})) == "hi"
        server = int(text(await connected.call_tool("fake__pid", {})))
        assert alive(server)
    await until(lambda: not alive(server))


def start(shell: Shell, record: Path, **options: Any) -> subprocess.Popen[bytes]:
    configure(shell, "fake", bare("--record", str(record)), approval="approve", **WAITED_FOR)
    broker = shell.start("mcp-broker", "--alone", **options)
    assert broker.stdin is not None
    assert broker.stdout is not None
    broker.stdin.write(json.dumps(HELLO).encode() + b"\n")
    broker.stdin.flush()
    assert json.loads(broker.stdout.readline())["id"] == 1
    # It serves whether or not its servers are up; what a test asks is what becomes of one that is.
    asyncio.run(until(lambda: any(line.startswith("start") for line in recorded(record))))
    return broker


@pytest.mark.parametrize("how", ["end of input", "sigterm", "sigint"])
def test_it_ends_in_order_and_takes_the_servers_along(shell: Shell, tmp_path: Path, how: str) -> None:
    record = tmp_path / "record"
    with start(shell, record) as broker:
        if how == "end of input":
            assert broker.stdin is not None
            broker.stdin.close()
        else:
            broker.send_signal(signal.SIGTERM if how == "sigterm" else signal.SIGINT)
        assert broker.wait(HANG_S) == 0
        assert broker.stderr is not None
        assert broker.stderr.read() == b""
    assert not alive(pid_in(record))


def test_killed_it_leaves_no_server_behind(shell: Shell, tmp_path: Path) -> None:
    """A17."""
    record = tmp_path / "record"
    with start(shell, record) as broker:
        broker.kill()
        broker.wait(HANG_S)
    asyncio.run(until(lambda: not alive(pid_in(record))))


def test_one_that_reads_nothing_can_be_stopped(shell: Shell, tmp_path: Path) -> None:
    with start(shell, tmp_path / "record") as broker:
        assert broker.stdin is not None
        call = {
            "jsonrpc": "2.0",
            "method": "tools/call",
            "params": {"name": "fake__size", "arguments": {"bytes": 60_000}},
        }
        broker.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        for number in range(50):
            broker.stdin.write(json.dumps({**call, "id": f"n{number}"}).encode() + b"\n")
        broker.stdin.flush()
        broker.send_signal(signal.SIGTERM)
        code = broker.wait(HANG_S)
        assert broker.stderr is not None
        assert (code, broker.stderr.read()) == (0, b"")
