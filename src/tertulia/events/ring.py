"""A ring buffer of the latest durable events of the bus, bounded by number and by size.

Deliberately not aware of subscriptions: it knows only the readers that have not read to its end, and calls those, and
no others, for each event that it drops.
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
from tertulia.protocol.items import Usage

_ENVELOPE_BYTES = 800
"""Measured memory of an envelope with its number, its dictionary, its encoded form and its entries in the ring."""
_VALUE_BYTES = 32
"""The memory of a field or an element: its slot, its object, and its name in the encoded form."""
_USAGE_BYTES = _VALUE_BYTES * len(Usage.__struct_fields__)
_PLAIN = frozenset({int, float, bool, type(None)})
"""Types whose values have no parts to be weighed; most fields are a text or one of these."""


class RingReader(Protocol):
    """A reader that has not read to the end of the ring."""

    def missed(self, seq: int, event: Event) -> None:
        """Called when the ring drops the event numbered `seq`, in order of numbers; must not raise."""
        ...


class Ring:
    """Durable events without gaps; the oldest are dropped first.

    Both bounds always hold: an event larger than the whole ring is dropped at once.
    """

    __slots__ = ("_bytes", "_events", "_max_bytes", "_max_events", "_weights", "behind", "last")

    def __init__(self, max_events: int, max_bytes: int, last: int = 0) -> None:
        self.last = last
        """The number of the newest event, kept or not; 0 before the first of all."""
        self.behind: set[RingReader] = set()
        """The readers whose `missed` is called for each dropped event. They add and remove themselves."""
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: deque[Event] = deque()
        self._weights: deque[int] = deque()
        self._bytes = 0

    @property
    def first(self) -> int:
        """The number of the oldest event in the ring; `last + 1` when it is empty."""
        return self.last - len(self._events) + 1

    def add(self, event: Event, weight: int) -> None:
        """Add the event numbered `last + 1`, and drop the oldest events until both bounds hold."""
        self._events.append(event)
        self._weights.append(weight)
        self._bytes += weight
        self.last += 1
        while self._bytes > self._max_bytes or len(self._events) > self._max_events:
            self._forget()

    def after(self, seq: int) -> Iterator[Event]:
        """The events in the ring that are numbered above `seq`, in order. Valid until the next `add`."""
        return islice(self._events, max(0, seq + 1 - self.first), None)

    def _forget(self) -> None:
        seq = self.first
        event = self._events.popleft()
        self._bytes -= self._weights.popleft()
        # A copy of the set: a reader may remove itself within the call.
        for reader in tuple(self.behind):
            reader.missed(seq, event)


def event_weight(data: EventData) -> int:
    """About how much memory an event with this data takes, its encoded form included."""
    values: tuple[object, ...] = astuple(data)
    total, others = _ENVELOPE_BYTES + _VALUE_BYTES * len(values), None
    for value in values:
        kind = type(value)
        if kind is str:
            total += 2 * getsizeof(value)
        elif kind not in _PLAIN:
            others = [value] if others is None else [*others, value]
    return total if others is None else total + _weigh_parts(others)


def _weigh_parts(values: list[object]) -> int:
    """What these values hold; they themselves are counted."""
    total, counted = 0, len(values)
    # Containers put their elements at the end of the list under iteration: no recursion, so no nesting is too deep.
    for value in values:
        kind = type(value)
        if kind is str:
            total += 2 * getsizeof(value)
        elif kind in _PLAIN:
            continue
        elif kind is Usage:
            total += _USAGE_BYTES
        elif isinstance(value, str):
            total += 2 * getsizeof(value)
        elif isinstance(value, (list, tuple)):
            values.extend(cast("list[Any]", value))
        elif isinstance(value, dict):
            for pair in cast("dict[Any, Any]", value).items():
                values.extend(pair)
        elif isinstance(value, msgspec.Struct):
            values.extend(astuple(value))
    return total + _VALUE_BYTES * (len(values) - counted)
