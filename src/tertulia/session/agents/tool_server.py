"""The one MCP server that an executor's program gets: the tools of its conversation, with the rights of its task.

It listens on a socket that only this user can reach; the program starts `relay`, which copies bytes. The socket of a
command ends with its task; that of an agent which stays for many tasks ends with the conversation, and between two
tasks nothing can be called there: there are no rights to call it with.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import McpError, NotRunningError, UnsupportedByBackendError
from tertulia.executors.executor import ExecutorHost
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.serve.message_pump import pump_messages
from tertulia.mcp.serve.sources import ServedCall, ServedTool
from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import McpToolCallProgress
from tertulia.protocol.tool_spec import ALL_CONV_TOOLS
from tertulia.session.agents import relay
from tertulia.session.agents.agent_socket import AgentSocket
from tertulia.session.agents.permission_tool import PERMISSION_TOOL, answer_permission, served_permission_tool
from tertulia.session.mcp.external_calls import call_externally
from tertulia.session.mcp.served_tools import ServedConversation
from tertulia.session.parts import SessionParts

MAX_LINE = 16 * 1024 * 1024
INSTRUCTIONS = "The tools of the conversation that you work for. A refusal is JSON with `code` and `reason`."
_SOURCES = ("mcp", "injector", "function", "conv")
_READ_ONLY_CONV_TOOLS = frozenset({"conv_list", "conv_history"})
_FLUSH_S = 1.0
_STOP_S = 0.25
"""For calls in progress when the task is over; with the time that its program has to end, less than a second."""


class AgentToolServers:
    """The servers of all conversations of a session that an executor works for."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._lasting: dict[ConversationId, _ToolServer] = {}
        self._for_task: dict[ConversationId, _ToolServer] = {}

    def answer_questions(self, conversation: ConversationId, host: ExecutorHost) -> None:
        """Serve, until its task ends, the tool by which its program asks before it acts; the host decides."""
        server = self._for_task.get(conversation)
        if server is not None:
            server.tools.host = host

    def variables(self, conversation: ConversationState) -> dict[str, str]:
        """The variables with which the agent's programs call back with `tertulia internal`. They must not be shown."""
        agents = self._parts.made.agent_registry
        return {} if agents is None else agents.environment(conversation.id)

    @asynccontextmanager
    async def open_for_task(self, scope: TaskScope) -> AsyncGenerator[tuple[str, ...]]:
        """The command of a server that ends with the block; empty where MCP is not installed.

        A session without MCP servers has one too: the tools that list and read conversations are always served.
        """
        server = await self._start(scope)
        if server is None:
            yield ()
            return
        self._for_task[scope.conversation.id] = server
        try:
            with server.tools.for_task(scope):
                yield server.command
        finally:
            if self._for_task.get(scope.conversation.id) is server:
                del self._for_task[scope.conversation.id]
            await server.close()

    @asynccontextmanager
    async def open_for_conversation(self, scope: TaskScope) -> AsyncGenerator[tuple[str, ...]]:
        """The command of a server that lasts until `forget`; only inside the block it takes calls."""
        conversation = scope.conversation.id
        server = self._lasting.get(conversation) or await self._start(scope)
        if server is None:
            yield ()
            return
        self._lasting[conversation] = server
        with server.tools.for_task(scope):
            yield (*server.command, *server.tools.edition)

    async def forget(self, conversation: ConversationId) -> None:
        """The conversation is closed, and its server ends. Idempotent."""
        server = self._lasting.pop(conversation, None)
        if server is not None:
            await server.close()

    async def close(self) -> None:
        """End the servers of all conversations."""
        await asyncio.gather(*map(self.forget, list(self._lasting)))

    async def _start(self, scope: TaskScope) -> _ToolServer | None:
        return await _ToolServer.start(self._parts, scope) if await _is_mcp_installed() else None


async def _is_mcp_installed() -> bool:
    try:
        await asyncio.to_thread(load_sdk)
    except McpError:
        return False
    return True


