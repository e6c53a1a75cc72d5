"""`tertulia app-server`: one client on standard input and output, one JSON text a line. Standard error is for logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.server.jsonrpc.event_sender import Sink
from tertulia.server.jsonrpc.standard_streams import (
    LineReceiver,
    open_sink,
    receive_lines,
    run_on_standard_streams,
    wait_until_abandoned,
)
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_PATIENCE_S = 5.0
"""With a client that has closed its end of the input and does not read; it may be a person with a pager."""

SessionStarter = Callable[[Host], Awaitable[Session]]


class ClientHandler(LineReceiver, Protocol):
    """Whoever speaks a protocol with one client: see `RpcConnection` for what is promised."""

    async def idle(self) -> None:
        """Wait until every request that was received is answered."""
        ...

    async def close(self, timeout_s: float) -> bool:
        """Close what was started here; whether the client took everything."""
        ...


ClientHandlerFactory = Callable[[Host, Sink, Session | None], ClientHandler]


async def serve_stdio(
    settings: Settings, begin: SessionStarter | None = None, connect: ClientHandlerFactory = RpcConnection
) -> int:
    """Serve until the input ends, the client is gone, or a SIGTERM or SIGINT comes. The exit code, which is 0.

    `begin` makes the session that the client gets, before anything is served; without it a new one is made for it.
    `connect` says which protocol is spoken.

    While it runs nobody else can write to standard output or read from standard input: whoever tries, here or in a
    child process, writes to standard error and reads nothing.
    """
    return await run_on_standard_streams(
        lambda source, target, stop: serve_descriptors(settings, source, target, stop, begin, connect)
    )


async def serve_descriptors(
    settings: Settings,
    source: int,
    target: int,
    stop: asyncio.Event,
    begin: SessionStarter | None = None,
    connect: ClientHandlerFactory = RpcConnection,
) -> None:
    """Serve one client on a pair of descriptors, which stay open, until its input ends or `stop` is set.

    Requests that are under way when the input ends have the settings' close timeout to be answered. Sets `stop` when
    the client is gone. In the end everything that it started is closed, its last requests are answered, and it has
    that time again to read the answers. A client that has closed its end of the input and reads nothing is gone, too.
    """
    host = Host(settings)
    own = None if begin is None else await begin(host)
    sink = await open_sink(target, stop.set)
    connection = connect(host, sink, own)
    nursery = Nursery()
    reading = nursery.start(receive_lines(source, connection), "reader")
    stopping = nursery.start(stop.wait(), "stop")
    grace_s = settings.close_timeout_s
    left = nursery.start(wait_until_abandoned(source, sink, min(grace_s, _PATIENCE_S)), "a client that is gone")
    done, _ = await asyncio.wait((reading, stopping, left), return_when=asyncio.FIRST_COMPLETED)
    if not (stop.is_set() or left.done()):
        # The client has said all it wanted, a shell's pipe perhaps: what it asked for gets a little time.
        answered = nursery.start(connection.idle(), "last answers")
        await asyncio.wait((answered, stopping, left), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
    is_left = left.done()
    await nursery.close(grace_s)
    taken = await connection.close(0 if is_left else grace_s)
    await host.close()
    await sink.close(grace_s if taken and not is_left else 0)
    if reading in done:
        reading.result()
