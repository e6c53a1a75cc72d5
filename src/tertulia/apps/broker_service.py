"""The broker itself, as `tertulia mcp-broker` runs it: for everybody over a socket, for one program, or over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

from tertulia.apps.stop_signals import on_stop_signal
from tertulia.mcp.config.named_view import NamedView
from tertulia.server.broker_http import PATH, serve_http
from tertulia.server.broker_place import held, private_directory
from tertulia.server.broker_socket import BrokerSocket
from tertulia.server.http_server import listen, url_of
from tertulia.server.mcp_brokers import client_broker
from tertulia.server.mcp_stdio import serve_standard_streams
from tertulia.server.tokens import token_file
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_HANDOVER_S = 15.0


def serve_everybody(settings: Settings, place: Path, idle_exit_s: float) -> int:
    """Until nobody has been there for so long, or a signal comes."""
    # Whoever had the place before may still be stopping its servers.
    with held(place.with_suffix(".lock"), _HANDOVER_S):
        return asyncio.run(_everybody(settings, place, idle_exit_s))


def serve_one(settings: Settings, view: NamedView) -> int:
    """On standard input and output, until they end or a signal comes."""
    return asyncio.run(_one(settings, view))


def serve_address(settings: Settings, view: NamedView, port: int, token_at: Path) -> int:
    """Over HTTP on loopback, until a signal comes. One line of JSON says where, and where the token is."""
    private_directory(token_at.parent)
    token = token_file(token_at)
    with listen(port) as listening:
        said = json.dumps({"url": f"{url_of(listening)}{PATH}", "token_file": str(token_at)})
        return asyncio.run(_address(settings, view, listening, token, said))


async def _everybody(settings: Settings, place: Path, idle_exit_s: float) -> int:
    async with Session.start(settings) as session:
        broker = BrokerSocket(session, place, idle_exit_s=idle_exit_s)
        with on_stop_signal(broker.stop):
            await broker.serve()
    return 0


async def _one(settings: Settings, view: NamedView) -> int:
    stop = asyncio.Event()
    with on_stop_signal(stop.set):
        async with Session.start(settings) as session, client_broker(session, view, view.name) as broker:
            await serve_standard_streams(broker, stop)
    return 0


async def _address(settings: Settings, view: NamedView, listening: socket.socket, token: str, said: str) -> int:
    stop = asyncio.Event()
    with on_stop_signal(stop.set):
        async with Session.start(settings) as session, client_broker(session, view, view.name) as broker:
            print(said, flush=True)
            await serve_http(broker, token, listening, stop)
    return 0
