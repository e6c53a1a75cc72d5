"""Calls of clients that wait for an answer of the client, which it sends with a ticket in another request."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from tertulia.errors import BusyError, ClosedError, InternalError, InvalidParamsError, TertuliaError
from tertulia.mcp.serve.sdk_server import LatestOnlySender
from tertulia.mcp.server_connection import CallResult, Elicitation, ElicitationResult, Spawn

MAX_WAITING = 256
WAITING_S = 300.0

ReportProgress = Callable[[float, float | None, str | None], Awaitable[object]]
"""Sends a client the progress of its call."""


class PendingQuestion(msgspec.Struct, frozen=True, eq=False):
    """A question that a call asks its client before it goes on."""

    elicitation: Elicitation
    answer: asyncio.Future[ElicitationResult]
    """Cancelled when the call needs no answer any more."""

    def reply(self, result: ElicitationResult) -> None:
        """Give the answer; only the first one counts."""
        if not self.answer.done():
            self.answer.set_result(result)


class RunningCall:
    """A call with a task of its own, because it may outlive the request that began it."""

    def __init__(self, spawn: Spawn, report: ReportProgress) -> None:
        self.report = report
        """Sends progress to the client's current request."""
        self._spawn = spawn
        self._progress = LatestOnlySender(spawn, "progress of a client's call")
        self._task: asyncio.Task[CallResult | TertuliaError] | None = None
        self._questions: list[PendingQuestion] = []
        self._moved = asyncio.Event()

    def begin(self, work: Coroutine[Any, Any, CallResult], ended: Callable[[], object]) -> None:
        """Start it, once; `ended` is called when it is over, whatever its outcome."""
        self._task = self._spawn(_outcome(work), "a client's call")
        self._task.add_done_callback(lambda task: self._end(ended))

    async def elicit(self, elicitation: Elicitation) -> ElicitationResult:
        """Ask the client, and wait for the answer."""
        question = PendingQuestion(elicitation, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        self._moved.set()
        return await question.answer

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Send the client its progress; of several that wait only the latest."""
        self._progress.send(lambda: self.report(done, total, message))

    async def next(self) -> PendingQuestion | None:
        """The next question; None: the call has ended."""
        while True:
            while self._questions:
                question = self._questions.pop(0)
                if not question.answer.done():
                    return question
            if self._task is None or self._task.done():
                return None
            self._moved.clear()
            await self._moved.wait()

    def result(self) -> CallResult:
        """The result of a call that has ended. Raises a TertuliaError; of any other error it shows nothing."""
        assert self._task is not None
        if self._task.cancelled():
            raise ClosedError("the call was given up")
        if self._task.exception() is not None:
            raise InternalError("the call failed inside the broker; its log says where")
        outcome = self._task.result()
        if isinstance(outcome, TertuliaError):
            raise outcome
        return outcome

    def cancel(self) -> None:
        """The client waits for it no more."""
        if self._task is not None:
            self._task.cancel()

    def _end(self, ended: Callable[[], object]) -> None:
        self._progress.close()
        self._moved.set()
        ended()


async def _outcome(work: Coroutine[Any, Any, CallResult]) -> CallResult | TertuliaError:
    """Return a TertuliaError, so that the task does not fail with it."""
    try:
        return await work
    except TertuliaError as error:
        return error


class SuspendedCalls:
    """Calls by ticket. A call whose client does not come back is cancelled."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[RunningCall, PendingQuestion, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, call: RunningCall, question: PendingQuestion) -> str:
        """Keep a call; returns its ticket. BusyError where too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            raise BusyError(f"{MAX_WAITING} calls already wait for an answer", retry_after_s=10)
        ticket = secrets.token_urlsafe(24)
        expiry = asyncio.get_running_loop().call_later(WAITING_S, self._give_up, ticket)
        self._waiting[ticket] = (call, question, expiry)
        return ticket

    def leave(self, ticket: str) -> tuple[RunningCall, PendingQuestion]:
        """Take a call out again. InvalidParamsError for a ticket that was used, has expired or never existed."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            raise InvalidParamsError("this call does not wait any more; make it again")
        call, question, expiry = waiting
        expiry.cancel()
        return call, question

    def close(self) -> None:
        """Cancel all calls that wait."""
        for ticket in list(self._waiting):
            self._give_up(ticket)

    def _give_up(self, ticket: str) -> None:
        call, _ = self.leave(ticket)
        call.cancel()
