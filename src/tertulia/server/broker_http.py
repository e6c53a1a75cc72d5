"""The broker over HTTP, on loopback: the SDK's application behind our guard."""

from __future__ import annotations

import asyncio
import socket

from tertulia.mcp.serve.endpoint import McpEndpoint
from tertulia.server.guard import Guard
from tertulia.server.http_server import HttpServer
from tertulia.server.mcp_messages import only_messages

PATH = "/mcp"
MAX_SESSIONS = 256


async def serve_http(broker: McpEndpoint, token: str, listening: socket.socket, stop: asyncio.Event) -> None:
    """For whoever brings the token, until `stop` is set."""
    app = broker.server.streamable_http_app(streamable_http_path=PATH, max_sessions=MAX_SESSIONS)
    # The application would start it itself, if it were asked to start at all: one that only guards is not.
    async with broker.server.session_manager.run():
        await HttpServer(Guard(only_messages(app), token)).serve_until(stop, listening)
