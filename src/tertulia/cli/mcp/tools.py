"""`tertulia mcp test`, `tools` and `refresh`: whether a server works, which tools it has, and who sees them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.mcp.status import ProbeResult, find_server, load_configured_servers, probe_servers, server_redactor
from tertulia.cli.output.tables import format_count, write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line, shorten
from tertulia.cli.session_lookup import ResumeRequest, find_stored_session, with_session_argument
from tertulia.errors import InvalidParamsError, McpError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.pool.session_server import spec_of
from tertulia.mcp.view import NamedView, allows, parse_allowlist
from tertulia.protocol.tool_events import server_status_text
from tertulia.protocol.tool_spec import ToolSpec, fqn
from tertulia.session.handle import Conversation
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

ToolViewers = Mapping[str, frozenset[str] | None]
"""Which tools each viewer may see, by its name; None is all of them."""


@click.command("test", epilog=_MORE_TEST)
@click.argument("name")
@click.option("as_json", "--json", is_flag=True, help="One JSON object.")
@global_flags
@click.pass_obj
def try_out(flags: GlobalFlags, *, name: str, as_json: bool) -> int:
    """Start a server, ask for its tools, and stop it.

    Nothing is called. A server of a project must be trusted first.
    """
    loaded = flags.load()
    servers = load_configured_servers(loaded)
    result = _probe(loaded, servers, [_startable(servers, name)])[0]
    if as_json:
        sys.stdout.buffer.write(json_line(_probe_fields(result)))
    else:
        _write_probe(result, TerminalOutput(sys.stdout, loaded.environment.variables))
    return 0 if result.status == "ready" else 1


def _startable(servers: ConfiguredServers, name: str) -> ServerDefinition:
    server = find_server(servers, name)
    if isinstance(server, ServerDefinition):
        return server
    if server.definition is not None:
        # Switched off, and asked for by name.
        return server.definition
    raise McpError(server_status_text(name, server.status, server.error))


def _probe(
    loaded: LoadedSettings, servers: ConfiguredServers, definitions: Sequence[ServerDefinition]
) -> list[ProbeResult]:
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    return asyncio.run(probe_servers(definitions, loaded, server_redactor(loaded, servers), notes))


def _probe_fields(result: ProbeResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "status": result.status,
        "error": result.error,
        "latency_ms": result.latency_ms,
        "protocol_version": result.protocol_version,
        "tools": [fqn(result.name, tool.name) for tool in result.tools],
        "left_out": list(result.left_out),
    }


def _write_probe(result: ProbeResult, out: TerminalOutput) -> None:
    if result.status != "ready":
        out.line((result.name, "bold"), " ", (result.status, "red"), f" {result.error or ''}".rstrip())
        return
    took = "" if result.latency_ms is None else f" after {result.latency_ms:,} ms"
    spoken = "" if result.protocol_version is None else f", MCP {result.protocol_version}"
    count = format_count(len(result.tools), "tool")
    out.line((result.name, "bold"), " ", ("ready", "green"), f"{took}{spoken}, {count}")
    for tool in result.tools:
        out.line(f"  {fqn(result.name, tool.name)}  ", (shorten(tool.description, 80), "dim"))
    for warning in result.left_out:
        out.line(("  warning", "yellow"), f" {warning}")


# ---- tools


@click.command("tools", epilog=_MORE_TOOLS)
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "allowed", "--allow", metavar="ENTRY", multiple=True, help="What an allowlist with this entry shows; repeatable."
)
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@global_flags
@click.pass_obj
def tools(flags: GlobalFlags, *, name: str | None, allowed: Sequence[str], as_json: bool) -> int:
    """List the tools of all servers, or of one, and who sees them.

    The servers are started for it. `root` is the conversation that a session begins with; the others are the views of
    `[mcp_views]`, and `--allow` a conversation with this allowlist.
    """
    loaded = flags.load()
    servers = load_configured_servers(loaded)
    wanted = list(servers.definitions) if name is None else [_startable(servers, name)]
    results = _probe(loaded, servers, wanted)
    specs = [spec for result in results for spec in _specs(result)]
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    absent = [result.name for result in results if result.status != "ready"]
    absent += [server.name for server in (*servers.unstarted, *servers.definitions) if server not in wanted]
    viewers = _viewers(loaded, allowed, specs, absent, notes)
    _write(specs, viewers, TerminalOutput(sys.stdout, loaded.environment.variables), as_json=as_json)
    for result in results:
        for warning in result.left_out:
            notes.line(f"tertulia: MCP server {result.name}: {warning}")
        if result.status != "ready":
            notes.line(f"tertulia: {server_status_text(result.name, result.status, result.error)}")
    return 1 if any(result.status != "ready" for result in results) else 0


def _specs(result: ProbeResult) -> list[ToolSpec]:
    return [spec_of(result.name, tool) for tool in result.tools]


def _viewers(
    loaded: LoadedSettings,
    allowed: Sequence[str],
    specs: Sequence[ToolSpec],
    absent: Sequence[str],
    notes: TerminalOutput,
) -> ToolViewers:
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
    entries: Sequence[str] | None, specs: Sequence[ToolSpec], absent: Sequence[str], notes: TerminalOutput
) -> frozenset[str] | None:
    if entries is None:
        return None
    parsed, warnings = parse_allowlist(entries, specs, absent)
    for warning in warnings:
        notes.line(f"tertulia: {warning}")
    return parsed


def _write(specs: Sequence[ToolSpec], viewers: ToolViewers, out: TerminalOutput, *, as_json: bool) -> None:
    rows: list[list[StyledText]] = []
    for spec in sorted(specs, key=lambda spec: spec.name):
        seen_by = [viewer for viewer, allowlist in viewers.items() if allows(allowlist, spec)]
        if as_json:
            fields = {"name": spec.name, "server": spec.server, "digest": spec.digest, "seen_by": seen_by}
            sys.stdout.buffer.write(json_line({**fields, "description": spec.description}))
        rows.append([(spec.name, "bold"), ", ".join(seen_by), shorten(spec.description, 200)])
    if rows and not as_json:
        write_columns(out, ("TOOL", "SEEN BY", "WHAT"), rows)
    elif not as_json:
        out.line("No MCP server offers a tool.")


_MORE_REFRESH = """
\b
Examples:
  tertulia mcp refresh --last
  tertulia mcp refresh 3f2a && tertulia resume 3f2a

