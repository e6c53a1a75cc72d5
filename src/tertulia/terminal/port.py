"""The port: one session as the screen uses it, in this process or behind a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, runtime_checkable

from tertulia.protocol.events import Event


class Port(Protocol):
    """One session: its operations by name, and its events."""

    @property
    def local(self) -> bool:
        """Whether the session runs in this process: the person may widen its rights and run commands in its sandbox."""
        ...

    async def call(self, name: str, **params: Any) -> Any:
        """Run an operation.

        Args:
            name: One of those that `tertulia schema` prints.
            params: What the operation takes.

        Returns:
            The answer as plain dicts and lists.

        Raises:
            TertuliaError: The operation was refused or failed.
        """
        ...

    def events(self, after: int) -> AsyncIterator[Event]:
        """The events after this number, without end while the session lasts; who reads them answers questions.

        Args:
            after: The number of the last event that is not wanted.
        """
        ...

    async def close(self) -> None:
        """End the session if it runs in this process; else leave it running. More than one call is fine."""
        ...


@runtime_checkable
class PersonPort(Protocol):
    """What a port to a session in this process can do in addition: no wire has these operations."""

    @property
    def mode(self) -> str | None:
        """`plan`, `ask` or `auto`; None where the rights of root are those of no mode."""
        ...

    async def set_mode(self, mode: Any) -> None:
        """Put root into a mode; the person has agreed to what it widens."""
        ...

    async def run_command(self, line: str, conversation_id: str) -> None:
        """Run a command line of the person in the sandbox of a conversation; events tell of it."""
        ...
