"""How many tasks of all sessions of a host run at once, shared fairly: the sessions take turns."""

from __future__ import annotations

import asyncio
from collections import deque


class HostSlots:
    """A number of slots. A session that wants many at once waits behind one that wants its first.

    Owners are compared by identity. There is no lock: giving and taking are plain assignments between two awaits.
    """

    __slots__ = ("_held", "_limit", "_served", "_turns", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._waiting: dict[object, deque[asyncio.Future[bool]]] = {}
        self._turns = 0
        self._served: dict[object, int] = {}
        """When each owner had its last slot, counted in slots."""

    @property
    def held(self) -> int:
        """How many slots are out now."""
        return self._held

    async def take(self, owner: object) -> bool:
        """Wait for a slot; False where the owner was forgotten meanwhile and has none."""
        if self._held < self._limit and not self._waiting:
            self._give(owner)
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.give_back()
            else:
                self._withdraw(owner, turn)
            raise

    def give_back(self) -> None:
        """Free a slot. The next owner is the one whose last slot was longest ago, or that had none yet."""
        self._held -= 1
        while self._waiting and self._held < self._limit:
            owner = min(self._waiting, key=lambda waiting: self._served.get(waiting, 0))
            turn = self._waiting[owner].popleft()
            if not self._waiting[owner]:
                del self._waiting[owner]
            if not turn.done():
                turn.set_result(True)
                self._give(owner)

    def forget(self, owner: object) -> None:
        """A session closes: its tasks that wait get no slot."""
        self._served.pop(owner, None)
        for turn in self._waiting.pop(owner, ()):
            if not turn.done():
                turn.set_result(False)

    def _give(self, owner: object) -> None:
        self._held += 1
        self._turns += 1
        self._served[owner] = self._turns

    def _withdraw(self, owner: object, turn: asyncio.Future[bool]) -> None:
        turns = self._waiting.get(owner)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[owner]
