"""The broker as a program over HTTP: where it is, where the token is, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.cli.running import Shell
from tests.cli.serving import configure
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare
from tests.server.brokering import WAITED_FOR, alive, client, text


@contextmanager
def broker(shell: Shell, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    configure(shell, "fake", bare(), approval="approve", **WAITED_FOR)
    with shell.start("mcp-broker", "--http", "0", *arguments) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            first_line = process.stdout.readline()
            assert first_line, process.stderr.read().decode()
            yield process, json.loads(first_line)
        finally:
            process.kill()


async def pid_of_server(address: dict[str, str]) -> int:
    token = Path(address["token_file"]).read_text()
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=HANG_S) as http,
        client(streamable_http_client(address["url"], http_client=http), "new") as connected,
    ):
        async with asyncio.timeout(HANG_S):
            # On a busy machine the server may take longer to start than the broker waits for it.
            while "fake__pid" not in {tool.name for tool in (await connected.list_tools()).tools}:
                pass
        return int(text(await connected.call_tool("fake__pid", {})))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_in_order(shell: Shell, number: int) -> None:
    """DESIGN, Fine print, Servers: {url, token_file}; the token is in no address, no log and no process list."""
    with broker(shell) as (process, address):
        assert address["url"].startswith("http://127.0.0.1:")
        path = Path(address["token_file"])
        token = path.read_text()
        assert len(token) >= 32
        assert token not in address["url"]
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
        assert path.parent.name == "broker"
        server = asyncio.run(pid_of_server(address))
        assert alive(server)
        assert token.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.send_signal(number)
        assert process.wait(HANG_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert not alive(server)


def test_the_token_stays_the_same_and_the_port_is_taken_once(shell: Shell) -> None:
    with broker(shell) as (_, address):
        token = Path(address["token_file"]).read_text()
        port = address["url"].removesuffix("/mcp").rpartition(":")[2]
        ran = shell.spawn("mcp-broker", "--http", port)
        assert ran.code == 2
        assert f"port {port}" in ran.err
        with_other: Any = shell.start("mcp-broker", "--http", "0")
        with with_other as other:
            assert json.loads(other.stdout.readline())["token_file"] == address["token_file"]
            other.kill()
        assert Path(address["token_file"]).read_text() == token
