"""What an event and an item have in common is written once."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.events import AgentMessage, BackgroundEvent, EventData, TaskComplete, TaskStarted
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import NO_USAGE, ImagePart, Item, Reasoning, Summary, TextPart, ToolOutput
from tertulia.protocol.message_events import Attachment, UserMessageEvent
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy
from tertulia.protocol.tool_events import ExecCommandBegin, ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.event_sources import find_source, source_fields
from tertulia.rollout.format.written_rows import ConversationRows, ItemRef
from tests.rollout.recording import assistant, call, output, user
from tests.tables import each_row

Found = tuple[int, tuple[str, ...], dict[str, Any]]
NOTHING: Found = (0, (), {})


def found(data: EventData, rows: ConversationRows, policy: StoragePolicy | None = None) -> Found:
    source = find_source(data, rows, policy or Full())
    return source.n, source.covers, dict(source.header)


def joined(*items: Item) -> ConversationRows:
    """They joined the history, in rows 1, 2, …"""
    rows = ConversationRows(1)
    for n, item in enumerate(items, 1):
        rows.joined(ItemRef(n, Full(), item))
    return rows


def ended(*outputs: ToolOutput) -> ConversationRows:
    """Calls c1, c2, … and outputs that have not joined the history, in rows 11, 12, …"""
    rows = joined(call(), call(id="c2"))
    for n, item in enumerate(outputs, 11):
        rows.will_join(ItemRef(n, Full(), item, rows.calls[item.call_id].n))
    return rows


def test_an_answer_refers_to_the_last_message_even_if_thoughts_came_after_it() -> None:
    rows = joined(assistant("early", id="a0"), assistant("late"), Reasoning(ItemId("r"), "hm"))

    data = TaskComplete("completed", "late", NO_USAGE)
    assert found(data, rows) == (2, ("last_assistant_message",), {})


@each_row(
    "data",
    [
        TaskComplete("completed", "early", NO_USAGE),
        TaskComplete("completed", None, NO_USAGE),
        TaskStarted("user", None),
        TaskStarted("user", "late"),
        BackgroundEvent("late"),
        ExecCommandBegin(CallId("c1"), [], ""),
    ],
)
def test_what_no_item_has_needs_no_source(data: EventData) -> None:
    assert found(data, joined(assistant("early", id="a0"), assistant("late"))) == NOTHING


def test_an_answer_without_any_message_has_no_source() -> None:
    data = TaskComplete("failed", "x", NO_USAGE)
    assert found(data, joined(Reasoning(ItemId("r"), "x"))) == NOTHING


def test_a_preview_says_how_much_of_the_input_it_is() -> None:
    assert found(TaskStarted("user", "hel"), joined(user("hello"))) == (1, ("input_preview",), {"upto": 3})


def _told(text: str = "hello", id: str = "u1", **fields: Any) -> UserMessageEvent:
    return UserMessageEvent(ItemId(id), text, **fields)


def test_a_message_refers_to_its_item_whether_it_has_joined_the_history_or_waits() -> None:
    """S002-16: a text is written once."""
    rows = joined(user("hello", sender="Ada"))
    rows.will_join(ItemRef(7, Full(), user("wait", id="u2")))
    covers = ("item_id", "text", "attachments", "sender")
    assert found(_told(sender="Ada"), rows) == (1, covers, {})
    assert found(_told("wait", "u2", how="steer"), rows) == (7, covers, {})


@each_row(
    "data",
    [_told("hell"), _told(sender="Bob"), _told(id="u9"), _told(attachments=(Attachment(url="https://x"),))],
)
def test_a_message_that_was_redacted_or_is_not_known_has_a_text_of_its_own(data: UserMessageEvent) -> None:
    assert found(data, joined(user("hello"))) == NOTHING
    assert found(_told(), joined(user("hello")), HeadersOnly()) == NOTHING, "another policy keeps it"
    assert found(_told(id="a1"), joined(assistant("hello"))) == NOTHING


def test_the_end_of_a_call_refers_to_its_own_output() -> None:
    rows = ended(output("one"), output("two", id="c2"))
    data = ToolCallEnd(CallId("c1"), "shell", True, "one", False, 1)

    assert found(data, rows) == (11, ("call_id", "name", "output"), {})
    assert found(data, rows, HeadersOnly()) == (1, ("call_id",), {"own": True}), "which call it is, is no text (R3)"


def test_an_output_of_another_call_under_the_same_id_is_no_source() -> None:
    rows = ended(output("one"))
    rows.calls[CallId("c1")] = ItemRef(20, Full(), call())
    data = ToolCallEnd(CallId("c1"), "shell", True, "one", False, 1)

    assert found(data, rows) == (20, ("call_id", "name"), {"own": True})


def test_a_call_is_known_until_its_end_was_written() -> None:
    """R3: the end of a handed-over call is told after its output was said; without ids the row says whose it is."""
    rows, data = ended(output("one")), ToolCallEnd(CallId("c1"), "shell", True, "x", False, 1)
    rows.joined(ItemRef(20, Full(), output("one")))
    assert found(data, rows, HeadersOnly())[0] == 1
    rows.call_ended(CallId("c1"))
    assert found(data, rows, HeadersOnly()) == NOTHING


def test_an_id_that_is_used_again_means_the_new_call() -> None:
    """R3"""
    rows = joined(call())
    rows.joined(ItemRef(5, Full(), output("one")))
    rows.joined(ItemRef(6, Full(), call()))
    assert rows.answered == {}
    assert found(ToolCallBegin(CallId("c1"), "other", {}), rows, HeadersOnly())[0] == 6


def test_the_end_of_a_call_that_ended_with_a_picture_has_a_text_of_its_own() -> None:
    """An event has the first text; where the first part is none, there is nothing to refer to."""
    rows = ended(ToolOutput(ItemId("o"), CallId("c1"), (ImagePart("data:"), TextPart("one"))))

    data = ToolCallEnd(CallId("c1"), "shell", True, "one", False, 1)
    assert found(data, rows) == (1, ("call_id", "name"), {"own": True})


def test_events_of_a_call_that_is_not_known_have_no_source() -> None:
    rows = ended(output("x"))
    assert found(ToolCallEnd(CallId("c9"), "shell", True, "x", False, 1), rows) == NOTHING
    assert found(ToolCallBegin(CallId("c9"), "shell", {}), rows) == NOTHING


def test_other_events_of_a_call_take_its_id_alone() -> None:
    assert found(ExecCommandBegin(CallId("c1"), [], ""), joined(call())) == (1, ("call_id",), {})


def test_a_summary_is_the_source_of_nothing() -> None:
    assert found(AgentMessage("x", ItemId("s")), joined(Summary(ItemId("s"), "x"))) == NOTHING


LOST: list[tuple[type[EventData], Item, dict[str, Any]]] = [
    (ToolCallEnd, output("x"), {"call_id": "c1", "name": "shell"}),
    (AgentMessage, assistant("y"), {"item_id": "a1", "text": ""}),
    (TaskComplete, assistant("y"), {}),
    (UserMessageEvent, user("y"), {"item_id": "u1", "text": "", "sender": None, "attachments": ()}),
    (ToolCallBegin, call(), {"call_id": "c1", "name": "shell"}),
]


@each_row(("kind", "item", "fields"), LOST)
def test_of_an_item_whose_text_is_lost_only_ids_are_taken(
    kind: type[EventData], item: Item, fields: dict[str, Any]
) -> None:
    request = None if kind in (AgentMessage, TaskComplete, UserMessageEvent) else call()
    assert source_fields(kind, {}, item, request, is_lost=True) == fields


WRONG: list[tuple[type[EventData], Item]] = [
    (ToolCallBegin, output("x")),
    (ToolCallEnd, assistant("x")),
    (TaskComplete, Summary(ItemId("s"), "x")),
]


@each_row(("kind", "item"), WRONG)
def test_an_item_of_another_kind_gives_nothing(kind: type[EventData], item: Item) -> None:
    """HARDENING E8: a crafted row may refer to anything."""
    assert source_fields(kind, {}, item, None, is_lost=False) == {}


def test_an_event_with_a_text_of_its_own_takes_only_ids() -> None:
    ids = {"call_id": "c1", "name": "shell"}
    assert source_fields(ToolCallBegin, {"own": True}, call(), call(), is_lost=False) == ids
    assert source_fields(ExecCommandBegin, {}, call(), call(), is_lost=False) == {"call_id": "c1"}
