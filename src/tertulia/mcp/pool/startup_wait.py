"""Waiting for the MCP servers of a session to start, within bounds, and telling what is waited for.

A server that is not ready in time joins later: the session goes on without it, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tertulia.errors import McpError, StorageError
from tertulia.events.clock import Clock
from tertulia.mcp.pool.session_server import SessionServer
from tertulia.policy.private_file import PrivateFile, VersionedContent
from tertulia.protocol.events import BackgroundEvent, EventData, WarningEvent

SILENT_S = 1.0
"""How long to wait for all servers before that is told, and for those whose tools are known from an earlier run."""
USUAL = 2
"""After so many runs in a row a server is known to be late."""
_MAX_SERVERS = 200
_FILE = "mcp-late.json"


class _LateCounts(VersionedContent, frozen=True):
    servers: dict[str, int] = msgspec.field(default_factory=dict)
    """In how many runs in a row each was late, by its key; the latest stands last."""


class LateServers:
    """Which servers were not ready in time, run after run: a server that hangs must not delay every run.

    A small file in the data directory, with a count for each server by the digest of its launch. A server that is
    defined otherwise, or becomes ready, begins again. Where the file cannot be read or written, nothing is known.
    """

    def __init__(self, home: Path | None) -> None:
        """`home` None: nothing is stored."""
        self._file = None if home is None else PrivateFile(home / _FILE, _LateCounts)

    def is_usual(self, key: str) -> bool:
        """Whether the server was late in all of the last runs."""
        return self._counts().get(key, 0) >= USUAL

    def add(self, keys: Collection[str]) -> None:
        """These servers were late in this run."""
        counts = self._counts()
        late = {key: counts.get(key, 0) + 1 for key in keys}
        self._write({**{key: count for key, count in counts.items() if key not in late}, **late})

    def forget(self, key: str) -> None:
        """The server became ready, sooner or later."""
        counts = self._counts()
        if counts.pop(key, None) is not None:
            self._write(counts)

    def _counts(self) -> dict[str, int]:
        if self._file is None:
            return {}
        try:
            return self._file.load().servers
        except (OSError, ValueError):
            return {}

    def _write(self, counts: dict[str, int]) -> None:
        if self._file is None:
            return
        newest = list(counts.items())[-_MAX_SERVERS:]
        # Two runs that end at once may lose a count of one of them; it is not worth more.
        with suppress(StorageError), self._file.locked():
            self._file.write(_LateCounts(servers=dict(newest)))


class StartupWait:
    """For the servers of one session."""

    def __init__(
        self,
        members: Callable[[], Sequence[SessionServer]],
        clock: Clock,
        publish: Callable[[EventData], object],
        earlier: LateServers,
    ) -> None:
        """`earlier`: which servers were late in earlier runs."""
        self._members = members
        self._clock = clock
        self._publish = publish
        self._earlier = earlier
        self.grace_until = 0.0
        """Until when turns wait for servers that are starting, by the monotonic clock."""
        self._late: set[str] = set()
        """Servers that were reported as not ready."""

    async def settle(self) -> None:
        """Wait until no server starts for the first time, but not beyond `grace_until`.

        It is told which are waited for, and then which were not ready. A server that has failed before is not waited
        for, and only for a moment one whose tools are known from an earlier run, or that was late in all of the last.
        """
        left = self.grace_until - self._clock.monotonic()
        if left > 0:
            await self._wait(self._starting(), min(left, SILENT_S))
            # A call of a tool that is known from an earlier run waits for its server itself.
            unknown = [member for member in self._starting() if member.is_absent and not self._is_usually_late(member)]
            await self._wait(unknown, left - SILENT_S, notice="")
        self._report([m for m in self._starting() if m.is_absent and m.name not in self._late])

    async def require(self) -> None:
        """Wait for the servers that are `required`; McpError for the first that does not start."""
        required = [m for m in self._members() if m.configured.definition and m.configured.definition.required]
        await self._wait(_still_starting(required), SILENT_S)
        longest = max((m.startable()[0].startup_timeout_s for m in _still_starting(required)), default=0.0)
        await self._wait(_still_starting(required), longest, notice=", which must be there (required = true)")
        for member in required:
            if member.server is not None:
                await member.server.monitor.wait_until_known()
            report = member.report()
            if report.status not in ("ready", "stopped"):
                switched_off = "set enabled = true, or required = false" if report.status == "disabled" else None
                reason = report.error or switched_off or "see `tertulia mcp ls`"
                raise McpError(f"MCP server {report.name!r} is required and {report.status}: {reason}")

    def note(self, member: SessionServer) -> None:
        """The status or the tools of a server have changed."""
        if member.server is None or member.server.status != "ready":
            return
        self._earlier.forget(member.server.key)
        if member.name in self._late:
            self._late.discard(member.name)
            self._publish(BackgroundEvent(f"MCP server {member.name!r} is ready; its tools join at the next task"))

    def _report(self, late: Sequence[SessionServer]) -> None:
        """Say that these are not ready, once in a session, and remember it for the next run."""
        for member in late:
            self._late.add(member.name)
            text = _late_text(member, again=self._is_usually_late(member))
            self._publish(WarningEvent(text, "mcp_server_not_ready"))
        if late:
            self._earlier.add([member.startable()[2].key for member in late])

    def _is_usually_late(self, member: SessionServer) -> bool:
        return self._earlier.is_usual(member.startable()[2].key)

    def _starting(self) -> list[SessionServer]:
        """The servers that are starting and have not failed yet."""
        return [m for m in _still_starting(self._members()) if m.server is not None and not m.server.backoff.failures]

    async def _wait(self, members: Sequence[SessionServer], seconds: float, *, notice: str | None = None) -> None:
        """Until none of them is starting, but not longer than so. `notice`: say so, and this of them."""
        if not members or seconds <= 0:
            return
        if notice is not None:
            names = ", ".join(repr(member.name) for member in members)
            self._publish(BackgroundEvent(f"waiting up to {seconds:.0f} s for the MCP server {names}{notice}"))
        await within(seconds, [member.startable()[2].monitor.wait_until_known() for member in members])


def _still_starting(members: Sequence[SessionServer]) -> list[SessionServer]:
    return [member for member in members if member.server is not None and member.server.status == "starting"]


def _late_text(member: SessionServer, *, again: bool) -> str:
    definition = member.startable()[0]
    why = f"within {SILENT_S:g} s, and not in the last runs either" if again else "in time"
    late = f"MCP server {member.name!r} was not ready {why}; its tools join at the first task after it is"
    if definition.origin == "provider":
        return late
    return (
        f"{late}. `required = true` in [mcp_servers.{member.name}] waits for it, up to its startup_timeout_sec of "
        f"{definition.startup_timeout_s:g} s; `tertulia mcp test {member.name}` tries it"
    )


async def within(seconds: float, work: list[Any]) -> None:
    """Wait for all of it, but not longer; what is not done then is cancelled."""
    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(part) for part in work]
        await asyncio.wait(jobs, timeout=seconds)
        for job in jobs:
            job.cancel()
