"""The port to a session in this process. Imported after the first frame is painted, because importing it is slow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tertulia.events.clock import SystemClock
from tertulia.protocol.events import Event
from tertulia.protocol.ids import ItemId
from tertulia.server.sockets.session_sockets import SessionSockets, has_sockets
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.host import Host
from tertulia.session.members import require_model, require_sandbox
from tertulia.session.operations import call
from tertulia.session.person.modes import Mode
from tertulia.session.person.person import Person
from tertulia.session.resume.fork import fork_session
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings

_WAITING_EVENTS = 20_000
"""How many events may wait while a frame is painted, before the reader counts as too slow."""


class LocalPort:
    """A session of this process, by its operations and events."""

    def __init__(self, host: Host, session: Session, sockets: SessionSockets | None = None) -> None:
        """`session`: already entered; `close` closes it, and after it `sockets`, where other programs reach it."""
        self._host = host
        self._session = session
        self._sockets = sockets

    @classmethod
    async def open(
        cls,
        loaded: LoadedSettings,
        *,
        resumed: str | None = None,
        instructions: str | None = None,
        continue_tasks: bool = False,
    ) -> LocalPort:
        """Start a session, or resume the stored one that is named.

        Args:
            loaded: The settings from all their places.
            resumed: The id of a stored session; None: a new one.
            instructions: The base instructions of the root; None: the usual ones.
            continue_tasks: Whether tasks that a crash cut go on, when the events are followed.

        Returns:
            The port to the session; its MCP servers may still be starting.

        Raises:
            TertuliaError: There is no model or no sandbox, or the session cannot be resumed.
        """
        settings = loaded.settings
        if resumed is None:
            require_model(settings, loaded.environment)
        require_sandbox(settings)
        session = Session(settings, resumed=resumed, waits=False, continue_tasks=continue_tasks)
        await session.__aenter__()
        if instructions is not None:
            await session.root.set_context(base_instructions=instructions)
        if not has_sockets(settings):
            return cls(Host(settings), session)
        sockets = SessionSockets(loaded.environment.home)
        await sockets.add(session)
        return cls(Host(settings), session, sockets)

    @property
    def local(self) -> bool:
        """Always True: the session runs in this process."""
        return True

    @property
    def session(self) -> Session:
        """The session itself, for what no wire operation can do."""
        return self._session

    async def call(self, name: str, **params: Any) -> Any:
        """Run an operation; its answer as plain dicts and lists."""
        if name == "conversation/message":
            # A required MCP server that does not start is reported here, where the person waits for it.
            await self._session.mcp.ready(required_only=True)
        with answering_as("terminal"):
            result = await call(self._host, self._session, name, params)
        return msgspec.to_builtins(result.answer)

    def events(self, after: int) -> AsyncIterator[Event]:
        """The events after this number; 0: all since the session started in this process."""
        begin = max(after, self._session.activity.began_after)
        events = self._session.events(after=begin, attend=True, limit=_WAITING_EVENTS)
        self._session.activity.go_on()
        return events

    @property
    def mode(self) -> Mode | None:
        """The mode that root is in."""
        return Person(self._session).mode

    async def set_mode(self, mode: Mode) -> None:
        """Put root into a mode; the person has agreed to what it widens."""
        await Person(self._session).set_mode(mode, widen=True)

    async def run_command(self, line: str, conversation_id: str) -> None:
        """Run a command line of the person in the sandbox of a conversation."""
        await Person(self._session).run_command(line, conversation_id)

    async def close(self) -> None:
        """Close the session and wait for it."""
        await self._session.close()
        if self._sockets is not None:
            await self._sockets.close()


async def fork_stored(loaded: LoadedSettings, session_id: str, conversation_id: str, at: ItemId | None) -> str:
    """Copy a conversation of a stored session up to an item, or whole, into a new session; returns its id."""
    place = (loaded.environment, loaded.settings, SystemClock(), session_id)
    return await fork_session(*place, conversation_id=conversation_id, at=at)
