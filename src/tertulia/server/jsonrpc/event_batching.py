"""Sends the events of a session to one client in order and in batches; answers that must not overtake them wait.

`EventSender` follows a subscription, `EventBatcher` joins small writes. Neither knows a transport: both write to a
`Sink`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Protocol

from tertulia.events.subscription import Subscription
from tertulia.protocol.events import Event
from tertulia.server.jsonrpc.messages import encode_event

BURST_BYTES = 64 * 1024
"""About how much is written at a time: enough to save calls, little enough for an answer to come between."""


class Sink(Protocol):
    """The way out to one client.

    Contract: `send` never waits and never raises; whole messages come out, in the order they were given. Nothing tells
    apart a client that got them from one that is gone: then `send` drops them and `drain` returns at once.
    """

    def send(self, messages: Sequence[bytes]) -> None:
        """Put messages on their way, each one JSON text without a newline."""
        ...

    async def drain(self) -> None:
        """Return when the client has taken so much that more may be sent."""
        ...


async def is_drained(sink: Sink, timeout_s: float) -> bool:
    """Whether the client takes what it is sent, within that time."""
    try:
        async with asyncio.timeout(timeout_s):
            await sink.drain()
    except TimeoutError:
        return False
    return True


EventEncoder = Callable[[Event], Iterable[bytes]]
"""The messages that an event becomes."""


def _encode_plain(event: Event) -> Iterable[bytes]:
    return (encode_event(event),)


LONG_BYTES = 1024 * 1024
"""After a message of so many the rest of its event is left for the next step."""


class EventSender:
    """Writes a subscription's events as fast as the client takes them. A slow client makes its subscription lag.

    An event is taken from the subscription and sent in one step, so what the subscription has passed was sent. Only of
    one that becomes several messages, some of them long, the rest is sent in steps of its own.
    """

    __slots__ = ("_rest", "_rest_seq", "_sink", "_subscription", "_waiting", "_write")

    def __init__(self, subscription: Subscription, sink: Sink, write: EventEncoder | None = None) -> None:
        self._subscription = subscription
        self._sink = sink
        self._write = write or _encode_plain
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._rest: Iterator[bytes] | None = None
        """Messages of the last event that are still to be encoded and sent."""
        self._rest_seq: int | None = None

    async def run(self) -> None:
        """Send until the session is closed and its last event sent, or this is closed or replaced."""
        try:
            while self._rest is not None or await self._subscription.wait():
                await self._sink.drain()
                if self._send_burst() >= BURST_BYTES:
                    # A replay can be long, and a fast client never makes us wait.
                    await asyncio.sleep(0)
        finally:
            self._subscription.close()
            self._release()

    async def sent(self, seq: int) -> None:
        """Return when no event numbered `seq` or below is still to be sent."""
        if not self._is_sent(seq):
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((seq, reached))
            await reached

    def replace(self, subscription: Subscription) -> EventSender:
        """A sender of other events in place of this one, which ends. Calls that wait in `sent` wait there."""
        other = EventSender(subscription, self._sink, self._write)
        other._waiting, self._waiting = self._waiting, []
        other._release()
        self.close()
        return other

    def close(self) -> None:
        """Send no more events; calls that wait in `sent` return."""
        self._rest = None
        self._subscription.close()

    def _send_burst(self) -> int:
        messages: list[bytes] = []
        size = 0
        while size < BURST_BYTES and (rest := self._rest or self._next_messages()) is not None:
            self._rest = None
            for message in rest:
                messages.append(message)
                size += len(message)
                if len(message) >= LONG_BYTES and length_hint(rest, 1):
                    # Others of the same event may be as long, and each takes a while to encode.
                    self._rest = rest
                    break
        self._sink.send(messages)
        if self._waiting:
            self._release()
        return size

    def _next_messages(self) -> Iterator[bytes] | None:
        event = self._subscription.next_nowait()
        self._rest_seq = None if event is None else event.seq
        return None if event is None else iter(self._write(event))

    def _is_sent(self, seq: int) -> bool:
        is_rest = self._rest is not None and self._rest_seq is not None and self._rest_seq <= seq
        return self._subscription.passed(seq) and not is_rest

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for seq, reached in waiting:
            if not self._is_sent(seq):
                self._waiting.append((seq, reached))
            elif not reached.done():
                reached.set_result(None)


BATCH_DELAY_S = 0.002
"""How long an event may wait. No person notices, and a quick task is one write instead of four."""


class EventBatcher:
    """A sink before another one: the events of a task wait a moment for more of them, or for the response.

    Keeps the contract of a sink: nothing overtakes, and little is held. Where no request is in flight nothing waits.
    """

    __slots__ = ("_due", "_held", "_is_asked", "_sink", "_size")

    def __init__(self, sink: Sink, is_asked: Callable[[], bool]) -> None:
        """`is_asked`: whether a response is to come, which would take events along."""
        self._sink = sink
        self._is_asked = is_asked
        self._held: list[bytes] = []
        self._size = 0
        self._due: asyncio.TimerHandle | None = None

    def send(self, messages: Sequence[bytes]) -> None:
        if not (self._held or self._is_asked()):
            self._sink.send(messages)
            return
        self._held += messages
        self._size += sum(map(len, messages))
        if self._size >= BURST_BYTES:
            self.flush()
        elif self._held and self._due is None:
            self._due = asyncio.get_running_loop().call_later(BATCH_DELAY_S, self.flush)

    def send_now(self, messages: Sequence[bytes]) -> None:
        """Send messages at once, after those that wait here."""
        self._held += messages
        self.flush()

    def flush(self) -> None:
        """Send the messages that wait here."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._held:
            held, self._held, self._size = self._held, [], 0
            self._sink.send(held)

    async def drain(self) -> None:
        """See `Sink`: what waits here is so little that it does not count."""
        await self._sink.drain()


class ResponseSink:
    """The sink for responses: they are sent at once, with the events that wait before them."""

    __slots__ = ("_batcher", "drain")

    def __init__(self, batcher: EventBatcher) -> None:
        self._batcher = batcher
        self.drain = batcher.drain

    def send(self, messages: Sequence[bytes]) -> None:
        self._batcher.send_now(messages)
