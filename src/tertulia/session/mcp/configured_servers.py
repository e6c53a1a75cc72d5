"""The MCP servers of the settings and project files: which may start, which may not, and why. It starts none.

Where the user's settings and a project file have one name, the user's server counts. A project's server starts only
when the user has trusted exactly its content.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import Origin, ServerDefinition, Stdio
from tertulia.mcp.config.launch import secrets_in_definition
from tertulia.mcp.config.project_server import ProjectServer
from tertulia.mcp.config.server_table import server_from_wire, server_name_error
from tertulia.mcp.config.trust_store import TrustSnapshot, TrustStore
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings


class InactiveServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is configured and will not start."""

    name: str
    status: Literal["failed", "untrusted", "disabled"]
    error: str | None
    """One sentence with the way out; None for a server that the user has disabled."""
    origin: Origin = "user"
    source: str = ""
    kind: Literal["stdio", "http", ""] = ""
    """How it would be reached, as far as that is known of one without a definition."""
    definition: ServerDefinition | None = None
    """The definition of one that is disabled."""


class ConfiguredServers(msgspec.Struct, frozen=True):
    """All configured servers, sorted by name."""

    definitions: tuple[ServerDefinition, ...]
    """The servers that may start."""
    unstarted: tuple[InactiveServer, ...]
    warnings: tuple[str, ...]
    secrets: tuple[str, ...]
    """Values in the definitions that must not be recorded."""


def configured_servers(settings: Settings, environment: Environment) -> ConfiguredServers:
    """Every server of the settings, once. Never raises: a wrong one is reported as failed, and the others start."""
    cwd = os.path.abspath(settings.cwd or ".")
    servers: dict[str, ServerDefinition | InactiveServer] = {}
    for name, entry in settings.mcp_servers.items():
        servers[name] = _user_server(name, entry, cwd)
    warnings: list[str] = []
    if settings.project_servers:
        trusted = TrustStore(environment.home).read()
        warnings += [trusted.problem] if trusted.problem is not None else []
        for project_server in _nearest(settings.project_servers, servers, warnings):
            servers[project_server.name] = _project_server(project_server, trusted, environment.variables, warnings)
    return _split_by_state(servers, warnings, environment.variables)


def _user_server(name: str, entry: ServerDefinition | Mapping[str, Any], cwd: str) -> ServerDefinition | InactiveServer:
    if (wrong := server_name_error(name)) is not None:
        return InactiveServer(name=name, status="failed", error=wrong)
    definition = entry if isinstance(entry, ServerDefinition) else server_from_wire(name, entry, origin="user")
    transport = definition.transport
    if isinstance(transport, Stdio) and not _is_placed(transport.cwd):
        # Where the session works: `npx server-filesystem .` means the project.
        transport = replace(transport, cwd=os.path.normpath(os.path.join(cwd, transport.cwd or "")))
    roots = definition.roots
    if roots is not None:
        roots = tuple(root if _is_placed(root) else os.path.normpath(os.path.join(cwd, root)) for root in roots)
    return replace(definition, name=name, transport=transport, roots=roots)


def _is_placed(cwd: str | None) -> bool:
    return cwd is not None and (os.path.isabs(cwd) or cwd.startswith("~"))


def _nearest(
    servers: Iterable[ProjectServer], users: Mapping[str, Any], warnings: list[str]
) -> Iterable[ProjectServer]:
    """Each name once: of two project files the nearer one counts, and the user's own settings before both."""
    nearest: dict[str, ProjectServer] = {}
    for server in servers:
        if server.name in users:
            warnings.append(
                f"{server.source}: the MCP server {server.name!r:.80} is ignored, your own settings have one"
            )
            continue
        if (other := nearest.get(server.name)) is not None:
            warnings.append(f"{other.source}: the MCP server {server.name!r:.80} is ignored, {server.source} has one")
        nearest[server.name] = server
    return nearest.values()


def _project_server(
    server: ProjectServer, trusted: TrustSnapshot, variables: Mapping[str, str], warnings: list[str]
) -> ServerDefinition | InactiveServer:
    def unstarted(status: Literal["failed", "untrusted"], error: str) -> InactiveServer:
        return InactiveServer(
            name=server.name,
            status=status,
            error=error,
            origin="project",
            source=server.source,
            kind=server.kind,
        )

    if (wrong := server_name_error(server.name)) is not None:
        return unstarted("failed", f"{server.source}: {wrong}")
    if server not in trusted:
        until = "is ignored until you trust the server"
        warnings.extend(f"{server.source}: {server.name}.{key} {until}" for key in server.widening)
        return unstarted(
            "untrusted",
            f"{server.source} defines it and you have not trusted it; `tertulia mcp trust {server.name}` shows it",
        )
    unknown = "is unknown here and ignored"
    warnings.extend(f"{server.source}: {server.name}.{key[:64]} {unknown}" for key in server.foreign)
    try:
        return server.definition(variables)
    except InvalidParamsError as error:
        return unstarted("failed", error.message)


def _split_by_state(
    servers: Mapping[str, ServerDefinition | InactiveServer], warnings: list[str], variables: Mapping[str, str]
) -> ConfiguredServers:
    definitions: list[ServerDefinition] = []
    unstarted: list[InactiveServer] = []
    secrets: set[str] = set()
    for _, server in sorted(servers.items()):
        if isinstance(server, InactiveServer):
            unstarted.append(server)
            continue
        secrets.update(secrets_in_definition(server, variables))
        if server.enabled:
            definitions.append(server)
        else:
            unstarted.append(_disabled(server))
    return ConfiguredServers(tuple(definitions), tuple(unstarted), tuple(warnings), tuple(sorted(secrets)))


def _disabled(server: ServerDefinition) -> InactiveServer:
    return InactiveServer(
        name=server.name,
        status="disabled",
        error=None,
        origin=server.origin,
        source=server.source,
        definition=server,
    )
