"""MCP servers that settings in JSON name, for an agent that can be told in a variable which of them not to start."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

_OURS = "tertulia"
# A string as it is; a comment, or a comma before a bracket, for nothing.
_LOOSE = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


class JsonServers(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent's settings are, and how one of their servers is switched off."""

    variable: str
    """Settings in JSON that win over its files."""
    table: str
    """The part that names servers."""
    folder: str
    """Below the directory for settings."""
    project: str
    """The folder in which a project has its own; they may lie beside it too."""
    files: tuple[str, ...]

    def switched_off(self, environment: Mapping[str, str], cwd: str) -> dict[str, str]:
        """The variable that says so of each that the agent would start by itself; none where there are none."""
        names = [name for path in self._paths(environment, cwd) for name in _table(_read(path).get(self.table))]
        off = {name: {"enabled": False} for name in names if name != _OURS}
        if not off:
            return {}
        said = _parsed(environment.get(self.variable, ""))
        return {self.variable: json.dumps({**said, self.table: {**_table(said.get(self.table)), **off}})}

    def _paths(self, environment: Mapping[str, str], cwd: str) -> Iterator[str]:
        home = environment.get("HOME", "")
        places = [os.path.join(environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), self.folder)]
        directory, above = os.path.realpath(cwd), ""
        while directory != above:
            places += [directory, os.path.join(directory, self.project)]
            directory, above = os.path.dirname(directory), directory
        places.append(os.path.join(home, self.project))
        for place in places:
            for file in self.files:
                yield os.path.join(place, file)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _parsed(file.read())
    except OSError:
        return {}


def _parsed(text: str) -> dict[str, Any]:
    """What it says, with comments and commas too many; nothing where it makes no sense, to the agent either."""
    try:
        return _table(json.loads(_LOOSE.sub(lambda found: found[1] or "", text)))
    except (ValueError, RecursionError):
        return {}


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
