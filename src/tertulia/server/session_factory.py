"""Makes and resumes the sessions of ACP and Codex clients under the settings of a directory."""

from __future__ import annotations

import asyncio
import os.path
import re
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tertulia.errors import BusyError, InvalidParamsError, NotFoundError
from tertulia.events.clock import SystemClock
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.server_table import server_from_wire
from tertulia.models.catalog import PRICES, PROVIDERS
from tertulia.models.local.weights import WEIGHTS, can_run
from tertulia.models.provider_keys import ProviderKeys
from tertulia.rollout.sqlite.session_index import remove_session
from tertulia.session.host import Host
from tertulia.session.members import ModelCatalogue
from tertulia.session.resume.fork import fork_session
from tertulia.session.session import Session
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings

if TYPE_CHECKING:
    from tertulia.tools.tool import Buffers


def is_in_folders(cwd: str | None, folders: str | list[str] | None) -> bool:
    """Whether a session that worked in `cwd` belongs to one of these folders. None: to any."""
    if folders is None:
        return True
    names = [folders] if isinstance(folders, str) else folders
    return cwd is not None and os.path.realpath(cwd) in map(os.path.realpath, names)


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_MODEL_PREFIXES = {"openai": "gpt-", "anthropic": "claude-"}


class DirectorySettings(msgspec.Struct, frozen=True):
    """The settings of a directory, with warnings."""

    settings: Settings
    remarks: list[str] = []


DirectorySettingsLoader = Callable[[Path], DirectorySettings]
"""The user's settings in a directory, narrowed by the project there. May read files."""


class ClientServer(msgspec.Struct, frozen=True):
    """An MCP server that a client brings along."""

    name: str
    table: dict[str, Any] | str
    """Its fields as `[mcp_servers.NAME]` has them; or why it cannot be used, as a sentence."""


class SessionRequest(msgspec.Struct, frozen=True):
    """What a client says of a session that it opens."""

    cwd: str
    directories: Sequence[str] = ()
    servers: Sequence[ClientServer] = ()
    buffers: Buffers | None = None
    """Its view of files, where it is an editor that offers one."""


class OpenedSession(msgspec.Struct, frozen=True, eq=False):
    """A running session, with warnings."""

    session: Session
    remarks: list[str] = []


