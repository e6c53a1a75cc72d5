"""The board of a stored session at any record is what folding everything before it gives, and costs one stretch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia import Session, Settings
from tertulia.rollout.sqlite.excerpts import ExcerptReader, ReadableTexts
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.session.records import boards, stored_records
from tertulia.session.records.boards import RecordBoards
from tertulia.testing import ScriptedModel, say
from tertulia.view.board import Board
from tertulia.view.snapshot import write_snapshot
from tests.session.lives import until
from tests.session.records.looking import ASKS, Looker, home, recorded

CANARY = "canary-91c2"


def folded(events: list[Any], count: int, cells: int = 500) -> Any:
    board = Board()
    for event in events[:count]:
        board.take(event)
    return json.loads(write_snapshot(board, cells))


@pytest.fixture
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "_STRETCH", 4)


@pytest.mark.usefixtures("short_stretches")
async def test_at_every_record_it_is_what_all_events_before_it_come_to() -> None:
    """Issue 23, S001-34: forwards, backwards and in leaps."""
    session, events = await recorded(ASKS, "4", "It is 4.", messages=2)
    look = Looker()
    numbers = [event["n"] for event in (await look("page", session_id=session.id))["events"]]
    places = [*range(len(numbers)), *reversed(range(len(numbers))), 3, len(numbers) - 1, 0, 9]
    for place in places:
        answer = await look("board", session_id=session.id, at_n=numbers[place])
        assert (answer["n"], answer["seq"]) == (numbers[place], events[place].seq)
        assert answer["board"] == folded(events, place + 1)
    few = await look("board", session_id=session.id, at_n=numbers[-1], max_cells=2)
    assert few["board"] == folded(events, len(events), 2)


async def test_beyond_the_end_it_is_the_last_and_before_the_beginning_nothing() -> None:
    session, events = await recorded("hi")
    look = Looker()
    last = await look("board", session_id=session.id, at_n=10**9)
    assert (last["board"], last["seq"]) == (folded(events, len(events)), events[-1].seq)
    assert last["n"] < 10**9
    nothing = await look("board", session_id=session.id, at_n=0)
    assert (nothing["n"], nothing["seq"], nothing["board"]) == (0, 0, folded([], 0))


@pytest.mark.usefixtures("short_stretches")
async def test_what_is_erased_is_gone_from_boards_that_were_folded_before() -> None:
    """S002-44: a stricter policy holds for what was stored before, and for what was read of it."""
    async with Session.start(Settings(model=ScriptedModel([CANARY, "x"]))) as session:
        await session.root.message("first")
        look = Looker()
        before = await look("board", session_id=session.id, at_n=10**6)
        assert CANARY in json.dumps(before)
        await session.root.set_context(storage_policy="headers_only")
        await session.root.message("second")
        assert CANARY not in json.dumps(await look("board", session_id=session.id, at_n=before["n"]))


@pytest.mark.usefixtures("short_stretches")
async def test_checkpoints_are_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, events = await recorded(messages=12)
    other, _ = await recorded(messages=12)
    look = Looker()
    await look("board", session_id=one.id, at_n=10**6)
    cache = look.host.services.records.boards
    whole = cache.weight
    assert whole > 0
    monkeypatch.setattr(boards, "MAX_SESSION_BYTES", whole // 4)
    monkeypatch.setattr(boards, "MAX_BYTES", whole)
    await look("board", session_id=other.id, at_n=10**6)
    assert cache.weight <= whole
    cache.clear()
    thinner = RecordBoards()
    monkeypatch.setattr(look.host.services.records, "boards", thinner)
    answer = await look("board", session_id=one.id, at_n=10**6)
    assert thinner.weight < whole
    numbers = [event["n"] for event in (await look("page", session_id=one.id, limit=1_000))["events"]]
    assert answer["board"] == folded(events, len(events))
    for place in (len(numbers) // 2, 3, len(numbers) - 2):
        again = await look("board", session_id=one.id, at_n=numbers[place])
        assert again["board"] == folded(events, place + 1), "with fewer checkpoints, the same boards"


async def test_checkpoints_that_no_client_asks_for_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 23: an observer that sleeps costs the server nothing but its socket."""
    monkeypatch.setattr(stored_records, "KEEP_BOARDS_S", 0.0)
    session, _ = await recorded("hi")
    look = Looker()
    await look("board", session_id=session.id, at_n=10**6)
    await until(lambda: look.host.services.records.boards.weight == 0)


async def test_a_session_that_goes_on_is_followed() -> None:
    async with Session.start(Settings(model=ScriptedModel([say("ok", repeat=True)]))) as session:
        look = Looker()
        seen = 0
        for _ in range(3):
            await session.root.message("more")
            answer = await look("board", session_id=session.id, at_n=10**6)
            assert answer["seq"] == session.activity.last_seq > seen
            seen = answer["seq"]


async def test_what_expires_or_is_written_later_is_noticed_though_nothing_is_counted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E1: where the files are as they were, boards are trusted, and only until the next text expires."""
    session, _ = await recorded("hi")
    look = Looker()
    monkeypatch.setattr(boards, "_SETTLED_S", 0.0)
    counted: list[int] = []
    count = ExcerptReader.readable

    def counting(reader: ExcerptReader, upto: int) -> ReadableTexts:
        counted.append(upto)
        return count(reader, upto)

    monkeypatch.setattr(ExcerptReader, "readable", counting)
    first = await look("board", session_id=session.id, at_n=10**6)
    await look("board", session_id=session.id, at_n=first["n"])
    before = len(counted)
    assert await look("board", session_id=session.id, at_n=first["n"]) == first
    assert len(counted) == before
    session_files(home(), session.id).db.touch()
    await look("board", session_id=session.id, at_n=first["n"])
    assert len(counted) == before + 1
    checkpoints = look.host.services.records.boards._sessions[session.id]
    checkpoints._readable = replace(checkpoints._readable, until=1.0)
    await look("board", session_id=session.id, at_n=first["n"])
    assert len(counted) > before + 1
