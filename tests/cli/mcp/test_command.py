"""`tertulia mcp`: the group and `ls`; the other acts have tests of their own."""

from __future__ import annotations

import pytest

from tests.cli.running import Shell
from tests.cli.serving import config_of, configure, dot_mcp
from tests.mcp.fakes import bare, hostile

ACTS = ("ls", "add", "rm", "test", "trust", "tools")
SECRET = "hunter2hunter2"


def test_the_group_alone_shows_its_help(shell: Shell) -> None:
    ran = shell.run("mcp")
    assert ran.code == 0
    assert all(f"  {act} " in ran.out for act in ACTS)


@pytest.mark.parametrize("act", ACTS)
def test_every_act_has_examples_and_the_global_flags(shell: Shell, act: str) -> None:
    ran = shell.run("mcp", act, "--help")
    assert ran.code == 0
    assert "Examples:\n" in ran.out
    assert "--model" in ran.out


def test_with_nothing_configured_it_says_what_to_do(shell: Shell) -> None:
    ran = shell.run("mcp", "ls")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("No MCP server is configured; `tertulia mcp add")
    assert shell.run("mcp", "ls", "--json").out == ""


def test_what_is_configured_is_shown_without_starting_it(shell: Shell, tmp_path) -> None:
    """S000-31, C3: status as it is known without a start."""
    record = tmp_path / "record"
    configure(shell, "fine", bare("--record", str(record)))
    configure(shell, "off", enabled=False)
    configure(shell, "no good")
    configure(shell, "keyed", url="https://example.com/mcp", bearer_token_env_var="NOT_SET_TOKEN")
    file = dot_mcp(shell, theirs=bare("--record", str(record)))
    ran = shell.run("mcp", "ls", "--json")
    assert ran.code == 0
    rows = {row["name"]: row for row in ran.lines}
    assert list(rows) == ["fine", "keyed", "no good", "off", "theirs"]
    assert {name: row["status"] for name, row in rows.items()} == {
        "fine": "enabled",
        "keyed": "failed",
        "no good": "failed",
        "off": "disabled",
        "theirs": "untrusted",
    }
    assert (rows["fine"]["origin"], rows["fine"]["source"]) == ("user", str(config_of(shell)))
    assert (rows["theirs"]["origin"], rows["theirs"]["source"], rows["theirs"]["transport"]) == (
        "project",
        str(file),
        "stdio",
    )
    assert "NOT_SET_TOKEN is not set" in rows["keyed"]["error"]
    assert rows["keyed"]["transport"] == "http example.com"
    assert not record.exists()


def test_people_get_columns_and_warnings(shell: Shell) -> None:
    configure(shell, "x")
    file = dot_mcp(shell, x=("other",))
    ran = shell.run("mcp", "ls")
    assert ran.out.splitlines()[0].split()[:4] == ["NAME", "STATUS", "TRANSPORT", "FROM"]
    assert ran.out.splitlines()[1].split() == ["x", "enabled", "stdio", "server", "user", str(config_of(shell))]
    assert ran.err == f"tertulia: {file}: the MCP server 'x' is ignored, your own settings have one\n"


def test_started_they_show_how_they_really_are(shell: Shell) -> None:
    """One broken server delays no other, and its last words are shown without what it was given."""
    configure(shell, "good", bare("--tools", "echo,env"))
    configure(shell, "bad", hostile("dies-at-start"), env={"TOKEN": SECRET})
    configure(shell, "gone", ("/nowhere/server",))
    dot_mcp(shell, theirs=bare())
    ran = shell.run("mcp", "ls", "--start", "--json")
    rows = {row["name"]: row for row in ran.lines}
    statuses = {name: row["status"] for name, row in rows.items()}
    assert statuses == {"bad": "failed", "gone": "failed", "good": "ready", "theirs": "untrusted"}
    assert (rows["good"]["tools"], rows["good"]["error"]) == (2, None)
    assert rows["good"]["latency_ms"] > 0
    assert rows["bad"]["error"]
    assert "/nowhere/server" in rows["gone"]["error"]
    assert SECRET not in ran.out + ran.err
    shown = shell.run("mcp", "ls", "--start").out.splitlines()
    assert shown[0].split()[:4] == ["NAME", "STATUS", "LATENCY", "TOOLS"]


def test_a_broken_file_is_one_sentence_and_exit_2(shell: Shell) -> None:
    """Bad input: broken JSON and TOML, with file and line."""
    file = dot_mcp(shell)
    file.write_text('{"mcpServers": {\n  "x": }}')
    ran = shell.run("mcp", "ls")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"tertulia: {file}: not JSON at line 2, column 8: a value is missing\n"
    file.unlink()
    config_of(shell).parent.mkdir(parents=True)
    config_of(shell).write_text("[mcp_servers.x\n")
    ran = shell.run("mcp", "ls")
    assert ran.code == 2
    assert f"{config_of(shell)}: " in ran.err
    assert "line 1" in ran.err
