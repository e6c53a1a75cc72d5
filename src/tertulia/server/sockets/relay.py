"""Lets the clients of a server use sessions that other processes hold: over the socket of each.

Every client has connections of its own, so that no two of them are ever mixed up: whether it attends, what it follows
and the name under which it answers are those of its connection.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tertulia.errors import ClosedError, LimitError, TertuliaError
from tertulia.rollout.sqlite.session_files import is_session_id
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.request_runner import MethodResult
from tertulia.server.sockets.session_sockets import FOLDER, SUFFIX
from tertulia.server.sockets.socket_client import SocketClient
from tertulia.session.host import Host

MAX_SESSIONS = 256
"""Of other processes that one client may use at a time."""


class SessionRelay:
    """The sessions of other processes, for one client."""

    def __init__(self, home: Path, host: Host, sink: Sink) -> None:
        """`host`: where our own sessions run, which are never relayed. `sink`: where the client's events go."""
        self._home = home
        self._host = host
        self._sink = sink
        self._clients: dict[str, asyncio.Future[SocketClient]] = {}
        self._closed = False

    def reaches(self, session_id: str) -> bool:
        """Whether another process seems to hold the session."""
        if not is_session_id(session_id) or any(session.id == session_id for session in self._host.sessions):
            return False
        return os.path.lexists(self._home / FOLDER / f"{session_id}{SUFFIX}")

    async def call(
        self, session_id: str, method: str, params: dict[str, Any], *, client: str, attend: bool
    ) -> MethodResult:
        """Carry out an operation there. Events that the client has asked for come before the answer.

        Args:
            session_id: The session that the request names.
            method: The operation.
            params: What came with it.
            client: The name under which its answers are recorded.
            attend: Whether the client answers approvals.

        Returns:
            The answer as the other process gave it.

        Raises:
            ClosedError: The other process has ended.
            TertuliaError: As the other process reported it.
        """
        connection = await self._connection(session_id, client, attend=attend)
        return MethodResult(await connection.request(method, params))

    async def close(self) -> None:
        """Close all connections. What was begun there goes on."""
        self._closed = True
        opened, self._clients = list(self._clients.values()), {}
        for future in opened:
            if future.done() and future.exception() is None:
                await future.result().close()

    async def _connection(self, session_id: str, client: str, *, attend: bool) -> SocketClient:
        future = self._clients.get(session_id)
        if future is not None and not (future.done() and future.result().ended.is_set()):
            return await asyncio.shield(future)
        if len(self._clients) >= MAX_SESSIONS:
            self._forget_ended()
        if len(self._clients) >= MAX_SESSIONS:
            raise LimitError(f"this client uses {MAX_SESSIONS} sessions of other processes already")
        future = self._clients[session_id] = asyncio.get_running_loop().create_future()
        name = {"name": client, "version": ""}
        try:
            connection = await SocketClient.open(
                self._home, session_id, self._take, client=name, observe=True, attend=attend
            )
            if self._closed:
                # Else it would attend for a client that is gone, and questions would wait there for no answer.
                await connection.close()
                raise ClosedError("the client is gone")
        except BaseException as error:
            self._clients.pop(session_id, None)
            future.set_exception(error if isinstance(error, TertuliaError) else ClosedError("the request was given up"))
            # Read all the same: there may be no other request that waits for it.
            future.exception()
            raise
        future.set_result(connection)
        return connection

    def _forget_ended(self) -> None:
        ended = [name for name, future in self._clients.items() if future.done() and future.result().ended.is_set()]
        for session_id in ended:
            del self._clients[session_id]

    async def _take(self, method: str, line: bytes) -> None:
        if method == "event":
            self._sink.send((line,))
            await self._sink.drain()
