"""`tertulia mcp test` and `tools`: whether a server works, what it offers, and who sees it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from tertulia.apps.columns import counted, write_columns
from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.json_lines import json_line
from tertulia.apps.mcp_listing import known_servers, named, redactor_of
from tertulia.apps.mcp_reach import Reached, reach
from tertulia.apps.terminal import Piece, Terminal, shortened
from tertulia.errors import InvalidParamsError, McpError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.named_view import NamedView
from tertulia.mcp.pool.session_server import spec_of
from tertulia.mcp.view import allows, parse_allowlist
from tertulia.protocol.tool_names import fqn
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.mcp.configured_servers import ConfiguredServers
from tertulia.session.settings.settings import LoadedSettings

_MORE_TEST = """
\b
Examples:
  tertulia mcp test time
  tertulia mcp test time --json | jq .latency_ms

\b
Exit codes:
  0  it started and listed its tools
  1  it did not, or may not be started
  2  usage or configuration
"""
_MORE_TOOLS = """
\b
Examples:
  tertulia mcp tools
  tertulia mcp tools fs
  tertulia mcp tools --allow fs__read_text_file --allow 'git__*'
"""

Viewers = Mapping[str, frozenset[str] | None]
"""Who looks, and what that one may see; None is everything."""


@click.command("test", epilog=_MORE_TEST)
@click.argument("name")
@click.option("as_json", "--json", is_flag=True, help="One JSON object.")
@global_flags
@click.pass_obj
def try_out(given: Given, *, name: str, as_json: bool) -> int:
    """Start a server, ask for its tools, and stop it.

    Nothing is called. A server of a project must be trusted first.
    """
    loaded = given.load()
    servers = known_servers(loaded)
    found = _reach(loaded, servers, [_startable(servers, name)])[0]
    if as_json:
        sys.stdout.buffer.write(json_line(_described(found)))
    else:
        _tell(found, Terminal(sys.stdout, loaded.environment.variables))
    return 0 if found.status == "ready" else 1


def _startable(servers: ConfiguredServers, name: str) -> ServerDefinition:
    found = named(servers, name)
    if isinstance(found, ServerDefinition):
        return found
    if found.definition is not None:
        # Switched off, and asked for by name.
        return found.definition
    raise McpError(f"{name} is {found.status}: {found.error}")


def _reach(
    loaded: LoadedSettings, servers: ConfiguredServers, definitions: Sequence[ServerDefinition]
) -> list[Reached]:
    notes = Terminal(sys.stderr, loaded.environment.variables)
    return asyncio.run(reach(definitions, loaded, redactor_of(loaded, servers), notes))


def _described(found: Reached) -> dict[str, Any]:
    return {
        "name": found.name,
        "status": found.status,
        "error": found.error,
        "latency_ms": found.latency_ms,
        "protocol_version": found.protocol_version,
        "tools": [fqn(found.name, tool.name) for tool in found.tools],
        "left_out": list(found.left_out),
    }


def _tell(found: Reached, out: Terminal) -> None:
    if found.status != "ready":
        out.line((found.name, "bold"), " ", (found.status, "red"), f" {found.error or ''}".rstrip())
        return
    took = "" if found.latency_ms is None else f" after {found.latency_ms:,} ms"
    spoken = "" if found.protocol_version is None else f", MCP {found.protocol_version}"
    out.line((found.name, "bold"), " ", ("ready", "green"), f"{took}{spoken}, {counted(len(found.tools), 'tool')}")
    for tool in found.tools:
        out.line(f"  {fqn(found.name, tool.name)}  ", (shortened(tool.description, 80), "dim"))
    for warning in found.left_out:
        out.line(("  warning", "yellow"), f" {warning}")


# ---- tools


@click.command("tools", epilog=_MORE_TOOLS)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("allowed", "--allow", metavar="ENTRY", multiple=True, help="Who has this allowlist; repeatable.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@global_flags
@click.pass_obj
def tools(given: Given, *, name: str | None, allowed: Sequence[str], as_json: bool) -> int:
    """List the tools of all servers, or of one, and who sees them.

    The servers are started for it. `root` is the conversation that a session begins with; the others are the views of
    `[mcp_views]`, and `--allow` a conversation with this allowlist.
    """
    loaded = given.load()
    servers = known_servers(loaded)
    wanted = list(servers.definitions) if name is None else [_startable(servers, name)]
    found = _reach(loaded, servers, wanted)
    specs = [spec for each in found for spec in _specs(each)]
    notes = Terminal(sys.stderr, loaded.environment.variables)
    absent = [each.name for each in found if each.status != "ready"] + [each.name for each in servers.unstarted]
    absent += [each.name for each in servers.definitions if each not in wanted]
    viewers = _viewers(loaded, allowed, specs, absent, notes)
    _write(specs, viewers, Terminal(sys.stdout, loaded.environment.variables), as_json=as_json)
    for each in found:
        for warning in each.left_out:
            notes.line(f"tertulia: MCP server {each.name}: {warning}")
        if each.status != "ready":
            notes.line(f"tertulia: MCP server {each.name} is {each.status}: {each.error or 'no reason is known'}")
    return 1 if any(each.status != "ready" for each in found) else 0


def _specs(found: Reached) -> list[ToolSpec]:
    return [spec_of(found.name, tool) for tool in found.tools]


def _viewers(
    loaded: LoadedSettings, allowed: Sequence[str], specs: Sequence[ToolSpec], absent: Sequence[str], notes: Terminal
) -> Viewers:
    viewers: dict[str, frozenset[str] | None] = {"root": None}
    for view in cast("Mapping[str, NamedView]", loaded.settings.mcp_views).values():
        try:
            viewers[view.name] = _parsed(view.mcp_tool_allowlist, specs, absent, notes)
        except InvalidParamsError as error:
            # Only that view is wrong.
            notes.line(f"tertulia: mcp_views.{view.name}: {error.message}")
    if allowed:
        viewers["--allow"] = _parsed(allowed, specs, absent, notes)
    return viewers


def _parsed(
    entries: Sequence[str] | None, specs: Sequence[ToolSpec], absent: Sequence[str], notes: Terminal
) -> frozenset[str] | None:
    if entries is None:
        return None
    parsed, warnings = parse_allowlist(entries, specs, absent)
    for warning in warnings:
        notes.line(f"tertulia: {warning}")
    return parsed


def _write(specs: Sequence[ToolSpec], viewers: Viewers, out: Terminal, *, as_json: bool) -> None:
    rows: list[list[Piece]] = []
    for spec in sorted(specs, key=lambda spec: spec.name):
        seen_by = [viewer for viewer, allowlist in viewers.items() if allows(allowlist, spec)]
        if as_json:
            fields = {"name": spec.name, "server": spec.server, "digest": spec.digest, "seen_by": seen_by}
            sys.stdout.buffer.write(json_line({**fields, "description": spec.description}))
        rows.append([(spec.name, "bold"), ", ".join(seen_by), shortened(spec.description, 200)])
    if rows and not as_json:
        write_columns(out, ("TOOL", "SEEN BY", "WHAT"), rows)
    elif not as_json:
        out.line("No MCP server offers a tool.")
