"""Who stays in a session for the sake of one conversation, and has to leave with it: other agents, and their doors."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class Guest(Protocol):
    """Keeps something for conversations."""

    async def forget(self, conversation: Any, /) -> None:
        """What was kept for this one is gone. Again is nothing."""
        ...

    async def close(self) -> None:
        """All of it is."""
        ...


class Guests:
    """All of a session."""

    def __init__(self) -> None:
        self._all: list[Guest] = []
        self._agents: dict[str, Guest] = {}

    def add(self, guest: Guest, backend: str | None = None) -> None:
        """One more. `backend`: the agent that it is, if it is one."""
        self._all.append(guest)
        if backend is not None:
            self._agents[backend] = guest

    async def forget(self, conversation: str) -> None:
        """The conversation is closed."""
        await asyncio.gather(*(guest.forget(conversation) for guest in self._all))

    async def take_leave(self, conversation: str, backend: str) -> None:
        """The conversation has another agent now."""
        if backend in self._agents:
            await self._agents[backend].forget(conversation)

    async def close(self) -> None:
        """The session is."""
        await asyncio.gather(*(guest.close() for guest in self._all))
