"""Which call of a connection a request of the server belongs to.

Before protocol version 2026-07-28 a request of the server does not say which call caused it. After the first such
request, calls of two conversations no longer overlap on the connection, so that only one conversation can be meant.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar

from tertulia.mcp.server_connection import Caller, OnProgress

_current: ContextVar[CallInProgress | None] = ContextVar("mcp_call", default=None)


def clear_current_call() -> None:
    """What follows in this task belongs to no call."""
    _current.set(None)


class CallInProgress:
    """One call in progress, and the questions that its server asks meanwhile."""

    __slots__ = ("_left_s", "_limit", "_questions", "asks", "caller", "on_progress", "over")

    def __init__(self, caller: Caller, on_progress: OnProgress, limit: asyncio.Timeout) -> None:
        self.caller, self.on_progress = caller, on_progress
        self.over = False
        self.asks = 0
        """How many questions its server has asked."""
        self._limit = limit
        self._left_s: float | None = None
        self._questions: set[asyncio.Task[object]] = set()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress that the server reports; dropped when the call is over."""
        if not self.over:
            self.on_progress(progress, total, message)

    async def wait_for(self, task: asyncio.Task[object]) -> None:
        """Wait for the answer to a question while the call lasts; meanwhile the call's time limit is suspended."""
        loop = asyncio.get_running_loop()
        if not self._questions and not self._limit.expired() and (when := self._limit.when()) is not None:
            self._left_s = when - loop.time()
            self._limit.reschedule(None)
        self._questions.add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._questions.discard(task)
            if not self._questions and not self.over and not self._limit.expired() and self._left_s is not None:
                self._limit.reschedule(loop.time() + self._left_s)

    def end(self) -> None:
        """The call is over: questions in progress are cancelled."""
        self.over = True
        for task in self._questions:
            task.cancel()


class CallAttribution:
    """The calls in progress on one connection."""

    __slots__ = ("_exclusive", "_running", "_waiting")

    def __init__(self) -> None:
        self._exclusive = False
        self._running: list[CallInProgress] = []
        self._waiting: deque[tuple[CallInProgress, asyncio.Future[None]]] = deque()

    async def begin(self, call: CallInProgress) -> None:
        """Wait until it may run; from then on, requests of the server in this task belong to it."""
        if self._waiting or not self._fits(call):
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((call, ready))
            try:
                await ready
            except asyncio.CancelledError:
                self._leave_queue(call, ready)
                raise
        else:
            self._running.append(call)
        _current.set(call)

    def end(self, call: CallInProgress) -> None:
        """The call is over, whatever its outcome."""
        call.end()
        clear_current_call()
        if call in self._running:
            self._running.remove(call)
        self._admit()

    def concerned(self) -> CallInProgress | None:
        """The call that the server's request belongs to; None where there is none or it cannot be known."""
        call = _current.get()
        if call is not None:
            return call if call in self._running else None
        self._exclusive = True
        conversations = {running.caller.conversation_id for running in self._running}
        return self._running[0] if len(conversations) == 1 else None

    def workspaces(self) -> set[str]:
        """The workspaces of the calls that the server's request may belong to."""
        call = _current.get()
        running = self._running if call is None else [call]
        return {other.caller.workspace for other in running if other.caller.workspace is not None}

    def _fits(self, call: CallInProgress) -> bool:
        mine = call.caller.conversation_id
        return not self._exclusive or all(running.caller.conversation_id == mine for running in self._running)

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            call, ready = self._waiting.popleft()
            self._running.append(call)
            if not ready.done():
                ready.set_result(None)

    def _leave_queue(self, call: CallInProgress, ready: asyncio.Future[None]) -> None:
        if (call, ready) in self._waiting:
            self._waiting.remove((call, ready))
        elif call in self._running:
            self._running.remove(call)
        self._admit()
