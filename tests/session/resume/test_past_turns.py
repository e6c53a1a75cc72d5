"""How turns ended and what they cost, read from what real sessions wrote down."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from tertulia import Session, Settings
from tertulia.errors import NotFoundError
from tertulia.events.clock import SystemClock
from tertulia.history.segment import is_user_request
from tertulia.protocol.events import Event, SessionConfigured, TaskComplete
from tertulia.protocol.items import NO_USAGE
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.resume.past_turns import past_turns, read_past_turns
from tertulia.session.settings.settings import current_environment
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
        ids = [item.id for item in session.parts.conversations.root.history.snapshot() if is_user_request(item)]
    past = read_past_turns(home(), session.id)
    assert past.endings == dict(zip(ids, ("completed", "failed", "completed"), strict=True))
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


async def test_a_compaction_leaves_the_ending_of_the_turn_before_it_alone() -> None:
    """Issue 10 (5): it is a task without a message; what was put into the turn begins none either."""
    model = ScriptedModel([say("late", gate=asyncio.Event()), "notes"])
    async with Session.start(Settings(model=model)) as session, RecordedEvents(session) as events:
        stopped = asyncio.ensure_future(session.root.message("a"))
        await events.until("task_started")
        await session.root.steer("faster")
        assert await session.root.interrupt()
        await stopped
        before = read_past_turns(home(), session.id).endings
        assert list(before.values()) == ["interrupted"]
        await session.root.compact()
    assert read_past_turns(home(), session.id).endings == before


@pytest.mark.parametrize("same_life", [True, False])
async def test_a_turn_that_nothing_says_the_end_of_was_interrupted(same_life: bool) -> None:
    """Issue 10 (5): its process was killed."""
    async with Session.start(Settings(model=ScriptedModel(["one"]))) as session:
        await session.root.message("a")
    async with Session.resume(session.id, Settings(model=ScriptedModel(["two"]))) as again:
        await again.root.message("b")
    with closing(SqliteReader(find_files(home(), session.id).db, SystemClock())) as reader:
        lines = list(RowReader().lines(reader.rows()))
    events = [line.what.data if isinstance(line.what, Event) else None for line in lines]
    ends = [at for at, data in enumerate(events) if isinstance(data, TaskComplete)]
    lives = [at for at, data in enumerate(events) if isinstance(data, SessionConfigured)]
    assert list(past_turns(lines).endings.values()) == ["completed", "completed"]
    gone = {ends[0], *(lives[1:] if same_life else ())}
    remaining = [line for at, line in enumerate(lines) if at not in gone]
    assert list(past_turns(remaining).endings.values()) == ["interrupted", "completed"]
    assert past_turns(remaining).endings.keys() == past_turns(lines).endings.keys()


def test_of_nothing_there_is_nothing_and_a_session_that_never_was_is_not_found() -> None:
    assert past_turns([]).usage == NO_USAGE
    assert not past_turns([]).endings
    with pytest.raises(NotFoundError):
        read_past_turns(home(), "6b1ab4f8-0c9e-4b52-8d2a-4be0a2a35a05")
