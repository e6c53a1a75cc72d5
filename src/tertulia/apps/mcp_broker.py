"""`tertulia mcp-broker`: our pool of MCP servers, and a named view of it, as one MCP server for any other program."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click

from tertulia.apps.broker_relay import relay
from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.stop_signals import on_stop_signal
from tertulia.server.broker_http import PATH, listen, serve_http, token_file
from tertulia.server.broker_socket import BrokerSocket, owned, socket_path
from tertulia.server.mcp_brokers import broker_settings, client_broker, find_view
from tertulia.server.mcp_stdio import serve_standard_streams
from tertulia.session.session import Session
from tertulia.session.settings import Settings

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
@click.option("--http", "port", metavar="PORT", type=int, help="Serve HTTP on loopback instead; 0 chooses a port.")
@click.option("--alone", is_flag=True, help="Start servers for this client only, and share them with nobody.")
@click.option("--idle-exit", metavar="SECONDS", type=float, default=300.0, show_default=True,
              help="How long the shared broker stays when no program uses it.")  # fmt: skip
@click.option("--daemon", is_flag=True, hidden=True)
@global_flags
@click.pass_obj
def command(given: Given, *, view: str | None, port: int | None, alone: bool, idle_exit: float, daemon: bool) -> int:
    """Serve all your MCP servers as one, to any program that speaks MCP.

    Programs that are started with the same configuration share one set of server processes: the first one starts a
    broker in the background, which ends when nobody uses it any more. A view decides which tools a program sees;
    limits, approvals and pinned definitions hold as in a session, and every call is in the session's record
    (`tertulia sessions show`).
    """
    if daemon:
        given.flags, given.overrides = json.load(sys.stdin)
    # Not where this program was started: a project's files say nothing here, and who shares a broker shares its settings.
    given.flags["cwd"] = "/"
    loaded = given.load()
    environment = loaded.environment
    settings = broker_settings(loaded.settings, environment.user_home)
    find_view(settings, view)
    if port is not None:
        return asyncio.run(_http(settings, view, port, environment.home / "broker" / "http.token"))
    if alone:
        return asyncio.run(_alone(settings, view))
    place = socket_path(settings, environment)
    if daemon:
        return asyncio.run(_shared(settings, place, idle_exit))
    start = [sys.executable, "-m", "tertulia", "mcp-broker", "--daemon", "--idle-exit", str(idle_exit)]
    return relay(place, view, start, json.dumps([given.flags, given.overrides]).encode())


async def _shared(settings: Settings, place: Path, idle_exit: float) -> int:
    from tertulia.server.broker_socket import BrokerSocket

    # Whoever had the place before may still be stopping its servers.
    with held(place.with_suffix(".lock"), _HANDOVER_S):
        async with Session.start(settings) as session:
            broker = BrokerSocket(session, place, idle_exit_s=idle_exit)
            with on_stop_signal(broker.stop):
                await broker.serve()
    return 0


async def _alone(settings: Settings, view: str | None) -> int:
    from tertulia.server.mcp_brokers import client_broker
    from tertulia.server.mcp_stdio import serve_standard_streams

    found, stop = find_view(settings, view), asyncio.Event()
    with on_stop_signal(stop.set):
        async with Session.start(settings) as session, client_broker(session, found, found.name) as broker:
            await serve_standard_streams(broker, stop)
    return 0


async def _http(settings: Settings, view: str | None, port: int, token_at: Path) -> int:
    from tertulia.server.broker_http import PATH, listen, serve_http, token_file
    from tertulia.server.mcp_brokers import client_broker

    token = token_file(token_at)
    found, stop = find_view(settings, view), asyncio.Event()
    with listen(port) as listening, on_stop_signal(stop.set):
        url = f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"
        async with Session.start(settings) as session, client_broker(session, found, found.name) as broker:
            print(json.dumps({"url": url, "token_file": str(token_at)}), flush=True)
            await serve_http(broker, token, listening, stop)
    return 0
