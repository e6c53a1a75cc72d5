"""Clients of the broker: the SDK's own, in both eras, over streams, the socket and a program's pipes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import msgspec
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage

from tertulia.mcp.client.jsonrpc_lines import JsonRpcLines
from tertulia.mcp.serve.endpoint import McpEndpoint
from tertulia.mcp.view import NamedView
from tertulia.server.mcp.broker_address import BrokerGreeting, short_path
from tertulia.server.mcp.broker_server import open_client_broker
from tertulia.session.session import Session
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare
from tests.mcp.fakes.number import lives

SOURCE = Path(__file__).parents[2] / "src"
DEADLINE_S = HANG_S
ERAS = {"old": "legacy", "new": "auto"}
"""How the SDK's client is told which era to speak."""


WAITED_FOR: dict[str, Any] = {"required": True, "startup_timeout_sec": HANG_S}
"""So that its tools are there for the first call, however long its program takes to start on a busy machine."""


def bare_server(*options: str, **fields: Any) -> dict[str, Any]:
    """The table of a bare server; it may be called without asking."""
    command, *args = bare(*options)
    return {"command": command, "args": args, "approval": "approve", **WAITED_FOR, **fields}


class Person:
    """Answers what a client is asked, and remembers it."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[t.ElicitRequestParams] = []
        self.being_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._answers = list(answers)

    async def __call__(self, context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.asked.append(params)
        self.being_asked.set()
        await self.may_answer.wait()
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            return t.ElicitResult(action=answer)  # type: ignore[arg-type]
        return t.ElicitResult(action="accept", content=answer)


class News:
    """What a client hears without having asked."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.came = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        self.methods.append(getattr(message, "method", type(message).__name__))
        self.came.set()


@asynccontextmanager
async def over_streams(broker: McpEndpoint) -> AsyncIterator[Any]:
    """A transport to a broker in this process."""
    to_it, heard = anyio.create_memory_object_stream[Any](0)
    outgoing, from_it = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(broker.serve, heard, outgoing)
        yield from_it, to_it
        group.cancel_scope.cancel()


@asynccontextmanager
async def over_socket(path: Path, view: str | None = None) -> AsyncIterator[Any]:
    """A transport to the shared broker, as a relay reaches it."""
    with short_path(path) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=1 << 26)
    writer.write(msgspec.json.encode(BrokerGreeting(view, "test")) + b"\n")
    assert msgspec.json.decode(await reader.readline()) == {"ok": True}
    lines = JsonRpcLines("the broker")
    to_it, going = anyio.create_memory_object_stream[SessionMessage](0)
    coming, from_it = anyio.create_memory_object_stream[Any](0)

    async def up() -> None:
        async for task in going:
            writer.write(lines.encode(task.message))
            await writer.drain()

    async def down() -> None:
        async with coming:
            while line := await reader.readline():
                message = lines.read(line)
                if message is not None:
                    await coming.send(SessionMessage(message))

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(up)
            group.start_soon(down)
            yield from_it, to_it
            group.cancel_scope.cancel()
    finally:
        writer.close()
        for stream in (to_it, going, coming, from_it):
            stream.close()


def over_pipes(*arguments: str, **variables: str) -> Any:
    """A transport to `tertulia mcp-broker` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **variables}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "tertulia", "mcp-broker", *arguments], env=environment
    )
    return stdio_client(command)


@asynccontextmanager
async def client(transport: Any, era: str, **options: Any) -> AsyncIterator[Client]:
    """One that is connected. Nothing takes longer than the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        async with Client(transport, mode=ERAS[era], cache=None, **options) as connected:  # type: ignore[arg-type]
            yield connected


@asynccontextmanager
async def served_to(session: Session, era: str, view: NamedView | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client of one session's servers, over streams."""
    async with (
        open_client_broker(session, view or NamedView(name="all"), "test") as broker,
        client(over_streams(broker), era, **options) as connected,
    ):
        yield connected


def text(result: t.CallToolResult) -> str:
    """The first text of an answer."""
    [first, *_] = [block for block in result.content if block.type == "text"]
    return first.text


def refusal(result: t.CallToolResult) -> dict[str, Any]:
    """What was refused, and why."""
    assert result.is_error, result
    return msgspec.json.decode(text(result))


def alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for does not."""
    return lives(pid)


@contextmanager
def no_process_left(*pids: int) -> Iterator[None]:
    """Nothing of these is left behind, whatever the test came to."""
    try:
        yield
    finally:
        for pid in pids:
            if alive(pid):
                os.kill(pid, 9)
