"""The MCP servers of one session: leases on the pool, the tools of all of them under one roof, and who is up.

It decides nothing about who may call what: views and tools do. What it gives out is current: a definition is compared
with what the server says now, at the moment of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from tertulia.errors import McpError, NotFoundError
from tertulia.events.clock import Clock
from tertulia.mcp.config.definition import Approval, ServerDefinition
from tertulia.mcp.config.launch import placed
from tertulia.mcp.pool.live_server import LiveServer
from tertulia.mcp.pool.server_pool import ServerPool
from tertulia.mcp.pool.session_server import ConfiguredServer, CurrentTool, ServerReport, SessionServer
from tertulia.mcp.server_connection import Caller, CallResult, OnProgress
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import McpServerStatus
from tertulia.protocol.tool_spec import ToolSpec

GRACE_S = 5.0
"""How long the first turn waits for servers that are starting."""
REFRESH_GRACE_S = 1.0
"""How long a later turn waits for a listing that has run out."""


class SessionServers:
    """Implements `McpManager`."""

    def __init__(self, pool: ServerPool, scope: str, clock: Clock, tell: Callable[[EventData], object]) -> None:
        """`scope`: the session's id. `tell`: publishes what everybody may know."""
        self._pool = pool
        self._scope = scope
        self._clock = clock
        self._tell = tell
        self._members: dict[str, SessionServer] = {}
        self.members: Collection[SessionServer] = self._members.values()
        """All of the session, in whatever state."""
        self._private: dict[ConversationId, dict[str, SessionServer]] = {}
        self.approvals: dict[ConversationId, Approval] = {}
        """What holds for all servers in one conversation, instead of what each of them says."""
        self._listed: dict[ConversationId | None, tuple[ToolSpec, ...]] = {}
        self._listeners: list[Callable[[], None]] = []
        self._grace_until = clock.monotonic() + GRACE_S
        self._closed = False

    # ── who there is ─────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, candidates: Iterable[ConfiguredServer]) -> None:
        """Start all that may be started, all at once; waits for none."""
        self._grace_until = self._clock.monotonic() + GRACE_S
        for candidate in candidates:
            self._members[candidate.name] = self._join(candidate, self._scope)

    def add_private(self, conversation: ConversationId, candidates: Iterable[ConfiguredServer]) -> None:
        """Servers that only one conversation sees. One that is called like the session's own is refused, and said."""
        members = self._private.get(conversation, {})
        for candidate in candidates:
            if candidate.name in self._members:
                self._tell(WarningEvent(f"MCP server {candidate.name!r} is there already; the agent's is left out"))
            elif candidate.name not in members:
                members[candidate.name] = self._join(candidate, conversation)
                self._grace_until = self._clock.monotonic() + GRACE_S
        if members:
            self._private[conversation] = members

    def has_private(self, conversation: ConversationId) -> bool:
        """Whether it has servers that only it sees."""
        return conversation in self._private

    def reports(self) -> list[ServerReport]:
        """All of the session, by name."""
        return [self._members[name].report() for name in sorted(self._members)]

    def list_tools(self, conversation: ConversationId | None = None) -> tuple[ToolSpec, ...]:
        """Every tool by name; the same object while nothing changes."""
        key = conversation if conversation in self._private else None
        listed = self._listed.get(key)
        if listed is None:
            members = (*self._members.values(), *self._private.get(key or ConversationId(""), {}).values())
            specs = [spec for member in members for spec, _ in member.current().values()]
            listed = self._listed[key] = tuple(sorted(specs, key=lambda s: (s.name, s.server or "", s.digest)))
        return listed

    def absent(self) -> Collection[str]:
        """Configured and switched on, and nothing known of their tools."""
        return [name for name, member in self._members.items() if member.is_absent]

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have it called whenever a server's state or tools changed; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def reached_from(self, conversation: ConversationId) -> ConversationServers:
        """The servers as one conversation reaches them."""
        return ConversationServers(self, conversation, self._tell)

    # ── what is done with them ───────────────────────────────────────────────────────────────────────────────

    async def settle(self) -> None:
        """Until no server is starting, within what is left of the grace since the session began."""
        servers = [s for s in self._servers() if s.status == "starting"]
        left = self._grace_until - self._clock.monotonic()
        if servers and left > 0:
            await _within(left, [server.settled() for server in servers])

    async def require(self) -> None:
        """Until those are up without which the session must not start; McpError for the first that is not."""
        required = [m for m in self._members.values() if m.candidate.definition and m.candidate.definition.required]
        for member in required:
            if member.server is not None:
                await member.server.settled()
            report = member.report()
            if report.status not in ("ready", "stopped"):
                raise McpError(f"MCP server {report.name!r} is required and {report.status}: {report.error}")

    async def catch_up(self) -> None:
        """Ask those again whose list has run out, within a moment; one that does not answer keeps its old list."""
        now = self._clock.monotonic()
        stale = [server for server in self._servers() if server.stale(now)]
        if stale:
            await _within(REFRESH_GRACE_S, [_refresh(server) for server in stale])

    async def refresh(self, names: Collection[str] | None = None) -> None:
        """Have these, or all, list their tools again, and start those anew that failed; NotFound for another name."""
        for name in names or ():
            if name not in self._members:
                raise NotFoundError(
                    f"there is no MCP server {name[:80]!r}; there is {', '.join(sorted(self._members))}"
                )
        wanted = self._members if names is None else {name: self._members[name] for name in names}
        await asyncio.gather(*(_refresh(m.server) for m in wanted.values() if m.server is not None))

    async def forget(self, conversation: ConversationId) -> None:
        """A conversation is closed: whatever server was its own ends with it."""
        self.approvals.pop(conversation, None)
        private = self._private.pop(conversation, {})
        for member in private.values():
            member.release()
        self._listed.pop(conversation, None)
        own = [lease for m in self._members.values() if (lease := m.own.pop(conversation, None)) is not None]
        for lease in own:
            lease.release()
        firsts = [member for member in self._members.values() if member.first == conversation]
        for member in firsts:
            member.first = None
        # What it offers stays known, and the next conversation that calls it has it started anew.
        await asyncio.gather(*(member.server.stop() for member in firsts if member.server is not None))
        if private or own:
            await self._pool.end(conversation)
        for member in private.values():
            member.unwatch()

    async def close(self, timeout_s: float) -> None:
        """The session is closed: nothing is used any more, and what was only its own ends. Twice does no harm."""
        self._closed = True
        scopes = {self._scope, *self._private, *(own for member in self._members.values() for own in member.own)}
        for members in (self._members, *self._private.values()):
            for member in members.values():
                member.unwatch()
                member.release()
        await asyncio.gather(*(self._pool.end(scope, timeout_s) for scope in scopes))

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    def _join(self, candidate: ConfiguredServer, scope: str) -> SessionServer:
        definition, launch = candidate.definition, candidate.launch
        if definition is None or launch is None:
            member = SessionServer(candidate, None)
        else:
            lease = self._pool.lease(definition, launch, _scope(definition, scope))
            member = SessionServer(candidate, lease)
            member.unwatch = lease.server.watch(lambda server: self._heard(member))
        self._heard(member)
        return member

    def _heard(self, member: SessionServer) -> None:
        """Something changed: lists are made anew when they are asked for, and news is told once."""
        self._listed.clear()
        for listener in list(self._listeners):
            listener()
        if self._closed:
            return
        report = member.report()
        if member.said != (report.status, report.error):
            member.said = (report.status, report.error)
            self._tell(McpServerStatus(report.name, report.status, report.error))
        member.tell_news(self._tell)

    def _servers(self) -> Iterator[LiveServer]:
        for members in (self._members, *self._private.values()):
            for member in members.values():
                if member.server is not None:
                    yield member.server

    def member(self, name: str, conversation: ConversationId) -> SessionServer:
        """The server of that name as this conversation knows it; McpError."""
        member = self._private.get(conversation, {}).get(name) or self._members.get(name)
        if member is None:
            raise McpError(f"there is no MCP server {name!r} any more")
        return member

    def server_for(
        self, member: SessionServer, conversation: ConversationId, workspace: str | None = None
    ) -> LiveServer:
        """The one that answers this conversation: everybody's, or its own; McpError where it may not be started.

        A server that goes by the client's roots is shared only by conversations that work in one place.
        """
        definition, launch, server = member.candidate.definition, member.candidate.launch, member.server
        if definition is None or launch is None or server is None:
            raise McpError(
                f"MCP server {member.candidate.name!r} is {member.candidate.status}: {member.candidate.error}"
            )
        here = placed(launch, definition, workspace)
        if definition.share != "conversation":
            if here is launch or not (server.asked_roots or conversation in member.own):
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


