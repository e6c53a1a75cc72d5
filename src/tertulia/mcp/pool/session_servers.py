"""The MCP servers of one session: their leases on the pool, the tools of all of them in one list, and their status.

It does not decide which conversation may call what: views and tools do. A tool's definition is compared with what the
server says at the moment of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from tertulia.errors import McpError, NotFoundError
from tertulia.events.clock import Clock
from tertulia.mcp.config.definition import Approval, ServerDefinition
from tertulia.mcp.config.launch import placed
from tertulia.mcp.pool.pooled_server import PooledServer
from tertulia.mcp.pool.server_pool import ServerPool
from tertulia.mcp.pool.server_status import ServerReport
from tertulia.mcp.pool.session_server import ConfiguredServer, CurrentTool, SessionServer
from tertulia.mcp.pool.startup_wait import LateServers, StartupWait, within
from tertulia.mcp.server_connection import Caller, CallResult, OnProgress
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_spec import ToolSpec

GRACE_S = 5.0
"""How long the first turn waits for servers that are starting."""
REFRESH_GRACE_S = 1.0
"""How long a turn waits for the listing of a server whose tools are known already, and may have changed."""


class SessionServers:
    """The servers of all conversations of the session, and those that only one conversation has.

    Implements `McpManager`.
    """

    def __init__(self, pool: ServerPool, scope: str, clock: Clock, publish: Callable[[EventData], object]) -> None:
        """`scope`: the id of the session, for leases."""
        self._pool = pool
        self._scope = scope
        self._clock = clock
        self._publish = publish
        self._members: dict[str, SessionServer] = {}
        self.members: Collection[SessionServer] = self._members.values()
        """Those that all conversations may see, in any state."""
        self._private: dict[ConversationId, dict[str, SessionServer]] = {}
        self.approvals: dict[ConversationId, Approval] = {}
        """The approval setting for all servers in one conversation, in place of that of each server."""
        self._listed: dict[ConversationId | None, tuple[ToolSpec, ...]] = {}
        self._listeners: list[Callable[[], None]] = []
        self._startup = StartupWait(self._all_members, clock, publish, LateServers(pool.home))
        self._startup.grace_until = clock.monotonic() + GRACE_S
        self.settle = self._startup.settle
        self.require = self._startup.require
        self._closed = False

    # ── members and their tools ─────────────────────────────────────────────────────────────────────────────

    def begin(self, servers: Iterable[ConfiguredServer]) -> None:
        """Start all that may be started, side by side; waits for none."""
        self._startup.grace_until = self._clock.monotonic() + GRACE_S
        for configured in servers:
            self._members[configured.name] = self._join(configured, self._scope)

    def add_private(self, conversation: ConversationId, servers: Iterable[ConfiguredServer]) -> None:
        """Add servers that only one conversation sees. One with the name of a session's server is left out, with a
        warning.
        """
        members = self._private.get(conversation, {})
        for configured in servers:
            name = configured.name
            if name in self._members:
                self._publish(WarningEvent(f"MCP server {name!r} is there already; the agent's is left out"))
            elif name not in members:
                members[name] = self._join(configured, conversation)
                self._startup.grace_until = self._clock.monotonic() + GRACE_S
        if members:
            self._private[conversation] = members

    def has_private(self, conversation: ConversationId) -> bool:
        """Whether the conversation has servers that only it sees."""
        return conversation in self._private

    def reports(self) -> list[ServerReport]:
        """The status of every server of the session, by name."""
        return [self._members[name].report() for name in sorted(self._members)]

    def list_tools(self, conversation: ConversationId | None = None) -> tuple[ToolSpec, ...]:
        """Every tool by name; the same object while nothing changes."""
        key = conversation if conversation in self._private else None
        listed = self._listed.get(key)
        if listed is None:
            members = (*self._members.values(), *self._private.get(key or ConversationId(""), {}).values())
            specs = [spec for member in members for spec, _ in member.tools().values()]
            listed = self._listed[key] = tuple(sorted(specs, key=lambda s: (s.name, s.server or "", s.digest)))
        return listed

    def absent(self) -> Collection[str]:
        """Names of servers that are switched on and whose tools are not known."""
        return [name for name, member in self._members.items() if member.is_absent]

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever a server's status or tools have changed; returns a function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def current(self, spec: ToolSpec, conversation: ConversationId) -> CurrentTool:
        """The tool as its server defines it now; McpError where this conversation has no such tool or server."""
        member = self.member(spec.server or "", conversation)
        offered = member.tools().get(spec.name)
        definition = member.configured.definition
        if offered is None or definition is None or offered[0].remote_name != spec.remote_name:
            raise McpError(f"MCP server {spec.server!r} has no tool {spec.remote_name!r:.80} any more")
        approval = self.approvals.get(conversation)
        if approval is not None:
            definition = replace(definition, approval=approval)
        launch = member.configured.launch if definition.share == "host" else None
        return CurrentTool(definition, offered[1], offered[0].digest, None if launch is None else launch.key)

    async def call(
        self,
        spec: ToolSpec,
        arguments: dict[str, Any],
        caller: Caller,
        *,
        timeout_s: float,
        on_progress: OnProgress,
    ) -> CallResult:
        """Call the tool as it is defined now; a server that has to be started first must define it the same way."""
        tool = self.current(spec, caller.conversation_id).tool
        member = self.member(spec.server or "", caller.conversation_id)
        server = self._server_for(member, caller.conversation_id, caller.workspace)
        member.users[caller.conversation_id] = None
        try:
            return await server.call(
                tool.name, arguments, caller, timeout_s=timeout_s, on_progress=on_progress, pinned=tool
            )
        finally:
            member.publish_warnings(self._publish)

    def member(self, name: str, conversation: ConversationId) -> SessionServer:
        """The server of that name that this conversation sees, its own before the session's; McpError for none."""
        member = self._private.get(conversation, {}).get(name) or self._members.get(name)
        if member is None:
            raise McpError(f"there is no MCP server {name!r} any more")
        return member

    # ── waiting, refreshing, ending ─────────────────────────────────────────────────────────────────────────

    def absence(self, tool: str, conversation: ConversationId) -> McpError | None:
        """Why a tool is not there that would belong to a server which this conversation has; None for any other."""
        members = {**self._members, **self._private.get(conversation, {})}
        owners = [name for name in members if tool.startswith(f"{name}__")]
        if not owners:
            return None
        member = members[max(owners, key=len)]
        if (why := _absence_text(member, tool)) is None:
            return None
        return McpError(f"MCP server {member.name!r} {why}", server=member.name, reason="not_started")

    async def catch_up(self) -> None:
        """List the tools of servers whose list has expired; without an answer within a second the old list stays."""
        now = self._clock.monotonic()
        stale = [server for server in _pooled(self._members, *self._private.values()) if server.is_stale(now)]
        if stale:
            await within(REFRESH_GRACE_S, [_refresh(server) for server in stale])

    async def refresh(self, names: Collection[str] | None = None) -> None:
        """List the tools of these servers, or of all, again; starts those that failed. NotFoundError for another."""
        for name in names or ():
            if name not in self._members:
                raise NotFoundError(
                    f"there is no MCP server {name[:80]!r}; there is {', '.join(sorted(self._members))}"
                )
        wanted = self._members if names is None else {name: self._members[name] for name in names}
        await asyncio.gather(*(_refresh(m.server) for m in wanted.values() if m.server is not None))

    async def forget(self, conversation: ConversationId) -> None:
        """A conversation is closed: the servers that only it used end."""
        self.approvals.pop(conversation, None)
        private = self._private.pop(conversation, {})
        for member in private.values():
            member.release()
        self._listed.pop(conversation, None)
        own = [lease for m in self._members.values() if (lease := m.own.pop(conversation, None)) is not None]
        for lease in own:
            lease.release()
        for member in self._members.values():
            member.users.pop(conversation, None)
        firsts = [member for member in self._members.values() if member.first == conversation]
        for member in firsts:
            member.first = None
        # Its tools stay known; the next conversation that calls it starts it again.
        await asyncio.gather(*(member.server.stop() for member in firsts if member.server is not None))
        if private or own:
            await self._pool.end(conversation)
        for member in private.values():
            member.unwatch()

    async def close(self, timeout_s: float) -> None:
        """The session is closed: its leases are given back, and servers that only it used end. Idempotent."""
        self._closed = True
        scopes = {self._scope, *self._private, *(own for member in self._members.values() for own in member.own)}
        for members in (self._members, *self._private.values()):
            for member in members.values():
                member.unwatch()
                member.release()
        await asyncio.gather(*(self._pool.end(scope, timeout_s) for scope in scopes))

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    def _all_members(self) -> list[SessionServer]:
        return [member for group in (self._members, *self._private.values()) for member in group.values()]

    def _join(self, configured: ConfiguredServer, scope: str) -> SessionServer:
        definition, launch = configured.definition, configured.launch
        if definition is None or launch is None:
            member = SessionServer(configured, None)
        else:
            lease = self._pool.lease(definition, launch, _scope(definition, scope))
            member = SessionServer(configured, lease)
            member.watch(lambda: self._changed(member))
        self._changed(member)
        return member

    def _changed(self, member: SessionServer) -> None:
        """Status or tools have changed: lists are made again when they are next asked for."""
        self._listed.clear()
        for listener in list(self._listeners):
            listener()
        if self._closed:
            return
        member.publish_status(self._publish)
        self._startup.note(member)

    def _server_for(
        self, member: SessionServer, conversation: ConversationId, workspace: str | None = None
    ) -> PooledServer:
        """The server that answers this conversation: the shared one, or its own; McpError where it may not be started.

        A server that asks for the client's roots is shared only by conversations with the same workspace.
        """
        definition, launch, server = member.startable()
        here = placed(launch, definition, workspace)
        if definition.share != "conversation":
            if here is launch or not (_asked_roots(server) or conversation in member.own):
                return server
            scope = _scope(definition, self._scope)
        else:
            if here is launch:
                member.first = member.first or conversation
            if member.first == conversation:
                return server
            scope = conversation
        own = member.own.get(conversation)
        if own is None or own.server.key != here.key:
            member.own[conversation] = self._pool.lease(definition, here, scope)
            if own is not None:
                own.release()
        return member.own[conversation].server


