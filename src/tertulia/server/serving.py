"""The server of `tertulia serve`, from its socket to its end: the application, its sessions, and those nobody needs."""

from __future__ import annotations

import asyncio
import socket

from tertulia.events.clock import SystemClock
from tertulia.scheduler.nursery import Nursery
from tertulia.server.guard import Hosts
from tertulia.server.http_server import HttpServer
from tertulia.server.idle_sessions import IdleSessions
from tertulia.server.web import Web
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings

_LAST_S = 2.0


async def serve(
    settings: Settings, listening: socket.socket, token: str, stop: asyncio.Event, hosts: Hosts | None = None
) -> None:
    """Until `stop`: then every session is closed, clients hear how that ended, and their connections end last."""
    host, nursery = Host(settings), Nursery()
    web = Web(host, token, hosts)
    server = HttpServer(web.app)
    nursery.start(IdleSessions(host, SystemClock()).keep_looking(), "idle sessions")
    serving = nursery.start(server.serve(listening), "http")
    stopping = nursery.start(stop.wait(), "stop")
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await host.close()
        server.stop()
        await web.close(_LAST_S)
        await asyncio.wait((serving,))
        if len(host):
            # Somebody was quick enough to begin one more.
            await host.close()
        await nursery.close(_LAST_S)
    serving.result()
