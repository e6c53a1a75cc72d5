"""What `tertulia serve` serves: `/ws`, `/mcp`, `/health` and `/openapi.json`, all behind the guard.

The one list of routes.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from tertulia.events.clock import SystemClock
from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.guard import AllowedHosts, App, RequestGuard
from tertulia.server.http.openapi import openapi_document
from tertulia.server.http.server import HttpServer
from tertulia.server.http.websocket import WebSocketClients
from tertulia.server.idle_sessions import IdleSessionCloser
from tertulia.server.mcp.conversation_server import McpRoute
from tertulia.server.memory import return_large_blocks
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tertulia.version import __version__


class WebApp:
    """The application. Close it when the sessions are closed and the server has stopped."""

    def __init__(self, host: Host, token: str, hosts: AllowedHosts | None = None) -> None:
        self._nursery = Nursery()
        self._host = host
        self._sockets = WebSocketClients(host, self._nursery)
        self._mcp = McpRoute(host, self._nursery)
        self.routes: list[Any] = [
            WebSocketRoute("/ws", self._sockets.serve),
            Route("/mcp", self._mcp, methods=["GET", "POST", "DELETE"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
        ]
        """Files that everybody may have would stand here too, and the guard would be told their paths (`public`)."""
        routed = Starlette(routes=self.routes)
        routed.router.redirect_slashes = False
        self.app: App = RequestGuard(routed, token, hosts)

    @property
    def clients(self) -> int:
        """How many WebSockets are open."""
        return len(self._sockets)

    async def close(self, timeout_s: float) -> None:
        """Give up what is left."""
        await self._mcp.close()
        await self._nursery.close(timeout_s)

    async def _health(self, request: Request) -> JSONResponse:
        return JSONResponse(
            {"status": "ok", "version": __version__, "sessions": len(self._host), "clients": self.clients}
        )

    async def _openapi(self, request: Request) -> JSONResponse:
        return JSONResponse(openapi_document())


_LAST_S = 2.0


async def serve_web_app(
    settings: Settings, listening: socket.socket, token: str, stop: asyncio.Event, hosts: AllowedHosts | None = None
) -> None:
    """Until `stop`: then every session is closed, clients hear how that ended, and their connections end last."""
    return_large_blocks()
    host, nursery = Host(settings), Nursery()
    web = WebApp(host, token, hosts)
    server = HttpServer(web.app)
    nursery.start(IdleSessionCloser(host, SystemClock()).keep_looking(), "idle sessions")
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
            # A client was quick enough to begin one more.
            await host.close()
        await nursery.close(_LAST_S)
    serving.result()