def _pooled(*groups: Mapping[str, SessionServer]) -> Iterator[PooledServer]:
    """The servers of the pool that these members use."""
    return (member.server for members in groups for member in members.values() if member.server is not None)


def _absence_text(member: SessionServer, tool: str) -> str | None:
    report = member.report()
    match report.status:
        case "starting":
            return "is still starting; its tools join at the next task, once it is ready"
        case "ready":
            return "became ready after this task began; its tools join at the next" if tool in member.tools() else None
        case "stopped" | "disabled" if report.error is None:
            return f"is {report.status}"
        case "failed":
            return f"has failed: {report.error}"
        case status:
            return f"is {status}: {report.error}"


def _asked_roots(server: PooledServer) -> bool:
    return server.connection is not None and server.connection.asked_roots


def _scope(definition: ServerDefinition, scope: str) -> str:
    return "" if definition.share == "host" else scope


async def _refresh(server: PooledServer) -> None:
    try:
        await server.refresh()
    except McpError:
        # It keeps its old tools, and its status says why.
        return


IDLE_CHECK_EVERY_S = 30.0


class IdleServers:
    """Stops servers that no conversation has seen for their idle timeout; never those that other sessions share."""

    def __init__(self, members: Collection[SessionServer], clock: Clock, is_seen: Callable[[str], bool]) -> None:
        """`is_seen`: whether any conversation sees a tool of the server of that name."""
        self._members = members
        self._clock = clock
        self._is_seen = is_seen
        self._unseen: dict[str, float] = {}

    async def watch(self, every_s: float = IDLE_CHECK_EVERY_S) -> None:
        """Call `stop_unseen` every so often, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await self.stop_unseen()

    async def stop_unseen(self) -> None:
        """Stop the servers whose idle timeout is over."""
        now = self._clock.monotonic()
        for member in self._members:
            name, definition, server = member.name, member.configured.definition, member.server
            if definition is None or server is None or definition.idle_timeout_s is None or definition.share == "host":
                continue
            if server.calls or self._is_seen(name):
                self._unseen.pop(name, None)
            elif now - self._unseen.setdefault(name, now) >= definition.idle_timeout_s and server.status == "ready":
                await server.stop()
