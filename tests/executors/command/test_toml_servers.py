"""Which MCP servers an agent would start by itself."""

from __future__ import annotations

from pathlib import Path

from tertulia.executors.command.toml_servers import servers_in_toml


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(home: Path, cwd: Path) -> tuple[str, ...]:
    return servers_in_toml(str(home), "config.toml", ".fake", str(cwd))


def test_those_of_the_user_and_of_projects_that_the_user_trusts(tmp_path: Path) -> None:
    """DESIGN: foreign agents get exactly one MCP server, ours."""
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
