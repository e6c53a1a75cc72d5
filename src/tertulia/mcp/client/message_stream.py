"""What both transports share: the form in which the SDK wants the two ends of a connection."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")
OnLost = Callable[[str], None]
"""Called with the reason when the connection ended by itself."""


class MessageStream:
    """An end of a connection; leaving its block closes it."""

    async def aclose(self) -> None:
        """Close it; nothing is read or written after."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageReader(MessageStream, Generic[T]):
    """The end that the SDK reads."""

    async def receive(self) -> T:
        """The next message; anyio's EndOfStream after the last."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None