\b
Exit codes:
  0  done
  1  a server is not up: what it offers could not be looked at
  2  usage or configuration
"""


@click.command("refresh", epilog=_MORE_REFRESH)
@with_session_argument
@global_flags
@click.pass_obj
def refresh(flags: GlobalFlags, *, which: str | None, last: bool) -> int:
    """Give a stored session the tools of its servers as they are now.

    A conversation keeps the definitions that it was shown, also over the end of the program. A tool that a server
    has changed since is withheld; this takes them all as they are now. `tertulia mcp tools` shows them first.
    """
    loaded = flags.load()
    session_id = find_stored_session(loaded, which, last=last)
    return asyncio.run(_refresh(ResumeRequest.of(flags, loaded, session_id), loaded))


async def _refresh(resume_request: ResumeRequest, loaded: LoadedSettings) -> int:
    out, notes = (TerminalOutput(stream, loaded.environment.variables) for stream in (sys.stdout, sys.stderr))
    async with resume_request.session() as session:
        down = [server for server in await session.mcp.refresh() if server["status"] not in ("ready", "disabled")]
        for conversation in session.conversations():
            before = _mcp_tool_names(conversation)
            await conversation.set_context(refresh_mcp_view=True)
            after = _mcp_tool_names(conversation)
            name = "root" if conversation.id == session.root.id else conversation.id
            taken = ", ".join(sorted(after - before)) or "as they were"
            out.line((name, "bold"), f" {format_count(len(after), 'tool')} of MCP servers: {taken}")
    for server in down:
        notes.line(f"tertulia: {server_status_text(server['name'], server['status'], server.get('error'))}")
    return 1 if down else 0


def _mcp_tool_names(conversation: Conversation) -> set[str]:
    return {tool.name for tool in conversation.tools() if tool.source == "mcp"}
