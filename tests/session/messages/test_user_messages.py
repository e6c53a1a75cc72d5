"""Messages in the record: each text once, and none where the storage policy keeps no texts."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

from tertulia import Session, Settings, UserMessageEvent
from tertulia.protocol.events import Event
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.settings.settings import current_environment
from tertulia.testing import RecordedEvents, ScriptedModel, say
from tests.tables import each_row

PICTURE = {"type": "image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
SECRET = "quince marmalade"


def messages(events: RecordedEvents) -> list[UserMessageEvent]:
    return [event.data for event in events.drain() if isinstance(event.data, UserMessageEvent)]


def stored_events(session_id: str) -> list[Event]:
    with closing(SqliteReader(find_files(current_environment().home, session_id).db)) as reader:
        lines = list(RowReader().lines(reader.rows()))
    return [line.what for line in lines if isinstance(line.what, Event)]


def bytes_on_disk() -> bytes:
    return b"".join(path.read_bytes() for path in current_environment().home.rglob("*") if path.is_file())


async def test_the_record_has_the_text_once_and_gives_the_same_event_back() -> None:
    """S002-16: the event refers to the item."""
    gate = asyncio.Event()
    model = ScriptedModel([say("", gate=gate), "ok"])
    async with Session.start(Settings(model=model)) as session, RecordedEvents(session) as events:
        running = asyncio.ensure_future(session.root.message([{"type": "text", "text": SECRET}, PICTURE], sender="Ada"))
        await events.until("task_started")
        await session.root.steer(f"steered {SECRET}")
        gate.set()
        await running
        published = messages(events)
    assert [event.data for event in stored_events(session.id) if event.type == "user_message"] == published
    assert bytes_on_disk().count(SECRET.encode()) == 2, "once for each item"


@each_row(("policy", "texts"), [("headers_only", ["", ""]), ("none", []), ({"ttl": 60}, ["0", "1"])])
async def test_a_strict_policy_keeps_no_text_of_a_message(policy: Any, texts: list[str]) -> None:
    """HARDENING E1, S002-16: nor of one that waits or was taken back."""
    gate = asyncio.Event()
    model = ScriptedModel([say("", gate=gate), "ok"])
    async with (
        Session.start(Settings(model=model, storage_policy=policy)) as session,
        RecordedEvents(session) as events,
    ):
        running = asyncio.ensure_future(session.root.message(f"{SECRET} 0", sender=SECRET))
        await events.until("task_started")
        waiting = asyncio.ensure_future(session.root.message(f"{SECRET} 2"))
        await events.until("message_queued")
        await session.root.take_back()
        await session.root.steer(f"{SECRET} 1")
        gate.set()
        await asyncio.gather(running, waiting)
    published = [event.data for event in stored_events(session.id) if isinstance(event.data, UserMessageEvent)]
    assert [message.text[-1:] for message in published] == texts
    if not isinstance(policy, dict):
        assert SECRET.encode() not in bytes_on_disk()
