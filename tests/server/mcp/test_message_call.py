"""A message that came as an MCP call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.mcp.serve.sources import ServedCall
from tertulia.models.scripted.script import say
from tertulia.protocol.inputs import Message
from tertulia.server.mcp.message_call import run_message_call
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.mcp.connected import until
from tests.server.client import model


def served_call(heard: list[Any]) -> ServedCall:
    async def nobody(asked: Any) -> Any:
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
        said = Message(conversation_id="root", text="hi")
        running = asyncio.ensure_future(run_message_call(session, said, served_call(first)))
        await until(lambda: bool(first))
        waiting = asyncio.ensure_future(run_message_call(session, said, served_call(second)))
        gate.set()
        assert ((await running).text, (await waiting).text) == ("one", "two")
        assert [step[2] for step in second] == ["the agent begins", "two"]


async def test_giving_up_stops_the_task() -> None:
    heard: list[Any] = []
    async with Session.start(Settings(model=model([say("late", gate=asyncio.Event())]))) as session:
        said = Message(conversation_id="root", text="hi")
        running = asyncio.ensure_future(run_message_call(session, said, served_call(heard)))
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
