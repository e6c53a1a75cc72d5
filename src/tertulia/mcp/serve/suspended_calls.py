"""Calls that our clients made and that wait for an answer of theirs. A client comes back for one with its ticket."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from tertulia.errors import BusyError, ClosedError, InternalError, InvalidParamsError, TertuliaError
from tertulia.mcp.serve.list_changed import LatestOnlySender
from tertulia.mcp.server_connection import CallResult, Elicitation, ElicitationResult, Spawn

MAX_WAITING = 256
WAITING_S = 300.0

ReportProgress = Callable[[float, float | None, str | None], Awaitable[object]]
"""Tells a client how far its call is."""


class PendingQuestion(msgspec.Struct, frozen=True, eq=False):
    """What a call wants to know before it goes on."""

    asked: Elicitation
    answer: asyncio.Future[ElicitationResult]
    """Done also when the call does not want to know any more."""

    def reply(self, said: ElicitationResult) -> None:
        """The first answer counts."""
        if not self.answer.done():
            self.answer.set_result(said)


class RunningCall:
    """A call with a task of its own, because it may outlive the request that began it."""

    def __init__(self, spawn: Spawn, report: ReportProgress) -> None:
        self.report = report
        """How the client that waits for it now hears of its progress."""
        self._spawn = spawn
        self._told = LatestOnlySender(spawn, "progress of a client's call")
        self._task: asyncio.Task[CallResult | TertuliaError] | None = None
        self._questions: list[PendingQuestion] = []
        self._moved = asyncio.Event()

    def begin(self, work: Coroutine[Any, Any, CallResult], ended: Callable[[], object]) -> None:
        """Once; `ended` is called when it is over, however that came."""
        self._task = self._spawn(_outcome(work), "a client's call")
        self._task.add_done_callback(lambda task: self._end(ended))

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        """Ask the client, and wait for what it says."""
        question = PendingQuestion(asked, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        self._moved.set()
        return await question.answer

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Tell the client, unless something newer comes before it has heard the last."""
        self._told.tell(lambda: self.report(done, total, message))

    async def next(self) -> PendingQuestion | None:
        """What it wants to know next; None: it has ended."""
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
        """After it has ended; raises an AgentError whatever went wrong, and of another error it says nothing."""
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
        """Nobody waits for it any more."""
        if self._task is not None:
            self._task.cancel()

    def _end(self, ended: Callable[[], object]) -> None:
        self._told.close()
        self._moved.set()
        ended()


async def _outcome(work: Coroutine[Any, Any, CallResult]) -> CallResult | TertuliaError:
    """A refusal is no failure of the task."""
    try:
        return await work
    except TertuliaError as error:
        return error


class SuspendedCalls:
    """Calls by ticket. One that nobody comes back for is given up."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[RunningCall, PendingQuestion, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, call: RunningCall, question: PendingQuestion) -> str:
        """The ticket with which its client comes back; Busy where too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            raise BusyError(f"{MAX_WAITING} calls already wait for an answer", retry_after_s=10)
        ticket = secrets.token_urlsafe(24)
        expiry = asyncio.get_running_loop().call_later(WAITING_S, self._give_up, ticket)
        self._waiting[ticket] = (call, question, expiry)
        return ticket

    def leave(self, ticket: str) -> tuple[RunningCall, PendingQuestion]:
        """Once; InvalidParams for a ticket that was used, has expired or never was."""
        found = self._waiting.pop(ticket, None)
        if found is None:
            raise InvalidParamsError("this call does not wait any more; make it again")
        call, question, expiry = found
        expiry.cancel()
        return call, question

    def close(self) -> None:
        """All are given up."""
        for ticket in list(self._waiting):
            self._give_up(ticket)

    def _give_up(self, ticket: str) -> None:
        call, _ = self.leave(ticket)
        call.cancel()
