"""The tools of a server: cached from its last listing, on disk for the next run, and listed again when they change."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.errors import McpError
from tertulia.events.clock import Clock
from tertulia.mcp.client.error_text import server_error
from tertulia.mcp.client.tool_listing import Toolset
from tertulia.mcp.server_connection import RemoteTool, ServerConnection, Spawn, ToolListing
from tertulia.rollout.sqlite.session_files import create_private

MIN_TTL_S = 5.0
"""The least time for which a listing holds; some servers say 0 s and do not mean it."""
_SMALL_BYTES = 64 * 1024


class ToolCache:
    """The tools of the last listing that succeeded. A failed one only changes when the next is due."""

    def __init__(self, clock: Clock, earlier: Toolset | None, keep: Callable[[Toolset], None] | None) -> None:
        """`earlier`: the tools of an earlier run. `keep`: writes new tools to disk; blocks."""
        self.toolset = earlier or Toolset.of(())
        self.was_listed = earlier is not None
        """Whether the tools were ever listed, in this run or an earlier one."""
        self.revision = 0
        """Counts the changes of the tools."""
        self.latency_ms: int | None = None
        """Of the last listing; for the first one with the start."""
        self._clock = clock
        self._keep = keep
        self._digest_on_disk = earlier and earlier.digest
        self._ttl_s: float | None = None
        self._listed_at = 0.0
        self._by_name = {tool.name: tool for tool in self.toolset.tools}

    def find(self, name: str) -> RemoteTool | None:
        """The tool of that name, if there is one."""
        return self._by_name.get(name)

    def is_stale(self, now: float) -> bool:
        """Whether the listing has expired by the server's own word; `now` is monotonic."""
        return self._ttl_s is not None and now >= self._listed_at + self._ttl_s

    async def take(self, connection: ServerConnection, began: float) -> bool:
        """List the tools; whether they have changed. McpError: the listing failed, and the old tools stay.

        `began`: the time from which the latency counts.
        """
        try:
            listing = await connection.list_tools()
        finally:
            self._listed_at = self._clock.monotonic()
        self.latency_ms = round((self._listed_at - began) * 1000)
        self._ttl_s = None if listing.ttl_s is None else max(listing.ttl_s, MIN_TTL_S)
        self.was_listed = True
        toolset = await self._toolset(listing)
        if toolset == self.toolset:
            return False
        self.revision += toolset.digest != self.toolset.digest
        self.toolset = toolset
        self._by_name = {tool.name: tool for tool in toolset.tools}
        return True

    async def _toolset(self, listing: ToolListing) -> Toolset:
        if listing.size <= _SMALL_BYTES:
            return Toolset.of(listing.tools, listing.left_out, self.toolset)
        # Checking many schemas takes a while: not on the loop.
        return await asyncio.to_thread(Toolset.of, listing.tools, listing.left_out, self.toolset)

    async def write_down(self) -> None:
        """Write the tools to disk, unless they are there already."""
        if self._keep is not None and self._digest_on_disk != self.toolset.digest:
            self._digest_on_disk = self.toolset.digest
            # Done even if the server is stopped now: a short session would never get to it otherwise.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._keep, self.toolset))


MAX_BYTES = 2 * 1024 * 1024

