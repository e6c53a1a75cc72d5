"""Serves JSON-RPC over WebSockets: one message a frame, the same as a line on standard input and output.

A client that goes away stops nothing. What it began goes on, and another connection can name the session.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.guard import TOKEN_SUBPROTOCOL, HttpRefusal
from tertulia.server.http.uvicorn_protocols import SINK_EXTENSION
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.session.host import Host

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

MAX_SOCKETS = 20_000
INITIALIZE_S = 30.0
"""How long a client may say nothing before it says `initialize`."""
OWN_SUBPROTOCOL = "tertulia"
"""Our subprotocol; browsers want one of theirs to be chosen."""

_POLICY = 1008


class WebSocketClients:
    """All WebSockets of a server."""

    def __init__(self, host: Host, nursery: Nursery) -> None:
        """`nursery`: for requests of clients that are gone."""
        self._host = host
        self._nursery = nursery
        self._open = 0

    def __len__(self) -> int:
        return self._open

    async def serve(self, websocket: WebSocket) -> None:
        """One client, until it is gone."""
        if self._open >= MAX_SOCKETS:
            full = HttpRefusal(503, "busy", f"{MAX_SOCKETS:,} clients are connected already; try again later")
            await full.answer(websocket.scope, websocket.send)
            return
        await websocket.accept(_choose_subprotocol(websocket.scope["subprotocols"]))
        connection = RpcConnection(self._host, websocket.scope["extensions"][SINK_EXTENSION])
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
        # Nothing of it is held while the next one is waited for, which may be for hours.
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
        # It may have gone just then.
        with suppress(WebSocketDisconnect):
            await websocket.close(_POLICY, "no initialize")
        return {"type": "websocket.disconnect"}


def _choose_subprotocol(offered: list[str]) -> str | None:
    """Never the token, where there is anything else to choose."""
    named = [name for name in offered if not name.startswith(TOKEN_SUBPROTOCOL)]
    return OWN_SUBPROTOCOL if OWN_SUBPROTOCOL in named else next(iter([*named, *offered]), None)
