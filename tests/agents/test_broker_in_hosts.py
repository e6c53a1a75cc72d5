"""Our broker as one entry in the configuration of the real Codex CLI and the real Claude Code, offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.installed import REAL
from tests.agents.provider import USAGE, Provider, messages, provider, responses
from tests.cli.conftest import shell
from tests.cli.daemons import Daemons
from tests.cli.running import Shell
from tests.cli.serving import config_of, configure
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare

__all__ = ["shell"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TERTULIA = str(Path(sys.executable).with_name("tertulia"))
BROKER = (TERTULIA, "mcp-broker", "--view", "review", "--idle-exit", "60")
TOOL = "mcp__tertulia__fake__pid"
Events = list[tuple[str, dict[str, Any]]]


def codex_calls() -> Events:
    item = {"type": "function_call", "id": "f", "call_id": "c", "namespace": "mcp__tertulia", "name": "fake__pid"}
    return [
        ("response.created", {"response": {"id": "r"}}),
        ("response.output_item.done", {"output_index": 0, "item": {**item, "arguments": "{}"}}),
        ("response.completed", {"response": {"id": "r", "usage": USAGE}}),
    ]


def claude_calls() -> Events:
    head = {"id": "m", "type": "message", "role": "assistant", "model": "mock", "content": []}
    block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
    return [
        ("message_start", {"message": {**head, "stop_reason": None, "usage": USAGE}}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": USAGE}),
        ("message_stop", {}),
    ]


def scripted(mock: Provider, calls: Callable[[], Events], says: Callable[[str], Events]) -> list[dict[str, Any]]:
    """The model calls the tool in its first turn and is content in the next; what it was sent."""
    turns: list[dict[str, Any]] = []

    def take(path: str, body: str) -> Events:
        sent = json.loads(body)
        if not sent.get("tools"):
            return says("a title")
        turns.append(sent)
        return calls() if len(turns) == 1 else says("done")

    mock.take = take  # type: ignore[method-assign]
    return turns


class Hosts:
    """The two programs, with the same home and the same broker."""

    def __init__(self, shell: Shell, mock: Provider) -> None:
        self.home, self.work, self.mock = shell.folder.parent / "home", shell.folder, mock

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **variables}
        environment["TERTULIA_HOME"] = os.environ["TERTULIA_HOME"]
        done = subprocess.run(
            [program, *arguments], cwd=self.work, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=HANG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def codex(self) -> str:
        agent = REAL["codex"]
        program, table = agent.program(), agent.settle(self.home, self.mock.url)
        variables = {**table["env"], "TERTULIA_HOME": os.environ["TERTULIA_HOME"]}
        self.run(
            program, "mcp", "add", "tertulia", "--env", f"TERTULIA_HOME={os.environ['TERTULIA_HOME']}", "--", *BROKER
        )
        assert "mcp-broker --view review" in self.run(program, "mcp", "list")
        turns = scripted(self.mock, codex_calls, responses)
        result = self.run(
            *(program, "exec", "--json", "--skip-git-repo-check", "-s", "read-only"),
            *("-c", "mcp_servers.tertulia.required=true"),
            *("-c", 'mcp_servers.tertulia.default_tools_approval_mode="approve"', "go"),
            **variables,
        )
        [space] = [tool for tool in turns[0]["tools"] if tool.get("name") == "mcp__tertulia"]
        assert [tool["name"] for tool in space["tools"]] == ["fake__pid"]
        items = [json.loads(line).get("item", {}) for line in result.splitlines()]
        [call] = [item for item in items if item.get("type") == "mcp_tool_call" and item["status"] != "in_progress"]
        assert call["status"] == "completed", call
        return call["result"]["content"][0]["text"]

    def claude(self) -> str:
        agent = REAL["claude"]
        program, table = agent.program(), agent.settle(self.home, self.mock.url)
        self.run(program, "mcp", "add", "tertulia", "--", *BROKER, **table["env"])
        assert "Connected" in self.run(program, "mcp", "list", **table["env"])
        turns = scripted(self.mock, claude_calls, messages)
        self.run(program, "-p", "go", "--allowedTools", TOOL, *table["args"], **table["env"])
        [result] = [part for part in turns[1]["messages"][-1]["content"] if part.get("type") == "tool_result"]
        return result["content"][0]["text"].strip()


@pytest.fixture
def hosts(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    daemons = Daemons(shell)
    monkeypatch.setenv("TERTULIA_HOME", str(daemons.home))
    configure(shell, "fake", bare(), approval="approve")
    with config_of(shell).open("a") as config:
        config.write('\n[mcp_views.review]\nmcp_tool_allowlist = ["fake__pid"]\n')
    try:
        with provider() as mock:
            yield Hosts(shell, mock)
    finally:
        daemons.end()


def test_codex_calls_a_tool_through_the_broker(hosts: Hosts) -> None:
    """Issue 8, item 6: `codex mcp add`, and its model's call arrives at our server."""
    assert hosts.codex().isdigit()


def test_claude_code_calls_a_tool_through_the_broker(hosts: Hosts) -> None:
    """Issue 8, item 6: `claude mcp add`, and its model's call arrives at our server."""
    assert hosts.claude().isdigit()


def test_codex_and_claude_code_share_one_process(hosts: Hosts) -> None:
    """Issue 8, purpose."""
    assert hosts.claude() == hosts.codex()
