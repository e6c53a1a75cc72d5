"""Passes bytes between two connections and counts them; ends what is idle, lasts too long or has used too much."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from tertulia.sandbox.proxy.gate import BudgetSpentError, HostGate

CHUNK = 256 * 1024
"""Bytes that are read at once, and the most that wait in a connection."""
IDLE_S = 300.0


class Meter:
    """Counts the bytes of one connection, and those of its conversation."""

    __slots__ = ("_gate", "bytes")

    def __init__(self, gate: HostGate) -> None:
        self._gate = gate
        self.bytes = 0

    def add(self, count: int) -> None:
        """Count bytes before they are passed on; BudgetSpent where the conversation may have no more."""
        self.bytes += count
        use, most = self._gate.use, self._gate.limits.bytes
        use.bytes += count
        if most is not None and use.bytes > most:
            raise BudgetSpentError(f"this conversation has sent and received {most:,} bytes (limits.max_network_bytes)")


class IdleWatch:
    """Ends a connection on which nothing has moved for a while."""

    def __init__(self, meter: Meter, end: Callable[[], object]) -> None:
        self._meter, self._end = meter, end
        self._loop = asyncio.get_running_loop()
        self._seen = -1
        self._timer = self._loop.call_later(IDLE_S, self._look)

    def _look(self) -> None:
        if self._meter.bytes == self._seen:
            self._end()
            return
        self._seen = self._meter.bytes
        self._timer = self._loop.call_later(IDLE_S, self._look)

    def stop(self) -> None:
        """Look no more: the connection has ended."""
        self._timer.cancel()


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, meter: Meter) -> None:
    """Until the end of the source, which the sink then hears as well."""
    while data := await source.read(CHUNK):
        meter.add(len(data))
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


async def copy_exactly(source: asyncio.StreamReader, sink: asyncio.StreamWriter, count: int, meter: Meter) -> None:
    """So many bytes; IncompleteReadError where there are fewer."""
    while count:
        data = await source.read(min(count, CHUNK))
        if not data:
            raise asyncio.IncompleteReadError(b"", count)
        count -= len(data)
        meter.add(len(data))
        sink.write(data)
        await sink.drain()


_MAX_LINE = 1024
_MAX_TRAILER = 64


async def copy_chunks(source: asyncio.StreamReader, sink: asyncio.StreamWriter, meter: Meter) -> None:
    """The chunks of a message, each with its size in one spelling, without extensions and trailers."""
    while (size := _chunk_size(await _line(source))) > 0:
        sink.write(b"%x\r\n" % size)
        await copy_exactly(source, sink, size, meter)
        if await source.readexactly(2) != b"\r\n":
            raise ValueError("a chunk is longer than it says")
        sink.write(b"\r\n")
    for _ in range(_MAX_TRAILER):
        if await _line(source) == b"":
            sink.write(b"0\r\n\r\n")
            await sink.drain()
            return
    raise ValueError("there are too many trailers")


async def _line(source: asyncio.StreamReader) -> bytes:
    line = await source.readuntil(b"\r\n")
    if len(line) > _MAX_LINE or line.count(b"\n") > 1 or line.count(b"\r") > 1:
        raise ValueError("a line is too long, or has no proper end")
    return line[:-2]


_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e]*)?")


def _chunk_size(line: bytes) -> int:
    found = _SIZE.fullmatch(line)
    if found is None:
        raise ValueError("a chunk has no size")
    return int(found[1], 16)


def widen(writer: asyncio.StreamWriter) -> None:
    """Let as much wait in a connection as is read at once: the usual bound is a quarter of it."""
    writer.transport.set_write_buffer_limits(high=CHUNK)
