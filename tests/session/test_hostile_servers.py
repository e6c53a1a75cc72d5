"""Servers that mean no good, or only do not work, in whole sessions: what it costs, and whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tertulia.testing import call, say
from tests.mcp.connected import serving
from tests.mcp.fakes import bare, web
from tests.session.mcp_stage import calls, names, outputs, served, server, so_far

GOOD = {"name": "echo", "inputSchema": {"type": "object"}}


def defined(folder: Path, *tools: Any) -> dict[str, Any]:
    """A server that lists exactly these."""
    file = folder / "tools.json"
    file.write_text(json.dumps({"tools": tools}))
    command, *args = bare("--define", str(file))
    return {"command": command, "args": args, "approval": "approve"}


async def warnings(session: Any) -> list[str]:
    return [event.data.message for event in await so_far(session) if event.type == "warning"]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"name": "bad"}, "tool 'bad' is left out: `inputSchema`: it is missing"),
        ({"name": "bad", "inputSchema": "x"}, "tool 'bad' is left out: `inputSchema`"),
        ({**GOOD, "name": "bad", "description": 5}, "tool 'bad' is left out: `description`"),
        ({**GOOD, "name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "x"}}}}, "tool 'bad'"),
        ({**GOOD, "name": "x" * 300}, "is left out: a name has 1 to 256 characters"),
        ({**GOOD, "name": ""}, "tool '' is left out: a name has 1 to 256"),
        ({**GOOD, "description": "the other"}, "tool 'echo' is left out: another one has that name already"),
        ({**GOOD, "name": "bad", "inputSchema": {"type": "object", "x": "y" * 300_000}}, "tool 'bad' is left out: its"),
        ("echo", "number 2 of its tools is left out: it is not an object"),
    ],
)
async def test_one_bad_tool_costs_only_itself_and_is_named(tmp_path: Path, bad: Any, expected: str) -> None:
    """Issue 8: all others of the server can be seen and called."""
    last = {**GOOD, "name": "pid"}
    async with served({"fs": defined(tmp_path, GOOD, bad, last)}, *calls("fs__echo", {"text": "hi"})) as session:
        assert names(session.root) == ["fs__echo", "fs__pid"]
        assert session.info.mcp[0]["status"] == "ready"
        (warning,) = await warnings(session)
        assert warning.startswith("MCP server 'fs': ")
        assert expected in warning
        await session.root.message("go")
        assert await outputs(session, session.root) == [(True, "hi")]


async def test_two_names_that_become_one_are_not_two_tools(tmp_path: Path) -> None:
    """HARDENING C4: a name that is made legal gets a digest; one that was made to look like it is left out."""
    (odd,) = await _names(tmp_path, {**GOOD, "name": "a b"})
    same_name = {**GOOD, "name": odd.removeprefix("fs__")}
    async with served({"fs": defined(tmp_path, {**GOOD, "name": "a b"}, same_name)}) as session:
        assert names(session.root) == [odd]
        (warning,) = await warnings(session)
        assert f"has the name {odd} already" in warning


async def _names(folder: Path, *tools: Any) -> list[str]:
    async with served({"fs": defined(folder, *tools)}) as session:
        return names(session.root)


async def test_no_event_shows_a_key_that_a_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """HARDENING E6, C13: its configured secrets are in no answer, to the model or to a client."""
    key = "s3cret-of-the-server"
    monkeypatch.setenv("FS_TOKEN", key)
    script = [call("fs__env"), call("fs__echo", {"text": "fine"}), call("fs__fail", {"text": "ok"}), say("done")]
    async with served({"fs": server("env", "echo", "fail", env_vars=["FS_TOKEN"])}, *script) as session:
        await session.root.message("show it")
        text = "".join(repr(event) for event in await so_far(session))
        assert key not in text
        assert "[redacted:secret]" in (await outputs(session, session.root))[0][1]
        history = "".join(entry.text or "" for entry in await session.root.history())
        assert key not in history
        assert [worked for worked, _ in await outputs(session, session.root)] == [True, True, False]


async def test_a_login_is_not_followed_and_the_session_says_what_to_set() -> None:
    """HARDENING C15"""
    with serving(web("challenge", "file:///etc/passwd")) as port:
        async with served({"docs": {"url": f"http://127.0.0.1:{port}/mcp"}}, say("hello")) as session:
            (docs,) = session.info.mcp
            assert docs["status"] == "failed"
            assert "bearer_token_env_var" in docs["error"]
            assert (await session.root.message("hi")).status == "completed", "it harms nobody else"
