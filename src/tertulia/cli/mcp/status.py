"""The configured MCP servers: which there are, whether each would start, and how it does when it is started.

Starting happens outside any session: each server is leased from a pool of its own, looked at and stopped again.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import McpError, NotFoundError
from tertulia.events.clock import SystemClock
from tertulia.mcp.client.connection import connect
from tertulia.mcp.config.definition import Http, ServerDefinition
from tertulia.mcp.config.launch import resolve_launch
from tertulia.mcp.pool.server_pool import Lease, ServerPool
from tertulia.mcp.server_connection import RemoteTool, ServerStatus
from tertulia.policy.redaction import Redactor
from tertulia.protocol.name_hints import likely_name
from tertulia.sandbox.confine import GuardedRunner
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tertulia.session.mcp.configured_servers import ConfiguredServers, InactiveServer, configured_servers
from tertulia.session.mcp.host import stored_logins
from tertulia.session.resume.store_choice import known_keys
from tertulia.session.settings.network import network_access
from tertulia.session.settings.settings import LoadedSettings
from tertulia.session.settings.workspace import guarded_paths_of

_PATIENCE_S = 8.0


def load_configured_servers(loaded: LoadedSettings) -> ConfiguredServers:
    """All configured servers; those of a project only as far as they are trusted."""
    return configured_servers(loaded.settings, loaded.environment)


def find_server(servers: ConfiguredServers, name: str) -> ServerDefinition | InactiveServer:
    """The server of that name; NotFoundError suggests a similar one."""
    by_name = {server.name: server for server in (*servers.definitions, *servers.unstarted)}
    if name not in by_name:
        likely = likely_name(name, by_name)
        hint = f"did you mean {likely}?" if likely is not None else "`tertulia mcp ls` shows what there is"
        raise NotFoundError(f"no MCP server is called {name!r:.80}; {hint}")
    return by_name[name]


def server_redactor(loaded: LoadedSettings, servers: ConfiguredServers) -> Redactor:
    """A redactor for the servers' secrets, those of the environment and stored keys."""
    return Redactor((*known_keys(loaded.settings, loaded.environment), *servers.secrets))


def transport_label(definition: ServerDefinition | None) -> str:
    """Transport, and host or program, in two words; never a secret."""
    if definition is None:
        return ""
    if isinstance(definition.transport, Http):
        return f"http {urlsplit(definition.transport.url).hostname}"
    return f"stdio {os.path.basename(definition.transport.command)}"


def predicted_status(definition: ServerDefinition, loaded: LoadedSettings) -> tuple[str, str | None]:
    """`enabled`, or `failed` with the reason why it could not start, without starting it."""
    try:
        resolve_launch(definition, loaded.environment.variables)
    except McpError as error:
        return "failed", error.message
    return "enabled", None


def definition_source(server: ServerDefinition | InactiveServer, loaded: LoadedSettings) -> str:
    """The file or setting that defines the server."""
    if server.source:
        return server.source
    beginning = f"mcp_servers.{server.name}."
    places = (place for name, place in loaded.provenance.items() if name.startswith(beginning))
    return next(places, server.origin)


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one server that was started to look at it."""

    name: str
    status: ServerStatus
    error: str | None = None
    latency_ms: int | None = None
    protocol_version: str | None = None
    tools: tuple[RemoteTool, ...] = ()
    """The tools that its definition lets through."""
    left_out: tuple[str, ...] = ()
    """What of its list is no tool, or was cut, in sentences."""


async def probe_servers(
    definitions: Sequence[ServerDefinition], loaded: LoadedSettings, redactor: Redactor, notes: TerminalOutput
) -> list[ProbeResult]:
    """Start the servers at once, wait until each runs or has failed, and stop them. Shows progress on `notes`."""
    clock, nursery = SystemClock(), Nursery()
    tier = Sandbox(tier=loaded.settings.sandbox_tier, clock=clock)
    sandbox = GuardedRunner(tier, guarded_paths_of(loaded.settings, loaded.environment))
    # Without a home no cached tools are used: the servers are asked now.
    pool = ServerPool(
        spawn=nursery.start,
        clock=clock,
        runner=lambda: sandbox,
        home=None,
        connect=connect,
        logins=lambda: stored_logins(loaded.settings, loaded.environment),
    )
    progress = _ProbeProgress(notes, len(definitions))
    try:
        leased = [_lease(pool, definition, loaded) for definition in definitions]
        reached: list[ProbeResult] = []
        for definition, lease in zip(definitions, leased, strict=True):
            progress.waits_for(definition.name)
            reached.append(await _probe_result(definition, lease, redactor))
        return reached
    finally:
        progress.end()
        await pool.close(_PATIENCE_S)
        await nursery.close(_PATIENCE_S)
        await sandbox.close()


def _lease(pool: ServerPool, definition: ServerDefinition, loaded: LoadedSettings) -> Lease | McpError:
    try:
        # As a session would, here.
        cwd, access = os.path.abspath(loaded.settings.cwd or "."), network_access(loaded.settings, loaded.environment)
        launch = resolve_launch(definition, loaded.environment.variables, cwd, access)
    except McpError as error:
        return error
    # A lazy one would only say what it offered the last time.
    return pool.lease(replace(definition, start="eager"), launch, "")


async def _probe_result(definition: ServerDefinition, lease: Lease | McpError, redactor: Redactor) -> ProbeResult:
    if isinstance(lease, McpError):
        return ProbeResult(name=definition.name, status="failed", error=lease.message)
    server = lease.server
    await server.monitor.wait_until_known()
    return ProbeResult(
        name=definition.name,
        status=server.status,
        # It may hold the last words of a program that was given a key.
        error=None if server.error is None else redactor.text(server.error),
        latency_ms=server.tool_cache.latency_ms,
        protocol_version=None if server.connection is None else server.connection.protocol_version,
        left_out=tuple(redactor.text(warning) for warning in server.tool_cache.toolset.warnings),
        tools=tuple(tool for tool in server.tools if definition.offers(tool.name)) if server.status == "ready" else (),
    )


class _ProbeProgress:
    """One line of progress, rewritten on a terminal; nothing elsewhere."""

    def __init__(self, notes: TerminalOutput, total: int) -> None:
        self._notes = notes
        self._total = total
        self._done = 0

    def waits_for(self, name: str) -> None:
        """Name the server that is waited for now."""
        self._done += 1
        self._notes.rewrite(("starting ", "dim"), (name, "bold"), (f" ({self._done} of {self._total})", "dim"))

    def end(self) -> None:
        """Clear the line for what is printed next."""
        self._notes.rewrite()
