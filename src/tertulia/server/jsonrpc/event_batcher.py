"""Events of a task wait a moment for more of them, and for the answer: to write costs more than most of them.

An answer waits for nothing, and takes along what was before it. Nobody who only listens waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tertulia.server.jsonrpc.event_sender import BURST_BYTES, Sink

BATCH_DELAY_S = 0.002
"""How long an event may wait. Nobody sees it, and a quick task is one write instead of four."""


class EventBatcher:
    """A sink before another one, which keeps its contract: nothing overtakes, and little is held."""

    __slots__ = ("_due", "_held", "_is_asked", "_sink", "_size")

    def __init__(self, sink: Sink, is_asked: Callable[[], bool]) -> None:
        """`is_asked`: whether an answer is to come."""
        self._sink = sink
        self._is_asked = is_asked
        self._held: list[bytes] = []
        self._size = 0
        self._due: asyncio.TimerHandle | None = None

    def send(self, messages: Sequence[bytes]) -> None:
        """See `Sink`."""
        if not (self._held or self._is_asked()):
            self._sink.send(messages)
            return
        self._held += messages
        self._size += sum(map(len, messages))
        if self._size >= BURST_BYTES:
            self.flush()
        elif self._held and self._due is None:
            self._due = asyncio.get_running_loop().call_later(BATCH_DELAY_S, self.flush)

    def send_now(self, message: bytes) -> None:
        """After all that was sent before."""
        self._held.append(message)
        self.flush()

    def flush(self) -> None:
        """Pass on what waits."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._held:
            held, self._held, self._size = self._held, [], 0
            self._sink.send(held)

    async def drain(self) -> None:
        """See `Sink`: what waits here is so little that it does not count."""
        await self._sink.drain()
