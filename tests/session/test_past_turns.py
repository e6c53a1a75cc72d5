"""How turns ended and what they cost, read from what real sessions wrote down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tertulia import Session, Settings
from tertulia.errors import NotFound
from tertulia.history.segment import is_asked
from tertulia.protocol.usage import NO_USAGE
from tertulia.session.past_turns import past_turns, read_past_turns
from tertulia.session.settings import current_environment
from tertulia.testing import RecordedEvents, ScriptedModel, call, fail, say


def home() -> Path:
    return current_environment().home


async def test_every_turn_of_the_root_has_its_ending_and_every_request_its_price() -> None:
    """Issue 10 (5): over all lives of a session, delegation and other conversations included."""
    asks = call("conv_create", {"user_instruction": "What is 2 + 2?"})
    model = ScriptedModel(["one", fail("no answer"), asks, "4", "It is 4.", "elsewhere"])
    async with Session.start(Settings(model=model)) as session:
        replies = [await session.root.message(text) for text in ("a", "b", "c")]
        replies.append(await (await session.open()).message("d"))
        spent = sum((reply.usage for reply in replies), NO_USAGE)
        asked = [item.id for item in session.parts.conversations.root.history.snapshot() if is_asked(item)]
    past = read_past_turns(home(), session.id)
    assert past.endings == dict(zip(asked, ("completed", "failed", "completed"), strict=True))
    assert past.usage == spent
    async with Session.resume(session.id, Settings(model=ScriptedModel(["two"]))) as again:
        more = await again.root.message("e")
    past = read_past_turns(home(), session.id)
    assert list(past.endings.values()) == ["completed", "failed", "completed", "completed"]
    assert past.usage == spent + more.usage


async def test_what_was_stopped_was_interrupted_and_what_took_too_long_has_failed() -> None:
    model = ScriptedModel([say("late", gate=asyncio.Event())], repeat=True)
    async with Session.start(Settings(model=model)) as session, RecordedEvents(session) as events:
        stopped = asyncio.ensure_future(session.root.message("a"))
        await events.until("task_started")
        await session.root.steer("faster")
        assert await session.root.interrupt()
        assert (await stopped).status == "interrupted"
        await session.root.set_context(limits={"task_timeout_s": 0.01})
        assert (await session.root.message("b")).status == "failed"
    assert list(read_past_turns(home(), session.id).endings.values()) == ["interrupted", "failed"]


def test_of_nothing_there_is_nothing_and_a_session_that_never_was_is_not_found() -> None:
    assert past_turns([]).usage == NO_USAGE
    assert not past_turns([]).endings
    with pytest.raises(NotFound):
        read_past_turns(home(), "6b1ab4f8-0c9e-4b52-8d2a-4be0a2a35a05")
