"""A UNIX socket on which a session serves the programs of its agents: for this user alone, with a bound on clients.

One class for all of them; what is spoken there is passed in: MCP (`tool_server`) or callbacks (`callback_server`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tertulia.mcp.server_connection import Spawn
from tertulia.session.agents.private_socket import is_same_user, listen_at, peer, private_directory, short_path

MAX_CLIENTS = 32
"""An agent and the programs that it has started."""
_BACKLOG = 16
_log = logging.getLogger(__name__)

ServeClient = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]
"""Serves one client until it is gone; the number is the id of its process. The connection is closed after it."""


class AgentSocket:
    """Listens at a path; each client is served by a task of its own."""

    def __init__(
        self, path: Path, serve: ServeClient, spawn: Spawn, *, max_line: int, refuse: ServeClient | None = None
    ) -> None:
        """`max_line`: the most bytes of a line. `refuse`: serves a client where there are too many;
        None: its connection is closed at once.
        """
        self.path = path
        self._serve_client, self._refuse, self._spawn, self._max_line = serve, refuse, spawn, max_line
        self._tried = False
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    @property
    def is_open(self) -> bool:
        """Whether clients can connect to it."""
        return self._server is not None

    async def open(self) -> None:
        """Listen, the first time; OSError or StorageError where that cannot be done, and then it stays closed."""
        if self._tried:
            return
        self._tried = True
        private_directory(self.path.parent)
        _sweep(self.path.parent)
        listening = listen_at(self.path)
        self._server = await asyncio.start_unix_server(
            self._connected, sock=listening, limit=self._max_line, backlog=_BACKLOG
        )

    def close(self) -> None:
        """Listen no more; clients that are connected are served on. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            with suppress(OSError):
                self.path.unlink()
            server.close()

    async def end(self, timeout_s: float) -> None:
        """Listen no more, and cancel the clients that are connected; waits for them so long at most."""
        self.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        if clients:
            await asyncio.wait(clients, timeout=timeout_s)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_full = len(self._clients) >= MAX_CLIENTS
        serve = self._refuse if is_full else self._serve_client
        task = self._spawn(self._serve(reader, writer, serve), "a program of an agent")
        if not is_full:
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, serve: ServeClient | None
    ) -> None:
        try:
            connection = writer.get_extra_info("socket")
            if serve is not None and is_same_user(connection):
                await serve(reader, writer, peer(connection)[0])
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            # The client has left or does not read: the answer is of no use to it.
            _log.debug("a program of an agent is gone")
        finally:
            writer.transport.abort()


def _sweep(directory: Path) -> None:
    """Remove the sockets that ended processes have left."""
    for place in directory.glob("*.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, suppress(OSError):
            client.setblocking(False)
            try:
                with short_path(place) as address:
                    client.connect(address)
            except ConnectionRefusedError:
                place.unlink()
