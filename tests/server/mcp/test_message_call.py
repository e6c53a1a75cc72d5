"""A message that came as an MCP call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.mcp.serve.sources import ServedCall
from tertulia.models.scripted.script import say
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, TaskStarted
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.inputs import Message
from tertulia.protocol.tool_events import McpToolCallProgress, PlanUpdate, ToolCallBegin, ToolCallEnd
from tertulia.server.mcp.message_call import MessageCallProgress, run_message_call
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.mcp.connected import until
from tests.server.client import model


def served_call(heard: list[Any]) -> ServedCall:
    async def nobody(request: Any) -> Any:
        raise AssertionError("nothing has to be asked")

    return ServedCall("conversation_message", {}, "test", False, nobody, lambda *step: heard.append(step))


async def test_its_client_hears_of_it_until_the_answer_is_there() -> None:
    heard: list[Any] = []
    async with Session.start(Settings(model=model(["hello"]))) as session:
        reply = await run_message_call(session, Message(conversation_id="root", text="hi"), served_call(heard))
        assert reply.text == "hello"
        assert [step[2] for step in heard] == ["the agent begins", "hello"]


async def test_only_its_own_events_are_its_progress() -> None:
    """Two messages to one conversation: the second hears nothing of the first."""
    gate = asyncio.Event()
    first: list[Any] = []
    second: list[Any] = []
    async with Session.start(Settings(model=model([say("one", gate=gate), "two"]))) as session:
        message = Message(conversation_id="root", text="hi")
        running = asyncio.ensure_future(run_message_call(session, message, served_call(first)))
        await until(lambda: bool(first))
        waiting = asyncio.ensure_future(run_message_call(session, message, served_call(second)))
        gate.set()
        assert ((await running).text, (await waiting).text) == ("one", "two")
        assert [step[2] for step in second] == ["the agent begins", "two"]


async def test_giving_up_stops_the_task() -> None:
    heard: list[Any] = []
    async with Session.start(Settings(model=model([say("late", gate=asyncio.Event())]))) as session:
        message = Message(conversation_id="root", text="hi")
        running = asyncio.ensure_future(run_message_call(session, message, served_call(heard)))
        await until(lambda: bool(heard))
        async with session.events() as news:
            running.cancel()
            async for event in news:
                if event.type == "turn_aborted":
                    break
        assert session.root.info.status == "idle"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message(conversation_id="nobody", text="x"), NotFoundError),
        (Message(conversation_id="root"), InvalidParamsError),
    ],
)
async def test_what_cannot_be_sent_is_refused(message: Message, error: type[Exception]) -> None:
    heard: list[Any] = []
    async with Session.start(Settings(model=model())) as session:
        with pytest.raises(error):
            await run_message_call(session, message, served_call(heard))
        assert not heard
        assert session.root.info.message_count == 0


def progress_of(*events: object) -> list[tuple[float, float | None, str | None]]:
    heard: list[tuple[float, float | None, str | None]] = []
    progress = MessageCallProgress(lambda *step: heard.append(step))
    for event in events:
        progress.hear(event)  # type: ignore[arg-type]
    return heard


def test_each_event_that_a_person_would_want_to_see_is_a_step_in_a_few_words() -> None:
    call = CallId("c")
    assert progress_of(
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
    assert progress_of(TaskStarted("user"), half, silent) == [
        (1.0, None, "the agent begins"),
        (2.0, None, "half of it"),
    ]


def test_pieces_of_a_text_are_no_steps() -> None:
    assert progress_of(AgentMessageDelta(item_id=ItemId("i"), offset=0, text="al")) == []


def test_words_are_short_and_cannot_hide_anything() -> None:
    """B10: what a terminal would obey is shown escaped."""
    ((_, _, words),) = progress_of(AgentMessage(item_id=ItemId("i"), text="\x1b[2J" + "x" * 5_000))
    assert words is not None
    assert "\x1b" not in words
    assert len(words) < 300
