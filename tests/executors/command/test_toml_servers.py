"""Which MCP servers an agent would start by itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.command.agent_home import check_project_servers, servers_in_toml, strip_servers
from tertulia.executors.command.definition import AgentHome


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(home: Path, cwd: Path) -> tuple[str, ...]:
    return servers_in_toml(str(home), "config.toml", ".fake", str(cwd))


def test_those_of_the_user_and_of_projects_that_the_user_trusts(tmp_path: Path) -> None:
    """DESIGN: executors get exactly one MCP server, ours."""
    home, project = tmp_path / "home", tmp_path / "project"
    written(home / "config.toml", f'[mcp_servers.a]\ncommand = "x"\n[projects."{project}"]\ntrust_level = "trusted"\n')
    written(project / ".fake" / "config.toml", '[mcp_servers.b]\ncommand = "x"\n[mcp_servers.a]\nurl = "y"\n')
    written(project / "sub" / ".fake" / "config.toml", '[mcp_servers.c]\ncommand = "x"\n')
    written(tmp_path / ".fake" / "config.toml", '[mcp_servers.d]\ncommand = "x"\n')
    assert found(home, tmp_path) == ("a",)
    assert found(home, project) == ("a", "b")
    assert found(home, project / "sub") == ("a", "c", "b")


def test_what_cannot_be_read_or_named_is_passed_over(tmp_path: Path) -> None:
    assert found(tmp_path, tmp_path) == ()
    written(tmp_path / "config.toml", "mcp_servers = 3\nprojects = [")
    assert found(tmp_path, tmp_path) == ()
    written(tmp_path / "config.toml", 'projects = 3\n[mcp_servers."a b"]\n[mcp_servers.c]\n')
    assert found(tmp_path, tmp_path) == ("c",)
    written(tmp_path / "config.toml", '[projects]\n"/" = 3\n"/tmp" = {trust_level = "untrusted"}\n')
    assert found(tmp_path, tmp_path) == ()


HOME = AgentHome(variable="X", folder=".agent", servers="config.toml")


def stripped(folder: Path, text: str) -> dict[str, object]:
    (folder / "config.toml").write_text(text)
    strip_servers(str(folder), HOME)
    return tomllib.loads((folder / "config.toml").read_text())


@pytest.mark.parametrize(
    "servers",
    [
        '[mcp_servers.a]\ncommand = "x"\nargs = ["y"]\n[mcp_servers.a.env]\nB = "c"\n',
        '["mcp_servers"."a b"]\ncommand = "x"\n',
        "  [ mcp_servers . a ]\ncommand = 'x'\n",
        "[mcp_servers]\n",
    ],
)
def test_servers_go_and_the_rest_stays(tmp_path: Path, servers: str) -> None:
    """DESIGN: exactly one MCP server, ours."""
    assert stripped(tmp_path, f'model = "m"\n{servers}[other]\nkey = 1\n') == {"model": "m", "other": {"key": 1}}


@pytest.mark.parametrize("servers", ['mcp_servers.a.command = "x"\n', 'mcp_servers = { a = { command = "x" } }\n'])
def test_those_on_one_line_go_too(tmp_path: Path, servers: str) -> None:
    """Whatever TOML allows."""
    assert stripped(tmp_path, f'{servers}model = "m"\n') == {"model": "m"}


def test_what_cannot_be_taken_out_safely_is_refused(tmp_path: Path) -> None:
    """A key spelled in a way that only a whole parser sees; the file is as it was."""
    text = '"mcp\\u005fservers" = { a = { command = "x" } }\n'
    with pytest.raises(UnsupportedByBackendError, match=r"\[mcp_servers.NAME\]"):
        stripped(tmp_path, text)
    assert (tmp_path / "config.toml").read_text() == text


def test_no_settings_are_fine(tmp_path: Path) -> None:
    """There may be no file, and none to look for."""
    strip_servers(str(tmp_path), HOME)
    strip_servers(str(tmp_path), AgentHome(variable="X", folder=".agent"))
    assert list(tmp_path.iterdir()) == []


def test_a_project_that_names_servers_is_refused(tmp_path: Path) -> None:
    """An agent that trusts where it works would start them."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    check_project_servers(str(below), HOME)
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent" / "config.toml").write_text("[mcp_servers.x]\ncommand = 'y'\n")
    with pytest.raises(UnsupportedByBackendError, match="names MCP servers"):
        check_project_servers(str(below), HOME)
