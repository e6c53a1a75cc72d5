"""One configured MCP server of a session: how it is started or why it is not, and its tools under their full names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from tertulia.errors import InvalidParamsError, McpError, TertuliaError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.pool.pooled_server import PooledServer
from tertulia.mcp.pool.server_pool import Lease
from tertulia.mcp.pool.server_statistics import ServerFigures, figures_of
from tertulia.mcp.pool.server_status import ServerReport
from tertulia.mcp.server_connection import RemoteTool, ServerStatus
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import McpServerStatus, server_status_text
from tertulia.protocol.tool_spec import ToolSpec, fqn


class ConfiguredServer(msgspec.Struct, frozen=True):
    """A configured server, and how it is started; or why it is not."""

    name: str
    definition: ServerDefinition | None = None
    launch: Launch | None = None
    status: ServerStatus = "starting"
    error: str | None = None
    """Why it cannot be started."""


class CurrentTool(msgspec.Struct, frozen=True):
    """A tool as its server defines it now, whatever a view has pinned."""

    definition: ServerDefinition
    """The definition of its server."""
    tool: RemoteTool
    """Under the server's own name for it."""
    digest: str
    """Comparable with the digest of a `ToolSpec`."""
    shared: str | None = None
    """The name of the server among all sessions of the host that share it; None: it is not shared with others."""


class SessionServer:
    """One configured server of the session: its lease on the pool, and the leases of conversations of their own."""

    def __init__(self, configured: ConfiguredServer, lease: Lease | None) -> None:
        self.configured = configured
        self.name = configured.name
        self.lease = lease
        self.first: ConversationId | None = None
        """With `share = "conversation"`: the conversation that uses the server which was started for its list."""
        self.own: dict[ConversationId, Lease] = {}
        """The servers of the other conversations."""
        self.users: dict[ConversationId, None] = {}
        """The conversations that have called it and are open, in that order."""
        self.refused: dict[str, str] = {}
        """Tools that cannot be offered, by the server's own names for them, and why."""
        self._unwatch: Callable[[], None] = _nothing
        self._published: tuple[ServerStatus, str | None] | None = None
        self._tools: tuple[RemoteTool, ...] | None = None
        self._current: dict[str, tuple[ToolSpec, RemoteTool]] = {}
        self._warned: frozenset[str] = frozenset()
        self._warned_dropped: frozenset[str] = frozenset()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this whenever the server's status or tools have changed, until `unwatch`."""
        if self.lease is not None:
            self._unwatch = self.lease.server.monitor.watch(changed)

    def unwatch(self) -> None:
        """Call the listener no more. Idempotent."""
        self._unwatch()

    @property
    def server(self) -> PooledServer | None:
        """The server that the conversations of the session share; None where it may not be started."""
        return None if self.lease is None else self.lease.server

    def startable(self) -> tuple[ServerDefinition, Launch, PooledServer]:
        """The definition, the launch and the server; McpError where it may not be started."""
        configured, server = self.configured, self.server
        if configured.definition is None or configured.launch is None or server is None:
            raise McpError(server_status_text(self.name, configured.status, configured.error))
        return configured.definition, configured.launch, server

    def tools(self) -> dict[str, tuple[ToolSpec, RemoteTool]]:
        """By fully qualified name, the tools that it offers now and the configuration lets through."""
        tools = () if self.server is None else self.server.tools
        if tools is not self._tools:
            self._tools = tools
            self._current, self.refused = _specs(self.configured, tools)
        return self._current

    @property
    def is_absent(self) -> bool:
        """Switched on, and its tools are not known."""
        server = self.server
        if server is None:
            return self.configured.status != "disabled"
        return server.status != "ready" and not server.tools

    def report(self) -> ServerReport:
        """Its status as clients see it."""
        server, configured = self.server, self.configured
        if server is None:
            return ServerReport(self.name, configured.status, configured.error, 0)
        version = None if server.connection is None else server.connection.protocol_version
        latency_ms = server.tool_cache.latency_ms
        return ServerReport(self.name, server.status, server.error, len(self.tools()), latency_ms, version)

    def processes(self) -> Iterator[PooledServer]:
        """The servers of the pool that run for it: the shared one, and those of single conversations."""
        return (lease.server for lease in (self.lease, *self.own.values()) if lease is not None)

    def figures(self) -> ServerFigures:
        """What was counted of them."""
        return figures_of(server.statistics for server in self.processes())

    def publish_status(self, publish: Callable[[EventData], object]) -> None:
        """Publish the status if it is another than last time, and new warnings."""
        report = self.report()
        if self._published != (report.status, report.error):
            self._published = (report.status, report.error)
            publish(McpServerStatus(report.name, report.status, report.error))
        self.publish_warnings(publish)

    def publish_warnings(self, publish: Callable[[EventData], object]) -> None:
        """Publish each of `new_warnings` as an event."""
        for warning in self.new_warnings():
            publish(WarningEvent(warning, "mcp_server"))

    def new_warnings(self) -> list[str]:
        """Which tools are left out or cut, and what the server sent that was dropped; each only once."""
        server = self.server
        if server is None:
            return []
        cut = [f"MCP server {self.name!r}: {warning}" for warning in server.tool_cache.toolset.warnings]
        kinds = () if server.connection is None else tuple(server.connection.dropped)
        dropped = [f"MCP server {self.name!r} sent {kind}; it was dropped" for kind in kinds]
        left_out = [
            f"MCP server {self.name!r}: tool {tool!r} is left out: {because}" for tool, because in self.refused.items()
        ]
        warnings = [*cut, *left_out, *dropped]
        before = self._warned | self._warned_dropped
        self._warned = frozenset(warnings)
        # A server that does it does it after every start.
        self._warned_dropped |= frozenset(dropped)
        return [warning for warning in warnings if warning not in before]

    def release(self) -> None:
        """Give back all leases of the session on it."""
        for lease in (self.lease, *self.own.values()):
            if lease is not None:
                lease.release()
        self.own.clear()


def _nothing() -> None:
    pass


def _specs(
    configured: ConfiguredServer, tools: tuple[RemoteTool, ...]
) -> tuple[dict[str, tuple[ToolSpec, RemoteTool]], dict[str, str]]:
    specs: dict[str, tuple[ToolSpec, RemoteTool]] = {}
    refused: dict[str, str] = {}
    definition = configured.definition
    for tool in tools:
        if definition is None or not definition.offers(tool.name):
            continue
        try:
            spec = spec_of(configured.name, tool)
            if spec.name in specs:
                raise InvalidParamsError(f"{specs[spec.name][1].name!r:.80} has the name {spec.name} already")
        except TertuliaError as error:
            refused[tool.name[:80]] = error.message
            continue
        specs[spec.name] = (spec, tool)
    return specs, refused


def spec_of(server: str, tool: RemoteTool) -> ToolSpec:
    """The tool under its full name, with a digest of all that its server says of it."""
    return ToolSpec.define(
        fqn(server, tool.name),
        tool.description,
        tool.input_schema,
        source="mcp",
        server=server,
        remote=(tool.name, msgspec.structs.asdict(tool.hints)),
    )
