"""Where ACP sessions come from: begun, brought back, forked and closed, each under the settings of its directory."""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParams
from tertulia.events.clock import SystemClock
from tertulia.server.as_acp_choices import known_models
from tertulia.session.environment import Environment
from tertulia.session.forking import fork_session
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings import Settings

if TYPE_CHECKING:
    from tertulia.server.as_acp_servers import Given


class Settled(msgspec.Struct, frozen=True):
    """The settings of a directory, and what has to be said about them."""

    settings: Settings
    remarks: list[str] = []


Settle = Callable[[Path], Settled]
"""The user's settings as they hold in a directory, with what the project there takes away. May read files."""


class Wish(msgspec.Struct, frozen=True):
    """What a client says of a session that it opens."""

    cwd: str
    directories: Sequence[str] = ()
    servers: Sequence[Given] = ()


class Opened(msgspec.Struct, frozen=True, eq=False):
    """A running session, and what has to be said about it."""

    session: Session
    remarks: list[str] = []


class House:
    """One Host, and the rules by which an editor gets sessions of it."""

    def __init__(
        self, host: Host, settle: Settle, environment: Environment, *, mode: str | None = None, model: bool = False
    ) -> None:
        """`mode`: what a new session begins in, if not in what it may have. `model`: the user names one just now."""
        self.host = host
        self.environment = environment
        self.models = known_models(environment)
        self._settle = settle
        self._mode = mode
        self._names_model = model

    async def begin(self, wish: Wish) -> Opened:
        """A new one."""
        settled = await self._settled(wish)
        session = await self.host.start(settled.settings)
        if self._mode is not None:
            await session.root.set_context(sandbox=self._mode)
        return Opened(session, settled.remarks)

    async def bring_back(self, session_id: str, wish: Wish) -> Opened:
        """One of the past, or one that runs here already. NotFound, Busy, or StorageError."""
        settled = await self._settled(wish)
        settings = settled.settings
        if isinstance(settings.model, str) and not self._names_model:
            # Its own model answers, unless the command line names one.
            settings = replace(settings, model=None)
        session = await self.host.resume(session_id, settings)
        if session.parts.conversations.root.terms.cwd != settings.cwd:
            await session.root.set_context(cwd=settings.cwd)
        return Opened(session, settled.remarks)

    async def fork(self, session_id: str, wish: Wish, at: int | None = None) -> Opened:
        """A new one that begins with all that was said in another, or with its first `at` rounds."""
        settled = await self._settled(wish)
        for session in self.host.sessions():
            if session.id == session_id and not session.closed:
                await session.parts.journal.settle()
        fork = await fork_session(self.environment, settled.settings, SystemClock(), session_id, at=at)
        return await self.bring_back(fork, wish)

    async def _settled(self, wish: Wish) -> Settled:
        cwd = _directory(wish.cwd, "cwd")
        extra = [_directory(path, "additionalDirectories") for path in wish.directories]
        settled = await asyncio.to_thread(self._settle, Path(cwd))
        settings, remarks = settled.settings, list(settled.remarks)
        roots, refused = _roots(settings, cwd, extra)
        remarks += [f"{path} may be read and not written: your settings say writable_roots" for path in refused]
        servers = settings.mcp_servers
        if wish.servers:
            # Only ACP's clients bring servers along, and only they need its package.
            from tertulia.server.as_acp_servers import brought

            own = brought(wish.servers, servers)
            servers = {**own.servers, **servers}
            remarks += own.refused
        return Settled(replace(settings, cwd=cwd, writable_roots=roots, mcp_servers=servers), remarks)


def _directory(path: str, field: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidParams(f"{field} must be an absolute path, not {path[:200]!r}")
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise InvalidParams(f"{field}: {path[:200]!r} is not a directory")
    return real


def _roots(settings: Settings, cwd: str, extra: Sequence[str]) -> tuple[Sequence[str] | None, list[str]]:
    """What may be written: where the user has said nothing the editor's directories, else no more than was said."""
    if not extra:
        return settings.writable_roots, []
    if settings.writable_roots is None:
        return [cwd, *extra], []
    allowed = settings.writable_roots
    return allowed, [path for path in extra if not any(_lies_in(path, root) for root in allowed)]


def _lies_in(path: str, root: str) -> bool:
    return os.path.commonpath((path, root)) == root
