"""MCP servers that an agent's own settings in JSON name."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.acp.own_servers import MAX_SETTINGS_BYTES, JsonServers
from tertulia.executors.acp.presets import ACP_PRESETS

OPENCODE = ACP_PRESETS["opencode"].own_servers
VARIABLE = "OPENCODE_CONFIG_CONTENT"
SETTINGS = ".config/opencode/opencode.json"
LOOSE = """{
  // the user's own
  "mcp": {"own": {"type": "local", "command": ["a // b", "/* c */"]}, /* and */ "two": {},},
  "model": "x",
}"""


def off(home: Path, cwd: Path, **variables: str) -> dict[str, object]:
    assert isinstance(OPENCODE, JsonServers)
    off = OPENCODE.switched_off({"HOME": str(home), **variables}, str(cwd))
    return json.loads(off[VARIABLE]) if off else {}


def write(path: Path, text: str = LOOSE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "place",
    [
        *("home/.config/opencode/opencode.json", "home/.config/opencode/opencode.jsonc"),
        *("home/.config/opencode/config.json", "home/.opencode/opencode.json"),
        *("work/opencode.json", "work/in/opencode.jsonc", "work/.opencode/opencode.json"),
    ],
)
def test_they_are_found_wherever_it_looks_and_switched_off(tmp_path: Path, place: str) -> None:
    """DESIGN: exactly one MCP server, ours. Comments and commas too many are allowed there."""
    (tmp_path / "work" / "in").mkdir(parents=True)
    assert off(tmp_path / "home", tmp_path / "work" / "in") == {}
    write(tmp_path / place)
    expected = {"mcp": {"own": {"enabled": False}, "two": {"enabled": False}}}
    assert off(tmp_path / "home", tmp_path / "work" / "in") == expected


def test_another_place_for_settings_is_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "xdg" / "opencode" / "opencode.json")
    assert "mcp" in off(tmp_path, tmp_path, XDG_CONFIG_HOME=str(tmp_path / "xdg"))


def test_what_the_variable_said_already_stays(tmp_path: Path) -> None:
    write(tmp_path / SETTINGS, '{"mcp": {"own": {}}}')
    fields = {"theme": "dark", "mcp": {"other": {"enabled": True}}}
    expected = {"theme": "dark", "mcp": {"other": {"enabled": True}, "own": {"enabled": False}}}
    assert off(tmp_path, tmp_path, **{VARIABLE: json.dumps(fields)}) == expected
    with pytest.raises(UnsupportedByBackendError, match=VARIABLE):
        off(tmp_path, tmp_path, **{VARIABLE: "{"})


def test_one_that_is_called_like_ours_is_switched_off_too(tmp_path: Path) -> None:
    """DESIGN: exactly one MCP server, ours."""
    write(tmp_path / "opencode.json", '{"mcp": {"tertulia": {}}}')
    assert off(tmp_path, tmp_path) == {"mcp": {"tertulia": {"enabled": False}}}


@pytest.mark.parametrize(
    "text",
    [
        '{"mcp": {"own": {}, // last\n}, /* and */ }',
        '\ufeff{"mcp": {"own": {}}}',
        '// first\r{"mcp": {"own": {}}}',
        '{"mcp": {"own": {"command": ["//", "/*", ",]", "\\",}"]}}, "x": "*/"}',
        '/**/{"mcp"/***/:{"own":{}}}//',
    ],
)
def test_whatever_the_agent_reads_is_read_alike(tmp_path: Path, text: str) -> None:
    """HARDENING: a comment after the last comma, a mark at the beginning, and strings that look like either."""
    write(tmp_path / SETTINGS, text)
    assert off(tmp_path, tmp_path) == {"mcp": {"own": {"enabled": False}}}


@pytest.mark.parametrize("text", ["", " // nothing\n", "[]", '{"mcp": []}', '{"mcp": null}'])
def test_settings_without_servers_name_nobody(tmp_path: Path, text: str) -> None:
    write(tmp_path / SETTINGS, text)
    assert off(tmp_path, tmp_path) == {}


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, "\0", '"', "{} /* open", '{"a" 1}', "9" * 5_000, " " * MAX_SETTINGS_BYTES + "{}"]
)
def test_what_cannot_be_understood_is_refused_and_named(tmp_path: Path, text: str) -> None:
    """Bad input: the agent may understand it, and start what it names."""
    assert off(tmp_path, tmp_path) == {}
    write(tmp_path / SETTINGS, text)
    with pytest.raises(UnsupportedByBackendError, match=f"{tmp_path / SETTINGS} is"):
        off(tmp_path, tmp_path)


def test_a_pipe_a_device_and_a_directory_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    for make in (os.mkfifo, lambda at: os.symlink("/dev/zero", at), os.mkdir, lambda at: os.symlink(at, at)):
        make(path)
        with pytest.raises(UnsupportedByBackendError, match=str(path)):
            off(tmp_path, tmp_path)
        path.rmdir() if path.is_dir() else path.unlink()
    assert off(tmp_path, tmp_path) == {}


def test_a_file_of_the_project_that_the_agent_does_not_read_is_not_looked_at(tmp_path: Path) -> None:
    """Many a project has a config.json, and in no form that is known here."""
    write(tmp_path / "config.json", "{")
    assert off(tmp_path, tmp_path) == {}


@pytest.mark.parametrize("text", ["/*", '\\"', '"\\"', ", ", "/* */", "//", '"'])
def test_it_is_read_in_one_go_however_it_was_written(tmp_path: Path, text: str) -> None:
    """HARDENING: a file of strangers takes no time that grows with the square of its size."""
    write(tmp_path / SETTINGS, "{" + text * (MAX_SETTINGS_BYTES // len(text) - 1))
    before = time.thread_time()
    with pytest.raises(UnsupportedByBackendError, match="is not JSON"):
        off(tmp_path, tmp_path)
    assert time.thread_time() - before < 10


def test_a_server_of_a_project_is_no_option_of_the_agent(tmp_path: Path) -> None:
    """Issue 25, 5: attack: a repository that calls its MCP server `--yolo` switches nothing on."""
    copilot = ACP_PRESETS["copilot"].own_servers_by_argument
    assert copilot is not None
    project = tmp_path / "project" / ".github"
    project.mkdir(parents=True)
    named = {"mcpServers": {"--yolo": {}, "a b": {}, "tertulia": {}, "x\0y": {}}}
    (project / "mcp.json").write_text(json.dumps(named))
    (tmp_path / ".copilot").mkdir()
    (tmp_path / ".copilot" / "mcp-config.json").write_text(json.dumps({"mcpServers": {"own": {}, "a b": {}}}))
    words = copilot.switched_off({"HOME": str(tmp_path)}, str(project.parent))
    assert words == [f"--disable-mcp-server={name}" for name in ("own", "a b", "--yolo")]
    (project / "mcp.json").write_text("{")
    with pytest.raises(UnsupportedByBackendError, match=r"mcp\.json is not JSON"):
        copilot.switched_off({"HOME": str(tmp_path)}, str(project.parent))
