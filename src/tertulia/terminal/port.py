"""The port: one session as the screen uses it, in this process or behind a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

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
        """End the session, where it runs in this process; else leave it as it is. More than once is fine."""
        ...
