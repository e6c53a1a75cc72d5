"""Serves one client on standard input and output, whatever protocol it speaks: our own, ACP or Codex's.

One JSON text a line; standard error is for logs. The protocols themselves are `ClientHandler`s.
"""

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
    """Speaks a protocol with one client: `RpcConnection`, `AcpAgent` or `CodexServer`."""

    def input_ended(self) -> None:
        """Nothing more will come from the client."""
        ...

    async def idle(self) -> None:
        """Wait until every request that was received is answered."""
        ...

    async def close(self, timeout_s: float) -> bool:
        """Close what was started here; whether the client takes what it is sent."""
        ...


ClientHandlerFactory = Callable[[Host, Sink, Session | None], ClientHandler]


async def serve_stdio(
    settings: Settings, begin: SessionStarter | None = None, connect: ClientHandlerFactory = RpcConnection
) -> int:
    """Serve until the input ends, the client is gone, or a SIGTERM or SIGINT comes. The exit code, which is 0.

    `begin` makes the session that the client gets, before anything is served; without it a new one is made for it.
    `connect` says which protocol is spoken.

    While it runs nothing else can use standard input and output: what tries to, here or in a child process, writes to
    standard error and reads nothing.
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
    """The same on a pair of descriptors, which stay open, until the input ends or `stop` is set."""
    host = Host(settings)
    own = None if begin is None else await begin(host)
    await serve_client(host, lambda sink: connect(host, sink, own), source, target, stop)


async def serve_client(
    host: Host,
    connect: Callable[[Sink], ClientHandler],
    source: int,
    target: int,
    stop: asyncio.Event,
    patience_s: float | None = None,
) -> None:
    """Serve one client on a pair of descriptors, which stay open, until its input ends or `stop` is set.

    Requests that are under way when the input ends have the settings' close timeout to be answered. Sets `stop` when
    the client is gone. In the end everything that it started is closed, its last requests are answered, and it has
    that time again to read the answers, or `patience_s`. A client that has closed its end of the input and reads
    nothing for a while is gone, too. The host is closed with it.
    """
    grace_s = host.settings.close_timeout_s
    last_s = grace_s if patience_s is None else min(grace_s, patience_s)
    sink = await open_sink(target, stop.set)
    client = connect(sink)
    nursery = Nursery()
    reading = nursery.start(receive_lines(source, client), "reader")
    stopping = nursery.start(stop.wait(), "stop")
    gone = nursery.start(wait_until_abandoned(source, sink, min(last_s, _PATIENCE_S)), "a client that is gone")
    done, _ = await asyncio.wait((reading, stopping, gone), return_when=asyncio.FIRST_COMPLETED)
    client.input_ended()
    if not (stop.is_set() or gone.done()):
        # The client has said all it wanted, a shell's pipe perhaps: its last requests get a little time.
        answered = nursery.start(client.idle(), "last answers")
        await asyncio.wait((answered, stopping, gone), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
    is_gone = gone.done()
    await nursery.close(grace_s)
    is_taken = await client.close(0 if is_gone else grace_s)
    await host.close()
    await sink.close(last_s if is_taken and not is_gone else 0)
    if reading in done:
        reading.result()
