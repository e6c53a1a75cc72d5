"""Records that were made before `user_message` was an event still show what was said."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import TextPart, UserMessage
from tertulia.protocol.records import ItemsRecord
from tertulia.view.cells import UserCell
from tertulia.view.older_messages import OlderMessages
from tests.view.golden import events_of, fold

ROOT = ConversationId("root")


def items(*texts: str, injected: bool = False) -> ItemsRecord:
    messages = [UserMessage(ItemId(f"i-{text}"), (TextPart(text),), injected=injected) for text in texts]
    return ItemsRecord(ROOT, tuple(messages))


def event(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "conversation": "root", "task": "t1", "data": data}


def told(*parts: ItemsRecord | dict[str, Any]) -> list[Event]:
    """All events of a record, with those that were found in its items."""
    older, events = OlderMessages(), iter(events_of({"events": [part for part in parts if isinstance(part, dict)]}))
    found: list[Event] = []
    for part in parts:
        what = next(events) if isinstance(part, dict) else part
        found += [*older.take(what), *([what] if isinstance(what, Event) else [])]
    return found


OPENED = event("conversation_opened", parent_id=None, title=None, model="m/x", backend="native")
STARTED = event("task_started", kind="user", input_preview="fi")
ANSWER = event("agent_message", item_id="a1", text="Well.")


def test_a_message_without_an_event_is_shown_before_its_answer() -> None:
    events = told(OPENED, items("<env>", injected=True), items("first", "more"), STARTED, ANSWER)
    assert [one.type for one in events] == [
        "conversation_opened",
        "task_started",
        "user_message",
        "user_message",
        "agent_message",
    ]
    cells = fold(events).conversations[ROOT].cells
    assert [cell.text for cell in cells if isinstance(cell, UserCell)] == ["first", "more"]
    assert len({cell.key for cell in cells}) == len(cells)


def test_a_message_of_another_conversation_is_one() -> None:
    events = told(OPENED, items("do it"), event("task_started", kind="target", input_preview="do"), ANSWER)
    (cell,) = [cell for cell in fold(events).conversations[ROOT].cells if isinstance(cell, UserCell)]
    assert cell.delegated


def test_where_an_event_tells_it_before_or_after_its_item_nothing_is_added() -> None:
    message = event("user_message", item_id="i-first", text="first")
    steer = event("user_message", item_id="i-later", text="later", how="steer")
    parts = (OPENED, items("first"), STARTED, message, steer, items("later"), ANSWER)
    assert [one.type for one in told(*parts)].count("user_message") == 2


def test_items_that_a_copy_began_with_are_no_messages_to_it() -> None:
    assert [one.type for one in told(items("of the original"), OPENED)] == ["conversation_opened"]
