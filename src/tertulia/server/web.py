"""What `tertulia serve` serves: `/ws`, `/mcp`, `/health` and `/openapi.json`, all behind the guard.

The one list of routes.
"""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from tertulia.scheduler.nursery import Nursery
from tertulia.server.guard import Guard, Hosts
from tertulia.server.http_refusal import App
from tertulia.server.mcp_route import McpRoute
from tertulia.server.openapi import document
from tertulia.server.websocket import Sockets
from tertulia.session.host import Host
from tertulia.version import __version__


class Web:
    """The application. Close it when the sessions are closed and the server has stopped."""

    def __init__(self, host: Host, token: str, hosts: Hosts | None = None) -> None:
        self._nursery = Nursery()
        self._host = host
        self._sockets = Sockets(host, self._nursery)
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
        self.app: App = Guard(routed, token, hosts)

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
        return JSONResponse(document())
