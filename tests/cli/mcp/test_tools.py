"""`tertulia mcp test` and `tools`, with real servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.running import Shell
from tests.cli.serving import config_of, configure, dot_mcp
from tests.mcp.fakes import bare, hostile


def test_a_server_that_works_shows_its_tools(shell: Shell) -> None:
    configure(shell, "x", bare("--tools", "echo,env"), disabled_tools=["env"])
    ran = shell.run("mcp", "test", "x")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("x ready after ")
    assert "1 tool\n  x__echo  echo\n" in ran.out
    [line] = shell.run("mcp", "test", "x", "--json").lines
    assert (line["name"], line["status"], line["tools"], line["error"]) == ("x", "ready", ["x__echo"], None)
    assert line["latency_ms"] > 0
    assert line["protocol_version"]


@pytest.mark.slow
def test_real_servers_work(shell: Shell) -> None:
    """PyPI's `mcp-server-time` and `mcp-server-git`, as their users would add them."""
    for name in ("time", "git"):
        program = str(Path(sys.executable).parent / f"mcp-server-{name}")
        assert shell.run("mcp", "add", name, "--", program).code == 0
    ran = shell.run("mcp", "tools", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = {row["name"] for row in ran.lines}
    assert {"git__git_status", "time__get_current_time"} <= found


def test_a_server_gets_only_what_is_declared(shell: Shell, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13, the configured part: the names that are given to a started process."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-servers")
    monkeypatch.setenv("NAMED", "yes")
    seen = tmp_path / "seen"
    script = f"import json,os;open({str(seen)!r},'w').write(json.dumps(dict(os.environ)))"
    configure(shell, "x", (bare()[0], "-I", "-S", "-c", script), env={"OWN": "1"}, env_vars=["NAMED"])
    assert shell.run("mcp", "test", "x").code == 1
    found = json.loads(seen.read_text())
    usual = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
    assert set(found) - usual == {"OWN", "NAMED"}


@pytest.mark.parametrize("argv", [hostile("dies-at-start"), ("/nowhere/at-all",)], ids=["dies", "missing"])
def test_a_server_that_does_not_start_says_why(shell: Shell, argv) -> None:
    """Bad input: missing executable."""
    configure(shell, "x", argv)
    ran = shell.run("mcp", "test", "x")
    assert ran.code == 1
    assert ran.out.startswith("x failed ")
    assert len(ran.out) > len("x failed \n")


def test_a_slow_one_is_given_up_after_its_timeout(shell: Shell) -> None:
    configure(shell, "x", hostile("hangs"), startup_timeout_sec=0.5)
    ran = shell.run("mcp", "test", "x")
    assert ran.code == 1
    assert "0.5 s" in ran.out


def test_an_unset_secret_is_named(shell: Shell) -> None:
    """Bad input: secret env var unset."""
    configure(shell, "x", bare(), env_vars=["NOT_SET_TOKEN"])
    ran = shell.run("mcp", "test", "x")
    assert ran.code == 1
    assert ran.out == "x failed x: the variable NOT_SET_TOKEN is not set; mcp_servers.x.env_vars names it\n"


def test_an_untrusted_one_is_not_started(shell: Shell, tmp_path) -> None:
    """C3"""
    record = tmp_path / "record"
    dot_mcp(shell, x=bare("--record", str(record)))
    ran = shell.run("mcp", "test", "x")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("tertulia: MCP server x is untrusted: ")
    assert not record.exists()
    shell.run("mcp", "trust", "x", "--yes")
    assert shell.run("mcp", "test", "x").code == 0
    assert record.exists()


def test_one_that_is_switched_off_can_be_tried(shell: Shell) -> None:
    configure(shell, "x", bare(), enabled=False)
    assert shell.run("mcp", "test", "x").code == 0


def test_an_unknown_name_is_answered_with_the_nearest(shell: Shell) -> None:
    configure(shell, "github")
    ran = shell.run("mcp", "test", "gihub")
    assert ran.code == 1
    assert ran.err == "tertulia: no MCP server is called 'gihub'; did you mean github?\n"


# ---- tools


def test_tools_are_listed_with_who_sees_them(shell: Shell) -> None:
    configure(shell, "a", bare("--tools", "echo,env"))
    configure(shell, "b", bare("--tools", "echo"))
    views = '[mcp_views]\nsome.mcp_tool_allowlist = ["a__echo"]\nnone.mcp_tool_allowlist = []\nall = {}\n'
    config_of(shell).write_text(config_of(shell).read_text() + views)
    ran = shell.run("mcp", "tools", "--json", "--allow", "b__*")
    assert (ran.code, ran.err) == (0, "")
    assert {row["name"]: row["seen_by"] for row in ran.lines} == {
        "a__echo": ["root", "some", "all"],
        "a__env": ["root", "all"],
        "b__echo": ["root", "all", "--allow"],
    }
    lines = shell.run("mcp", "tools", "b").out.splitlines()
    assert [line.split() for line in lines] == [["TOOL", "SEEN", "BY", "WHAT"], ["b__echo", "root,", "all", "echo"]]


def test_a_wrong_entry_is_named_with_the_nearest(shell: Shell) -> None:
    configure(shell, "a", bare("--tools", "echo"))
    ran = shell.run("mcp", "tools", "--allow", "a__eco")
    assert ran.code == 2
    assert "did you mean a__echo?" in ran.err
    views = '[mcp_views.v]\nmcp_tool_allowlist = ["a__nope"]\n'
    config_of(shell).write_text(config_of(shell).read_text() + views)
    ran = shell.run("mcp", "tools")
    assert ran.code == 0
    assert "tertulia: mcp_views.v: mcp_tool_allowlist: 'a__nope' is unknown" in ran.err


def test_one_that_is_down_hides_no_other(shell: Shell) -> None:
    configure(shell, "a", bare("--tools", "echo"))
    configure(shell, "down", hostile("dies-at-start"))
    ran = shell.run("mcp", "tools", "--allow", "down__x")
    assert ran.code == 1
    assert "a__echo" in ran.out
    assert "'down__x' is kept, but the MCP server 'down' is not up" in ran.err
    assert "tertulia: MCP server down failed: " in ran.err


def test_without_any_tool_it_says_so(shell: Shell) -> None:
    assert shell.run("mcp", "tools").out == "No MCP server offers a tool.\n"


def test_a_tool_that_is_none_is_named_and_the_others_are_listed(shell: Shell) -> None:
    """Issue 8: one bad tool costs only itself."""
    file = shell.folder / "tools.json"
    file.write_text(json.dumps({"tools": [{"name": "bad"}, {"name": "good", "inputSchema": {"type": "object"}}]}))
    configure(shell, "x", bare("--define", str(file)))
    ran = shell.run("mcp", "test", "x")
    assert (ran.code, "x__good" in ran.out) == (0, True)
    assert "warning tool 'bad' is left out: `inputSchema`: it is missing" in ran.out
    [line] = shell.run("mcp", "test", "x", "--json").lines
    assert (line["tools"], len(line["left_out"])) == (["x__good"], 1)
    ran = shell.run("mcp", "tools", "--json")
    assert [row["name"] for row in ran.lines] == ["x__good"]
    assert ran.err == "tertulia: MCP server x: tool 'bad' is left out: `inputSchema`: it is missing\n"


def serve_tools(shell: Shell, **descriptions: str) -> None:
    tools = [{"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in descriptions.items()]
    (shell.folder / "tools.json").write_text(json.dumps({"tools": tools}))


def test_a_tool_that_changed_between_two_runs_is_withheld_and_said_and_taken_when_asked_for(shell: Shell) -> None:
    """HARDENING C1, S000-22: `exec`, the server changes, `exec resume`, `mcp refresh`, `exec resume`."""
    configure(shell, "x", bare("--define", str(shell.folder / "tools.json")), approval="approve")
    serve_tools(shell, echo="says it again", pid="its number")
    model = shell.script({"text": "hello"}, repeat=True)
    assert shell.run("exec", "-m", model, "hi").code == 0
    serve_tools(shell, echo="another", pid="its number")
    ran = shell.run("exec", "resume", "--last", "-m", model, "again")
    assert (ran.code, ran.out) == (0, "hello\n")
    text = "not what was shown before, and withheld: x__echo; `tertulia mcp refresh` takes them as they are now"
    assert text in ran.err
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
    assert ran.err.startswith("tertulia: MCP server x failed: it exited with code 3")


def test_one_has_to_say_which_session(shell: Shell) -> None:
    ran = shell.run("mcp", "refresh")
    assert (ran.code, "which session?" in ran.err) == (2, True)
