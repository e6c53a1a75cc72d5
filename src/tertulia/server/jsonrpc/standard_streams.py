"""Standard input and output for one client, a message a line; what every protocol that is spoken there begins with."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, aclosing, contextmanager, redirect_stdout
from typing import Protocol

from tertulia.errors import InvalidRequestError, TertuliaError
from tertulia.server.jsonrpc.line_framing import MAX_LINE_BYTES, Line, LineSplitter, OversizedLine
from tertulia.server.jsonrpc.pipes import read_chunks

IN_A_ROW = 64
"""So many lines are taken before others have their turn."""
_log = logging.getLogger(__name__)


class LineReceiver(Protocol):
    """Whoever takes the messages of a client."""

    async def receive(self, line: Line) -> None:
        """Take one message."""
        ...

    async def refuse(self, error: TertuliaError) -> None:
        """Answer a message that cannot be read."""
        ...


async def run_on_standard_streams(serve: Callable[[int, int, asyncio.Event], Awaitable[None]]) -> int:
    """Serve a source and a target until told to stop, by SIGTERM or SIGINT too. The exit code, which is 0."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        # Their numbers may belong to something else by now.
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
    """Hand on what comes, line by line, until the input ends."""
    lines = LineSplitter()
    async with aclosing(read_chunks(source)) as incoming:
        async for chunk in incoming:
            for number, line in enumerate(lines.feed(chunk), 1):
                await _deliver(line, client)
                if number % IN_A_ROW == 0:
                    # Nothing of that may have waited for anything.
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
    """Descriptors for standard input and output that nobody else has; all is put back as it was at the end."""
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
