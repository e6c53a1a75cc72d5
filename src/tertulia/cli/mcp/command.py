"""`tertulia mcp` and `mcp ls`: the MCP servers that sessions get. The other commands of the group are beside it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags, verb_group
from tertulia.cli.mcp.config_edit import add, rm
from tertulia.cli.mcp.login import login, logout
from tertulia.cli.mcp.status import (
    definition_source,
    load_configured_servers,
    predicted_status,
    probe_servers,
    server_redactor,
    transport_label,
)
from tertulia.cli.mcp.tools import refresh, tools, try_out
from tertulia.cli.mcp.trust import trust
from tertulia.cli.output.tables import write_columns
from tertulia.cli.output.terminal import Style, StyledText, TerminalOutput, json_line
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.session.mcp.configured_servers import ConfiguredServers
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia mcp add time -- uvx mcp-server-time
  tertulia mcp ls
  tertulia mcp test time
  tertulia mcp tools
  tertulia mcp trust github
  tertulia mcp login tracker
"""
_MORE_LS = """
\b
Examples:
  tertulia mcp ls
  tertulia mcp ls --start
  tertulia -C ~/project mcp ls --json | jq -r 'select(.status == "untrusted") | .name'
"""

_STYLES: dict[str, Style] = {
    "enabled": "green",
    "ready": "green",
    "disabled": "dim",
    "untrusted": "yellow",
    "failed": "red",
}


command = verb_group("mcp", "List, add, remove, trust, log in to and try out MCP servers.", _MORE)


for _act in (add, rm, try_out, trust, login, logout, tools, refresh):
    command.add_command(_act)


@command.command("ls", epilog=_MORE_LS)
@click.option("start", "--start", is_flag=True, help="Start each, and show its real status.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@global_flags
@click.pass_obj
def ls(flags: GlobalFlags, *, start: bool, as_json: bool) -> int:
    """Show the configured servers.

    Without --start no server is started: `enabled` means that a session would. Variables and headers are not shown.
    """
    loaded = flags.load()
    servers = load_configured_servers(loaded)
    rows = _started(loaded, servers) if start else _configured(loaded, servers)
    out, notes = (
        TerminalOutput(sys.stdout, loaded.environment.variables),
        TerminalOutput(sys.stderr, loaded.environment.variables),
    )
    for warning in (*loaded.warnings, *servers.warnings):
        notes.line(f"tertulia: {warning}")
    if as_json:
        for row in rows:
            sys.stdout.buffer.write(json_line(row))
    elif rows:
        _write(rows, out, started=start)
    else:
        out.line("No MCP server is configured; `tertulia mcp add NAME -- COMMAND` adds one.")
    return 0


def _configured(loaded: LoadedSettings, servers: ConfiguredServers) -> list[dict[str, Any]]:
    rows = [_row(loaded, server, *predicted_status(server, loaded)) for server in servers.definitions]
    return _with_others(rows, loaded, servers)


def _started(loaded: LoadedSettings, servers: ConfiguredServers) -> list[dict[str, Any]]:
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    results = asyncio.run(probe_servers(servers.definitions, loaded, server_redactor(loaded, servers), notes))
    rows = [
        {
            **_row(loaded, definition, result.status, result.error),
            "latency_ms": result.latency_ms,
            "protocol_version": result.protocol_version,
            "tools": len(result.tools) if result.status == "ready" else None,
        }
        for definition, result in zip(servers.definitions, results, strict=True)
    ]
    return _with_others(rows, loaded, servers)


def _row(loaded: LoadedSettings, server: ServerDefinition, status: str, error: str | None) -> dict[str, Any]:
    return {
        "name": server.name,
        "status": status,
        "error": error,
        "origin": server.origin,
        "source": definition_source(server, loaded),
        "transport": transport_label(server),
    }


def _with_others(
    rows: list[dict[str, Any]], loaded: LoadedSettings, servers: ConfiguredServers
) -> list[dict[str, Any]]:
    for server in servers.unstarted:
        where = {
            "origin": server.origin,
            "source": definition_source(server, loaded),
            "transport": transport_label(server.definition) or server.kind,
        }
        rows.append({"name": server.name, "status": server.status, "error": server.error, **where})
    return sorted(rows, key=lambda row: row["name"])


def _write(rows: Sequence[dict[str, Any]], out: TerminalOutput, *, started: bool) -> None:
    lines: list[list[StyledText]] = []
    for row in rows:
        status: StyledText = (row["status"], _STYLES.get(row["status"], "plain"))
        took = [f"{row['latency_ms']:,} ms" if row.get("latency_ms") is not None else ""] if started else []
        offers = [str(row["tools"]) if row.get("tools") is not None else ""] if started else []
        last = row["error"] or row["source"]
        lines.append([(row["name"], "bold"), status, *took, *offers, row["transport"], row["origin"], last])
    measured = ("LATENCY", "TOOLS") if started else ()
    head = ("NAME", "STATUS", *measured, "TRANSPORT", "FROM", "WHERE, OR WHY NOT")
    write_columns(out, head, lines, right=frozenset({"LATENCY", "TOOLS"}))
