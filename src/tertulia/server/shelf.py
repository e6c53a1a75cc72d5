"""Conversations as resources: `tertulia://conversations/ID` is what was said there, and how it stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from tertulia.errors import NotFound
from tertulia.mcp.serving import ServedResource
from tertulia.session.session import Session

PREFIX = "tertulia://conversations/"


class Shelf:
    """Implements `Library` for one session, which begins when somebody first looks."""

    template = PREFIX + "{conversation_id}"

    def __init__(self, session: Callable[[], Awaitable[Session]]) -> None:
        self._session = session

    async def resources(self) -> Sequence[ServedResource]:
        """Those that are open, root first."""
        session = await self._session()
        listed = [conversation.info for conversation in session.conversations()]
        return [ServedResource(PREFIX + info.id, info.id, info.title) for info in listed]

    async def read(self, uri: str) -> str:
        """What `conversation/list` says of it, and all its messages."""
        if not uri.startswith(PREFIX):
            raise NotFound(f"there is no resource {uri[:80]!r}; addresses are {self.template}")
        session = await self._session()
        conversation = session.conversation(uri.removeprefix(PREFIX))
        entries = await conversation.history()
        return msgspec.json.encode({"conversation": conversation.info, "entries": entries}).decode()
