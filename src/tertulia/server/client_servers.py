"""MCP servers that an editor brings along, read into definitions: the user's own, by another hand."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from acp import schema as s

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.server_table import server_from_wire

ClientMcpServer = s.HttpMcpServer | s.SseMcpServer | s.AcpMcpServer | s.McpServerStdio

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


class ClientServers(msgspec.Struct, frozen=True):
    """Those that can be used, and what has to be said about the others."""

    servers: dict[str, ServerDefinition]
    refused: list[str]


def read_client_servers(given: Sequence[ClientMcpServer], taken: Collection[str]) -> ClientServers:
    """`taken`: the names of servers in the user's own settings, which win."""
    found = ClientServers({}, [])
    for server in given:
        name = _NOT_IN_NAMES.sub("_", server.name).strip("_") or "server"
        if name in taken or name in found.servers:
            found.refused.append(f"MCP server {server.name!r:.80} is left out: there is one of that name already")
            continue
        try:
            # The host's: tabs of one project share it, as they would share the editor's own.
            found.servers[name] = server_from_wire(name, {**_table(server), "share": "host"}, origin="user")
        except InvalidParamsError as error:
            found.refused.append(f"MCP server {server.name!r:.80} is left out: {error.message}")
    return found


def _table(server: ClientMcpServer) -> dict[str, Any]:
    match server:
        case s.McpServerStdio():
            return {
                "command": server.command,
                "args": list(server.args),
                "env": {variable.name: variable.value for variable in server.env},
            }
        case s.HttpMcpServer():
            return {"url": server.url, "http_headers": {header.name: header.value for header in server.headers}}
        case _:
            raise InvalidParamsError(f"the transport {server.type!r} is not spoken here; mcpCapabilities says so")
