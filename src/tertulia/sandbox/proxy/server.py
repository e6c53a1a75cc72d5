"""Serves the listener inside one sandbox, from outside: nothing of ours runs in there.

Where this ends, the command is left with a listener that accepts nothing, in a namespace without a way out.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress
from functools import partial

from tertulia.sandbox.proxy.connection import ProxyConnection
from tertulia.sandbox.proxy.gate import Access, HostGate
from tertulia.sandbox.proxy.http_head import refusal
from tertulia.sandbox.proxy.relay import CHUNK

_AT_ONCE = 32
"""Connections that are taken before others of the loop have their turn."""
_PAUSE_S = 0.1
_ENDED = {errno.ECONNABORTED, errno.EPROTO, errno.EAGAIN, errno.EINTR}


class ProxyServer:
    """One command's. Belongs to the loop that it was made on."""

    def __init__(self, listener: socket.socket, gate: HostGate) -> None:
        self._listener: socket.socket | None = listener
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._serving: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """End all connections and take no more. Calling it twice has no effect."""
        if self._listener is None:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._listener = None
        for task in tuple(self._serving):
            task.cancel()
        if not self._serving:
            self._gate.finish()

    def _listen(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._listener is None:
                return
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _ENDED:
                    # There are no descriptors left, for a while.
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(_PAUSE_S, self._listen)
                return
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        use, most = self._gate.use, self._gate.limits.connections
        if most is not None and use.connections >= most:
            with connection, suppress(OSError):
                connection.send(refusal("503 Service Unavailable", f"{most} connections are open already"))
            self._gate.tell(_too_many(most))
            return
        use.connections += 1
        task = self._gate.start(self._serve(connection), "a connection of a command")
        self._serving.add(task)
        task.add_done_callback(partial(self._ended, connection))

    async def _serve(self, connection: socket.socket) -> None:
        try:
            client = await asyncio.open_connection(sock=connection, limit=CHUNK)
        except OSError:
            # It was reset before it was served.
            return
        await ProxyConnection(client, self._gate).serve()

    def _ended(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        connection.close()
        self._serving.discard(task)
        self._gate.use.connections -= 1
        if self._listener is None and not self._serving:
            self._gate.finish()


def _too_many(most: int) -> Access:
    because = f"{most} connections of this conversation are open already (limits.max_network_connections)"
    return Access(host="", port=0, verdict="refused", because=because)
