"""MCP over HTTP, both eras: one session for whoever brings the token. Nothing of it is loaded before somebody asks."""

from __future__ import annotations

import asyncio
from typing import Any

from tertulia.errors import McpError
from tertulia.mcp.serve.endpoint import load_sdk
from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.refusal import App, HttpRefusal, Receive, Scope, Send
from tertulia.server.http.request_body import MAX_BODY_BYTES
from tertulia.server.mcp.conversation_server import build_conversation_server
from tertulia.server.mcp.message_check import refuse_non_messages
from tertulia.session.host import Host

MAX_CLIENTS = 1_000
"""Of the old era, which has sessions of its own."""

_CLOSE_S = 2.0


class McpRoute:
    """An ASGI application for one path."""

    def __init__(self, host: Host, nursery: Nursery) -> None:
        self._host = host
        self._nursery = nursery
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._app: asyncio.Future[App] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if self._stop.is_set():
            await HttpRefusal(503, "closed", "the server is ending").answer(scope, send)
            return
        if self._app is None:
            self._app = asyncio.get_running_loop().create_future()
            self._running = self._nursery.start(self._run(self._app), "mcp over http")
        try:
            app = await asyncio.shield(self._app)
        except McpError as error:
            await HttpRefusal(501, error.code, error.message).answer(scope, send)
            return
        await app(scope, receive, send)

    async def close(self) -> None:
        """End every MCP session."""
        self._stop.set()
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=_CLOSE_S)

    async def _run(self, ready: asyncio.Future[App]) -> None:
        """The SDK's manager, entered and left in one task, as it wants it."""
        try:
            await asyncio.to_thread(load_sdk)
        except McpError as error:
            ready.set_exception(error)
            return
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        broker = build_conversation_server(self._host, self._nursery.start)
        manager: Any = StreamableHTTPSessionManager(
            app=broker.server, max_request_body_size=MAX_BODY_BYTES, max_sessions=MAX_CLIENTS
        )
        try:
            async with manager.run():
                ready.set_result(refuse_non_messages(manager.handle_request))
                await self._stop.wait()
        finally:
            broker.close()
