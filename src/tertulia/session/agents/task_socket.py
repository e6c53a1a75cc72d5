"""The one MCP server that another agent gets: its conversation's tools, with the rights of its task, while it works.

A socket that only this user can reach, made for one task and gone with it. The agent starts `agent_relay`, which copies
bytes; everything is decided here.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import McpError, UnsupportedByBackendError
from tertulia.mcp.client.jsonrpc_lines import JsonRpcLines
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.serve.sources import ServedCall, ServedTool
from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.events import EventData
from tertulia.protocol.tool_events import McpToolCallProgress
from tertulia.protocol.tool_names import CONV_TOOLS
from tertulia.session.agents import relay
from tertulia.session.mcp.external_calls import call_externally
from tertulia.session.mcp.served_tools import ServedConversation
from tertulia.session.parts import SessionParts

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

_SOURCES = ("mcp", "injector", "conv")
_READ_ONLY_CONV_TOOLS = frozenset({"conv_list", "conv_history"})
MAX_LINE = 16 * 1024 * 1024
MAX_CLIENTS = 32
"""An agent and its own helpers, and no crowd."""
_PARTING_S = 1.0
_STOP_S = 0.25
"""For calls under way when the task is over: with what its program was given it must stay below a second."""
INSTRUCTIONS = "The tools of the conversation that you work for. A refusal is JSON with `code` and `reason`."


async def is_mcp_installed() -> bool:
    """Whether a server can be made. Where MCP is not installed there are no other servers either."""
    try:
        await asyncio.to_thread(load_sdk)
    except McpError:
        return False
    return True


class TaskSocket:
    """Opened for one task at a time. Serves nothing before it is told of the session."""

    def __init__(self) -> None:
        self.parts: SessionParts | None = None

    def serve(self, parts: SessionParts) -> None:
        """The session stands."""
        self.parts = parts

    def variables(self, conversation: ConversationState) -> dict[str, str]:
        """With these the agent, and what it starts, can call back with `tertulia internal`. Not to be shown."""
        return {} if self.parts is None else self.parts.agent_registry.environment(conversation.id)

    @asynccontextmanager
    async def open(self, scope: TaskScope) -> AsyncGenerator[tuple[str, ...]]:
        """The command of the server, as long as the block lasts; empty where MCP is not installed.

        Also where the session has no tools of its own to serve: what the conversation may look at is served always.
        """
        parts = self.parts
        if parts is None or not await is_mcp_installed():
            yield ()
            return
        folder = tempfile.mkdtemp(prefix="tertulia-door-")
        served = TaskTools(parts, scope)
        broker = McpEndpoint(served, name="tertulia", spawn=parts.nursery.start, instructions=INSTRUCTIONS)
        clients = SocketClients(broker)
        path = str(Path(folder) / "door")
        try:
            server = await asyncio.start_unix_server(clients.serve, path=path, limit=MAX_LINE)
            try:
                yield (sys.executable, "-I", "-S", relay.__file__, path)
            finally:
                server.close()
                await clients.close()
        finally:
            broker.close()
            shutil.rmtree(folder, ignore_errors=True)


class TaskTools:
    """Implements `Served` for one task.

    Of the conversation tools it has only those that look: nobody here can be made to wait. What has to be asked is
    asked of the session's own people, and not of the agent.
    """

    def __init__(self, parts: SessionParts, scope: TaskScope) -> None:
        self._parts = parts
        self._scope = scope
        self._served = ServedConversation(parts, scope.conversation, rights=scope.rights, sources=_SOURCES)

    async def tools(self) -> Sequence[ServedTool]:
        """What the task may use, of what is served."""
        return [
            tool
            for tool in await self._served.tools()
            if tool.name not in CONV_TOOLS or tool.name in _READ_ONLY_CONV_TOOLS
        ]

    async def call(self, call: ServedCall) -> CallResult:
        """With the rights of the task, at this moment."""
        if call.tool in CONV_TOOLS and call.tool not in _READ_ONLY_CONV_TOOLS:
            raise UnsupportedByBackendError(f"{call.tool} is not for an agent that works for a conversation")
        parts, scope = self._parts, self._scope

        def heard(data: EventData) -> None:
            if isinstance(data, McpToolCallProgress):
                call.progress(data.progress, data.total, data.message)

        arguments, rights = msgspec.json.encode(call.arguments).decode(), scope.rights()
        result = await call_externally(parts, scope.conversation, call.tool, arguments, _SOURCES, heard, rights=rights)
        return CallResult(result.text, not result.success, result.parts, result.structured)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Whenever a server's tools may have changed."""
        return self._served.watch(changed)


class SocketClients:
    """Those who are connected: mostly one."""

    def __init__(self, broker: McpEndpoint) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One of them, until it is gone."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MAX_CLIENTS:
            writer.transport.abort()
            return
        self._tasks.add(task)
        try:
            await _serve(self._broker, reader, writer)
        except asyncio.CancelledError:
            # By `close`, and by nobody else: asyncio's streams make a noise about a task of theirs that ends so.
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def close(self) -> None:
        """Nobody is served any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_S)


async def _serve(broker: McpEndpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    import anyio
    from mcp.shared.message import SessionMessage

    to_us, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    lines = JsonRpcLines("an agent")
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(_write(lines, from_us, writer))
        reading = group.create_task(_read(lines, reader, to_us))
        await broker.serve(heard, said)
        reading.cancel()
        said.close()
        await asyncio.wait((writing,), timeout=_PARTING_S)
        writing.cancel()


async def _read(
    lines: JsonRpcLines, reader: asyncio.StreamReader, to_us: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    from anyio import BrokenResourceError
    from mcp.shared.message import SessionMessage

    # A line that is too long is a ValueError; either way this client is done.
    with suppress(BrokenResourceError, OSError, ValueError):
        async with to_us:
            while line := await reader.readline():
                message = await lines.read_in_steps(line)
                if message is not None:
                    await to_us.send(SessionMessage(message))


async def _write(
    lines: JsonRpcLines, from_us: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter
) -> None:
    async with from_us:
        async for each in from_us:
            writer.write(lines.written(each.message))
            with suppress(OSError):
                await writer.drain()
