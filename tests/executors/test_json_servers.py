"""MCP servers that an agent's own settings in JSON name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tertulia.executors.acp_presets import PRESETS
from tertulia.executors.json_servers import JsonServers

OPENCODE = PRESETS["opencode"].own_servers
VARIABLE = "OPENCODE_CONFIG_CONTENT"
LOOSE = """{
  // the user's own
  "mcp": {"own": {"type": "local", "command": ["a // b", "/* c */"]}, /* and */ "two": {},},
  "model": "x",
}"""


def off(home: Path, cwd: Path, **variables: str) -> dict[str, object]:
    assert isinstance(OPENCODE, JsonServers)
    said = OPENCODE.switched_off({"HOME": str(home), **variables}, str(cwd))
    return json.loads(said[VARIABLE]) if said else {}


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
    write(tmp_path / ".config" / "opencode" / "opencode.json", '{"mcp": {"own": {}, "tertulia": {}}}')
    said = {"theme": "dark", "mcp": {"other": {"enabled": True}}}
    expected = {"theme": "dark", "mcp": {"other": {"enabled": True}, "own": {"enabled": False}}}
    assert off(tmp_path, tmp_path, **{VARIABLE: json.dumps(said)}) == expected


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mcp": []}', '{"mcp": null}', "[" * 100_000, "\0", '"'])
def test_what_makes_no_sense_names_nobody(tmp_path: Path, text: str) -> None:
    """Bad input: the agent will complain about it itself."""
    write(tmp_path / ".config" / "opencode" / "opencode.json", text)
    assert off(tmp_path, tmp_path) == {}
