"""`tertulia mcp-broker`: our pool of MCP servers, and a named view of it, as one MCP server for any other program."""

from __future__ import annotations

import json
import sys

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.serve.broker_relay import relay_to_broker
from tertulia.server.mcp.broker_address import socket_path
from tertulia.server.mcp.broker_settings import broker_settings, find_view

_MORE = """
\b
Examples:
  tertulia mcp-broker                    every server of config.toml, over standard input and output
  tertulia mcp-broker --view review      only what [mcp_views.review] lets through
  tertulia mcp-broker --http 8765        over HTTP on loopback, with a token
\b
In the configuration of Codex:
  [mcp_servers.tertulia]
  command = "tertulia"
  args = ["mcp-broker", "--view", "review"]
"""


@click.command("mcp-broker", epilog=_MORE)
@click.option("--view", metavar="NAME", help="Serve [mcp_views.NAME] of the configuration; without it, everything.")
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    help="Serve HTTP on loopback instead; 0 chooses a port.",
)
@click.option("--alone", is_flag=True, help="Start servers for this client only, and share them with nobody.")
@click.option("--idle-exit", metavar="SECONDS", type=float, default=300.0, show_default=True,
              help="How long the shared broker stays when no program uses it.")  # fmt: skip
@click.option("--daemon", is_flag=True, hidden=True)
@global_flags
@click.pass_obj
def command(
    given: GlobalFlags, *, view: str | None, port: int | None, alone: bool, idle_exit: float, daemon: bool
) -> int:
    """Serve all your MCP servers as one, to any program that speaks MCP.

    Programs that are started with the same configuration share one set of server processes: the first one starts a
    broker in the background, which ends when nobody uses it any more. A view decides which tools a program sees;
    limits, approvals and pinned definitions hold as in a session, and every call is in the session's record
    (`tertulia sessions show`).
    """
    if daemon:
        given.flags, given.overrides = json.load(sys.stdin)
    # Not where this program was started: a project's files say nothing here, and all who share a broker agree.
    given.flags["cwd"] = "/"
    loaded = given.load()
    environment = loaded.environment
    settings = broker_settings(loaded.settings, environment.user_home)
    found, place = find_view(settings, view), socket_path(settings, environment)
    if daemon or alone or port is not None:
        # Here and not above: whoever only relays needs none of it.
        from tertulia.cli.serve import broker_service

        if daemon:
            return broker_service.serve_shared(settings, place, idle_exit)
        if alone:
            return broker_service.serve_stdio_client(settings, found)
        return broker_service.serve_http_port(settings, found, port or 0, environment.home / "broker" / "http.token")
    start = [sys.executable, "-m", "tertulia", "mcp-broker", "--daemon", "--idle-exit", str(idle_exit)]
    return relay_to_broker(place, view, start, json.dumps([given.flags, given.overrides]).encode())
