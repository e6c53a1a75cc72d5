"""MCP servers that an agent's own settings name: each has to be kept out, because none of them is ours to narrow."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.command.definition import AgentHome

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SERVERS, _PROJECTS = "mcp_servers", "projects"


def servers_in_toml(place: str, file: str, folder: str, cwd: str) -> tuple[str, ...]:
    """Names of the servers in the settings below `place`, and in those of the projects that these trust.

    A project's own file lies in its `folder`. One that is not trusted is not read by the agent either. Blocks shortly.
    """
    settings = _read(os.path.join(place, file))
    names = [*_table(settings, _SERVERS)]
    trusted = {path for path, project in _table(settings, _PROJECTS).items() if _trusts(project)}
    for directory in _upwards(os.path.realpath(cwd), trusted):
        names += _table(_read(os.path.join(directory, folder, file)), _SERVERS)
    return tuple(dict.fromkeys(name for name in names if _NAME.fullmatch(name)))


def _trusts(project: object) -> bool:
    return isinstance(project, Mapping) and cast("Mapping[str, object]", project).get("trust_level") == "trusted"


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
    table = settings.get(name)
    return cast("Mapping[str, Any]", table) if isinstance(table, Mapping) else {}


_SERVERS_KEY = "mcp_servers"
_HEADER = re.compile(r"\s*\[\[?\s*(\"[^\"]*\"|'[^']*'|[^.\]\s]+)")
_KEY = re.compile(r"\s*(\"mcp_servers\"|'mcp_servers'|mcp_servers)\s*[.=]")


def strip_servers(place: str, home: AgentHome) -> None:
    """Take them out of a copy of the settings below `place`; UnsupportedByBackend where that cannot be done safely."""
    if home.servers is None:
        return
    path = os.path.join(place, home.servers)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return
    left = "".join(_lines(text))
    if _SERVERS_KEY in _parse_settings(left) or _parse_settings(text).keys() - _parse_settings(left).keys() - {
        _SERVERS_KEY
    }:
        raise UnsupportedByBackendError(
            f"{home.folder}/{home.servers} names MCP servers in a way that cannot be kept from the agent; "
            "write each as a table [mcp_servers.NAME]"
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write(left)


def check_project_servers(cwd: str, home: AgentHome) -> None:
    """Refuse a directory whose own settings name servers, for an agent that trusts every directory it works in."""
    directory, above = os.path.realpath(cwd), ""
    while home.servers is not None and directory != above:
        path = os.path.join(directory, home.folder, home.servers)
        if _names_servers(path):
            raise UnsupportedByBackendError(
                f"{path} names MCP servers, and the agent would start them; remove them there"
            )
        directory, above = os.path.dirname(directory), directory


def _names_servers(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return bool(_parse_settings(file.read()).get(_SERVERS_KEY))
    except (OSError, ValueError):
        return False


def _lines(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header is not None:
            inside = header[1].strip("\"'") == _SERVERS_KEY
        if not inside and _KEY.match(line) is None:
            yield line


def _parse_settings(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        # The agent will complain about it itself; nothing of it is understood by anybody.
        return {}
