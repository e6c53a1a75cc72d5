"""Events as the progress of a call."""

from __future__ import annotations

from tertulia.protocol.events import AgentMessage, AgentMessageDelta, TaskStarted
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.tool_events import McpToolCallProgress, PlanUpdate, ToolCallBegin, ToolCallEnd
from tertulia.server.mcp.message_call import MessageCallProgress


def told(*events: object) -> list[tuple[float, float | None, str | None]]:
    heard: list[tuple[float, float | None, str | None]] = []
    progress = MessageCallProgress(lambda *step: heard.append(step))
    for event in events:
        progress.hear(event)  # type: ignore[arg-type]
    return heard


def test_each_event_that_a_person_would_want_to_see_is_a_step_in_a_few_words() -> None:
    call = CallId("c")
    assert told(
        TaskStarted("user"),
        ToolCallBegin(call, "shell", {}),
        ToolCallEnd(call, "shell", False, "no", False, 1),
        ToolCallEnd(call, "shell", True, "yes", False, 1),
        PlanUpdate(plan=[], explanation=None),
        AgentMessage(item_id=ItemId("i"), text="all done"),
    ) == [
        (1.0, None, "the agent begins"),
        (2.0, None, "calls shell"),
        (3.0, None, "shell failed"),
        (4.0, None, "shell answered"),
        (5.0, None, "has a new plan"),
        (6.0, None, "all done"),
    ]


def test_how_far_a_tool_has_come_is_a_step_where_it_says_so_in_words() -> None:
    """What a client is told only ever grows, whatever a server counts."""
    half = McpToolCallProgress(
        CallId("c"), progress=0.5, total=1.0, message="half of it", item_id=ItemId("i"), offset=0
    )
    silent = McpToolCallProgress(CallId("c"), progress=0.1, total=1.0, message=None, item_id=ItemId("i"), offset=0)
    assert told(TaskStarted("user"), half, silent) == [(1.0, None, "the agent begins"), (2.0, None, "half of it")]


def test_pieces_of_a_text_are_no_steps() -> None:
    assert told(AgentMessageDelta(item_id=ItemId("i"), offset=0, text="al")) == []


def test_words_are_short_and_cannot_hide_anything() -> None:
    """B10: what a terminal would obey is shown escaped."""
    ((_, _, words),) = told(AgentMessage(item_id=ItemId("i"), text="\x1b[2J" + "x" * 5_000))
    assert words is not None
    assert "\x1b" not in words
    assert len(words) < 300
