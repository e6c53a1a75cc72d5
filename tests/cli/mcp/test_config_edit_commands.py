"""`tertulia mcp add` and `rm`."""

from __future__ import annotations

import tomllib

import pytest

from tests.cli.running import Shell
from tests.cli.serving import config_of, configure, dot_mcp

SECRET = "hunter2hunter2"


def servers(shell: Shell) -> dict:
    path = config_of(shell)
    return tomllib.loads(path.read_text()).get("mcp_servers", {}) if path.exists() else {}


def test_a_program_is_added(shell: Shell) -> None:
    ran = shell.run("mcp", "add", "fs", "--env", "A=b=c", "--env-var", "TOKEN", "--set", "share=host",
                    "--set", "tool_timeout_sec=5", "--", "npx", "-y", "server", "--flag")  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"fs is in {config_of(shell)}; `tertulia mcp test fs` tries it out\n"
    assert servers(shell) == {
        "fs": {
            "command": "npx",
            "args": ["-y", "server", "--flag"],
            "env": {"A": "b=c"},
            "env_vars": ["TOKEN"],
            "share": "host",
            "tool_timeout_sec": 5,
        }
    }
    assert [row["status"] for row in shell.run("mcp", "ls", "--json").lines] == ["failed"]


def test_an_address_is_added(shell: Shell) -> None:
    ran = shell.run("mcp", "add", "docs", "--url", "https://x/mcp", "--bearer-token-env-var", "T")
    assert ran.code == 0
    assert servers(shell) == {"docs": {"url": "https://x/mcp", "bearer_token_env_var": "T"}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["x"], "mcp_servers.x has neither command nor url"),
        (["x", "--url", "https://x/", "--", "cmd"], "mcp_servers.x has both command and url"),
        (["x", "--url", f"ftp://{SECRET}"], "mcp_servers.x.url must be an address"),
        (["a b", "--", "cmd"], "'a b' cannot be the name of a server"),
        (["x", "--env", SECRET, "--", "cmd"], "--env takes NAME=VALUE"),
        (["x", "--set", "shar=host", "--", "cmd"], "there is no setting 'shar'; did you mean share?"),
        (["x", "--set", "share", "--", "cmd"], "-c share: expected key=value"),
        (["there", "--", "cmd"], "has [mcp_servers.there] already"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(shell: Shell, arguments, expected) -> None:
    configure(shell, "there")
    before = config_of(shell).read_text()
    ran = shell.run("mcp", "add", *arguments)
    assert ran.code == 2
    assert expected in ran.err
    assert ran.err.count("\n") == 1
    assert SECRET not in ran.err
    assert config_of(shell).read_text() == before


def test_a_server_is_removed_and_the_rest_stays(shell: Shell) -> None:
    configure(shell, "x")
    text = "# mine\n" + config_of(shell).read_text() + '\n[mcp_servers.y] # two\ncommand = "c"\n'
    config_of(shell).write_text(text)
    ran = shell.run("mcp", "rm", "x")
    assert (ran.code, ran.out) == (0, f"x is no longer in {config_of(shell)}\n")
    assert config_of(shell).read_text() == '# mine\n[mcp_servers.y] # two\ncommand = "c"\n'
    ran = shell.run("mcp", "rm", "x")
    assert ran.code == 1
    assert "has no MCP server 'x'; `tertulia mcp ls` shows what there is" in ran.err


def test_a_projects_server_is_not_ours_to_remove(shell: Shell) -> None:
    file = dot_mcp(shell, x=("c",))
    before = file.read_text()
    ran = shell.run("mcp", "rm", "x")
    assert ran.code == 1
    assert f"x is defined by {file}; `tertulia mcp trust --revoke x`" in ran.err
    assert file.read_text() == before