class ConversationServers:
    """The servers as one conversation reaches them: whatever is only its own comes first."""

    __slots__ = ("_conversation", "_servers", "_tell")

    def __init__(
        self, servers: SessionServers, conversation: ConversationId, tell: Callable[[EventData], object]
    ) -> None:
        self._servers = servers
        self._conversation = conversation
        self._tell = tell

    def current(self, spec: ToolSpec) -> CurrentTool:
        """What stands behind that name now; McpError where there is nothing, or no such server."""
        member = self._servers.member(spec.server or "", self._conversation)
        found = member.current().get(spec.name)
        definition = member.candidate.definition
        if found is None or definition is None or found[0].remote_name != spec.remote_name:
            raise McpError(f"MCP server {spec.server!r} has no tool {spec.remote_name!r:.80} any more")
        approval = self._servers.approvals.get(self._conversation)
        if approval is not None:
            definition = replace(definition, approval=approval)
        launch = member.candidate.launch if definition.share == "host" else None
        return CurrentTool(definition, found[1], found[0].digest, None if launch is None else launch.key)

    async def call(
        self,
        spec: ToolSpec,
        arguments: dict[str, Any],
        caller: Caller,
        *,
        timeout_s: float,
        on_progress: OnProgress,
    ) -> CallResult:
        """One call of the tool as it is now; a server that has to be started first must then offer the same."""
        now = self.current(spec)
        member = self._servers.member(spec.server or "", self._conversation)
        server = self._servers.server_for(member, self._conversation, caller.workspace)
        try:
            return await server.call(
                now.tool.name, arguments, caller, timeout_s=timeout_s, on_progress=on_progress, pinned=now.tool
            )
        finally:
            member.tell_news(self._tell)


