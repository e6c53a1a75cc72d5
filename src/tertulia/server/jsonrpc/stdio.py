"""Serves one client on standard input and output, whatever protocol it speaks: our own, ACP or Codex's.

One JSON text a line; standard error is for logs. The protocols themselves are `ClientHandler`s. Pipes, sockets and
terminals are read and written as they become ready. Files and devices are never "ready": they are read in a thread,
and written at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, aclosing, contextmanager, redirect_stdout
from io import FileIO
from typing import Protocol

from tertulia.errors import InvalidRequestError, TertuliaError
from tertulia.protocol.line_framing import MAX_LINE_BYTES, Line, LineSplitter, OversizedLine
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.server.jsonrpc.event_batching import Sink, is_drained
from tertulia.server.jsonrpc.output_sink import CHUNK_BYTES, FileSink, PipeSink, is_polled, open_sink
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

PATIENCE_S = 2.0
"""How long the end waits for a client that reads nothing."""
_LOOK_EVERY_S = 0.05


async def read_chunks(source: int) -> AsyncGenerator[bytes, None]:
    """What can be read from the descriptor, until its end or until it breaks. The descriptor stays open."""
    try:
        if is_polled(source):
            reader = asyncio.StreamReader(limit=CHUNK_BYTES)
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), FileIO(os.dup(source), "r")
            )
            try:
                while chunk := await reader.read(CHUNK_BYTES):
                    yield chunk
            finally:
                transport.close()
        else:
            while chunk := await asyncio.to_thread(os.read, source, CHUNK_BYTES):
                yield chunk
    except OSError:
        # A terminal that was hung up, a connection that was reset: nothing more will come.
        return


async def wait_until_hung_up(source: int) -> None:
    """Return when no process can write to the descriptor any more, whatever in it is still unread."""
    if not is_polled(source):
        # A file has no writer to wait for.
        return
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Of its own: the loop's own would tell only of what can be read, and what is not read hides the end behind it.
    with select.epoll() as poll:
        poll.register(source, select.EPOLLRDHUP)
        loop.add_reader(poll.fileno(), gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(poll.fileno())


async def wait_until_abandoned(source: int, sink: PipeSink | FileSink, patience_s: float = PATIENCE_S) -> None:
    """Return when the client has closed its end of the input, and since then taken nothing of the output for so long.

    Such a client sends no more, and nothing reaches it: to wait for it would be to wait for ever.
    """
    await wait_until_hung_up(source)
    await wait_until_stuck(sink, patience_s)


async def wait_until_stuck(sink: PipeSink | FileSink, patience_s: float = PATIENCE_S) -> None:
    """Return when the client has taken nothing for so long that nothing more will reach it."""
    while True:
        if not await is_drained(sink, patience_s):
            return
        await asyncio.sleep(_LOOK_EVERY_S)


IN_A_ROW = 64
"""So many lines are taken before others have their turn."""
_log = logging.getLogger(__name__)


class LineReceiver(Protocol):
    """Takes the messages of a client."""

    async def receive(self, line: Line) -> None:
        """Take one message of the client."""
        ...

    async def refuse(self, error: TertuliaError) -> None:
        """Answer a message that cannot be read."""
        ...


async def run_on_standard_streams(serve: Callable[[int, int, asyncio.Event], Awaitable[None]]) -> int:
    """Run `serve` on them with an event that SIGTERM and SIGINT set. Returns the exit code, which is 0."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        # The descriptor numbers may be in use again by now.
        _log.error("standard input and output must be open")
        return 0
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with ExitStack() as cleanup:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
            cleanup.callback(loop.remove_signal_handler, number)
        source, target = cleanup.enter_context(claim_standard_streams())
        await serve(source, target, stop)
    return 0


async def receive_lines(source: int, client: LineReceiver) -> None:
    """Hand each line to the client's handler until the input ends."""
    await receive_chunks(read_chunks(source), client)


async def receive_chunks(chunks: AsyncGenerator[bytes, None], client: LineReceiver) -> None:
    """Hand each line in these bytes to the client's handler."""
    lines = LineSplitter()
    async with aclosing(chunks) as incoming:
        async for chunk in incoming:
            for number, line in enumerate(lines.feed(chunk), 1):
                await _deliver(line, client)
                if number % IN_A_ROW == 0:
                    # Delivering these lines may not have yielded to the loop once.
                    await asyncio.sleep(0)
    for line in lines.end():
        await _deliver(line, client)


async def _deliver(line: Line | OversizedLine, client: LineReceiver) -> None:
    if not isinstance(line, OversizedLine):
        await client.receive(line)
    else:
        await client.refuse(InvalidRequestError(f"a line has at most {MAX_LINE_BYTES:,} bytes; this one was skipped"))


@contextmanager
def claim_standard_streams() -> Generator[tuple[int, int], None, None]:
    """Descriptors for standard input and output that no other code has; in the end all is put back as it was."""
    with ExitStack() as cleanup:
        nothing = os.open(os.devnull, os.O_RDWR)
        cleanup.callback(os.close, nothing)
        cleanup.enter_context(redirect_stdout(sys.stderr))
        source = cleanup.enter_context(_take_descriptor(0, nothing))
        target = cleanup.enter_context(_take_descriptor(1, nothing if sys.__stderr__ is None else 2))
        yield source, target


@contextmanager
def _take_descriptor(fd: int, stand_in: int) -> Generator[int, None, None]:
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


_PATIENCE_S = 5.0
"""How long a client is waited for that has closed its input and does not read; it may be a pager."""

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
    settings: Settings,
    begin: SessionStarter | None = None,
    connect: ClientHandlerFactory = RpcConnection,
    host: Host | None = None,
) -> int:
    """Serve until the input ends, the client is gone, or a SIGTERM or SIGINT comes. The exit code, which is 0.

    `begin` makes the session that the client gets, before anything is served; without it a new one is made for it.
    `connect` says which protocol is spoken, and `host` where the sessions run; without it a new one is made.

    While it runs nothing else can use standard input and output: what tries to, here or in a child process, writes to
    standard error and reads nothing.
    """
    return await run_on_standard_streams(
        lambda source, target, stop: serve_descriptors(
            settings, source, target, stop, begin, connect=connect, host=host
        )
    )


async def serve_descriptors(
    settings: Settings,
    source: int,
    target: int,
    stop: asyncio.Event,
    begin: SessionStarter | None = None,
    *,
    connect: ClientHandlerFactory = RpcConnection,
    host: Host | None = None,
) -> None:
    """The same on a pair of descriptors, which stay open, until the input ends or `stop` is set."""
    # Not `or`: a host without sessions counts as false.
    place = Host(settings) if host is None else host
    own = None if begin is None else await begin(place)
    await serve_client(place, lambda sink: connect(place, sink, own), source, target, stop)


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
        # The client has closed its input, as a shell's pipe does: its last requests get a little time.
        answered = nursery.start(client.idle(), "last answers")
        await asyncio.wait((answered, stopping, gone), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
    is_gone = gone.done()
    await nursery.close(grace_s)
    is_taken = await client.close(0 if is_gone else grace_s)
    await host.close()
    await sink.close(last_s if is_taken and not is_gone else 0)
    if reading in done:
        reading.result()
