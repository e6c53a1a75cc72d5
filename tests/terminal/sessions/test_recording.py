"""A stored session as steps: forwards and backwards, by record, request and task, with the prompt of each request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tertulia import Host, Session
from tertulia.protocol.events import Event
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.session.board.answers import BoardAnswer
from tertulia.session.operations import call
from tertulia.session.resume.fork import fork_session
from tertulia.terminal.sessions.prompt_text import compared_page, prompt_page
from tertulia.terminal.sessions.recording import Recording
from tertulia.testing import ScriptedModel
from tertulia.view.cells import AssistantCell, Cell, CommandCell, HandoffCell, UserCell
from tertulia.view.snapshot import read_snapshot, write_snapshot
from tests.deadlines import HANG_S
from tests.server.sockets.gated_exec import gated_exec
from tests.terminal.sessions.made_sessions import DELEGATION, store_session


async def test_the_board_at_any_step_is_the_same_whichever_way_one_comes(home: Path, work: Path) -> None:
    id = await store_session(work, *DELEGATION)
    recording = Recording.open(home, id)
    forwards = [write_snapshot(recording.board(place)) for place in range(len(recording.steps))]
    backwards = [write_snapshot(recording.board(place)) for place in reversed(range(len(recording.steps)))]
    assert forwards == backwards[::-1]
    assert {view.title for view in recording.board(len(forwards) - 1).conversations.values()} == {None, "reviewer"}


async def test_strides_go_to_requests_and_tasks_and_stop_at_the_ends(home: Path, work: Path) -> None:
    recording = Recording.open(home, await store_session(work, *DELEGATION))
    last = len(recording.steps) - 1
    requests = [place for place, step in enumerate(recording.steps) if step.word == "asked the model"]
    tasks = [place for place, step in enumerate(recording.steps) if step.word == "task started"]
    assert len(requests) == 3
    assert len(tasks) == 3
    walked, place = [], last
    for _ in range(4):
        place = recording.moved(place, -1, "request")
        walked.append(place)
    assert walked == [*requests[::-1], requests[0]]
    assert recording.moved(0, 1, "task") == tasks[0]
    assert recording.moved(tasks[0], 1, "task") == tasks[1]
    assert recording.moved(last, 1, "record") == last
    assert recording.moved(0, -1, "record") == 0


async def test_what_the_model_saw_is_rebuilt_and_proved_and_two_requests_are_compared(home: Path, work: Path) -> None:
    recording = Recording.open(home, await store_session(work, "One.", "Two.", messages=("first", "second")))
    later = recording.request_before(len(recording.steps) - 1)
    assert later is not None
    earlier = recording.request_before(later - 1)
    assert earlier is not None
    now, before = recording.prompt(later), recording.prompt(earlier)
    rows = [f"{row.text} {row.more}" for row in prompt_page(now).rows]
    assert rows[0].startswith("rebuilt, byte for byte what was sent")
    assert any(row.startswith("tools ") and "sha256" in row for row in rows)
    assert any("second" in row for row in rows)
    added = [row.text for row in compared_page(before, now).rows if row.text.startswith("+")]
    assert any("second" in row for row in added)
    assert not any("first" in row for row in added)


async def test_what_is_not_stored_cannot_be_proved_and_says_so(home: Path, work: Path) -> None:
    recording = Recording.open(home, await store_session(work, "One.", storage_policy="headers_only"))
    request = recording.request_before(len(recording.steps) - 1)
    assert request is not None
    assert prompt_page(recording.prompt(request)).rows[0].text.startswith("cannot be proved: ")


async def test_a_copy_begins_with_what_was_said_at_a_step(home: Path, work: Path) -> None:
    from tertulia.events.clock import SystemClock
    from tertulia.session.settings.settings import Settings, current_environment

    id = await store_session(work, "One.", "Two.", messages=("first", "second"))
    recording = Recording.open(home, id)
    root = recording.board(len(recording.steps) - 1).root_id
    assert root is not None
    end = next(place for place, step in enumerate(recording.steps) if step.word == "task complete")
    item = recording.last_item(end, root)
    forked = await fork_session(current_environment(), Settings(), SystemClock(), id, conversation_id=root, at=item)
    exported = (home / "sessions" / f"{forked}.db").read_bytes()
    assert b"first" in exported
    assert b"second" not in exported


async def test_a_copy_shows_the_history_that_it_began_with(home: Path, work: Path) -> None:
    from tertulia.events.clock import SystemClock
    from tertulia.session.settings.settings import Settings, current_environment

    plan = {"tool_calls": [{"name": "update_plan", "arguments": {"plan": [{"step": "Go", "status": "pending"}]}}]}
    replies = ("One.", plan, DELEGATION[0], "Looks right.", "Two.")
    id = await store_session(work, *replies, messages=("first", "second"))
    forked = await fork_session(current_environment(), Settings(), SystemClock(), id)
    async with Session.resume(forked, Settings(model=ScriptedModel(["Three."]), cwd=str(work))) as session:
        shown = (await call(Host(Settings()), session, "session/board", {})).answer
        await session.root.message("third")
    assert isinstance(shown, BoardAnswer)
    recording = Recording.open(home, forked)
    (last,) = recording.board(len(recording.steps) - 1).conversations.values()
    (first,) = recording.board(1).conversations.values()
    before = ["first", "One.", "second", "Two."]
    assert texts(first.cells) == before
    assert texts(last.cells) == [*before, "third", "Three."]
    assert len({cell.key for cell in last.cells}) == len(last.cells)
    (call_cell,) = [cell for cell in last.cells if isinstance(cell, HandoffCell)]
    assert (call_cell.name, call_cell.done, call_cell.success) == ("conv_create", True, True)
    assert "Looks right." in call_cell.text
    (view,) = read_snapshot(msgspec.json.encode(shown.board)).conversations.values()
    assert texts(view.cells) == before


def texts(cells: Sequence[Cell]) -> list[str]:
    return [cell.text for cell in cells if isinstance(cell, UserCell | AssistantCell)]


async def test_what_another_process_adds_is_read_on(home: Path, work: Path) -> None:
    id = await store_session(work, "One.")
    recording = Recording.open(home, id)
    before = len(recording.steps)
    assert recording.read_on() == 0
    from tertulia import Session, Settings
    from tertulia.testing import ScriptedModel

    async with Session(Settings(model=ScriptedModel(["Two."]), cwd=str(work)), resumed=id) as session:
        await session.root.message("again")
        assert recording.read_on() > 0
    assert len(recording.steps) > before


class OlderRecording(Recording):
    """A record as it was before what persons write was an event."""

    def _lines(self, reader: RowReader, after: int = 0) -> Iterator[RecordLine]:
        for line in super()._lines(reader, after):
            if not (isinstance(line.what, Event) and line.what.type == "user_message"):
                yield line


async def test_a_record_without_events_of_messages_shows_what_its_items_have(home: Path, work: Path) -> None:
    id = await store_session(work, *DELEGATION, "And that.", messages=("hello", "go on"))
    now, before = Recording.open(home, id), OlderRecording.open(home, id)
    for recording in (now, before):
        views = recording.board(len(recording.steps) - 1).conversations.values()
        written = [[(cell.text, cell.how) for cell in view.cells if isinstance(cell, UserCell)] for view in views]
        assert written == [[("hello", "message"), ("go on", "message")], [("Review a.py", "delegated")]]


async def test_at_the_end_of_a_process_that_was_killed_nothing_runs(home: Path, tmp_path: Path) -> None:
    async with gated_exec(tmp_path / "gated") as running:
        recording = Recording.open(home, running.session_id)
        async with asyncio.timeout(HANG_S):
            while not any(step.word == "exec command begin" for step in recording.steps):
                await asyncio.sleep(0.02)
                recording.read_on()
        running.process.kill()
        await running.process.wait()
    last = len(recording.steps) - 1
    calls = [cell for view in recording.shown(last).conversations.values() for cell in view.cells]
    assert [(cell.done, cell.lost) for cell in calls if isinstance(cell, CommandCell)] == [(True, True)]
    assert not recording.shown(last).running()
    # As it was before, for a session that goes on from there.
    assert recording.board(last).running()
