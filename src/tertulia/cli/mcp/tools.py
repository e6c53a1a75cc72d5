"""`tertulia mcp test` and `tools`: whether a server works, what it offers, and who sees it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.mcp.status import ProbeResult, find_server, load_configured_servers, probe_servers, server_redactor
from tertulia.cli.output.columns import format_count, write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line, shorten
from tertulia.cli.session_lookup import ResumeRequest, find_stored_session, with_session_argument
from tertulia.errors import InvalidParamsError, McpError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.named_view import NamedView
from tertulia.mcp.pool.session_server import spec_of
from tertulia.mcp.view import allows, parse_allowlist
from tertulia.protocol.tool_names import fqn
from tertulia.protocol.tool_spec import ToolSpec
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
"""Who looks, and what that one may see; None is everything."""


@click.command("test", epilog=_MORE_TEST)
@click.argument("name")
@click.option("as_json", "--json", is_flag=True, help="One JSON object.")
@global_flags
@click.pass_obj
def try_out(given: GlobalFlags, *, name: str, as_json: bool) -> int:
    """Start a server, ask for its tools, and stop it.

    Nothing is called. A server of a project must be trusted first.
    """
    loaded = given.load()
    servers = load_configured_servers(loaded)
    found = _probe(loaded, servers, [_startable(servers, name)])[0]
    if as_json:
        sys.stdout.buffer.write(json_line(_probe_fields(found)))
    else:
        _write_probe(found, TerminalOutput(sys.stdout, loaded.environment.variables))
    return 0 if found.status == "ready" else 1


def _startable(servers: ConfiguredServers, name: str) -> ServerDefinition:
    found = find_server(servers, name)
    if isinstance(found, ServerDefinition):
        return found
    if found.definition is not None:
        # Switched off, and asked for by name.
        return found.definition
    raise McpError(f"{name} is {found.status}: {found.error}")


def _probe(
    loaded: LoadedSettings, servers: ConfiguredServers, definitions: Sequence[ServerDefinition]
) -> list[ProbeResult]:
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    return asyncio.run(probe_servers(definitions, loaded, server_redactor(loaded, servers), notes))


def _probe_fields(found: ProbeResult) -> dict[str, Any]:
    return {
        "name": found.name,
        "status": found.status,
        "error": found.error,
        "latency_ms": found.latency_ms,
        "protocol_version": found.protocol_version,
        "tools": [fqn(found.name, tool.name) for tool in found.tools],
        "left_out": list(found.left_out),
    }


def _write_probe(found: ProbeResult, out: TerminalOutput) -> None:
    if found.status != "ready":
        out.line((found.name, "bold"), " ", (found.status, "red"), f" {found.error or ''}".rstrip())
        return
    took = "" if found.latency_ms is None else f" after {found.latency_ms:,} ms"
    spoken = "" if found.protocol_version is None else f", MCP {found.protocol_version}"
    out.line((found.name, "bold"), " ", ("ready", "green"), f"{took}{spoken}, {format_count(len(found.tools), 'tool')}")
    for tool in found.tools:
        out.line(f"  {fqn(found.name, tool.name)}  ", (shorten(tool.description, 80), "dim"))
    for warning in found.left_out:
        out.line(("  warning", "yellow"), f" {warning}")


# ---- tools


@click.command("tools", epilog=_MORE_TOOLS)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("allowed", "--allow", metavar="ENTRY", multiple=True, help="Who has this allowlist; repeatable.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@global_flags
@click.pass_obj
def tools(given: GlobalFlags, *, name: str | None, allowed: Sequence[str], as_json: bool) -> int:
    """List the tools of all servers, or of one, and who sees them.

    The servers are started for it. `root` is the conversation that a session begins with; the others are the views of
    `[mcp_views]`, and `--allow` a conversation with this allowlist.
    """
    loaded = given.load()
    servers = load_configured_servers(loaded)
    wanted = list(servers.definitions) if name is None else [_startable(servers, name)]
    found = _probe(loaded, servers, wanted)
    specs = [spec for each in found for spec in _specs(each)]
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    absent = [each.name for each in found if each.status != "ready"] + [each.name for each in servers.unstarted]
    absent += [each.name for each in servers.definitions if each not in wanted]
    viewers = _viewers(loaded, allowed, specs, absent, notes)
    _write(specs, viewers, TerminalOutput(sys.stdout, loaded.environment.variables), as_json=as_json)
    for each in found:
        for warning in each.left_out:
            notes.line(f"tertulia: MCP server {each.name}: {warning}")
        if each.status != "ready":
            notes.line(f"tertulia: MCP server {each.name} is {each.status}: {each.error or 'no reason is known'}")
    return 1 if any(each.status != "ready" for each in found) else 0


def _specs(found: ProbeResult) -> list[ToolSpec]:
    return [spec_of(found.name, tool) for tool in found.tools]


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
def refresh(given: GlobalFlags, *, which: str | None, last: bool) -> int:
    """Give a stored session the tools of its servers as they are now.

    A conversation keeps the definitions that it was shown, also over the end of the program. One that a server has
    changed since is withheld; this takes them all as they are. `tertulia mcp tools` shows them first.
    """
    loaded = given.load()
    session_id = find_stored_session(loaded.environment.home, which, last=last)
    return asyncio.run(_refresh(ResumeRequest.of(given, loaded, session_id), loaded))


async def _refresh(resume_request: ResumeRequest, loaded: LoadedSettings) -> int:
    out, notes = (TerminalOutput(stream, loaded.environment.variables) for stream in (sys.stdout, sys.stderr))
    async with resume_request.session() as session:
        await session.parts.servers.refresh()
        down = [report for report in session.parts.servers.reports() if report.status not in ("ready", "disabled")]
        for conversation in session.conversations():
            before = _mcp_tool_names(conversation)
            await conversation.set_context(refresh_mcp_view=True)
            after = _mcp_tool_names(conversation)
            name = "root" if conversation.id == session.root.id else conversation.id
            taken = ", ".join(sorted(after - before)) or "as they were"
            out.line((name, "bold"), f" {format_count(len(after), 'tool')} of MCP servers: {taken}")
    for report in down:
        notes.line(f"tertulia: MCP server {report.name} is {report.status}: {report.error or 'no reason is known'}")
    return 1 if down else 0


def _mcp_tool_names(conversation: Conversation) -> set[str]:
    return {tool.name for tool in conversation.tools() if tool.source == "mcp"}
