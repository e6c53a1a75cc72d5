"""The wires that a session has made: one for each conversation, and each let go of when nobody needs it.

Does not know which wires there are; `assembly` does.
"""

from __future__ import annotations

from collections.abc import Callable

from tertulia.models.wire import Wire
from tertulia.scheduler.nursery import Nursery


class WireShelf:
    """Makes wires from names and remembers them. A wire that somebody else made is theirs, and is never closed here."""

    def __init__(self, make: Callable[[object], Wire], nursery: Nursery) -> None:
        """`make`: from `provider/model`; it gives back a Wire as it is. In the nursery wires are closed."""
        self._make = make
        self._nursery = nursery
        self._made: dict[int, tuple[Wire, str]] = {}

    def __len__(self) -> int:
        return len(self._made)

    def find(self, model: object) -> Wire:
        """The wire for what people write as a model."""
        wire = self._make(model)
        # A script is played to all conversations of a session; whoever wants one of its own names it.
        if isinstance(model, str) and not wire.name.startswith("scripted/"):
            self._made[id(wire)] = (wire, wire.name)
        return wire

    def another(self, wire: Wire) -> Wire:
        """A wire of one's own that reaches the same model; the same wire if it was not made here."""
        made = self._made.get(id(wire))
        return wire if made is None else self.find(made[1])

    def let_go(self, wire: Wire) -> None:
        """Nobody uses it any more: close it, if it was made here."""
        if self._made.pop(id(wire), None) is not None:
            self._nursery.start(wire.close(), f"close {wire.name}")

    def made(self) -> list[Wire]:
        """All that were made and not let go of."""
        return [wire for wire, _ in self._made.values()]
