"""Playing a record: all of it, at the right speed, and on while its owner writes."""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.cli.sessions import replay as replay_player
from tertulia.cli.sessions.replay import LONGEST_PAUSE_S, play_record
from tertulia.errors import NotFoundError
from tertulia.protocol.events import Event
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S
from tests.session.stored import home, lines

DEADLINE_S = HANG_S


async def hold_conversation(*replies: Any) -> str:
    async with Session.start(tertulia.Settings(model=ScriptedModel(replies))) as session:
        for _ in replies:
            await session.root.message("hello")
    return session.id


async def test_every_line_is_shown_once_in_order() -> None:
    session_id = await hold_conversation("one", "two")
    seen: list[RecordLine] = []
    assert await play_record(home(), session_id, seen.append)
    assert seen == lines(session_id)


async def test_a_session_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        await play_record(tmp_path, "00000000-0000-0000-0000-000000000000", lambda line: None)


async def test_it_waits_as_long_as_it_took_but_no_longer_than_is_humane(monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = await hold_conversation("one")
    pauses: list[float] = []

    async def note(self: object, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(replay_player._Player, "pause", note)
    times = [line.ts for line in lines(session_id)]
    gaps = [max(later - earlier, 0) for earlier, later in pairwise(times)]
    await play_record(home(), session_id, lambda line: None, speed=0.5)
    assert pauses == [gap * 2 for gap in gaps]
    pauses.clear()
    await play_record(home(), session_id, lambda line: None, speed=1e-12)
    assert set(pauses) <= {0, LONGEST_PAUSE_S}
    assert LONGEST_PAUSE_S in pauses


async def test_a_signal_stops_it_in_the_middle() -> None:
    session_id = await hold_conversation("one", "two")
    seen: list[RecordLine] = []

    def show(line: RecordLine) -> None:
        seen.append(line)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    assert not await play_record(home(), session_id, show)
    assert 3 <= len(seen) < len(lines(session_id))


async def test_a_reader_follows_the_owner_until_he_is_done() -> None:
    """Issue 5, 6: a read-only live view; nothing is missed and nothing is shown twice."""
    model = ScriptedModel(["one", "two"])
    seen: list[RecordLine] = []
    heard = asyncio.Event()

    def show(line: RecordLine) -> None:
        seen.append(line)
        if isinstance(line.what, Event) and line.what.type == "task_complete":
            heard.set()

    async with asyncio.timeout(DEADLINE_S):
        async with Session.start(tertulia.Settings(model=model)) as session:
            await session.root.message("first")
            following = asyncio.create_task(play_record(home(), session.id, show, follow=True))
            await heard.wait()
            heard.clear()
            await session.root.message("second")
            await heard.wait()
            assert not following.done()
        assert await following
    assert seen == lines(session.id)


async def test_whoever_follows_may_leave() -> None:
    async with asyncio.timeout(DEADLINE_S):
        async with Session.start(tertulia.Settings(model=ScriptedModel([]))) as session:
            seen = asyncio.Event()
            following = asyncio.create_task(play_record(home(), session.id, lambda line: seen.set(), follow=True))
            await seen.wait()
            os.kill(os.getpid(), signal.SIGINT)
            assert not await following
