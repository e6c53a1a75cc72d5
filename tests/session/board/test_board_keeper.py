"""A client that comes late takes the board and then the events after it: as if it had been there all the time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia import Session, Settings, errors
from tertulia.protocol.events import Event
from tertulia.session.operations import call
from tertulia.testing import RecordedEvents, ScriptedModel, ScriptedReply, say
from tertulia.testing import call as tool_call
from tertulia.view.board import Board
from tertulia.view.cells import AssistantCell, UserCell
from tertulia.view.snapshot import read_snapshot, write_snapshot
from tests.deadlines import HANG_S
from tests.session.staging import Stage, stage
from tests.tables import each_row

ASKS = say("", tool_call("conv_create", {"user_instruction": "What is 2 + 2?", "title": "sums"}, "c1"))


async def take_board(session: Session, **params: Any) -> tuple[Board, int]:
    """As a client reads it from a wire."""
    answer = (await call(tertulia.Host(Settings()), session, "session/board", params)).answer
    built = json.loads(msgspec.json.encode(answer))
    assert (built["session_id"], built["epoch"]) == (session.id, session.parts.epoch)
    return read_snapshot(json.dumps(built["board"]).encode()), built["seq"]


def shown(board: Board) -> dict[str, Any]:
    return json.loads(write_snapshot(board))


def texts(board: Board, session: Session) -> list[str]:
    return [cell.text for cell in board.conversations[session.root.id].cells if isinstance(cell, UserCell)]


def durable(on: Stage) -> list[Event]:
    return [event for event in on.events.drain() if event.seq is not None]


@each_row("moment", range(1, 16))
async def test_the_board_and_the_events_after_it_are_what_all_events_are(moment: int) -> None:
    """UI.md 7.6, S002-44: without gap or double, whenever it is asked for."""
    async with stage(ASKS, "4", "It is 4.", "more") as on:
        events = on.session.events(after=0)
        running = on.begin(on.root.message("go"))
        async for event in events:
            if event.seq == moment:
                break
        board, seq = await take_board(on.session)
        await running
        await on.root.message("again")
        everything = Board()
        for event in on.session.parts.bus.recent_events(0)[1]:
            everything.take(event)
            if (event.seq or 0) > seq:
                board.take(event)
        assert shown(board) == shown(everything)
        assert board.seq == on.session.activity.last_seq


async def test_a_session_of_which_no_client_asks_folds_nothing() -> None:
    """`exec` does not pay for it."""
    async with stage("ok") as on:
        await on.root.message("hi")
        assert "board_keeper" not in vars(on.parts)


async def test_asked_again_it_goes_on_and_gives_as_many_cells_as_are_wanted() -> None:
    async with stage(say("ok", repeat=True)) as on:
        board = Board()
        for number in range(3):
            await on.root.message(f"m{number}")
            board, seq = await take_board(on.session)
            assert (texts(board, on.session)[-1], seq) == (f"m{number}", on.session.activity.last_seq)
        short, _ = await take_board(on.session, max_cells=1)
        view = short.conversations[on.root.id]
        assert (len(view.cells), view.dropped) == (1, len(board.conversations[on.root.id].cells) - 1)
        for wrong in (0, -1, 20_001, "x"):
            with pytest.raises(errors.InvalidParamsError):
                await take_board(on.session, max_cells=wrong)


async def test_what_the_bus_has_forgotten_comes_from_the_record() -> None:
    """UI.md 7.6: late clients see more than the ring."""
    model = ScriptedModel(["ok"], repeat=True)
    async with Session.start(Settings(model=model)) as session:
        session.parts.bus._ring._max_events = 8
        for number in range(6):
            await session.root.message(f"m{number}")
        first, _ = await asyncio.gather(take_board(session), take_board(session))
        assert texts(first[0], session) == [f"m{number}" for number in range(6)]
        await session.root.message("m6")
        again, seq = await take_board(session)
        assert (texts(again, session)[-1], seq) == ("m6", session.activity.last_seq)
        for number in range(7, 12):
            await session.root.message(f"m{number}")
        later, _ = await take_board(session)
        assert texts(later, session) == [f"m{number}" for number in range(12)], "also where none asked for long"


async def test_a_resumed_session_shows_its_earlier_lives() -> None:
    settings = Settings(model=ScriptedModel(["ok"], repeat=True))
    async with Session.start(settings) as session:
        await session.root.message("before")
    async with Session.resume(session.id, settings) as again, RecordedEvents(again) as events:
        board, seq = await take_board(again)
        assert (texts(board, again), board.epoch) == (["before"], 1)
        await again.root.message("after")
        for event in events.drain():
            if event.seq is not None and event.seq > seq:
                board.take(event)
        assert texts(board, again) == ["before", "after"]
        fresh, _ = await take_board(again)
        assert shown(fresh) == shown(board)


@each_row("policy", ["headers_only", "none"])
async def test_a_strict_policy_shows_what_is_in_memory_and_no_more(policy: Any) -> None:
    """HARDENING E1: the board is folded in memory and never stored."""
    settings = Settings(model=ScriptedModel(["ok"], repeat=True), storage_policy=policy)
    async with Session.start(settings) as session:
        await session.root.message("a secret")
        board, _ = await take_board(session)
        assert texts(board, session) == ["a secret"]
    async with Session.resume(session.id, settings) as again:
        late, _ = await take_board(again)
        assert "a secret" not in json.dumps(shown(late))
        assert again.root.id in late.conversations


async def test_without_a_record_conversations_are_there_by_what_is_known_of_them() -> None:
    async with stage(say("ok", repeat=True)) as on:
        on.parts.bus._ring._max_events = 3
        other = await on.session.open(title="other")
        for _ in range(3):
            await on.root.message("hi")
        board, _ = await take_board(on.session)
        assert board.conversations[other.id].title == "other"
        assert board.root_id == on.root.id


async def test_what_was_folded_in_memory_stays_where_the_record_has_no_texts() -> None:
    """HARDENING E1"""
    settings = Settings(model=ScriptedModel(["ok"], repeat=True), storage_policy="headers_only")
    async with Session.start(settings) as session:
        session.parts.bus._ring._max_events = 6
        await session.root.message("m0")
        await take_board(session)
        for number in range(1, 6):
            await session.root.message(f"m{number}")
        board, _ = await take_board(session)
        assert texts(board, session) == ["m0", "m5"]
        kinds = [cell["kind"] for cell in shown(board)["conversations"][session.root.id]["cells"]]
        assert "gap" in kinds, "and says what is missing"


async def test_of_closed_conversations_little_is_kept() -> None:
    async with stage(say("ok", repeat=True)) as on:
        other = await on.session.open()
        for _ in range(30):
            await other.message("hi")
        await other.close()
        board, _ = await take_board(on.session)
        view = board.conversations[other.id]
        assert (len(view.cells), view.closed) == (50, True)
        assert view.dropped > 0


class HeldModel:
    """An answer whose last words come when the test lets them."""

    def __init__(self, answer: str, pieces: int) -> None:
        self._left = pieces
        self.goes_on = asyncio.Event()
        self.stands = asyncio.Event()
        self.model = ScriptedModel([ScriptedReply(text=answer, delay_between_ms=1)], sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self._left -= bool(seconds)
        if self._left <= 0:
            self.stands.set()
            await self.goes_on.wait()


async def test_a_client_that_comes_in_the_middle_of_an_answer_sees_what_has_come_so_far() -> None:
    """Issue 22 (1): and the pieces that follow are joined to it, none missing and none twice."""
    held = HeldModel("One two three four five.", pieces=3)
    async with Session.start(Settings(model=held.model, storage_policy="none")) as session:
        running = asyncio.ensure_future(session.root.message("count"))
        async with asyncio.timeout(HANG_S):
            await held.stands.wait()
            follower = session.events()
            board, _ = await take_board(session)
            cells = board.conversations[session.root.id].cells
            assert [cell.text for cell in cells if isinstance(cell, AssistantCell)] == ["One two three "]
            held.goes_on.set()
            texts_seen: list[str] = []
            async for event in follower:
                board.take(event)
                growing = [cell for cell in cells if isinstance(cell, AssistantCell)]
                assert [cell.missing for cell in growing] == [0]
                texts_seen.append(growing[0].text)
                if event.type == "task_complete":
                    break
            await running
    assert list(dict.fromkeys(texts_seen)) == ["One two three four ", "One two three four five."]


async def test_an_answer_in_the_board_holds_no_secret_and_ends_with_its_task() -> None:
    """HARDENING E1, issue 22 (1): redacted like its pieces; asked again after the end it is there once."""
    held = HeldModel("The token is TOKEN and more words.", pieces=6)
    async with Session.start(Settings(model=held.model, storage_policy="none")) as session:
        running = asyncio.ensure_future(session.root.message("count"))
        async with asyncio.timeout(HANG_S):
            await held.stands.wait()
            session.parts.bus._clean_text = _starred
            board, _ = await take_board(session)
            assert "TOKEN" not in json.dumps(shown(board))
            assert "The token is *****" in json.dumps(shown(board))
            held.goes_on.set()
            await running
            after, _ = await take_board(session)
            answers = [cell for cell in after.conversations[session.root.id].cells if isinstance(cell, AssistantCell)]
            assert [(cell.done, cell.missing) for cell in answers] == [(True, 0)]


async def _starred(text: str) -> str:
    return text.replace("TOKEN", "*****")


async def test_a_late_piece_of_an_answer_that_is_whole_adds_nothing() -> None:
    """Issue 22 (1): a client that follows first and takes the board then has such pieces."""
    async with stage("One two three.") as on:
        pieces: list[Event] = []
        follower = on.session.events()
        running = on.begin(on.root.message("go"))
        async for event in follower:
            pieces.append(event)
            if event.type == "task_complete":
                break
        await running
        board, _ = await take_board(on.session)
        before = shown(board)
        for event in pieces:
            board.take(event)
        assert shown(board) == before
        assert any(event.type == "agent_message_delta" for event in pieces)
