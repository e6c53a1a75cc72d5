"""What an event and an item have in common is written once."""

from __future__ import annotations

from tertulia.protocol.events import AgentMessage, BackgroundEvent, EventData, TaskComplete, TaskStarted
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import NO_USAGE, ImagePart, Item, Reasoning, Summary, TextPart, ToolOutput
from tertulia.protocol.storage import Full, HeadersOnly
from tertulia.protocol.tool_events import ExecCommandBegin, ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.item_references import ItemRef, RecentItems, reference_fields, resolve_references
from tests.rollout.recording import assistant, call, output, user
from tests.tables import each_row


def recent(*items: Item) -> RecentItems:
    """They were said, in rows 1, 2, …"""
    recent = RecentItems()
    for n, item in enumerate(items, 1):
        recent.note_said(ItemRef(n, Full(), item))
    return recent


def ended(*outputs: ToolOutput) -> RecentItems:
    """Calls c1, c2, … and outputs that have not joined the history, in rows 11, 12, …"""
    found = recent(call(), call(id="c2"))
    for n, item in enumerate(outputs, 11):
        found.note_waiting(ItemRef(n, Full(), item))
    return found


def test_an_answer_refers_to_the_last_message_even_if_thoughts_came_after_it() -> None:
    found = recent(assistant("early", id="a0"), assistant("late"), Reasoning(ItemId("r"), "hm"))

    assert reference_fields(TaskComplete("completed", "late", NO_USAGE), found, Full()) == (
        {"said": 2},
        ("last_assistant_message",),
    )


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
def test_what_was_not_said_is_no_reference(data: EventData) -> None:
    found = recent(assistant("early", id="a0"), assistant("late"))

    assert reference_fields(data, found, Full()) == ({}, ())


def test_an_answer_without_any_message_is_no_reference() -> None:
    assert reference_fields(TaskComplete("failed", "x", NO_USAGE), recent(Reasoning(ItemId("r"), "x")), Full()) == (
        {},
        (),
    )


def test_the_end_of_a_call_refers_to_its_own_output() -> None:
    found = ended(output("one"), output("two", id="c2"))
    data = ToolCallEnd(CallId("c1"), "shell", True, "one", False, 1)

    assert reference_fields(data, found, Full()) == ({"call": 1, "said": 11}, ("call_id", "name", "output"))
    assert reference_fields(data, found, HeadersOnly()) == ({"call": 1}, ("call_id",)), (
        "which call it is, is no text (R3)"
    )


def test_a_call_is_known_until_its_end_was_told() -> None:
    """R3: the end of a handed-over call is told after its output was said; without ids the row says whose it is."""
    found = ended(output("one"))
    found.note_said(ItemRef(20, Full(), output("one")))
    assert reference_fields(ToolCallEnd(CallId("c1"), "shell", True, "x", False, 1), found, HeadersOnly())[0] == {
        "call": 1
    }
    found.call_over(CallId("c1"))
    assert reference_fields(ToolCallEnd(CallId("c1"), "shell", True, "x", False, 1), found, HeadersOnly()) == ({}, ())


def test_an_id_that_is_used_again_means_the_new_call() -> None:
    """R3"""
    found = recent(call())
    found.note_said(ItemRef(5, Full(), output("one")))
    found.note_said(ItemRef(6, Full(), call()))
    assert found.answered == {}
    assert reference_fields(ToolCallBegin(CallId("c1"), "other", {}), found, HeadersOnly())[0] == {"call": 6}


def test_an_output_of_a_call_that_is_not_known_answers_none() -> None:
    found = recent(output("one", id="c9"))
    assert found.answered == {}


def test_the_end_of_a_call_that_ended_with_a_picture_has_a_text_of_its_own() -> None:
    """An event has the first text; where the first part is none, there is nothing to refer to."""
    found = ended(ToolOutput(ItemId("o"), CallId("c1"), (ImagePart("data:"), TextPart("one"))))

    assert reference_fields(ToolCallEnd(CallId("c1"), "shell", True, "one", False, 1), found, Full())[1] == (
        "call_id",
        "name",
    )


def test_the_end_of_a_call_nobody_knows_is_no_reference() -> None:
    assert reference_fields(ToolCallEnd(CallId("c9"), "shell", True, "x", False, 1), ended(output("x")), Full()) == (
        {},
        (),
    )


def test_a_summary_is_referred_to_by_nobody() -> None:
    found = recent(Summary(ItemId("s"), "x"))

    assert reference_fields(AgentMessage("x", ItemId("s")), found, Full()) == ({}, ())


def test_calls_that_are_answered_and_tasks_that_are_over_are_let_go() -> None:
    found = ended(output("one"))
    assert found.calls
    assert found.ended

    found.note_said(ItemRef(20, Full(), output("one")))
    found.note_said(ItemRef(21, Full(), output("two", id="c2")))
    found.note_waiting(ItemRef(22, Full(), user("later")))
    found.note_said(ItemRef(23, Full(), user("later")))
    found.task_over()

    assert (found.calls, found.ended, found.queued, found.spoken, found.asked) == ({}, {}, {}, {}, None)


def test_the_oldest_is_given_up_when_there_are_too_many() -> None:
    found = recent(*(assistant(str(n), id=str(n)) for n in range(1, 301)))

    assert len(found.spoken) == 256
    assert ItemId("1") not in found.spoken


def test_rows_that_were_never_written_are_forgotten() -> None:
    found = recent(user("one"), assistant("two"), call())
    found.note_waiting(ItemRef(4, Full(), output("three")))

    found.forget(2)
    assert (found.asked is not None, found.spoken, found.calls, found.ended) == (True, {}, {}, {})

    found.forget(1)
    assert found.asked is None


def test_only_the_very_same_item_under_the_same_policy_is_waiting() -> None:
    found = RecentItems()
    found.note_waiting(ItemRef(1, Full(), user("one")))

    assert found.waiting(user("one"), Full()) is not None
    assert found.waiting(user("one"), HeadersOnly()) is None
    assert found.waiting(user("two"), Full()) is None
    assert found.waiting(user("one", id="other"), Full()) is None


def test_of_an_item_whose_text_is_lost_only_ids_are_taken() -> None:
    items: dict[int, Item] = {1: call(), 2: output("x"), 3: assistant("y")}
    lost = dict.fromkeys(items)

    assert resolve_references(ToolCallEnd, {"call": 1, "said": 2}, items, lost) == {"call_id": "c1", "name": "shell"}
    assert resolve_references(AgentMessage, {"said": 3}, items, lost) == {"item_id": "a1", "text": ""}
    assert resolve_references(TaskComplete, {"said": 3}, items, lost) == {}
    assert resolve_references(ToolCallBegin, {"said": 1}, items, lost) == {
        "call_id": "c1",
        "name": "shell",
        "arguments": None,
    }
    assert resolve_references(ToolCallBegin, {"said": 2}, items, {}) == {}
    assert resolve_references(ExecCommandBegin, {"call": 1}, items, {}) == {"call_id": "c1"}
