"""`exec` with MCP servers that are slow or broken, and without any: real servers over standard input and output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tertulia.cli.global_flags import GlobalFlags
from tertulia.mcp.pool import session_servers, startup_wait
from tests.cli.running import Shell
from tests.contract.serving_tools import offering, spoilt, table

CALL = {"tool_calls": [{"name": "slow__echo", "arguments": {"text": "x"}}]}


def configure(shell: Shell, **servers: dict[str, Any]) -> None:
    """The servers in the user's own file."""
    lines: list[str] = []
    for name, fields in servers.items():
        lines += [f"[mcp_servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    file = Path(os.environ["HOME"]) / ".config" / "tertulia" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines))


@pytest.fixture
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_servers, "GRACE_S", 0.4)
    monkeypatch.setattr(startup_wait, "SILENT_S", 0.1)


@pytest.mark.usefixtures("little_grace")
def test_a_slow_server_is_waited_for_with_a_line_and_its_tool_answers_that_it_is_starting(shell: Shell) -> None:
    """Issue 19, 11"""
    configure(shell, slow=spoilt("hangs"))
    ran = shell.run("exec", "-m", shell.script(CALL, "Done."), "hello")
    assert (ran.code, ran.out) == (0, "Done.\n")
    _, *waiting, late, call, failed, _ = ran.err.splitlines()
    # On a busy machine the little time is over before it is waited for.
    assert waiting in ([], ["note waiting up to 0 s for the MCP server 'slow'"])
    assert late.startswith("warning MCP server 'slow' was not ready in time; its tools join at the first task after")
    assert "`required = true` in [mcp_servers.slow] waits for it, up to its startup_timeout_sec of 30 s" in late
    assert call == 'call slow__echo {"text":"x"}'
    assert failed == "failed MCP server 'slow' is still starting; its tools join at the next task, once it is ready"


@pytest.mark.usefixtures("little_grace")
def test_programs_read_the_same_as_events(shell: Shell) -> None:
    configure(shell, slow=spoilt("hangs"))
    ran = shell.run("exec", "--json", "-m", shell.script(CALL, "Done."), "hello")
    texts = [line["item"].get("message", "") for line in ran.lines if line["type"] == "item.completed"]
    assert [text[:30] for text in texts if "MCP server" in text][:2] == [
        "waiting up to 0 s for the MCP ",
        "MCP server 'slow' was not read",
    ]
    assert ran.err == ""


@pytest.mark.usefixtures("little_grace")
def test_a_required_server_is_waited_for_and_the_end_says_why_it_did_not_come(shell: Shell) -> None:
    """Issue 19, 11: `required = true`"""
    configure(shell, slow=spoilt("hangs", required=True, startup_timeout_sec=0.5))
    ran = shell.run("exec", "-m", shell.script("never said"), "hello")
    assert (ran.code, ran.out) == (1, "")
    _, waiting, end = ran.err.splitlines()
    assert waiting == "note waiting up to 0 s for the MCP server 'slow', which must be there (required = true)"
    late = "it did not start within 0.5 s (startup_timeout_sec)"
    assert end == f"tertulia: MCP server 'slow' is required and failed: {late}"
    assert shell.run("sessions", "ls", "--json").lines == [], "`--last` must not mean a session that never began"


def test_a_required_server_is_there_for_the_first_turn(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_servers, "GRACE_S", 0.0)
    configure(shell, slow=offering("echo", required=True))
    ran = shell.run("exec", "-m", shell.script(CALL, "Done."), "hello")
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert "call slow · echo" in ran.err


def test_a_server_that_has_failed_is_not_waited_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 19, 11: it is started again and again, and the task does not wait for that."""
    monkeypatch.setattr(session_servers, "GRACE_S", 3_600.0)
    configure(shell, slow=spoilt("dies-at-start"))
    ran = shell.run("exec", "-m", shell.script(CALL, "Done."), "hello")
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert "failed MCP server 'slow' has failed: it exited with code" in ran.err
    assert "not ready in time" not in ran.err


def test_a_server_that_hangs_in_every_run_does_not_delay_the_next_by_its_grace(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 19, 11: one broken server must not cost every run five seconds."""
    monkeypatch.setattr(startup_wait, "SILENT_S", 0.1)
    configure(shell, slow=spoilt("hangs"))
    for grace_s in (0.3, 0.3, 3_600.0):
        monkeypatch.setattr(session_servers, "GRACE_S", grace_s)
        ran = shell.run("exec", "-m", shell.script("Done."), "hello")
        assert (ran.code, ran.out) == (0, "Done.\n")
    assert "'slow' was not ready within 0.1 s, and not in the last runs either; its tools join" in ran.err


@pytest.mark.parametrize("flags", [["--no-mcp"], ["-c", "mcp_servers={}"]])
def test_servers_are_switched_off_for_a_run(shell: Shell, flags: list[str]) -> None:
    """Issue 19, 11: those of the user and those of the project."""
    record = shell.folder / "record"
    configure(shell, one=table("--record", str(record), required=True))
    (shell.folder / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "false"}}}')
    ran = shell.run("exec", *flags, "-m", shell.script("Done."), "hello")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (0, "Done.\n", 2), ran.err
    assert not record.exists()
    assert "exec" in shell.run("exec", "--help").out
    assert shell.run("mcp", "ls", *flags, "--json").lines == []


def test_a_server_may_be_added_to_none(shell: Shell) -> None:
    configure(shell, one=offering("echo"))
    flags = GlobalFlags()
    flags.take("overrides", ("mcp_servers.zero.command=z", "mcp_servers={}", "mcp_servers.two.command=x"))
    loaded = flags.load()
    assert list(loaded.settings.mcp_servers) == ["two"]
    assert loaded.provenance["mcp_servers.two.command"] == "-c"
    assert "mcp_servers.one.command" not in loaded.provenance
