"""MCP servers that an editor brings along: really started, really called, and gone with the editor."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from acp import schema as s

from tertulia.server.acp.editor import client_server
from tertulia.server.session_factory import read_client_servers
from tertulia.testing import call, say
from tests.mcp.fakes.number import lives
from tests.server.acp_editor import editor_stage, scripted

FAKE = str(Path(__file__).parents[2] / "mcp" / "fakes" / "plain.py")


def stdio(name: str, *args: str, **env: str) -> s.McpServerStdio:
    variables = [s.EnvVariable(name=key, value=value) for key, value in env.items()]
    return s.McpServerStdio(name=name, command=sys.executable, args=[FAKE, "stdio", *args], env=variables)


def pids(record: Path) -> list[int]:
    return [int(line.split()[1]) for line in record.read_text().splitlines() if line.startswith("start")]


async def test_a_server_of_the_client_is_called_and_shared_and_ends_with_the_editor(tmp_path: Path) -> None:
    """Issue 10 (4): it joins the pool; only sessions that were given it have it; two of them share one process."""
    record = tmp_path / "record"
    server = stdio("my tools!", "--record", str(record), SECRET_TOKEN="hunter2-hunter2")
    script = scripted(
        *[call("my_tools__echo", {"text": "hello"}, "c1"), say("called")] * 2, say("no tools", repeat=True)
    )
    async with editor_stage(script, tmp_path) as at:
        with_it = [await at.new(mcp_servers=[server]) for _ in range(2)]
        without = await at.new()
        at.editor.answers = ["once", "once"]
        for session in with_it:
            await at.prompt(session, "call it")
            shown = at.editor.call(session, "c1")
            assert (shown["title"], shown["status"]) == ("my_tools: echo", "completed")
            assert "hello" in str(shown["content"])
            assert "my_tools__echo" in {tool.name for tool in at.session(session).root.tools()}
        assert not [tool for tool in at.session(without).root.tools() if tool.source == "mcp"]
        assert record.read_text().count("call echo") == 2
        (pid,) = pids(record)
        assert lives(pid)
    assert not lives(pid)
    stored = b"".join(path.read_bytes() for path in Path(os.environ["TERTULIA_HOME"]).rglob("*") if path.is_file())
    assert b"hunter2-hunter2" not in stored


async def test_a_server_of_the_users_own_wins_and_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    """Issue 10 (4): a bad server hurts no other, and the session begins."""
    own = {"mine": {"command": sys.executable, "args": [FAKE, "stdio"], "enabled": False}}
    definitions = [
        stdio("mine"),
        s.SseMcpServer(type="sse", name="old", url="http://127.0.0.1:1/sse", headers=[]),
        s.McpServerStdio(name="broken", command="/nonexistent/program", args=[], env=[]),
    ]
    async with editor_stage(scripted("hi", mcp_servers=own), tmp_path) as at:
        session = await at.new(mcp_servers=definitions)
        await at.prompt(session, "/mcp")
        assert "mine: disabled" in at.editor.said(session)
        assert "broken: failed" in at.editor.said(session)
        remarks = at.editor.said(session, "agent_thought_chunk")
        assert "'mine' is left out" in remarks
        assert "'old' is left out" in remarks
        assert "MCP server broken failed" in remarks


def test_names_and_addresses_are_read_into_definitions() -> None:
    """Issue 10 (4)."""
    header = s.HttpHeader(name="X-Key", value="k")
    original = [
        s.HttpMcpServer(type="http", name="docs", url="https://example.com/mcp", headers=[header]),
        s.HttpMcpServer(type="http", name="bad", url="ftp://example.com", headers=[]),
        s.McpServerStdio(name="docs", command="x", args=[], env=[]),
        s.McpServerStdio(name="…", command="x", args=["a"], env=[s.EnvVariable(name="A", value="b")]),
    ]
    definitions, left_out = read_client_servers([client_server(server) for server in original], ())
    assert sorted(definitions) == ["docs", "server"]
    assert {definition.origin for definition in definitions.values()} == {"user"}
    assert {definition.approval for definition in definitions.values()} == {"auto"}
    assert len(left_out) == 2
