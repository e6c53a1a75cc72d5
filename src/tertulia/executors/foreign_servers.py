"""MCP servers that an agent's own settings name: each has to be kept out, because none of them is ours to narrow."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, cast

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SERVERS, _PROJECTS = "mcp_servers", "projects"


def servers_in_toml(place: str, file: str, folder: str, cwd: str) -> tuple[str, ...]:
    """Names of the servers in the settings below `place`, and in those of the projects that these trust.

    A project's own file lies in its `folder`. One that nobody trusts is not read by the agent either. Blocks shortly.
    """
    settings = _read(os.path.join(place, file))
    found = [*_table(settings, _SERVERS)]
    trusted = {path for path, said in _table(settings, _PROJECTS).items() if _trusts(said)}
    for directory in _upwards(os.path.realpath(cwd), trusted):
        found += _table(_read(os.path.join(directory, folder, file)), _SERVERS)
    return tuple(dict.fromkeys(name for name in found if _NAME.fullmatch(name)))


def _trusts(said: object) -> bool:
    return isinstance(said, Mapping) and cast("Mapping[str, object]", said).get("trust_level") == "trusted"


def _upwards(path: str, trusted: set[str]) -> Iterator[str]:
    """The directory and those above it, up to the highest that is trusted; none where none is."""
    above = [path]
    while above[-1] != "/":
        above.append(os.path.dirname(above[-1]))
    last = max((at for at, directory in enumerate(above) if directory in trusted), default=-1)
    return iter(above[: last + 1])


def _read(path: str) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        # What we cannot read the agent will complain about itself.
        return {}


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
