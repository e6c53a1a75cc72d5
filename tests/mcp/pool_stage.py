"""A pool with a fake server behind it, and what it takes to call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.pool.pooled_server import PooledServer
from tertulia.mcp.pool.server_pool import Connect, Lease, ServerPool
from tertulia.mcp.server_connection import (
    Caller,
    CallResult,
    Elicitation,
    ElicitationResult,
    SamplingRequest,
    SamplingResult,
    ServerStatus,
)
from tertulia.protocol.ids import ConversationId
from tertulia.sandbox.runner import CommandRunner
from tertulia.scheduler.nursery import Nursery
from tertulia.testing.fake_mcp_server import FakeMcpServer, fake_tool
from tests.mcp.virtual_time import LoopClock, threads_ended

ECHO = fake_tool("echo", "Says it again.")
KEY = "0" * 63


def definition(name: str = "fs", **changes: Any) -> ServerDefinition:
    return ServerDefinition(name=name, transport=Stdio(command="server"), **changes)


def launch(number: int = 1) -> Launch:
    return Launch(transport="stdio", argv=("server",), key=f"{KEY}{number:x}")


def caller(name: str = "root") -> Caller:
    async def elicit(request: Elicitation) -> ElicitationResult:
        return ElicitationResult("decline")

    async def sample(request: SamplingRequest) -> SamplingResult:
        raise AssertionError(request)

    return Caller(ConversationId(name), elicit, sample)


async def call(server: PooledServer, tool: str = "echo", **options: Any) -> CallResult:
    options = {"timeout_s": 30.0, "on_progress": lambda *_: None, **options}
    return await server.call(tool, {}, caller(), **options)


def no_runner() -> CommandRunner:
    return None  # type: ignore[return-value] # a fake server runs nothing


class PoolStage:
    """What stands around a pool."""

    def __init__(self, home: Path | None, connect: Connect | None) -> None:
        self.nursery, self.fake = Nursery(), FakeMcpServer([ECHO])
        self.spawned: list[str] = []
        """The name of every task that was started."""
        self.pool = ServerPool(
            spawn=self._spawn, clock=LoopClock(), runner=no_runner, home=home, connect=connect or self.fake.connect
        )

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        self.spawned.append(name)
        return self.nursery.start(work, name)

    def lease(self, scope: str = "session", number: int = 1, **changes: Any) -> Lease:
        return self.pool.lease(definition(**changes), launch(number), scope)

    async def ready(self, **changes: Any) -> PooledServer:
        """A server that runs."""
        server = self.lease(**changes).server
        await server.monitor.wait_until_known()
        assert server.status == "ready", server.error
        return server


@asynccontextmanager
async def pool_stage(*, home: Path | None = None, connect: Connect | None = None) -> AsyncIterator[PoolStage]:
    """Closed at the end, when nothing must be left: no task, no connection, no lease."""
    made = PoolStage(home, connect)
    yield made
    await made.pool.close()
    await threads_ended()
    assert made.fake.open == 0
    assert len(made.nursery) == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


class Told:
    """What a server's listeners hear."""

    def __init__(self, server: PooledServer) -> None:
        self.statuses: list[ServerStatus] = []
        self.errors: list[str | None] = []
        self.unwatch = server.monitor.watch(lambda: self._hear(server))

    def _hear(self, server: PooledServer) -> None:
        self.statuses.append(server.status)
        self.errors.append(server.error)
