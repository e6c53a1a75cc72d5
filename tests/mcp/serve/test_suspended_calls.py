"""Calls that wait for a client: one answer each, bounded, and gone when nobody comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tertulia.errors import BusyError, ClosedError, InternalError, InvalidParamsError
from tertulia.mcp.serve import suspended_calls
from tertulia.mcp.serve.suspended_calls import RunningCall, SuspendedCalls
from tertulia.mcp.server_connection import CallResult, Elicitation, ElicitationResult
from tertulia.scheduler.nursery import Nursery
from tests.mcp.connected import until

SURE = Elicitation("shop", "Sure?", {})


class CallStage:
    def __init__(self) -> None:
        self.nursery, self.suspended = Nursery(), SuspendedCalls()
        self.ended = 0

    def call(self, work: Any = None) -> RunningCall:
        async def report(*_: object) -> None: ...

        async def ask() -> CallResult:
            return CallResult((await running.elicit(SURE)).action)

        running = RunningCall(self.nursery.start, report)
        running.begin(ask() if work is None else work, self._end)
        return running

    def _end(self) -> None:
        self.ended += 1


@pytest.fixture
async def stage() -> AsyncIterator[CallStage]:
    made = CallStage()
    yield made
    made.suspended.close()
    await until(lambda: not len(made.nursery))


async def test_the_first_answer_counts(stage: CallStage) -> None:
    running = stage.call()
    question = await running.next()
    assert question is not None
    ticket = stage.suspended.enter(running, question)
    assert stage.suspended.leave(ticket) == (running, question)
    question.reply(ElicitationResult("accept"))
    question.reply(ElicitationResult("decline"))
    assert await running.next() is None
    assert running.result() == CallResult("accept")
    assert stage.ended == 1


async def test_tickets_cannot_be_guessed_and_are_used_once(stage: CallStage) -> None:
    running = stage.call()
    question = await running.next()
    assert question is not None
    ticket, other = stage.suspended.enter(running, question), stage.suspended.enter(running, question)
    assert ticket != other
    assert len(ticket) == 32
    stage.suspended.leave(ticket)
    for wrong in (ticket, "", other[:-1]):
        with pytest.raises(InvalidParamsError):
            stage.suspended.leave(wrong)
    assert len(stage.suspended) == 1


async def test_a_call_that_nobody_comes_back_for_is_given_up(stage: CallStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_calls, "WAITING_S", 0.01)
    running = stage.call()
    question = await running.next()
    assert question is not None
    stage.suspended.enter(running, question)
    await until(lambda: stage.ended == 1)
    assert len(stage.suspended) == 0
    with pytest.raises(ClosedError):
        running.result()


async def test_only_so_many_wait(stage: CallStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_calls, "MAX_WAITING", 1)
    running = stage.call()
    question = await running.next()
    assert question is not None
    stage.suspended.enter(running, question)
    with pytest.raises(BusyError):
        stage.suspended.enter(running, question)
    assert len(stage.suspended) == 1


async def test_a_question_that_was_withdrawn_is_not_asked(stage: CallStage) -> None:
    async def work() -> CallResult:
        for _ in range(2):
            asking = asyncio.ensure_future(running.elicit(SURE))
            await asyncio.wait((asking,), timeout=0)
            asking.cancel()
        return CallResult("without")

    running = stage.call(work())
    await until(lambda: stage.ended == 1)
    assert await running.next() is None
    assert running.result() == CallResult("without")


async def test_of_an_error_that_is_not_ours_nothing_is_said(stage: CallStage) -> None:
    async def work() -> CallResult:
        raise RuntimeError("the key is hunter2")

    running = stage.call(work())
    assert await running.next() is None
    with pytest.raises(InternalError) as caught:
        running.result()
    assert "hunter2" not in str(caught.value)
    assert stage.ended == 1
