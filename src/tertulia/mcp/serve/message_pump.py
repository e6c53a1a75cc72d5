"""Moves MCP messages between a client that sends lines of JSON and an `McpEndpoint`, until the client is gone.

Used for every client over a stream of bytes: standard input and output, the broker's socket, the sockets of agents. It
does not split bytes into lines, and it does not check who the client is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tertulia.mcp.client.jsonrpc_lines import JsonRpcLines
from tertulia.mcp.serve.endpoint import MAX_CALLS, McpEndpoint

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

MAX_UNANSWERED = 4 * MAX_CALLS
"""Requests without an answer. A client with more of them reads no answers, and is not read any further."""

SendLine = Callable[[bytes], Awaitable[None]]
"""Writes a line with its newline. Waits while the client does not read; returns at once when it is gone."""


async def pump_messages(
    endpoint: McpEndpoint, incoming: AsyncIterator[bytes | dict[str, Any]], send: SendLine, *, flush_s: float
) -> None:
    """Serve one client until `incoming` ends: lines, or messages that were decoded already.

    A line that is no message is dropped. `flush_s`: how long the client may take to read the last answers.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    received_in, received_out = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent_in, sent_out = anyio.create_memory_object_stream[SessionMessage](0)
    lines, unanswered = JsonRpcLines("a client"), _UnansweredRequests()
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(_write(lines, unanswered, sent_out, send))
        reader = group.create_task(_read(lines, unanswered, incoming, received_in))
        await endpoint.serve(received_out, sent_in)
        reader.cancel()
        sent_in.close()
        await asyncio.wait((writer,), timeout=flush_s)
        writer.cancel()


class _UnansweredRequests:
    """The requests of one client that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._answered = asyncio.Event()

    async def add(self, message: Any) -> None:
        """Count a message of the client; waits while there are too many requests."""
        if getattr(message, "method", None) == "notifications/cancelled":
            # A cancelled request gets no answer.
            params: dict[str, Any] = message.params or {}
            self.remove(params.get("requestId"))
        elif hasattr(message, "method") and hasattr(message, "id"):
            self._ids.add(message.id)
        while len(self._ids) > MAX_UNANSWERED:
            self._answered.clear()
            await self._answered.wait()

    def remove(self, request_id: object) -> None:
        """The request with this id is answered."""
        if isinstance(request_id, int | str):
            self._ids.discard(request_id)
            self._answered.set()


async def _read(
    lines: JsonRpcLines,
    unanswered: _UnansweredRequests,
    incoming: AsyncIterator[bytes | dict[str, Any]],
    received: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    from anyio import BrokenResourceError
    from mcp.shared.message import SessionMessage

    # The other end is closed when the server is done with this client.
    with suppress(BrokenResourceError):
        async with received:
            async for line in incoming:
                message = lines.convert(line) if isinstance(line, dict) else await lines.read_in_steps(line)
                if message is not None:
                    await unanswered.add(message)
                    await received.send(SessionMessage(message))


async def _write(
    lines: JsonRpcLines,
    unanswered: _UnansweredRequests,
    sent: MemoryObjectReceiveStream[SessionMessage],
    send: SendLine,
) -> None:
    async with sent:
        async for item in sent:
            await send(lines.encode(item.message))
            if not hasattr(item.message, "method"):
                unanswered.remove(getattr(item.message, "id", None))