class _ToolServer:
    """An endpoint with the tools of one conversation, and the socket that it is served on."""

    def __init__(self, parts: SessionParts, scope: TaskScope) -> None:
        self.tools = _CurrentTaskTools(parts, scope)
        self._endpoint = McpEndpoint(self.tools, name="tertulia", spawn=parts.nursery.start, instructions=INSTRUCTIONS)
        self._folder = tempfile.mkdtemp(prefix="tertulia-agent-")
        path = Path(self._folder) / "mcp.sock"
        self._socket = AgentSocket(path, self._serve_client, parts.nursery.start, max_line=MAX_LINE)
        self.command = (sys.executable, "-I", "-S", relay.__file__, str(path))

    @classmethod
    async def start(cls, parts: SessionParts, scope: TaskScope) -> _ToolServer:
        server = cls(parts, scope)
        try:
            await server._socket.open()
        except BaseException:
            await server.close()
            raise
        return server

    async def close(self) -> None:
        await self._socket.end(_STOP_S)
        self._endpoint.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: int) -> None:
        async def send(line: bytes) -> None:
            writer.write(line)
            with suppress(OSError):
                await writer.drain()

        await pump_messages(self._endpoint, _lines(reader), send, flush_s=_FLUSH_S)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    # A line that is too long is a ValueError, and ends the connection as a lost one does.
    with suppress(OSError, ValueError):
        while line := await reader.readline():
            yield line


class TaskTools:
    """The tools of a conversation as one task may use them; implements `ToolSource`.

    Of the conversation tools it has only those that read: the program cannot be made to wait for another conversation.
    Approvals are asked of the clients of the session, not of the program.
    """

    def __init__(self, parts: SessionParts, scope: TaskScope) -> None:
        self._parts = parts
        self._scope = scope
        self._served = ServedConversation(parts, scope.conversation, rights=scope.rights, sources=_SOURCES)

    async def tools(self) -> Sequence[ServedTool]:
        """The served tools that the task may use."""
        return [tool for tool in await self._served.tools() if _is_for_agents(tool.name)]

    def known(self) -> frozenset[tuple[str, str]]:
        """The names and signatures of the tools that are known without waiting."""
        return frozenset((spec.name, spec.signature) for spec in self._served.specs() if _is_for_agents(spec.name))

    async def call(self, call: ServedCall) -> CallResult:
        """Call a tool with the rights that the task has at this moment."""
        if not _is_for_agents(call.tool):
            raise UnsupportedByBackendError(f"{call.tool} is not for an agent that works for a conversation")
        parts, scope = self._parts, self._scope

        def report(data: EventData) -> None:
            if isinstance(data, McpToolCallProgress):
                call.progress(data.progress, data.total, data.message)

        arguments, rights = msgspec.json.encode(call.arguments).decode(), scope.rights()
        result = await call_externally(parts, scope.conversation, call.tool, arguments, _SOURCES, report, rights=rights)
        return CallResult(result.text, not result.success, result.parts, result.structured)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever a server's tools may have changed."""
        return self._served.watch(changed)


def _is_for_agents(tool: str) -> bool:
    return tool not in ALL_CONV_TOOLS or tool in _READ_ONLY_CONV_TOOLS


class _CurrentTaskTools:
    """The tools of the task that runs now; between two tasks those of the last one are listed, and none is called."""

    def __init__(self, parts: SessionParts, scope: TaskScope) -> None:
        self._parts = parts
        self._last = TaskTools(parts, scope)
        self._running = False
        self.host: ExecutorHost | None = None
        """Decides what the program asks before it acts; None: it has no tool for that."""
        self._listed: frozenset[tuple[str, str]] | None = None
        """The tools that the agent has listed; None where it has listed none yet."""
        self._number = 0

    @property
    def edition(self) -> tuple[str, ...]:
        """A word for the server's command, another one for each list of tools that the agent does not have.

        An agent that lists them again when it is told of a change never gets another word. Many list them once.
        """
        return (f"tools-{self._number}",) if self._number else ()

    @contextmanager
    def for_task(self, scope: TaskScope) -> Generator[None]:
        self._last, self._running = TaskTools(self._parts, scope), True
        if self._listed is not None and self._listed != self._last.known():
            self._number, self._listed = self._number + 1, None
        try:
            yield
        finally:
            self._running = False

    async def tools(self) -> Sequence[ServedTool]:
        listed = await self._last.tools()
        self._listed = self._last.known()
        return listed if self.host is None else [*listed, served_permission_tool()]

    async def call(self, call: ServedCall) -> CallResult:
        if not self._running:
            raise NotRunningError("no task of this conversation runs, and nothing can be called")
        if self.host is not None and call.tool == PERMISSION_TOOL:
            return await answer_permission(self.host, call.arguments)
        return await self._last.call(call)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._last.watch(changed)
