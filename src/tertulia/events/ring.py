"""The latest durable events of the bus, bounded by number and by size.

Deliberately not aware of subscriptions: it knows only that some readers have not read to its end yet, and tells
those, and no others, what it forgets before they came to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from sys import getsizeof
from typing import Any, Protocol, cast

import msgspec
from msgspec.structs import astuple

from tertulia.protocol.events import Event, EventData

_ENVELOPE_BYTES = 800
"""Measured: an envelope with its number, its dictionary, its encoded form and its places in the ring."""
_VALUE_BYTES = 32
"""A field or an element: its slot, its object, and its name in the encoded form."""
_PLAIN = frozenset({int, float, bool, type(None)})
"""What has no parts; most fields are a text or one of these."""


class RingReader(Protocol):
    """A reader of the ring that has not come to its end."""

    def missed(self, seq: int, event: Event) -> None:
        """The ring forgets this event, the one numbered `seq`. Called in order of numbers; must not raise."""
        ...


class Ring:
    """Durable events without gaps, the oldest forgotten first.

    Both bounds always hold: an event larger than the whole ring is forgotten at once.
    """

    __slots__ = ("_bytes", "_events", "_max_bytes", "_max_events", "_weights", "behind", "last")

    def __init__(self, max_events: int, max_bytes: int, last: int = 0) -> None:
        self.last = last
        """The number of the newest event, kept or not; 0 before the first of all."""
        self.behind: set[RingReader] = set()
        """The readers that are told what the ring drops. They add and remove themselves."""
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: deque[Event] = deque()
        self._weights: deque[int] = deque()
        self._bytes = 0

    @property
    def first(self) -> int:
        """The number of the oldest event kept; one past the newest when none is."""
        return self.last - len(self._events) + 1

    def add(self, event: Event, weight: int) -> None:
        """Keep the event numbered `last + 1`, and forget as many of the oldest as the bounds ask."""
        self._events.append(event)
        self._weights.append(weight)
        self._bytes += weight
        self.last += 1
        while self._bytes > self._max_bytes or len(self._events) > self._max_events:
            self._forget()

    def after(self, seq: int) -> Iterator[Event]:
        """What is kept of the events numbered above `seq`, in order. Valid until the next `add`."""
        return islice(self._events, max(0, seq + 1 - self.first), None)

    def _forget(self) -> None:
        seq = self.first
        event = self._events.popleft()
        self._bytes -= self._weights.popleft()
        # A copy: a reader that gives up takes itself out.
        for reader in tuple(self.behind):
            reader.missed(seq, event)


def event_weight(data: EventData) -> int:
    """About how much memory an event with this data takes, its encoded form included."""
    total = _ENVELOPE_BYTES
    values: list[object] = [*astuple(data)]
    # Containers put their elements at the end of the list under iteration: no recursion, so no nesting is too deep.
    for value in values:
        kind = type(value)
        if kind is str:
            total += 2 * getsizeof(value)
        elif kind in _PLAIN:
            continue
        elif isinstance(value, str):
            total += 2 * getsizeof(value)
        elif isinstance(value, (list, tuple)):
            values.extend(cast("list[Any]", value))
        elif isinstance(value, dict):
            for pair in cast("dict[Any, Any]", value).items():
                values.extend(pair)
        elif isinstance(value, msgspec.Struct):
            values.extend(astuple(value))
    return total + _VALUE_BYTES * len(values)
