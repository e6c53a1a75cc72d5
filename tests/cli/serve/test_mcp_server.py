"""`tertulia mcp-server` as another program starts it. What it serves is tested with the server."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.cli.running import DEADLINE_S, SOURCE, Shell

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def request(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_host_that_we_did_not_write_opens_a_conversation_and_gets_its_answer(shell: Shell, era: Any) -> None:
    """X-69: over standard input and output, both eras."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tertulia", "mcp-server", "-m", shell.script("fine", repeat=True), "-s", "read-only"],
        cwd=str(shell.folder),
        env={"PYTHONPATH": str(SOURCE), "TERTULIA_HOME": str(shell.folder / "data")},
    )
    async with Client(command, mode=era) as client:
        opened: Any = (await client.call_tool("conversation_open", {"title": "t"})).structured_content
        assert opened["context"]["policy"]["sandbox"] == "read-only"
        structured_content: Any = (
            await client.call_tool("conversation_message", {"conversation_id": opened["conversation_id"], "text": "hi"})
        ).structured_content
        assert structured_content["last_assistant_message"] == "fine"
        thread: Any = (await client.call_tool("codex", {"prompt": "hi"})).structured_content
        assert thread["content"] == "fine"


def test_it_ends_when_its_input_does_and_says_nothing_else(shell: Shell) -> None:
    ran = shell.spawn("mcp-server", "-m", shell.script("fine"), input=request(1, "initialize", **HELLO))
    assert (ran.code, ran.err) == (0, "")
    (answer,) = ran.lines
    assert answer["result"]["serverInfo"]["name"] == "tertulia"


def test_a_signal_ends_it(shell: Shell) -> None:
    """H7."""
    with shell.start("mcp-server", "-m", shell.script("fine")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request(1, "initialize", **HELLO))
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, err) == (0, b"")


def test_a_mistake_is_told_before_anything_is_served(shell: Shell) -> None:
    ran = shell.run("mcp-server", "-m", "nobody/x")
    assert (ran.code, ran.out) == (2, "")