class SessionFactory:
    """Gives a client sessions of one host, each under the settings of its directory."""

    def __init__(
        self, host: Host, load: DirectorySettingsLoader, environment: Environment, *, model: bool = False
    ) -> None:
        """`model`: the user names one on the command line."""
        self.host = host
        self.environment = environment
        self.models = known_models(environment, ModelCatalogue(host.settings, environment).keys)
        self._load = load
        self._names_model = model

    def require_model(self) -> None:
        """NoModelError where no model can answer: no key is set or kept, and none is configured. May read files."""
        # A new catalogue: a key may have been kept a moment ago.
        ModelCatalogue(self.host.settings, self.environment).require(self.host.settings.model)

    async def start(self, request: SessionRequest) -> OpenedSession:
        """Start a new session under the settings of its directory."""
        directory = await self._directory_settings(request)
        session = await self.host.start(directory.settings)
        return OpenedSession(session, directory.remarks)

    async def resume(self, session_id: str, request: SessionRequest) -> OpenedSession:
        """Resume a stored session, or take one that runs here already. NotFound, Busy, or StorageError."""
        directory = await self._directory_settings(request)
        settings = directory.settings
        if isinstance(settings.model, str) and not self._names_model:
            # Its own model answers, unless the command line names one.
            settings = replace(settings, model=None)
        running = {session.id for session in self.host.sessions}
        session = await self.host.resume(session_id, settings)
        if session.root.details.cwd != settings.cwd:
            async with nullcontext() if session.id in running else self._or_closed(session):
                await session.root.set_context(cwd=settings.cwd)
        return OpenedSession(session, directory.remarks)

    async def fork(self, session_id: str, request: SessionRequest, at: int | None = None) -> OpenedSession:
        """Start a session with the history of another, or with its first `at` rounds."""
        directory = await self._directory_settings(request)
        for session in self.host.sessions:
            if session.id == session_id and not session.closed:
                await session.activity.flush()
        fork = await fork_session(self.environment, directory.settings, SystemClock(), session_id, at=at)
        try:
            return await self.resume(fork, request)
        except BaseException:
            # The client never learns of it. It may be closing, or not be there at all.
            with suppress(NotFoundError, BusyError):
                await asyncio.to_thread(remove_session, self.environment.home, fork)
            raise

    @asynccontextmanager
    async def _or_closed(self, session: Session) -> AsyncGenerator[None]:
        """Where this fails the client never learns of the session, so it is closed here."""
        try:
            yield
        except BaseException:
            await self.host.close_session(session)
            raise

    async def _directory_settings(self, request: SessionRequest) -> DirectorySettings:
        cwd = _directory(request.cwd, "cwd")
        extra = [_directory(path, "additionalDirectories") for path in request.directories]
        directory = await asyncio.to_thread(self._load, Path(cwd))
        settings, remarks = directory.settings, list(directory.remarks)
        roots, refused = _roots(settings, cwd, extra)
        remarks += [f"{path} may be read and not written: your settings say writable_roots" for path in refused]
        own, left_out = read_client_servers(request.servers, settings.mcp_servers)
        remarks += left_out
        servers = {**own, **settings.mcp_servers}
        changed = replace(settings, cwd=cwd, writable_roots=roots, mcp_servers=servers, buffers=request.buffers)
        return DirectorySettings(changed, remarks)


def read_client_servers(
    servers: Sequence[ClientServer], configured: Collection[str]
) -> tuple[dict[str, ServerDefinition], list[str]]:
    """Definitions by name, and a sentence for each server that is left out.

    `configured`: the names of servers in the user's own settings, which win.
    """
    definitions: dict[str, ServerDefinition] = {}
    left_out: list[str] = []
    for server in servers:
        name = _NOT_IN_NAMES.sub("_", server.name).strip("_") or "server"
        reason = server.table if isinstance(server.table, str) else None
        if name in configured or name in definitions:
            reason = "there is one of that name already"
        elif isinstance(server.table, dict):
            try:
                # Shared in the host: sessions of one project share it, as they would share the editor's own.
                definitions[name] = server_from_wire(name, {**server.table, "share": "host"}, origin="user")
            except InvalidParamsError as error:
                reason = error.message
        if reason is not None:
            left_out.append(f"MCP server {server.name!r:.80} is left out: {reason}")
    return definitions, left_out


def _directory(path: str, field: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidParamsError(f"{field} must be an absolute path, not {path[:200]!r}")
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise InvalidParamsError(f"{field}: {path[:200]!r} is not a directory")
    return real


def _roots(settings: Settings, cwd: str, extra: Sequence[str]) -> tuple[Sequence[str] | None, list[str]]:
    """The writable roots: the editor's directories where the user has set none, else no more than the user has set."""
    if not extra:
        return settings.writable_roots, []
    if settings.writable_roots is None:
        return [cwd, *extra], []
    allowed = settings.writable_roots
    return allowed, [path for path in extra if not any(_is_inside(path, root) for root in allowed)]


def _is_inside(path: str, root: str) -> bool:
    return os.path.commonpath((path, root)) == root


def known_models(environment: Environment, keys: ProviderKeys) -> list[str]:
    """The models that can answer without further setup: their key or their weights are there."""
    names = [
        f"{provider}/{name}"
        for provider, maker in _MODEL_PREFIXES.items()
        if keys.origin(provider, PROVIDERS[provider].env_key) is not None
        for name in PRICES
        if name.startswith(maker)
    ]
    if can_run():
        names += [weights.model for weights in WEIGHTS if weights.is_pulled(environment.home)]
    return names
