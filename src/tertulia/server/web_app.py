"""The application of `tertulia serve`: the page, `/ws`, `/mcp`, `/v1`, `/health`, `/metrics`, behind the guard.

On `/ws` JSON-RPC is spoken, one message a frame, the same as a line on standard input and output. A client that goes
away stops nothing: what it began goes on, and another connection can name the session.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from tertulia.events.clock import SystemClock
from tertulia.scheduler.nursery import Nursery
from tertulia.server.a2a.routes import A2aRoutes
from tertulia.server.agui.routes import AgUiRoutes
from tertulia.server.cut_tasks import continue_cut_tasks
from tertulia.server.http.guard import HAS_TOKEN, TOKEN_SUBPROTOCOL, AllowedHosts, App, HttpRefusal, RequestGuard
from tertulia.server.http.openapi import openapi_document
from tertulia.server.http.page_files import PAGES_FOLDER, PageFiles
from tertulia.server.http.server import HttpServer
from tertulia.server.http.uvicorn_protocols import SINK_EXTENSION
from tertulia.server.idle_sessions import IdleSessionCloser
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.mcp.conversation_server import McpRoute
from tertulia.server.openai.routes import OpenAiRoutes
from tertulia.server.sockets.other_processes import OtherProcesses
from tertulia.server.sockets.relay import SessionRelay
from tertulia.server.sockets.session_sockets import reachable_host
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.version import __version__

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from tertulia.server.http.prometheus import HostMetrics

MAX_SOCKETS = 20_000
INITIALIZE_S = 30.0
"""How many seconds a client has for `initialize`."""
OWN_SUBPROTOCOL = "tertulia"
"""Our subprotocol; a browser that offers subprotocols wants one of them to be chosen."""

_POLICY = 1008


class WebSocketClients:
    """All WebSockets of a server."""

    def __init__(self, host: Host, nursery: Nursery) -> None:
        """`nursery`: for requests of clients that are gone."""
        self._host = host
        self._home = current_environment().home
        self._nursery = nursery
        self._open = 0

    def _relay(self, sink: Sink) -> SessionRelay:
        return SessionRelay(self._home, self._host, sink)

    def __len__(self) -> int:
        return self._open

    async def serve(self, websocket: WebSocket) -> None:
        """One client, until it is gone."""
        if self._open >= MAX_SOCKETS:
            full = HttpRefusal(503, "busy", f"{MAX_SOCKETS:,} clients are connected already; try again later")
            await full.answer(websocket.scope, websocket.send)
            return
        await websocket.accept(_choose_subprotocol(websocket.scope["subprotocols"]))
        connection = RpcConnection(self._host, websocket.scope["extensions"][SINK_EXTENSION], relay=self._relay)
        self._open += 1
        try:
            await _read(websocket, connection)
        finally:
            self._open -= 1
            self._nursery.start(connection.leave(), "requests of a client that is gone")


async def _read(websocket: WebSocket, connection: RpcConnection) -> None:
    """Hand on its messages, one after another. A client that does not read is not read either."""
    while True:
        message: Any = await (
            websocket.receive() if connection.is_initialized else _receive_before_initialize(websocket)
        )
        if message["type"] == "websocket.disconnect":
            return
        text = message.pop("text", None)
        data = message.pop("bytes", None) if text is None else text.encode("utf-8", "surrogatepass")
        # Free the message before waiting for the next one, which may take hours.
        del text, message
        await connection.receive(data)
        del data


async def _receive_before_initialize(websocket: WebSocket) -> Any:
    """The next message of a client that has no session yet, within the time that it has for `initialize`."""
    from starlette.websockets import WebSocketDisconnect

    try:
        async with asyncio.timeout(INITIALIZE_S):
            return await websocket.receive()
    except TimeoutError:
        # It may have closed in the meantime.
        with suppress(WebSocketDisconnect):
            await websocket.close(_POLICY, "no initialize")
        return {"type": "websocket.disconnect"}


def _choose_subprotocol(offered: list[str]) -> str | None:
    """The chosen subprotocol: never the token, where there is another."""
    named = [name for name in offered if not name.startswith(TOKEN_SUBPROTOCOL)]
    return OWN_SUBPROTOCOL if OWN_SUBPROTOCOL in named else next(iter([*named, *offered]), None)


class WebApp:
    """The application. Close it when the sessions are closed and the server has stopped."""

    def __init__(
        self,
        host: Host,
        token: str,
        hosts: AllowedHosts | None = None,
        *,
        origins: frozenset[bytes] = frozenset(),
        pages: Path = PAGES_FOLDER,
    ) -> None:
        """`origins`: pages that may call besides our own. `pages`: the folder of the dashboard's files."""
        self._nursery = Nursery()
        self._host = host
        host.services.feed.others = OtherProcesses(current_environment().home, host, self._nursery)
        self._sockets = WebSocketClients(host, self._nursery)
        self._mcp = McpRoute(host, self._nursery)
        self._openai = OpenAiRoutes(host, self._nursery.start)
        self._agui = AgUiRoutes(host, self._nursery.start)
        self._a2a = A2aRoutes(host, self._nursery.start)
        self._metrics: HostMetrics | None = None
        self.routes: list[Any] = [
            WebSocketRoute("/ws", self._sockets.serve),
            Route("/mcp", self._mcp, methods=["GET", "POST", "DELETE"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/metrics", self._read_metrics, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
            *self._openai.routes,
            *self._agui.routes,
            *self._a2a.routes,
        ]
        """What programs call; the files of the page are none of these."""
        self.pages = PageFiles(pages)
        routed = Starlette(routes=[*self.routes, *self.pages.routes])
        routed.router.redirect_slashes = False
        public = self.pages.paths | {"/health"}
        self.app: App = RequestGuard(routed, token, hosts, public=public.__contains__, origins=origins)

    @property
    def clients(self) -> int:
        """How many WebSockets are open."""
        return len(self._sockets)

    async def close(self, timeout_s: float) -> None:
        """Cancel the requests that are left."""
        await self._mcp.close()
        await self._nursery.close(timeout_s)

    async def _health(self, request: Request) -> JSONResponse:
        if not request.scope[HAS_TOKEN]:
            # For probes that cannot hold a secret: that it runs, and nothing about what.
            return JSONResponse({"status": "ok"})
        return JSONResponse(
            {"status": "ok", "version": __version__, "sessions": len(self._host), "clients": self.clients}
        )

    async def _read_metrics(self, request: Request) -> Response:
        # Loaded with the first reading: most servers are never asked.
        from tertulia.server.http.prometheus import CONTENT_TYPE, HostMetrics

        if self._metrics is None:
            self._metrics = HostMetrics(self._host, lambda: self.clients)
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def _openapi(self, request: Request) -> JSONResponse:
        return JSONResponse(openapi_document())


_LAST_S = 2.0


async def serve_web_app(
    settings: Settings,
    listening: socket.socket,
    token: str,
    stop: asyncio.Event,
    hosts: AllowedHosts | None = None,
    *,
    origins: frozenset[bytes] = frozenset(),
    tell_cut: Callable[[str], object] | None = None,
) -> None:
    """Serve until `stop`: then every session is closed, clients are told how that ended, and connections end last.

    `tell_cut`: gets a line for each session whose tasks a crash cut and that go on; None: none does.
    """
    async with reachable_host(settings) as host:
        nursery = Nursery()
        web = WebApp(host, token, hosts, origins=origins)
        server = HttpServer(web.app)
        nursery.start(IdleSessionCloser(host, SystemClock()).keep_looking(), "idle sessions")
        serving = nursery.start(server.serve(listening), "http")
        if tell_cut is not None:
            nursery.start(continue_cut_tasks(host, current_environment().home, tell_cut), "tasks that a crash cut")
        stopping = nursery.start(stop.wait(), "stop")
        try:
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await host.close()
            server.stop()
            await web.close(_LAST_S)
            await asyncio.wait((serving,))
            if len(host):
                # A client may have started another session in the meantime.
                await host.close()
            await nursery.close(_LAST_S)
    serving.result()
