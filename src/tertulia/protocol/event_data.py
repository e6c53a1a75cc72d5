"""What the data of every event has in common: its name, and how a slow subscriber is treated.

Not the closed union of all event data: that is `EventData` in `events`.
"""

from __future__ import annotations

from typing import ClassVar, Self

from tertulia.protocol.mapping_struct import MappingStruct


class BaseEventData(MappingStruct, frozen=True, gc=False):
    """The payload of an event. `type` is its name on every surface."""

    type: ClassVar[str]
    durable: ClassVar[bool] = True
    """False for deltas and progress: never numbered, never stored, first to be dropped."""
    terminal: ClassVar[bool] = False
    """True for what a slow subscriber must get whatever else it misses."""

    @property
    def data(self) -> Self:
        """Itself: who is handed the payload alone reads it like one in its envelope."""
        return self
