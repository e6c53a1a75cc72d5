"""A fake MCP server, in memory: its tools and answers are what a test sets, and it starts no process.

Its connections keep the contract of `ServerConnection`, and break it only where a test has them fail. Nothing takes
time by itself: what has to wait, waits for an event that the test sets.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from tertulia.errors import McpError, TertuliaError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.server_connection import Caller, CallResult, ConnectionServices, OnProgress, RemoteTool, ToolListing

T = TypeVar("T")
Handler = Callable[[dict[str, Any], Caller, OnProgress], Coroutine[Any, Any, CallResult]]


def fake_tool(name: str, description: str = "", schema: dict[str, Any] | None = None) -> RemoteTool:
    """A tool that takes anything, unless a schema says otherwise."""
    return RemoteTool(name, description, {"type": "object"} if schema is None else schema)


async def echo(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
    """The handler of every tool without one of its own: answers with the caller and the arguments."""
    return CallResult(f"{caller.conversation_id}: {arguments}")


class FakeGate:
    """A point where the fake server waits while the gate is shut. `reached` counts the calls that came to it."""

    def __init__(self) -> None:
        self.reached = 0
        self._open = asyncio.Event()
        self._open.set()
        self._news = asyncio.Event()

    def shut(self) -> None:
        """From now on, every call waits."""
        self._open.clear()

    def open(self) -> None:
        """Let all calls that wait go on."""
        self._open.set()

    async def passed(self) -> None:
        """Return at once, or when it is opened."""
        self.reached += 1
        self._news.set()
        await self._open.wait()

    async def until_reached(self, times: int = 1) -> None:
        """Until so many have come to it, since it was made."""
        while self.reached < times:
            self._news.clear()
            await self._news.wait()


class FakeMcpServer:
    """What the fake server offers, and how it fails. Give `connect` to a `ServerPool`; change the rest at any time."""

    def __init__(self, tools: Iterable[RemoteTool] = (), *, ttl_s: float | None = None) -> None:
        self.tools = tuple(tools)
        self.ttl_s = ttl_s
        self.handlers: dict[str, Handler] = {}
        """By tool; one without a handler is answered by `echo`."""
        self.starting, self.listing, self.calling, self.closing = FakeGate(), FakeGate(), FakeGate(), FakeGate()
        self.start_errors: deque[str] = deque()
        """Each makes one start fail."""
        self.list_errors: deque[str] = deque()
        self.close_errors: deque[str] = deque()
        self.connections: list[FakeMcpConnection] = []
        """All that were opened, the last one last."""
        self.asks_roots = False
        """Whether its connections have asked for the client's roots."""
        self.launches: list[Launch] = []
        """The launch of every start, also of those that failed."""

    @property
    def open(self) -> int:
        """Connections that are not over; of one server there is never more than one."""
        return sum(not connection.gone.is_set() for connection in self.connections)

    async def connect(
        self, definition: ServerDefinition, launch: Launch, services: ConnectionServices
    ) -> FakeMcpConnection:
        """Stands in for `connect` of `mcp.client.connection`."""
        self.launches.append(launch)
        await self.starting.passed()
        if self.start_errors:
            raise McpError(self.start_errors.popleft())
        connection = FakeMcpConnection(self, services.tools_changed)
        self.connections.append(connection)
        return connection

    def change(self, *tools: RemoteTool) -> None:
        """Offer these from now on, and say so."""
        self.tools = tools
        for connection in self.connections:
            if not connection.gone.is_set():
                connection.tools_changed()

    def die(self, why: str = "it exited with 1") -> None:
        """Every connection ends by itself."""
        for connection in self.connections:
            connection.end(why)


class FakeMcpConnection:
    """A connection to a `FakeMcpServer`, in memory."""

    def __init__(self, server: FakeMcpServer, tools_changed: Callable[[], None]) -> None:
        self.protocol_version = "fake"
        self.gone = asyncio.Event()
        self.why: str | None = None
        self.tools_changed = tools_changed
        self.under_way = 0
        """Calls that have not ended."""
        self.dropped: Counter[str] = Counter()
        self._server = server

    @property
    def asked_roots(self) -> bool:
        """Whether the server is set to ask for the roots."""
        return self._server.asks_roots

    async def list_tools(self) -> ToolListing:
        """The tools that the server offers now."""
        await self._while_it_lasts(self._server.listing.passed())
        if self._server.list_errors:
            raise McpError(self._server.list_errors.popleft())
        return ToolListing(self._server.tools, self._server.ttl_s)

    async def call(
        self, tool: str, arguments: dict[str, Any], caller: Caller, *, timeout_s: float, on_progress: OnProgress
    ) -> CallResult:
        """The answer of the tool's handler."""
        self.under_way += 1
        try:
            async with asyncio.timeout(timeout_s):
                await self._while_it_lasts(self._server.calling.passed())
                handler = self._server.handlers.get(tool, echo)
                return await self._while_it_lasts(handler(arguments, caller, on_progress))
        except TimeoutError:
            raise McpError(f"`{tool}` gave no answer within {timeout_s:g} s and was cancelled") from None
        finally:
            self.under_way -= 1

    async def close(self) -> None:
        """End the connection, unless a test has that fail."""
        await self._server.closing.passed()
        if self._server.close_errors:
            raise McpError(self._server.close_errors.popleft())
        self.end(None)

    def end(self, why: str | None) -> None:
        """End the connection now. Idempotent."""
        if not self.gone.is_set():
            self.why = why
            self.gone.set()

    async def _while_it_lasts(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it; McpError as soon as the connection is over."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_outcome(work))
            watch = group.create_task(self.gone.wait())
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            watch.cancel()
        if self.gone.is_set():
            raise McpError(f"the connection is closed: {self.why or 'it was ended'}")
        outcome = task.result()
        if isinstance(outcome, TertuliaError):
            raise outcome
        return outcome


async def _outcome(work: Awaitable[T]) -> T | TertuliaError:
    """Return a TertuliaError as a value: a task group would wrap it."""
    try:
        return await work
    except TertuliaError as error:
        return error
