"""What the tests of MCP tools share: servers in memory, somebody who answers, and calls with rights of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.errors import McpError, NoApproverError
from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.rate_limiter import FairLimiter
from tertulia.mcp.server_connection import (
    Caller,
    CallResult,
    Elicitation,
    ElicitationResult,
    OnProgress,
    RemoteTool,
    SamplingRequest,
    SamplingResult,
    ToolHints,
)
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.limits import NO_LIMITS, Limits
from tertulia.policy.rights import TOP
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.protocol.tool_spec import ToolSpec, fqn
from tertulia.tools.mcp_tool import McpCallServices, McpTool
from tertulia.tools.tool import CallContext, ChainView
from tests.deadlines import HANG_S
from tests.tools.calling import HandClock

DEFINITION = ServerDefinition(name="fs", transport=Stdio(command="fs-server"))
READING = RemoteTool("read", "Read a file.", {"type": "object"}, hints=ToolHints(read_only=True, destructive=False))
WRITING = RemoteTool("write", "Write a file.", {"type": "object"})
REPEATABLE = RemoteTool("set", "Set a value.", {"type": "object"}, hints=ToolHints(destructive=False, idempotent=True))
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def spec_of(tool: RemoteTool, server: str = "fs") -> ToolSpec:
    return ToolSpec.define(
        fqn(server, tool.name),
        tool.description,
        tool.input_schema,
        source="mcp",
        server=server,
        remote=(tool.name, msgspec.structs.asdict(tool.hints)),
    )


class Now(msgspec.Struct):
    definition: ServerDefinition
    tool: RemoteTool
    digest: str
    shared: str | None = None


Act = Callable[[dict[str, Any], Caller, OnProgress], Awaitable[CallResult]]


async def _answer(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
    return CallResult("done")


class StubServers:
    """One server, whose definition a test may change at any moment."""

    def __init__(self, definition: ServerDefinition = DEFINITION, act: Act = _answer) -> None:
        self.definition = definition
        self.tools = {tool.name: tool for tool in (READING, WRITING, REPEATABLE)}
        self.up = True
        self.act = act
        self.calls: list[dict[str, Any]] = []
        self.timeouts: list[float] = []

    def current(self, spec: ToolSpec, conversation: ConversationId) -> Now:
        tool = self.tools.get(spec.remote_name or "")
        if not self.up or tool is None:
            raise McpError(f"the MCP server {spec.server} is not there")
        return Now(self.definition, tool, spec_of(tool, self.definition.name).digest)

    async def call(
        self, spec: ToolSpec, arguments: dict[str, Any], caller: Caller, *, timeout_s: float, on_progress: OnProgress
    ) -> CallResult:
        self.calls.append(arguments)
        self.timeouts.append(timeout_s)
        return await self.act(arguments, caller, on_progress)


class StubAsker:
    """Answers a server's questions as a test says."""

    def __init__(self) -> None:
        self.elicit: Callable[[Elicitation], Awaitable[ElicitationResult]] = self._refuse
        self.sample: Callable[[SamplingRequest], Awaitable[SamplingResult]] = self._refuse

    def caller(self, definition: ServerDefinition, call: CallContext) -> Caller:
        return Caller(call.conversation_id, self.elicit, self.sample)

    @staticmethod
    async def _refuse(what: object) -> Any:
        raise NoApproverError("nobody is here")


class Bench:
    """A tool, all that it works with, and all that was told."""

    def __init__(
        self,
        tool: RemoteTool = READING,
        *,
        act: Act = _answer,
        ceiling: Limits = NO_LIMITS,
        attended: bool = True,
        timeout_s: float = 30.0,
        **definition: Any,
    ) -> None:
        self.clock = HandClock()
        self.servers = StubServers(replace(DEFINITION, **definition), act)
        self.approvals = ApprovalQueue(self.clock)
        self.limiter = FairLimiter(self.clock, ceiling=ceiling)
        self.asker = StubAsker()
        self.told: list[EventData] = []
        self._news = asyncio.Event()
        spec = spec_of(tool, self.servers.definition.name)
        services = McpCallServices(self.servers, self.approvals, self.limiter, self.asker, timeout_s)  # type: ignore[arg-type]
        self.tool = McpTool(spec, ConversationId("a"), services)
        self._presence = self.approvals.attended()
        if attended:
            self._presence.__enter__()

    def publish(self, event: EventData) -> None:
        self.told.append(event)
        self._news.set()

    def call(self, *, conversation: str = "a", callers: tuple[str, ...] = (), **rights: Any) -> CallContext:
        return CallContext(
            conversation_id=ConversationId(conversation),
            task_id=TaskId("task"),
            call_id=CallId("call-1"),
            cwd="/w",
            rights=replace(TOP, **rights),
            publish=self.publish,
            clock=self.clock,
            chain=ChainView(callers=tuple(map(ConversationId, callers))),
        )

    async def run(self, arguments: dict[str, Any] | None = None, **context: Any) -> Any:
        values, call = arguments or {}, self.call(**context)
        self.tool.check(values, call)
        async with asyncio.timeout(HANG_S):
            return await self.tool.run(values, call)

    def begin(self, arguments: dict[str, Any] | None = None, **context: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(self.run(arguments, **context))

    async def asked(self) -> ApprovalRequest:
        """The request that waits, as soon as there is one."""
        await self.until(lambda: bool(self.approvals.pending()))
        return self.approvals.pending()[-1]

    async def until(self, there: Callable[[], bool]) -> None:
        async with asyncio.timeout(HANG_S):
            while not there():
                self._news.clear()
                await self._news.wait()

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.told]
