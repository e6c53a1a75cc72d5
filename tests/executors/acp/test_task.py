"""One task of an ACP agent: steps in order, questions answered, one end."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.errors import ModelError, TaskCancelledError
from tertulia.executors.acp import task as acp_task
from tertulia.executors.acp.pipe import AcpPipe
from tertulia.executors.acp.task import AcpTask
from tertulia.executors.executor import (
    AgentDelta,
    AgentText,
    PermissionAnswer,
    PermissionQuestion,
    RunFailed,
    RunFinished,
    RunInterrupted,
    UsageReport,
)
from tertulia.protocol.items import Usage
from tests.executors.acp_hosts import RecordingHost
from tests.tables import each_row

CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}


async def test_its_last_message_is_the_answer() -> None:
    """Usage and the whole text come before the end."""
    task = AcpTask(None)
    task.hear(CHUNK)
    task.end({"stopReason": "end_turn", "usage": {"inputTokens": 3, "cachedReadTokens": 1, "totalTokens": "x"}})
    used = UsageReport(Usage(input_tokens=3, cached_input_tokens=1))
    assert list(task.steps) == [AgentDelta("message-1", "hi"), AgentText("message-1", "hi"), used]
    assert task.ending == RunFinished("hi")


@each_row(
    ("reason", "kind", "code"),
    [
        ("max_tokens", RunFailed, "limit"),
        ("max_turn_requests", RunFailed, "limit"),
        ("refusal", RunFailed, "model_error"),
        ("cancelled", RunInterrupted, None),
        (None, RunFailed, "model_error"),
        ({}, RunFailed, "model_error"),
    ],
)
async def test_every_stop_reason_has_an_ending(reason: object, kind: type, code: str | None) -> None:
    """And what is unknown is none that completes."""
    task = AcpTask(None)
    task.end({"stopReason": reason})
    assert isinstance(task.ending, kind)
    assert getattr(task.ending, "code", None) == code


async def test_one_that_fails_keeps_what_was_half_said() -> None:
    """The error is its own."""
    task = AcpTask(None)
    task.hear(CHUNK)
    task.fail(ModelError("gone"))
    assert task.is_over
    assert task.steps[-1] == AgentText("message-1", "hi")
    await task.settle()


async def test_given_up_it_hears_nothing_and_allows_nothing() -> None:
    """HARDENING I6: what comes late is thrown away."""
    host = RecordingHost()
    task = AcpTask(host)
    task.hear(CHUNK)
    task.give_up()
    task.hear(CHUNK)
    assert not task.steps
    assert await task.serve("session/request_permission", {}) == {"outcome": {"outcome": "cancelled"}}
    with pytest.raises(TaskCancelledError):
        await task.serve("fs/write_text_file", {"path": "/a", "content": "x"})
    assert (host.asked, host.files) == ([], {})


class Slow(RecordingHost):
    """Somebody who thinks about it, and what is done when he is not asked any more."""

    def __init__(self) -> None:
        super().__init__()
        self.asks = asyncio.Event()
        self.given_up = 0

    async def permit(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asks.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up += 1
        raise AssertionError


@pytest.mark.parametrize("how", ["close", "give_up"])
async def test_what_is_still_asked_when_it_is_over_is_denied(how: str) -> None:
    """HARDENING I6: nobody is asked on behalf of a task that is over; the agent gets its answer all the same."""
    host = Slow()
    task = AcpTask(host)
    asking = asyncio.create_task(task.serve("session/request_permission", {}))
    await host.asks.wait()
    if how == "give_up":
        task.give_up()
    await task.close()
    assert host.given_up == 1
    assert await asking == {"outcome": {"outcome": "cancelled"}}
    with pytest.raises(TaskCancelledError):
        await task.serve("terminal/create", {"command": "ls"})
    await task.close()


async def test_somebody_elses_cancellation_is_not_kept() -> None:
    """The connection is closed: whoever serves it stops."""
    host = Slow()
    task = AcpTask(host)
    asking = asyncio.create_task(task.serve("session/request_permission", {}))
    await host.asks.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await task.close()


async def test_steps_that_nobody_reads_hold_the_agent_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded memory."""
    monkeypatch.setattr(acp_task, "MAX_UNREAD", 2)
    task = AcpTask(None)
    task.may_read = AcpPipe().may_read
    for _ in range(3):
        task.hear(CHUNK)
    assert not task.may_read.is_set()
    await task.more()
    assert task.may_read.is_set()
