"""The one MCP server of an agent that stays for many tasks: one socket for a conversation, and whose task it is now.

Between two tasks nobody may call anything: there are no rights to call it with.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import NotRunningError
from tertulia.mcp.serve.endpoint import McpEndpoint
from tertulia.mcp.serve.sources import ServedCall, ServedTool
from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.ids import ConversationId
from tertulia.session.agents import relay
from tertulia.session.agents.task_socket import INSTRUCTIONS, MAX_LINE, SocketClients, TaskTools, is_mcp_installed
from tertulia.session.parts import SessionParts


class ConversationSocket:
    """Made with the first task of a conversation, kept until `forget`."""

    def __init__(self, parts: Callable[[], SessionParts | None]) -> None:
        """`parts`: the session, as soon as it stands."""
        self._parts = parts
        self._rooms: dict[ConversationId, _OpenSocket] = {}

    @asynccontextmanager
    async def open(self, scope: TaskScope) -> AsyncGenerator[tuple[str, ...]]:
        """The command of the server; calls are served as long as the block lasts. Empty where MCP is not installed."""
        parts = self._parts()
        room = None if parts is None else await self._room(parts, scope)
        if room is None:
            yield ()
            return
        with room.tools.for_task(scope):
            yield room.words

    async def forget(self, conversation: ConversationId) -> None:
        """The conversation is closed. Again is nothing."""
        room = self._rooms.pop(conversation, None)
        if room is not None:
            await room.close()

    async def close(self) -> None:
        """All of them are."""
        await asyncio.gather(*map(self.forget, list(self._rooms)))

    async def _room(self, parts: SessionParts, scope: TaskScope) -> _OpenSocket | None:
        conversation = scope.conversation.id
        if conversation not in self._rooms:
            if not await is_mcp_installed():
                return None
            self._rooms[conversation] = await _OpenSocket.make(parts, scope)
        return self._rooms[conversation]


class _OpenSocket:
    """A socket, and what is served there."""

    def __init__(self, parts: SessionParts, scope: TaskScope, folder: str) -> None:
        self.tools = _CurrentTaskTools(parts, scope)
        self.path = str(Path(folder) / "door")
        self.words = (sys.executable, "-I", "-S", relay.__file__, self.path)
        self._folder = folder
        self._broker = McpEndpoint(self.tools, name="tertulia", spawn=parts.nursery.start, instructions=INSTRUCTIONS)
        self._clients = SocketClients(self._broker)
        self._server: asyncio.Server | None = None

    @classmethod
    async def make(cls, parts: SessionParts, scope: TaskScope) -> _OpenSocket:
        """Listening, in a directory that only this user can enter."""
        room = cls(parts, scope, tempfile.mkdtemp(prefix="tertulia-door-"))
        try:
            room._server = await asyncio.start_unix_server(room._clients.serve, path=room.path, limit=MAX_LINE)
        except BaseException:
            await room.close()
            raise
        return room

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._clients.close()
        self._broker.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class _CurrentTaskTools:
    """Implements `Served` for whichever task runs now. What could be called in the last one can be looked at."""

    def __init__(self, parts: SessionParts, scope: TaskScope) -> None:
        self._parts = parts
        self._last = TaskTools(parts, scope)
        self._running = False

    @contextmanager
    def for_task(self, scope: TaskScope) -> Generator[None]:
        self._last, self._running = TaskTools(self._parts, scope), True
        try:
            yield
        finally:
            self._running = False

    async def tools(self) -> Sequence[ServedTool]:
        return await self._last.tools()

    async def call(self, call: ServedCall) -> CallResult:
        if not self._running:
            raise NotRunningError("no task of this conversation runs, and nothing can be called")
        return await self._last.call(call)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._last.watch(changed)
