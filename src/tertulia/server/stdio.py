"""`tertulia app-server`: one client on standard input and output, one JSON text a line. Standard error is for logs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, aclosing, contextmanager, redirect_stdout
from typing import Protocol

from tertulia.errors import AgentError, InvalidRequest
from tertulia.scheduler.nursery import Nursery
from tertulia.server.feed import Sink
from tertulia.server.framing import MAX_LINE_BYTES, Lines, Oversized
from tertulia.server.jsonrpc import Connection
from tertulia.server.pipes import chunks, open_sink
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings import Settings

_log = logging.getLogger(__name__)
Begin = Callable[[Host], Awaitable[Session]]


class Client(Protocol):
    """Whoever speaks a protocol with one client: see `Connection` for what is promised."""

    async def receive(self, line: bytes) -> None:
        """Take one message."""
        ...

    async def refuse(self, error: AgentError) -> None:
        """Answer a message that cannot be read."""
        ...

    async def idle(self) -> None:
        """Wait until every request that was received is answered."""
        ...

    async def close(self, timeout_s: float) -> bool:
        """Close what was started here; whether the client took everything."""
        ...


Connect = Callable[[Host, Sink, Session | None], Client]


async def serve_stdio(settings: Settings, begin: Begin | None = None, connect: Connect = Connection) -> int:
    """Serve until the input ends, the client is gone, or a SIGTERM or SIGINT comes. The exit code, which is 0.

    `begin` makes the session that the client gets, before anything is served; without it a new one is made for it.
    `connect` says which protocol is spoken.

    While it runs nobody else can write to standard output or read from standard input: whoever tries, here or in a
    child process, writes to standard error and reads nothing.
    """
    if sys.__stdin__ is None or sys.__stdout__ is None:
        # Their numbers may belong to something else by now.
        _log.error("standard input and output must be open")
        return 0
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with ExitStack() as cleanup:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
            cleanup.callback(loop.remove_signal_handler, number)
        source, target = cleanup.enter_context(claimed())
        await serve(settings, source, target, stop, begin, connect)
    return 0


async def serve(
    settings: Settings,
    source: int,
    target: int,
    stop: asyncio.Event,
    begin: Begin | None = None,
    connect: Connect = Connection,
) -> None:
    """Serve one client on a pair of descriptors, which stay open, until its input ends or `stop` is set.

    Requests that are under way when the input ends have the settings' close timeout to be answered. Sets `stop` when
    the client is gone. In the end everything that it started is closed, its last requests are answered, and it has
    that time again to read the answers.
    """
    host = Host(settings)
    own = None if begin is None else await begin(host)
    sink = await open_sink(target, stop.set)
    connection = connect(host, sink, own)
    nursery = Nursery()
    reading = nursery.start(_read(source, connection), "reader")
    stopping = nursery.start(stop.wait(), "stop")
    done, _ = await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        # The client has said all it wanted, a shell's pipe perhaps: what it asked for gets a little time.
        answered = nursery.start(connection.idle(), "last answers")
        await asyncio.wait((answered, stopping), timeout=settings.close_timeout_s, return_when=asyncio.FIRST_COMPLETED)
    await nursery.close(settings.close_timeout_s)
    taken = await connection.close(settings.close_timeout_s)
    await host.close()
    await sink.close(settings.close_timeout_s if taken else 0)
    if reading in done:
        reading.result()


async def _read(source: int, connection: Client) -> None:
    lines = Lines()
    async with aclosing(chunks(source)) as incoming:
        async for chunk in incoming:
            for line in lines.feed(chunk):
                await _receive(connection, line)
    for line in lines.end():
        await _receive(connection, line)


async def _receive(connection: Client, line: bytes | Oversized) -> None:
    if isinstance(line, bytes):
        await connection.receive(line)
    else:
        await connection.refuse(InvalidRequest(f"a line has at most {MAX_LINE_BYTES:,} bytes; this one was skipped"))


@contextmanager
def claimed() -> Generator[tuple[int, int], None, None]:
    """Descriptors for standard input and output that nobody else has; all is put back as it was at the end."""
    with ExitStack() as cleanup:
        nothing = os.open(os.devnull, os.O_RDWR)
        cleanup.callback(os.close, nothing)
        cleanup.enter_context(redirect_stdout(sys.stderr))
        source = cleanup.enter_context(_set_aside(0, nothing))
        target = cleanup.enter_context(_set_aside(1, nothing if sys.__stderr__ is None else 2))
        yield source, target


@contextmanager
def _set_aside(fd: int, stand_in: int) -> Generator[int, None, None]:
    own = os.dup(fd)
    # asyncio makes it non-blocking, and with it the same thing in the hands of a shell or a parent process.
    blocking = os.get_blocking(own)
    os.dup2(stand_in, fd)
    try:
        yield own
    finally:
        os.set_blocking(own, blocking)
        os.dup2(own, fd)
        os.close(own)
