"""The chains that have not begun, first in, first out; one whose conversation is taken lets later ones pass."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from tertulia.protocol.ids import ConversationId
from tertulia.scheduler.occupancy import Occupancy
from tertulia.scheduler.plan import Chain


class WaitingChains:
    """Finds the first chain that may begin without going through those that may not.

    A chain whose conversation is taken is set aside when its turn comes, and is looked at again when the
    conversation is free: ten thousand messages to one busy conversation cost the others nothing.
    """

    __slots__ = ("_aside", "_chains", "_heap", "_last", "_occupancy")

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy
        self._chains: dict[Chain, None] = {}
        self._heap: list[tuple[int, Chain]] = []
        self._aside: dict[ConversationId, list[tuple[int, Chain]]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._chains)

    def __iter__(self) -> Iterator[Chain]:
        return iter(tuple(self._chains))

    def __contains__(self, chain: object) -> bool:
        return chain in self._chains

    def add(self, chain: Chain) -> None:
        """Put a chain at the end."""
        self._last += 1
        chain.number = self._last
        self._chains[chain] = None
        heappush(self._heap, (chain.number, chain))

    def remove(self, chain: Chain) -> None:
        """Take a chain out, wherever it stands."""
        del self._chains[chain]
        if self._occupancy.holder(chain.conversation_id) is None:
            self.freed(chain.conversation_id)

    def freed(self, conversation_id: ConversationId) -> None:
        """A conversation is free, or the chain that was to begin there is gone: look at the next one again."""
        aside = self._aside.get(conversation_id)
        while aside:
            entry = heappop(aside)
            if entry[1] in self._chains:
                heappush(self._heap, entry)
                break
        if aside is not None and not aside:
            del self._aside[conversation_id]

    def first(self) -> Chain | None:
        """The first chain that may begin; it stays where it is."""
        while self._heap:
            entry = self._heap[0]
            chain = entry[1]
            if chain in self._chains:
                if self._occupancy.holder(chain.conversation_id) is None:
                    return chain
                heappush(self._aside.setdefault(chain.conversation_id, []), entry)
            heappop(self._heap)
        return None
