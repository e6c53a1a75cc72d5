"""What a server offers, as it last said: taken from a connection, and written down for the next time."""

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
from tertulia.mcp.server_connection import RemoteTool, ServerConnection, Spawn, ToolListing
from tertulia.mcp.toolset import Toolset
from tertulia.rollout.sqlite.session_files import create_private

MIN_TTL_S = 5.0
"""A server that gave it no thought says that its list holds for 0 s."""
_SMALL_BYTES = 64 * 1024


class ToolCache:
    """The tools of the last listing that went well. A failed one changes nothing but when to try again."""

    def __init__(self, clock: Clock, known: Toolset | None, keep: Callable[[Toolset], None] | None) -> None:
        """`known`: from an earlier run. `keep`: writes down what is new; blocks."""
        self.toolset = known or Toolset.of(())
        self.known = known is not None
        """Whether it has ever been listed, in this run or an earlier one."""
        self.revision = 0
        """Goes up whenever the tools become other ones."""
        self.latency_ms: int | None = None
        """Of the last listing, and of the start if it was the first."""
        self._clock = clock
        self._keep = keep
        self._written = known and known.digest
        self._ttl_s: float | None = None
        self._listed_at = 0.0
        self._by_name = {tool.name: tool for tool in self.toolset.tools}

    def find(self, name: str) -> RemoteTool | None:
        """The tool of that name."""
        return self._by_name.get(name)

    def is_stale(self, now: float) -> bool:
        """Whether the time is over for which the list was said to hold; `now` is monotonic."""
        return self._ttl_s is not None and now >= self._listed_at + self._ttl_s

    async def take(self, connection: ServerConnection, began: float) -> bool:
        """List the tools. Whether they are others than before; McpError, and they are what they were.

        `began`: when somebody began to wait for it.
        """
        try:
            listing = await connection.list_tools()
        finally:
            self._listed_at = self._clock.monotonic()
        self.latency_ms = round((self._listed_at - began) * 1000)
        self._ttl_s = None if listing.ttl_s is None else max(listing.ttl_s, MIN_TTL_S)
        self.known = True
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
        # The schemas of a large one take a while, and others have the loop to use.
        return await asyncio.to_thread(Toolset.of, listing.tools, listing.left_out, self.toolset)

    async def write_down(self) -> None:
        """Unless it stands there already."""
        if self._keep is not None and self._written != self.toolset.digest:
            self._written = self.toolset.digest
            # Done even if the server is stopped right now: a short session would else never come to it.
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
    """Of the tools: whoever edits the file by hand is not believed."""
    tools: tuple[RemoteTool, ...]


class ToolDiskCache:
    """A folder with one file a server, under the key of its launch; only its owner can read or write it."""

    __slots__ = ("_folder",)

    def __init__(self, home: Path) -> None:
        self._folder = home / "mcp-catalogue"

    def recall(self, key: str) -> Toolset | None:
        """What the server of that key listed last; None where that is not known for certain."""
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
        """Write it down in place of what was there. A disk that refuses costs a start, and no more: it is logged."""
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
        found = os.lstat(self._folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise NotADirectoryError(f"{self._folder} is not a directory of ours")


def _read(path: Path) -> bytes:
    fd = os.open(path, _READ)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PermissionError("it is not a plain file that only we can write")
        if found.st_size > MAX_BYTES:
            raise OSError(f"it has more than {MAX_BYTES:,} bytes")
        # One byte more than was found: a file that grows meanwhile is not read for ever, and not decoded either.
        content = bytearray()
        while len(content) <= found.st_size and (chunk := os.read(fd, found.st_size + 1 - len(content))):
            content += chunk
        return bytes(content)
    finally:
        os.close(fd)


MIN_INTERVAL_S = 0.2
"""Between the listings that a server causes. What somebody of ours asks for is done at once."""


ListAgain = Callable[[], Awaitable[McpError | None]]
"""Says what went wrong, and raises nothing but a cancellation."""


class RelistSchedule:
    """For as long as one connection lasts: at most one listing under way, and one more to come.

    What is wanted before `begin` is done after it.
    """

    __slots__ = (
        *("_asked", "_began", "_clock", "_list_again", "_name", "_over", "_spawn", "_task", "_waiting", "_wanted"),
    )

    def __init__(self, spawn: Spawn, clock: Clock, name: str) -> None:
        self._list_again: ListAgain | None = None
        self._spawn = spawn
        self._clock = clock
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        self._asked = asyncio.Event()
        self._waiting: list[asyncio.Future[McpError | None]] = []
        self._began = 0.0
        self._over = False

    def begin(self, list_again: ListAgain) -> None:
        """It has just been listed for the first time; from now on, this lists it again."""
        self._list_again = list_again
        self._began = self._clock.monotonic()
        if self._wanted:
            self.want()

    @property
    def due(self) -> bool:
        """Whether something changed that is not listed yet."""
        return self._wanted or self._task is not None

    def want(self) -> None:
        """Something changed: list again before long."""
        self._wanted = not self._over
        if self._wanted and self._task is None and self._list_again is not None:
            self._task = self._spawn(self._run(self._list_again), f"list the tools of {self._name}")
            self._task.add_done_callback(self._ended)

    async def now(self) -> None:
        """Until a listing that began after this call is done. McpError: it failed."""
        if self._over or self._list_again is None:
            raise self._too_late()
        mine: asyncio.Future[McpError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._asked.set()
        self.want()
        # The future is this caller's alone: who leaves takes nothing away from the others.
        error = await mine
        if error is not None:
            raise McpError(error.message, **error.detail)

    def stop(self) -> None:
        """The connection is over. Whoever waits hears so."""
        self._over = True
        self._wanted = False
        if self._task is not None:
            self._task.cancel()

    async def _run(self, list_again: ListAgain) -> None:
        while self._wanted:
            await self._apart()
            self._wanted = False
            self._asked.clear()
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
                await self._asked.wait()
        except TimeoutError:
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._over |= task.cancelled()
        if self._wanted and not self._over:
            # Wanted after the last look at it.
            self.want()
            return
        waiting, self._waiting = self._waiting, []
        _answer(waiting, self._too_late())

    def _too_late(self) -> McpError:
        return server_error(self._name, "closed", "the connection ended before its tools were listed")


def _answer(waiting: list[asyncio.Future[McpError | None]], error: McpError | None) -> None:
    for each in waiting:
        if not each.done():
            each.set_result(error)
