"""Whose calls are under way on a connection, and whom a request of the server concerns.

In the old era a server asks back without saying because of which call. As soon as one does, calls of two conversations
no longer overlap: from then on there is only one that it can mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar

from tertulia.mcp.server_connection import Caller, OnProgress

_current: ContextVar[CallInProgress | None] = ContextVar("mcp_turn", default=None)


def clear_current_call() -> None:
    """What follows in this task is done in nobody's name."""
    _current.set(None)


class CallInProgress:
    """One call under way, and what is asked because of it."""

    __slots__ = ("_asked", "_left_s", "_limit", "asks", "caller", "on_progress", "over")

    def __init__(self, caller: Caller, on_progress: OnProgress, limit: asyncio.Timeout) -> None:
        self.caller, self.on_progress = caller, on_progress
        self.over = False
        self.asks = 0
        """How often somebody was asked because of it."""
        self._limit = limit
        self._left_s: float | None = None
        self._asked: set[asyncio.Task[object]] = set()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """What the server says about how far it is. One that comes too late is dropped."""
        if not self.over:
            self.on_progress(progress, total, message)

    async def asked(self, task: asyncio.Task[object]) -> None:
        """Wait for it, as long as the call lasts. While somebody is asked, the call's time stands still."""
        loop = asyncio.get_running_loop()
        if not self._asked and not self._limit.expired() and (when := self._limit.when()) is not None:
            self._left_s = when - loop.time()
            self._limit.reschedule(None)
        self._asked.add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._asked.discard(task)
            if not self._asked and not self.over and not self._limit.expired() and self._left_s is not None:
                self._limit.reschedule(loop.time() + self._left_s)

    def end(self) -> None:
        """Nobody is asked any more."""
        self.over = True
        for task in self._asked:
            task.cancel()


class CallAttribution:
    """All calls of one connection."""

    __slots__ = ("_exclusive", "_running", "_waiting")

    def __init__(self) -> None:
        self._exclusive = False
        self._running: list[CallInProgress] = []
        self._waiting: deque[tuple[CallInProgress, asyncio.Future[None]]] = deque()

    async def begin(self, turn: CallInProgress) -> None:
        """Wait for its turn, if there are turns; from then on it is the one whom requests concern."""
        if self._waiting or not self._fits(turn):
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, ready))
            try:
                await ready
            except asyncio.CancelledError:
                self._leave_queue(turn, ready)
                raise
        else:
            self._running.append(turn)
        _current.set(turn)

    def end(self, turn: CallInProgress) -> None:
        """It is over, whatever came of it."""
        turn.end()
        clear_current_call()
        if turn in self._running:
            self._running.remove(turn)
        self._admit()

    def concerned(self) -> CallInProgress | None:
        """The call because of which the server asks now. None: nobody's, or it cannot be told."""
        turn = _current.get()
        if turn is not None:
            return turn if turn in self._running else None
        self._exclusive = True
        conversations = {each.caller.conversation_id for each in self._running}
        return self._running[0] if len(conversations) == 1 else None

    def workspaces(self) -> set[str]:
        """Where those work whose calls are under way, and one of which the server asks for; empty: it is nobody's."""
        turn = _current.get()
        running = self._running if turn is None else [turn]
        return {each.caller.workspace for each in running if each.caller.workspace is not None}

    def _fits(self, turn: CallInProgress) -> bool:
        mine = turn.caller.conversation_id
        return not self._exclusive or all(each.caller.conversation_id == mine for each in self._running)

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            turn, ready = self._waiting.popleft()
            self._running.append(turn)
            if not ready.done():
                ready.set_result(None)

    def _leave_queue(self, turn: CallInProgress, ready: asyncio.Future[None]) -> None:
        if (turn, ready) in self._waiting:
            self._waiting.remove((turn, ready))
        elif turn in self._running:
            self._running.remove(turn)
        self._admit()
