"""One configured MCP server of a session: how it is started or why it is not, and its tools under their full names."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.pool.live_server import LiveServer
from tertulia.mcp.pool.server_pool import Lease
from tertulia.mcp.server_connection import RemoteTool, ServerStatus
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_names import fqn
from tertulia.protocol.tool_spec import ToolSpec


class ConfiguredServer(msgspec.Struct, frozen=True):
    """A configured server, and how it is started; or why it is not."""

    name: str
    definition: ServerDefinition | None = None
    launch: Launch | None = None
    status: ServerStatus = "starting"
    error: str | None = None
    """Said where it cannot even be tried."""


class ServerReport(msgspec.Struct, frozen=True):
    """A server as people ask about it."""

    name: str
    status: ServerStatus
    error: str | None
    tools: int
    latency_ms: int | None = None
    protocol_version: str | None = None


class CurrentTool(msgspec.Struct, frozen=True):
    """What stands behind a tool's name now."""

    definition: ServerDefinition
    tool: RemoteTool
    digest: str
    shared: str | None = None
    """What the server is called among all sessions that share it; None: this one has it for itself."""


class SessionServer:
    """One configured server of the session."""

    def __init__(self, candidate: ConfiguredServer, lease: Lease | None) -> None:
        self.candidate = candidate
        self.lease = lease
        self.first: ConversationId | None = None
        """Where each conversation has a server of its own: who got the one that was started for its list."""
        self.own: dict[ConversationId, Lease] = {}
        """Those of the others."""
        self.unwatch: Callable[[], None] = _nothing
        """Ends that anybody hears of its changes."""
        self.said: tuple[ServerStatus, str | None] | None = None
        self._tools: tuple[RemoteTool, ...] | None = None
        self._current: dict[str, tuple[ToolSpec, RemoteTool]] = {}
        self._refused: list[str] = []
        self._told: frozenset[str] = frozenset()
        self._amiss: frozenset[str] = frozenset()

    @property
    def server(self) -> LiveServer | None:
        """The one that everybody of the session shares; None where it may not be started."""
        return None if self.lease is None else self.lease.server

    def current(self) -> dict[str, tuple[ToolSpec, RemoteTool]]:
        """By fully qualified name, what it offers now and the configuration lets through."""
        tools = () if self.server is None else self.server.tools
        if tools is not self._tools:
            self._tools = tools
            self._current, self._refused = _specs(self.candidate, tools)
        return self._current

    def news(self) -> list[str]:
        """Which of its tools are left out or cut, and what it sent amiss, as far as that was not given out before."""
        server = self.server
        if server is None:
            return []
        cut = (f"MCP server {self.candidate.name!r}: {warning}" for warning in server.warnings)
        amiss = [f"MCP server {self.candidate.name!r} sent {what}; it was dropped" for what in server.dropped]
        now = [*cut, *self._refused, *amiss]
        known = self._told | self._amiss
        new = [warning for warning in now if warning not in known]
        self._told = frozenset(now)
        # A server that does it does it after every start.
        self._amiss |= frozenset(amiss)
        return new

    def tell_news(self, tell: Callable[[EventData], object]) -> None:
        """Each as a warning."""
        for news in self.news():
            tell(WarningEvent(news, "mcp_server"))

    @property
    def is_absent(self) -> bool:
        """Switched on, and nothing known of its tools."""
        server = self.server
        if server is None:
            return self.candidate.status != "disabled"
        return server.status != "ready" and not server.tools

    def report(self) -> ServerReport:
        """How it is, for people."""
        server, candidate = self.server, self.candidate
        if server is None:
            return ServerReport(candidate.name, candidate.status, candidate.error, 0)
        tools = len(self.current())
        return ServerReport(
            candidate.name, server.status, server.error, tools, server.latency_ms, server.protocol_version
        )

    def release(self) -> None:
        """Nobody of this session uses it any more."""
        for lease in (self.lease, *self.own.values()):
            if lease is not None:
                lease.release()
        self.own.clear()


def _nothing() -> None:
    pass


def _specs(
    candidate: ConfiguredServer, tools: tuple[RemoteTool, ...]
) -> tuple[dict[str, tuple[ToolSpec, RemoteTool]], list[str]]:
    made: dict[str, tuple[ToolSpec, RemoteTool]] = {}
    refused: list[str] = []
    definition = candidate.definition
    for tool in tools:
        if definition is None or not definition.offers(tool.name):
            continue
        try:
            spec = spec_of(candidate.name, tool)
            if spec.name in made:
                raise InvalidParamsError(f"{made[spec.name][1].name!r:.80} has the name {spec.name} already")
        except TertuliaError as error:
            refused.append(f"MCP server {candidate.name!r}: tool {tool.name!r:.80} is left out: {error.message}")
            continue
        made[spec.name] = (spec, tool)
    return made, refused


def spec_of(server: str, tool: RemoteTool) -> ToolSpec:
    """The tool under its full name, sealed with all that its server says of it."""
    return ToolSpec.define(
        fqn(server, tool.name),
        tool.description,
        tool.input_schema,
        source="mcp",
        server=server,
        remote=(tool.name, msgspec.structs.asdict(tool.hints)),
    )