def _scope(definition: ServerDefinition, scope: str) -> str:
    return "" if definition.share == "host" else scope


async def _within(seconds: float, work: list[Any]) -> None:
    """Wait for all of it, but not longer; what is not done goes on without us."""
    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(each) for each in work]
        await asyncio.wait(jobs, timeout=seconds)
        for job in jobs:
            job.cancel()


async def _refresh(server: LiveServer) -> None:
    try:
        await server.refresh()
    except McpError:
        # It keeps its old list, and its status says why.
        return


IDLE_CHECK_EVERY_S = 30.0


class IdleServers:
    """Notes since when nobody sees a server. What other sessions share is not for one session to stop."""

    def __init__(self, members: Collection[SessionServer], clock: Clock, is_seen: Callable[[str], bool]) -> None:
        """`is_seen`: whether any conversation sees a tool of the server of that name."""
        self._members = members
        self._clock = clock
        self._is_seen = is_seen
        self._unseen: dict[str, float] = {}

    async def watch(self, every_s: float = IDLE_CHECK_EVERY_S) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await self.stop_unseen()

    async def stop_unseen(self) -> None:
        """Those whose time is over."""
        now = self._clock.monotonic()
        for member in self._members:
            name, definition, server = member.candidate.name, member.candidate.definition, member.server
            if definition is None or server is None or definition.idle_timeout_s is None or definition.share == "host":
                continue
            if server.calls or self._is_seen(name):
                self._unseen.pop(name, None)
            elif now - self._unseen.setdefault(name, now) >= definition.idle_timeout_s and server.status == "ready":
                await server.stop()
