"""The MCP Inspector's command line against our server, over both transports. We did not write it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import SOURCE
from tests.conformance.suite import NODE, ROOT
from tests.deadlines import HANG_S
from tests.server.served import TOKEN, served

INSPECTOR = ROOT / ".venv/node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INSPECTOR.exists(), reason="the Inspector is not installed: make node-tools"),
]


def inspect(home: Path, *arguments: str) -> Any:
    """What it prints."""
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(SOURCE), "TERTULIA_HOME": str(home / "data")}
    patience = ("--connect-timeout", str(int(HANG_S * 1_000)))
    command = (str(NODE), str(INSPECTOR), "--cli", *arguments, *patience)
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_over_standard_input_it_finds_no_fault_with_our_schemas_and_gets_an_answer(tmp_path: Path) -> None:
    """Issue 10: `--strict` fails at a schema that some host could not read."""
    server = (sys.executable, "-m", "tertulia", "mcp-server", "-m", "scripted/tour")
    listed = inspect(tmp_path, *server, "--method", "tools/list", "--strict")
    assert len(listed["tools"]) == 11
    message = ("--tool-name", "conversation_message", "--tool-arg", "conversation_id=root", "text=hi")
    answer = inspect(tmp_path, *server, "--method", "tools/call", *message)
    assert answer["structuredContent"]["status"] == "completed"


async def test_over_http_it_lists_calls_and_reads(tmp_path: Path) -> None:
    async with served() as place:

        async def ask(*arguments: str) -> Any:
            where = (f"http://127.0.0.1:{place.port}/mcp", "--transport", "http")
            token = ("--header", f"Authorization: Bearer {TOKEN}")
            return await asyncio.to_thread(inspect, tmp_path, *where, *token, *arguments)

        opened = await ask("--method", "tools/call", "--tool-name", "conversation_open", "--tool-arg", "title=helper")
        assert opened["structuredContent"]["conversation_id"]
        listed = await ask("--method", "resources/list")
        assert [one.get("title") for one in listed["resources"]] == [None, "helper"]
        read = await ask("--method", "resources/read", "--uri", listed["resources"][1]["uri"])
        assert json.loads(read["contents"][0]["text"])["conversation"]["title"] == "helper"
