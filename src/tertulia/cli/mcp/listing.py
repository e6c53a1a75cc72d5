"""The configured servers as the command line speaks of them."""

from __future__ import annotations

import os.path
from difflib import get_close_matches
from urllib.parse import urlsplit

from tertulia.errors import McpError, NotFoundError
from tertulia.mcp.config.definition import Http, ServerDefinition
from tertulia.mcp.config.launch import resolve_launch
from tertulia.policy.redaction import Redactor, secrets_of
from tertulia.session.mcp.configured_servers import ConfiguredServers, InactiveServer, configured_servers
from tertulia.session.settings.settings import LoadedSettings


def load_configured_servers(loaded: LoadedSettings) -> ConfiguredServers:
    """All of them, by their settings and by trust."""
    return configured_servers(loaded.settings, loaded.environment)


def find_server(servers: ConfiguredServers, name: str) -> ServerDefinition | InactiveServer:
    """The one of that name; NotFound says which may have been meant."""
    everyone = {each.name: each for each in (*servers.definitions, *servers.unstarted)}
    if name not in everyone:
        near = get_close_matches(name, everyone, 1)
        hint = f"did you mean {near[0]}?" if near else "`tertulia mcp ls` shows what there is"
        raise NotFoundError(f"no MCP server is called {name!r:.80}; {hint}")
    return everyone[name]


def server_redactor(loaded: LoadedSettings, servers: ConfiguredServers) -> Redactor:
    """Takes out what the servers are given in confidence."""
    return Redactor((*secrets_of(loaded.environment.variables), *servers.secrets))


def transport_label(definition: ServerDefinition | None) -> str:
    """How it is reached, in two words; nothing in it can be a secret."""
    if definition is None:
        return ""
    if isinstance(definition.transport, Http):
        return f"http {urlsplit(definition.transport.url).hostname}"
    return f"stdio {os.path.basename(definition.transport.command)}"


def predicted_status(definition: ServerDefinition, loaded: LoadedSettings) -> tuple[str, str | None]:
    """What would keep it from starting, as far as that can be seen from here."""
    try:
        resolve_launch(definition, loaded.environment.variables)
    except McpError as error:
        return "failed", error.message
    return "enabled", None


def definition_source(server: ServerDefinition | InactiveServer, loaded: LoadedSettings) -> str:
    """The place that defines it."""
    if server.source:
        return server.source
    beginning = f"mcp_servers.{server.name}."
    places = (place for name, place in loaded.provenance.items() if name.startswith(beginning))
    return next(places, server.origin)
