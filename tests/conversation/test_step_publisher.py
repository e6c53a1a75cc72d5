"""Progress in batches, in order, with everything ended that was begun."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.conversation import step_publisher
from tertulia.conversation.step_publisher import StepPublisher
from tertulia.executors.executor import (
    AgentDelta,
    AgentText,
    Notice,
    RunFinished,
    Step,
    ThoughtDelta,
    ToolUseBegin,
    ToolUseEnd,
)
from tertulia.executors.step_events import StepEvents
from tertulia.protocol.items import AssistantMessage
from tertulia.protocol.records import LONG_CHARACTERS
from tests.conversation.task_stage import TaskStage
from tests.tables import each_row


def telling(standing: TaskStage) -> StepPublisher:
    return StepPublisher(standing.scope, StepEvents("fake", "run", "/", standing.clock))


async def test_five_events_are_told_at_once_and_not_before() -> None:
    """S003-28: batches of five."""
    standing = TaskStage()
    text = telling(standing)
    for number in range(4):
        text.tell(Notice(f"{number}"))
    assert standing.told() == []
    text.tell(Notice("4"))
    assert [event.data.message for event in standing.told()] == ["0", "1", "2", "3", "4"]


async def test_long_pieces_are_told_before_there_are_five_of_them() -> None:
    """L1: each is searched for tokens then, and five at once held the loop for 300 ms."""
    standing = TaskStage()
    reporter = telling(standing)
    for number, text in enumerate(["x" * LONG_CHARACTERS, "y", "z" * LONG_CHARACTERS]):
        reporter.tell(AgentDelta("a", text) if number else ThoughtDelta("b", text))
    assert standing.types() == ["agent_reasoning_delta", "agent_message_delta", "agent_message_delta"]
    reporter.tell(AgentDelta("a", "short"))
    assert standing.types() == []


async def test_what_came_is_told_after_a_fifth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """S003-28: or 200 ms."""
    assert step_publisher.BATCH_PERIOD_S == 0.2
    monkeypatch.setattr(step_publisher, "BATCH_PERIOD_S", 0.0)
    standing = TaskStage()
    text = telling(standing)
    text.tell(Notice("one"))
    assert standing.told() == []
    for _ in range(3):
        await asyncio.sleep(0)
    assert standing.types() == ["warning"]
    text.tell(Notice("two"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert standing.types() == ["warning"]


async def test_a_whole_answer_waits_for_nothing_and_joins_the_history() -> None:
    """X-60: one history."""
    standing = TaskStage()
    text = telling(standing)
    text.tell(AgentDelta("a", "hel"))
    text.tell(AgentText("a", "hello"))
    assert standing.types() == ["agent_message_delta", "agent_message"]
    (item,) = standing.conversation.history.snapshot()
    assert isinstance(item, AssistantMessage)
    assert (item.text, standing.scope.last_text) == ("hello", "hello")


async def test_what_was_half_said_is_kept_at_an_end_that_nobody_planned() -> None:
    """S003-29: the end erases nothing that was told."""
    standing = TaskStage()
    text = telling(standing)
    text.tell(AgentDelta("a", "hel"))
    standing.scope.tidy("interrupted")
    assert standing.types() == ["agent_message_delta", "agent_message"]
    assert standing.scope.last_text == "hel"


@each_row("ends", [[], [RunFinished("x")], [ToolUseEnd("c", "ls", {}, None, True, "a")]], ids=["none", "run", "call"])
async def test_whatever_was_begun_is_ended_exactly_once(ends: list[Step]) -> None:
    """Contract of Backend: exactly one end for each beginning, in every ending."""
    standing = TaskStage()
    text = telling(standing)
    text.tell(ToolUseBegin("c", "ls", {}))
    for step in ends:
        text.tell(step)
    standing.scope.tidy("interrupted")
    standing.scope.tidy("interrupted")
    assert standing.types() == ["tool_call_begin", "tool_call_end"]
    assert standing.tally.tool_calls == 1
    standing.scope.revoke()
    assert standing.scope._on_break is None
