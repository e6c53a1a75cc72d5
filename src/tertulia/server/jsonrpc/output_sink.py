"""Where the messages to a client are written: a pipe, socket or terminal, or a file. One message a line."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from typing import cast

CHUNK_BYTES = 64 * 1024
_LONG_BYTES = 64 * 1024
"""A longer message is written as it is: to join it with others would copy it."""


class PipeSink(asyncio.BaseProtocol):
    """Messages to a pipe, a socket or a terminal, one a line."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        """`on_lost` is called once, when the reader is gone or the sink was closed."""
        self._on_lost = on_lost
        self._transport: asyncio.WriteTransport | None = None
        # A transport copies what it cannot write at once, and a long message would be in memory twice.
        self._queue: deque[memoryview] = deque()
        self._paused = self._closing = False
        self._room = asyncio.Event()
        self._room.set()
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def pause_writing(self) -> None:
        """Called by asyncio: the reader is slow."""
        self._paused = True

    def resume_writing(self) -> None:
        """Called by asyncio: the reader has caught up."""
        self._paused = False
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._queue.clear()
        self._room.set()
        self._lost.set()
        self._on_lost()

    def send(self, messages: Sequence[bytes]) -> None:
        if messages and self._transport is not None and not (self._closing or self._transport.is_closing()):
            self._queue.extend(map(memoryview, _lines(messages)))
            self._pump()

    async def drain(self) -> None:
        await self._room.wait()

    def _pump(self) -> None:
        """Hand over as much as the transport takes without storing it."""
        while self._queue and not self._paused and self._transport is not None:
            piece = self._queue.popleft()
            if len(piece) > CHUNK_BYTES:
                self._queue.appendleft(piece[CHUNK_BYTES:])
            self._transport.write(piece[:CHUNK_BYTES])
        if self._paused or self._queue:
            self._room.clear()
        else:
            self._room.set()

    async def close(self, timeout_s: float) -> None:
        """Give the reader so long to take what was sent, then let go."""
        if self._transport is None:
            return
        self._closing = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._room.wait()
                if not self._lost.is_set():
                    self._transport.close()
                await self._lost.wait()
        except TimeoutError:
            # In the same step the reader may have taken the last of it.
            if not self._lost.is_set():
                self._transport.abort()
            await self._lost.wait()


def _lines(messages: Sequence[bytes]) -> Iterator[bytes]:
    """One message a line, in pieces to be written one after the other: short ones joined, long ones not copied."""
    short: list[bytes] = []
    for message in messages:
        if len(message) > _LONG_BYTES:
            yield b"\n".join((*short, b""))
            yield message
            short = [b""]
        else:
            short.append(message)
    yield b"\n".join((*short, b""))


class FileSink:
    """Messages to a file or a device, one a line."""

    def __init__(self, target: int, on_lost: Callable[[], None]) -> None:
        """`on_lost` is called when the file cannot be written any more."""
        self._target = target
        self._on_lost = on_lost
        self._lost = False

    def send(self, messages: Sequence[bytes]) -> None:
        try:
            for piece in _lines(messages) if messages else ():
                rest = memoryview(piece)
                while rest and not self._lost:
                    rest = rest[os.write(self._target, rest) :]
        except OSError:
            self._lost = True
            self._on_lost()

    async def drain(self) -> None:
        """Returns at once: `send` has written everything."""

    async def close(self, timeout_s: float) -> None:
        """There is nothing left to write."""


async def open_sink(target: int, on_lost: Callable[[], None]) -> PipeSink | FileSink:
    """The sink for a descriptor, which stays open itself."""
    if not is_polled(target):
        return FileSink(target, on_lost)
    _, sink = await asyncio.get_running_loop().connect_write_pipe(
        lambda: PipeSink(on_lost), FileIO(os.dup(target), "w")
    )
    return sink


def is_polled(fd: int) -> bool:
    """Whether the descriptor says when it can be read or written; a file and a device do not."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