_KEY = re.compile(r"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE = 0o700
_log = logging.getLogger(__name__)


class _CachedListing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    key: str
    digest: str
    """Of the tools: a file that was edited by hand is not used."""
    tools: tuple[RemoteTool, ...]


class ToolDiskCache:
    """A folder with a file for each server, named by the key of its launch, for this user alone."""

    __slots__ = ("_folder",)

    def __init__(self, home: Path) -> None:
        self._folder = home / "mcp-catalogue"

    def recall(self, key: str) -> Toolset | None:
        """The last listing of the server with that key; None where there is none, or it cannot be trusted."""
        if not _KEY.fullmatch(key):
            return None
        try:
            page = msgspec.json.decode(_read(self._folder / f"{key}.json"), type=_CachedListing)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.warning("%s is left aside: %s", self._folder / f"{key}.json", error)
            return None
        toolset = Toolset.of(page.tools)
        return toolset if page.key == key and page.digest == toolset.digest else None

    def keep(self, key: str, toolset: Toolset) -> None:
        """Write the tools in place of earlier ones. An error of the disk is logged, and costs a start the next time."""
        page = msgspec.json.encode(_CachedListing(1, key, toolset.digest, toolset.tools))
        if not _KEY.fullmatch(key) or len(page) > MAX_BYTES:
            return
        fresh = self._folder / f"{key}.{secrets.token_hex(8)}.new"
        try:
            self._make_folder()
            try:
                create_private(fresh, page)
                fresh.replace(self._folder / f"{key}.json")
            finally:
                with suppress(FileNotFoundError):
                    fresh.unlink()
        except OSError as error:
            _log.warning("the tools of an MCP server could not be kept in %s: %s", self._folder, error)

    def _make_folder(self) -> None:
        self._folder.parent.mkdir(_PRIVATE, parents=True, exist_ok=True)
        self._folder.mkdir(_PRIVATE, exist_ok=True)
        status = os.lstat(self._folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise NotADirectoryError(f"{self._folder} is not a directory of this user")


def _read(path: Path) -> bytes:
    fd = os.open(path, _READ)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError("it is not a plain file that only this user can write")
        if status.st_size > MAX_BYTES:
            raise OSError(f"it has more than {MAX_BYTES:,} bytes")
        # One byte more than its size: a file that grows meanwhile is not read without end, and not decoded either.
        content = bytearray()
        while len(content) <= status.st_size and (chunk := os.read(fd, status.st_size + 1 - len(content))):
            content += chunk
        return bytes(content)
    finally:
        os.close(fd)


MIN_INTERVAL_S = 0.2
"""Between listings that the server's announcements cause. A refresh by a client is done at once."""


ListAgain = Callable[[], Awaitable[McpError | None]]
"""Lists the tools. Returns the error, and raises nothing but a cancellation."""


class RelistSchedule:
    """When to list the tools again while a connection lasts: at most one listing in progress and one more due.

    So many announcements of changes cause a few listings. What is wanted before `begin` is done after it.
    """

    __slots__ = (
        *("_at_once", "_began", "_clock", "_list_again", "_name", "_over", "_spawn", "_task", "_due", "_waiting"),
    )

    def __init__(self, spawn: Spawn, clock: Clock, name: str) -> None:
        self._list_again: ListAgain | None = None
        self._spawn = spawn
        self._clock = clock
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._due = False
        self._at_once = asyncio.Event()
        self._waiting: list[asyncio.Future[McpError | None]] = []
        self._began = 0.0
        self._over = False

    def begin(self, list_again: ListAgain) -> None:
        """The first listing is done; `list_again` makes the others."""
        self._list_again = list_again
        self._began = self._clock.monotonic()
        if self._due:
            self.want()

    @property
    def due(self) -> bool:
        """Whether a change was announced that is not listed yet."""
        return self._due or self._task is not None

    def want(self) -> None:
        """A change was announced: list again soon."""
        self._due = not self._over
        if self._due and self._task is None and self._list_again is not None:
            self._task = self._spawn(self._run(self._list_again), f"list the tools of {self._name}")
            self._task.add_done_callback(self._ended)

    async def now(self) -> None:
        """Wait for a listing that begins after this call. McpError: it failed."""
        if self._over or self._list_again is None:
            raise self._too_late()
        mine: asyncio.Future[McpError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._at_once.set()
        self.want()
        # The future is this caller's alone: a cancelled caller does not affect the others.
        error = await mine
        if error is not None:
            raise McpError(error.message, **error.detail)

    def stop(self) -> None:
        """The connection is over; callers that wait get an error."""
        self._over = True
        self._due = False
        if self._task is not None:
            self._task.cancel()

    async def _run(self, list_again: ListAgain) -> None:
        while self._due:
            await self._apart()
            self._due = False
            self._at_once.clear()
            waiting, self._waiting = self._waiting, []
            self._began = self._clock.monotonic()
            error: McpError | None = server_error(self._name, "closed", "the listing was broken off")
            try:
                error = await list_again()
            finally:
                _answer(waiting, error)

    async def _apart(self) -> None:
        left = self._began + MIN_INTERVAL_S - self._clock.monotonic()
        if left <= 0:
            return
        try:
            async with asyncio.timeout(left):
                await self._at_once.wait()
        except TimeoutError:
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._over |= task.cancelled()
        if self._due and not self._over:
            # Announced after the last check.
            self.want()
            return
        waiting, self._waiting = self._waiting, []
        _answer(waiting, self._too_late())

    def _too_late(self) -> McpError:
        return server_error(self._name, "closed", "the connection ended before its tools were listed")


def _answer(waiting: list[asyncio.Future[McpError | None]], error: McpError | None) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(error)
