"""An agent's settings without the MCP servers that they name, for agents that no argument keeps from starting them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.definition import Home

_SERVERS = "mcp_servers"
_HEADER = re.compile(r"\s*\[\[?\s*(\"[^\"]*\"|'[^']*'|[^.\]\s]+)")
_KEY = re.compile(r"\s*(\"mcp_servers\"|'mcp_servers'|mcp_servers)\s*[.=]")


def strip_servers(place: str, home: Home) -> None:
    """Take them out of a copy of the settings below `place`; UnsupportedByBackend where that cannot be done safely."""
    if home.servers is None:
        return
    path = os.path.join(place, home.servers)
    try:
        with open(path, encoding="utf-8") as file:
            said = file.read()
    except FileNotFoundError:
        return
    left = "".join(_lines(said))
    if _SERVERS in _read(left) or _read(said).keys() - _read(left).keys() - {_SERVERS}:
        raise UnsupportedByBackendError(
            f"{home.folder}/{home.servers} names MCP servers in a way that cannot be kept from the agent; "
            "write each as a table [mcp_servers.NAME]"
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write(left)


def check_project(cwd: str, home: Home) -> None:
    """Refuse a directory whose own settings name servers, for an agent that trusts every directory it works in."""
    directory, above = os.path.realpath(cwd), ""
    while home.servers is not None and directory != above:
        path = os.path.join(directory, home.folder, home.servers)
        if _named(path):
            raise UnsupportedByBackendError(
                f"{path} names MCP servers, and the agent would start them; remove them there"
            )
        directory, above = os.path.dirname(directory), directory


def _named(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return bool(_read(file.read()).get(_SERVERS))
    except (OSError, ValueError):
        return False


def _lines(said: str) -> Iterator[str]:
    inside = False
    for line in said.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header is not None:
            inside = header[1].strip("\"'") == _SERVERS
        if not inside and _KEY.match(line) is None:
            yield line


def _read(said: str) -> dict[str, Any]:
    try:
        return tomllib.loads(said)
    except tomllib.TOMLDecodeError:
        # The agent will complain about it itself; nothing of it is understood by anybody.
        return {}
