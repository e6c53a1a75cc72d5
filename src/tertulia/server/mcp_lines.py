"""MCP over a stream of bytes: one JSON text a line, between a client and the SDK's pair of streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from tertulia.mcp.broker import Broker
from tertulia.mcp.lines import Lines
from tertulia.server.framing import Lines as Framing
from tertulia.server.framing import Oversized

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage


class Writing(Protocol):
    """Where answers go."""

    async def send(self, line: bytes) -> None:
        """Waits while the other side does not read; returns at once when it is gone."""
        ...


async def serve_lines(broker: Broker, incoming: AsyncIterator[bytes], writing: Writing) -> None:
    """Serve one client until its input ends. A line that is no message is dropped; one that is too long ends it."""
    import anyio
    from mcp.shared.message import SessionMessage

    to_us, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    lines = Lines("a client")
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(_write(lines, from_us, writing))
        reader = group.create_task(_read(lines, incoming, to_us))
        try:
            await broker.serve(heard, said)
        finally:
            reader.cancel()
            await said.aclose()
            await writer


async def _read(
    lines: Lines, incoming: AsyncIterator[bytes], to_us: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    from mcp.shared.message import SessionMessage

    framing = Framing()
    async with to_us:
        async for chunk in incoming:
            for line in framing.feed(chunk):
                if isinstance(line, Oversized):
                    return
                message = lines.read(line) if line.strip() else None
                if message is not None:
                    await to_us.send(SessionMessage(message))


async def _write(lines: Lines, from_us: MemoryObjectReceiveStream[SessionMessage], writing: Writing) -> None:
    async with from_us:
        async for each in from_us:
            await writing.send(lines.written(each.message))
