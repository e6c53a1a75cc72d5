"""`tertulia mcp refresh`: whoever is told that a tool is withheld has a way out."""

from __future__ import annotations

import json

from tests.cli.running import Shell
from tests.cli.serving import configure
from tests.mcp.fakes import bare, hostile


def offer(shell: Shell, **descriptions: str) -> None:
    tools = [{"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in descriptions.items()]
    (shell.folder / "tools.json").write_text(json.dumps({"tools": tools}))


def test_a_tool_that_changed_between_two_runs_is_withheld_and_said_and_taken_when_asked_for(shell: Shell) -> None:
    """HARDENING C1, S000-22: `exec`, the server changes, `exec resume`, `mcp refresh`, `exec resume`."""
    configure(shell, "x", bare("--define", str(shell.folder / "tools.json")), approval="approve")
    offer(shell, echo="says it again", pid="its number")
    model = shell.script({"text": "hello"}, repeat=True)
    assert shell.run("exec", "-m", model, "hi").code == 0
    offer(shell, echo="another", pid="its number")
    ran = shell.run("exec", "resume", "--last", "-m", model, "again")
    assert (ran.code, ran.out) == (0, "hello\n")
    said = "not what was shown before, and withheld: x__echo; `tertulia mcp refresh` takes them as they are now"
    assert said in ran.err
    ran = shell.run("mcp", "refresh", "--last", "-m", model)
    assert (ran.code, ran.out, ran.err) == (0, "root 2 tools of MCP servers: x__echo\n", "")
    ran = shell.run("exec", "resume", "--last", "-m", model, "again")
    assert ran.code == 0
    assert "withheld" not in ran.err
    assert shell.run("mcp", "refresh", "--last", "-m", model).out == "root 2 tools of MCP servers: as they were\n"


def test_a_server_that_is_not_up_is_named(shell: Shell) -> None:
    configure(shell, "x", hostile("dies-at-start"))
    model = shell.script({"text": "hello"}, repeat=True)
    assert shell.run("exec", "-m", model, "hi").code == 0
    ran = shell.run("mcp", "refresh", "--last", "-m", model)
    assert ran.code == 1
    assert ran.out == "root 0 tools of MCP servers: as they were\n"
    assert ran.err.startswith("tertulia: MCP server x is failed: it exited with code 3")


def test_one_has_to_say_which_session(shell: Shell) -> None:
    ran = shell.run("mcp", "refresh")
    assert (ran.code, "which session?" in ran.err) == (2, True)
