"""Conversations as resources: `tertulia://conversations/ID` is what was said there, and how it stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from tertulia.errors import NotFoundError
from tertulia.mcp.serve.sources import ServedResource
from tertulia.session.session import Session

PREFIX = "tertulia://conversations/"


class Shelf:
    """Implements `Library` for one session, which begins when somebody first looks."""

    template = PREFIX + "{conversation_id}"

    def __init__(self, session: Callable[[], Awaitable[Session]]) -> None:
        self._session = session
        self._watchers: list[Callable[[], None]] = []
        self._followed: Session | None = None

    async def resources(self) -> Sequence[ServedResource]:
        """Those that are open, root first."""
        session = await self._session()
        listed = [conversation.info for conversation in session.conversations()]
        return [ServedResource(PREFIX + info.id, info.id, info.title) for info in listed]

    async def read(self, uri: str) -> str:
        """What `conversation/list` says of it, and all its messages."""
        if not uri.startswith(PREFIX):
            raise NotFoundError(f"there is no resource {uri[:80]!r}; addresses are {self.template}")
        session = await self._session()
        conversation = session.conversation(uri.removeprefix(PREFIX))
        entries = await conversation.history()
        return msgspec.json.encode({"conversation": conversation.info, "entries": entries}).decode()

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Whenever a conversation is opened, closed or called something else."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def follow(self, session: Session) -> None:
        """This one's conversations stand here from now on.

        Not by its events: who reads those keeps a session from being closed when nobody uses it.
        """
        before, self._followed = self._followed, session
        session.parts.conversations.listed = self._changed
        if before is not None:
            self._changed()

    def _changed(self) -> None:
        # One that closes takes its conversations along, and may come back with all of them.
        if self._followed is not None and not self._followed.parts.conversations.closed:
            for changed in list(self._watchers):
                changed()
