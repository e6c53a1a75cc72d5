"""The broker that `tertulia mcp-broker` runs: shared over a socket, for one program, or over HTTP.

A module of its own, so that the relay in `mcp_broker` does not import a session.
"""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

from tertulia.cli.stop_signals import on_stop_signal
from tertulia.mcp.view import NamedView
from tertulia.server.http.server import listen, load_or_create_token, url_of
from tertulia.server.mcp.broker_address import hold_lock, private_directory
from tertulia.server.mcp.broker_server import HTTP_PATH, BrokerSocket, open_client_broker, serve_broker_http
from tertulia.server.mcp.transport import serve_mcp_stdio
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_HANDOVER_S = 15.0


def serve_shared(settings: Settings, place: Path, idle_exit_s: float) -> int:
    """Serve the shared socket until no client was connected for `idle_exit_s`, or until a signal."""
    # The broker that had the socket before may still be stopping its servers.
    with hold_lock(place.with_suffix(".lock"), _HANDOVER_S):
        return asyncio.run(_serve_shared(settings, place, idle_exit_s))


def serve_stdio_client(settings: Settings, view: NamedView) -> int:
    """Serve one program on standard input and output, until they end or until a signal."""
    return asyncio.run(_serve_stdio_client(settings, view))


def serve_http_port(settings: Settings, view: NamedView, port: int, token_at: Path) -> int:
    """Serve HTTP on loopback until a signal. Prints one line of JSON: the address, and the file of the token."""
    private_directory(token_at.parent)
    token = load_or_create_token(token_at)
    with listen(port, flag="--http") as listening:
        announcement = json.dumps({"url": f"{url_of(listening)}{HTTP_PATH}", "token_file": str(token_at)})
        return asyncio.run(_serve_http_port(settings, view, listening, token, announcement))


async def _serve_shared(settings: Settings, place: Path, idle_exit_s: float) -> int:
    async with Session.start(settings) as session:
        broker = BrokerSocket(session, place, idle_exit_s=idle_exit_s)
        with on_stop_signal(broker.stop):
            await broker.serve()
    return 0


async def _serve_stdio_client(settings: Settings, view: NamedView) -> int:
    stop = asyncio.Event()
    with on_stop_signal(stop.set):
        async with Session.start(settings) as session, open_client_broker(session, view, view.name) as broker:
            await serve_mcp_stdio(broker, stop)
    return 0


async def _serve_http_port(
    settings: Settings, view: NamedView, listening: socket.socket, token: str, announcement: str
) -> int:
    stop = asyncio.Event()
    with on_stop_signal(stop.set):
        async with Session.start(settings) as session, open_client_broker(session, view, view.name) as broker:
            print(announcement, flush=True)
            await serve_broker_http(broker, token, listening, stop)
    return 0
