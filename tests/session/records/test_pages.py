"""Pages of a stored session are the events that its clients got, from any place, under any policy."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import msgspec
import pytest

from tertulia import Session, Settings, errors
from tertulia.events.clock import SystemClock
from tertulia.protocol.events import Event
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.session.resume.fork import fork_session
from tertulia.session.settings.settings import current_environment
from tertulia.testing import ScriptedModel
from tests.session.records.looking import ASKS, Looker, files_in_home, home, recorded
from tests.tables import each_row

ENVELOPE = set(Event.__struct_fields__)
CANARY = "canary-7f3a"


def envelopes(page: Any) -> list[dict[str, Any]]:
    return [{name: event[name] for name in ENVELOPE} for event in page["events"]]


def as_sent(events: list[Event]) -> list[dict[str, Any]]:
    return [json.loads(msgspec.json.encode(event)) for event in events]


async def test_the_events_of_a_page_are_those_that_a_client_got() -> None:
    """Issue 23, S001-33: nothing is told otherwise than it was."""
    session, events = await recorded(ASKS, "4", "It is 4.", messages=3)
    look = Looker()
    page = await look("page", session_id=session.id, limit=1_000)
    assert envelopes(page) == as_sent(events)
    assert (page["at_start"], page["at_end"], page["damaged"]) == (True, True, [])
    assert [event["n"] for event in page["events"]] == sorted({event["n"] for event in page["events"]})
    assert not any("not_stored" in event or "copied" in event for event in page["events"])


@each_row("size", [1, 7, 13])
async def test_pages_in_both_directions_have_everything_once(size: int) -> None:
    session, events = await recorded(ASKS, "4", "It is 4.")
    look = Looker()
    backward: list[Any] = []
    before: dict[str, int] = {}
    while True:
        page = await look("page", session_id=session.id, limit=size, **before)
        backward = envelopes(page) + backward
        assert page["at_end"] is (not before)
        if page["at_start"]:
            break
        before = {"before_n": page["first_n"]}
    forward: list[Any] = []
    after = 0
    while True:
        page = await look("page", session_id=session.id, limit=size, after_n=after)
        forward += envelopes(page)
        assert page["at_start"] is (after == 0)
        if page["at_end"]:
            break
        after = page["last_n"]
    assert backward == forward == as_sent(events)


async def test_a_conversation_has_pages_of_its_own() -> None:
    session, events = await recorded(ASKS, "4", "It is 4.")
    target = next(
        event.conversation_id for event in events if event.conversation_id != session.root.id and event.conversation_id
    )
    look = Looker()
    page = await look("page", session_id=session.id, conversation_id=target)
    assert envelopes(page) == as_sent([event for event in events if event.conversation_id == target])
    root = await look("page", session_id=session.id, conversation_id="root")
    assert envelopes(root) == as_sent([event for event in events if event.conversation_id == session.root.id])
    with pytest.raises(errors.NotFoundError, match="nobody"):
        await look("page", session_id=session.id, conversation_id="nobody")


@each_row(
    ("policy", "reason"),
    [("headers_only", "headers_only"), ("none", None), ({"ttl": 3600}, None)],
)
async def test_a_text_that_is_not_stored_is_not_there_and_the_event_says_why(policy: Any, reason: str | None) -> None:
    """S002-44: by the storage policy of the session, and told."""
    session, _ = await recorded(CANARY, storage_policy=policy)
    page = await Looker()("page", session_id=session.id)
    messages = [event for event in page["events"] if event["type"] in ("agent_message", "user_message")]
    if policy == "none":
        assert messages == []
        completed = next(event for event in page["events"] if event["type"] == "task_complete")
        assert (completed["not_stored"], completed["data"]["last_assistant_message"]) == ("none", None)
    else:
        assert {event.get("not_stored") for event in messages} == {reason}
    assert (CANARY in json.dumps(page)) is (reason is None and policy != "none")


async def test_a_text_whose_time_is_over_is_not_read_though_no_sweep_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """E4, S002-44."""
    session, _ = await recorded(CANARY, storage_policy={"ttl": 3600})
    look = Looker()
    shown = await look("board", session_id=session.id, at_n=10**6)
    assert CANARY in json.dumps(shown)
    later = SystemClock().now() + 4_000

    def now(_: SystemClock) -> float:
        return later

    monkeypatch.setattr(SystemClock, "now", now)
    page = await look("page", session_id=session.id)
    assert {event["not_stored"] for event in page["events"] if event["type"] == "agent_message"} == {"expired"}
    answers = [page, *[await look(name, session_id=session.id, at_n=10**6) for name in ("board",)]]
    answers.append(await look("outline", session_id=session.id))
    answers.append(await look("list"))
    assert CANARY not in json.dumps(answers), "nor does a board that was folded before still have it"


async def test_a_fork_shows_what_it_was_begun_with() -> None:
    """Items of the original have no events in the fork: they come as events without a number."""
    session, _ = await recorded(ASKS, "4", "It is 4.")
    fork = await fork_session(current_environment(), Settings(model=ScriptedModel([])), SystemClock(), session.id)
    page = await Looker()("page", session_id=fork)
    copied = [event for event in page["events"] if event.get("copied")]
    assert [event["type"] for event in copied] == ["user_message", "tool_call_begin", "tool_call_end", "agent_message"]
    assert {event["seq"] for event in copied} == {None}
    assert copied[-1]["data"]["text"] == "It is 4."
    assert copied[2]["data"]["name"] == "conv_create"


async def test_a_record_from_before_messages_were_events_shows_them_all_the_same() -> None:
    """Issue 23: in pages and boards; the text is in the items."""
    session, events = await recorded(ASKS, "4", "It is 4.", messages=2)
    look = Looker()
    newer = await look("page", session_id=session.id, limit=1_000)
    with closing(sqlite3.connect(session_files(home(), session.id).db)) as connection, connection:
        connection.execute("DELETE FROM record WHERE type = 'user_message'")
    page = await look("page", session_id=session.id, limit=1_000)
    messages = [event for event in newer["events"] if event["type"] == "user_message"]
    older = [event for event in page["events"] if event["type"] == "user_message"]
    assert [event["data"]["text"] for event in older] == [event["data"]["text"] for event in messages]
    assert [event["data"].get("how") for event in older] == [event["data"].get("how") for event in messages]
    assert [event["task_id"] for event in older] == [event["task_id"] for event in messages]
    assert {event["seq"] for event in older} == {None}
    assert len(page["events"]) == len(events)
    board = (await look("board", session_id=session.id, at_n=10**6))["board"]
    cells = [cell for view in board["conversations"].values() for cell in view["cells"] if cell["kind"] == "user_text"]
    assert sorted(cell["text"] for cell in cells) == sorted(event["data"]["text"] for event in messages)
    assert len({cell["key"] for cell in cells}) == len(cells)
    alone = await look("page", session_id=session.id, after_n=older[0]["n"] - 1, limit=1)
    assert [(event["data"]["text"], event["task_id"]) for event in alone["events"]] == [
        (older[0]["data"]["text"], None)
    ]


async def test_a_page_ends_before_an_event_that_is_named_by_its_number() -> None:
    """Issue 23: a client that has a board goes on from its first cell."""
    session, events = await recorded(ASKS, "4", "It is 4.")
    look = Looker()
    page = await look("page", session_id=session.id, before_seq=events[9].seq, limit=4)
    assert envelopes(page) == as_sent(events[9 - len(page["events"]) : 9])
    assert page["events"]
    with pytest.raises(errors.NotFoundError, match="no event 100000"):
        await look("page", session_id=session.id, before_seq=100_000)
    with pytest.raises(errors.InvalidParamsError, match="only one"):
        await look("page", session_id=session.id, before_seq=3, after_n=1)


@each_row(
    "id", ["", "x", "../../etc/passwd", "0" * 36, "00000000-1111-4222-8333-444444444444", "%2e", "a" * 10_000, "\0"]
)
async def test_an_id_of_no_stored_session_is_not_found_and_touches_nothing(id: str) -> None:
    """D15, HARDENING: no path is made of what is no id."""
    await recorded("hi")
    before, look = files_in_home(), Looker()
    for name, params in (("page", {}), ("outline", {}), ("board", {"at_n": 1})):
        with pytest.raises(errors.NotFoundError):
            await look(name, session_id=id, **params)
    assert files_in_home() == before


@each_row(
    "wrong",
    [
        {"limit": 0}, {"limit": 1_001}, {"limit": "many"}, {"limit": True}, {"before_n": -1}, {"after_n": 2**63},
        {"before_n": 1, "after_n": 1}, {"before_n": 1.5}, {"conversation_id": 7}, {"nonsense": 1}, {"session_id": None},
        {"session_id": ["x"]}, {"session_id": 7},
    ],
)  # fmt: skip
async def test_parameters_that_make_no_sense_are_refused_before_anything_is_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidParamsError):
        await Looker()("page", **{"session_id": "00000000-1111-4222-8333-444444444444", **wrong})


async def test_a_record_that_is_no_database_fails_alone() -> None:
    """Issue 23: a damaged file is an entry with its error, never a failure of the list."""
    session, _ = await recorded("hi")
    broken = home() / "sessions" / "00000000-1111-4222-8333-444444444444.db"
    broken.write_bytes(b"SQLite format 3\0" + b"\xff" * 9_000)
    look = Looker()
    listed = await look("list")
    errors_by_id = {entry["session_id"]: entry.get("error") for entry in listed["records"]}
    assert errors_by_id[session.id] is None
    assert errors_by_id[broken.stem]
    for name, params in (("page", {}), ("outline", {}), ("board", {"at_n": 1})):
        with pytest.raises(errors.StorageError):
            await look(name, session_id=broken.stem, **params)


async def test_looking_at_a_session_that_runs_here_neither_stops_nor_changes_it() -> None:
    async with Session.start(Settings(model=ScriptedModel(["one", "two"]))) as session:
        await session.root.message("first")
        look = Looker()
        page = await look("page", session_id=session.id)
        assert page["events"][-1]["type"] == "task_complete"
        await session.root.message("second")
        again = await look("page", session_id=session.id, after_n=page["last_n"])
        assert next(event["type"] for event in again["events"]) == "task_started"
