"""Rows out of events and records: all that may be stored, once, and not one word more."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.protocol.events import (
    AgentMessage,
    BackgroundEvent,
    ErrorEvent,
    Event,
    EventData,
    ForeignEvent,
    TaskComplete,
    TaskStarted,
    TokenCount,
    TurnAborted,
)
from tertulia.protocol.ids import CallId, ItemId, TaskId, new_item_id, new_span_id, new_task_id
from tertulia.protocol.items import NO_USAGE, Summary, TextPart, ToolOutput, Usage
from tertulia.protocol.records import (
    MCP_PINS,
    CanvasRecord,
    ForkRecord,
    ItemsRecord,
    ModelRequestRecord,
    NoteRecord,
    QueuedInputRecord,
    Record,
    RewriteRecord,
    SubmissionRecord,
    ToolOutputRecord,
)
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.protocol.tool_events import ExecCommandEnd, ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.codec import Codec, request_digest
from tertulia.rollout.format.row_reader import RowReader, read_rows
from tertulia.rollout.store import Row
from tests.rollout.recorded import LONG, turn, whats
from tests.rollout.recording import (
    DURABLE,
    RECORDS,
    SESSION,
    TASK,
    TRACE,
    A,
    B,
    agreed,
    as_stored,
    assistant,
    bodies,
    call,
    event,
    events,
    events_of,
    model_request,
    output,
    policies,
    records,
    unredacted,
    user,
    written,
)
from tests.tables import each_row


def occurrences(rows: list[Row], text: str) -> int:
    return sum((row.header + (row.body or b"")).count(text.encode()) for row in rows)


def assert_read_back(originals: list[Event | Record]) -> None:
    lines = list(read_rows(map(as_stored, written(*originals))))

    assert [line.what for line in lines] == originals
    # Python takes 1 and 1.0 and True for the same.
    assert [msgspec.json.encode(line.what) for line in lines] == [msgspec.json.encode(what) for what in originals]
    assert not any(line.missing or line.damaged for line in lines)


@pytest.mark.no_cover
@each_row("kind", DURABLE.values(), ids=DURABLE)
def test_every_event_written_in_full_is_read_back_exactly(kind: type[EventData]) -> None:
    """S002-15, HARDENING E11: line separators included."""

    @given(st.lists(events_of(kind), min_size=1, max_size=2))
    @settings(max_examples=25)
    def check(originals: list[Event | Record]) -> None:
        assert_read_back(originals)

    check()


@pytest.mark.no_cover
@each_row("records_of", RECORDS.values(), ids=RECORDS)
def test_every_record_written_in_full_is_read_back_exactly(records_of: st.SearchStrategy[Record]) -> None:
    """S002-15, HARDENING E11: line separators included."""

    @given(st.lists(records_of, min_size=1, max_size=3))
    @settings(max_examples=50)
    def check(originals: list[Event | Record]) -> None:
        assert_read_back(originals)

    check()


@given(st.lists(events | records, max_size=8))
@settings(max_examples=200)
def test_whatever_happens_in_whatever_order_is_read_back_exactly(originals: list[Event | Record]) -> None:
    """S002-15"""
    assert_read_back(originals)


@given(st.lists(events | records, max_size=6), policies)
def test_no_policy_makes_a_row_that_it_forbids_or_that_cannot_be_read(
    originals: list[Event | Record], policy: StoragePolicy
) -> None:
    """S002-16..19"""
    rows = written(*originals, policy=policy)

    for row in rows:
        row.check()
    assert not any(line.damaged for line in read_rows(map(as_stored, rows)))


# ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_an_item_says_is_written_once() -> None:
    """S002-15: events of a turn are references to its items, and are read back whole."""
    rows = written(*turn())

    assert occurrences(rows, LONG) == 5
    assert whats(rows) == turn()


@each_row("policy", [HeadersOnly(), NoStorage()])
def test_no_text_of_a_turn_is_written_where_none_may_be(policy: StoragePolicy) -> None:
    """S002-16, S002-17, S002-19"""
    rows = written(*turn(), policy=policy)

    assert bodies(rows) == 0
    assert occurrences(rows, "once upon") == 0
    assert occurrences(rows, '"c1"') == 0, "call ids are the model's words"
    assert occurrences(rows, '"u1"') == 0


def test_headers_tell_times_tools_and_counts() -> None:
    """S002-16: and enough to know which call an output answers."""
    lines = list(read_rows(map(as_stored, written(*turn(), policy=HeadersOnly()))))
    items = [item for line in lines if isinstance(line.what, ItemsRecord) for item in line.what.items]
    begun = next(line for line in lines if isinstance(line.what, Event) and line.what.type == "tool_call_begin")

    assert [type(item).__name__ for item in items] == [
        "UserMessage", "Reasoning", "ToolCall", "ToolOutput", "AssistantMessage",
    ]  # fmt: skip
    assert items[0].text == "[not stored: 341 characters]"
    assert items[2].name == "shell"
    assert items[2].call_id == items[3].call_id
    assert begun.what.data == ToolCallBegin(items[2].call_id, "shell", None)
    assert begun.missing == (begun.n,)


def test_under_none_only_starts_ends_and_errors_are_written() -> None:
    """S002-17"""
    rows = written(*turn(), event(ErrorEvent("limit", "too long: " + LONG)), policy=NoStorage())

    assert [row.type for row in rows] == [
        "conversation", "agreed", *(["submitted"] if any(row.type == "submitted" for row in rows) else []),
        "session", "task_started", "task_complete", "error",
    ]  # fmt: skip
    assert [line.what.data for line in read_rows(map(as_stored, rows)) if isinstance(line.what, Event)] == [
        TaskStarted("user"),
        TaskComplete("completed", None, Usage(1200, 1000, 30, 4, 1230)),
        ErrorEvent("limit", ""),
    ]


# ── what may be a reference ──────────────────────────────────────────────────────────────────────────────────


def test_a_reference_never_crosses_conversations() -> None:
    rows = written(ItemsRecord(A, (assistant(LONG),)), event(AgentMessage(LONG, ItemId("a1")), B))

    assert occurrences(rows, LONG) == 2


@each_row("policy", [Ttl(60.0), HeadersOnly()])
def test_a_reference_never_points_to_another_policy(policy: StoragePolicy) -> None:
    """What erases the one must not have to erase the other."""
    codec = Codec(unredacted)
    item, message = assistant(LONG), AgentMessage(LONG, ItemId("a1"))
    rows = [*codec.record(ItemsRecord(A, (item,)), policy, 1.0), *codec.event(event(message), Full())]

    assert rows[-1].body == msgspec.json.encode(message)
    assert rows[-1].source == 0


DIFFERENT: list[tuple[EventData, str]] = [
    (AgentMessage("another text", ItemId("a1")), "another text"),
    (AgentMessage(LONG, ItemId("a2")), "a2"),
    (TaskComplete("completed", "another text", NO_USAGE), "another text"),
    (TaskStarted("user", "another text"), "another text"),
    (ToolCallBegin(CallId("c1"), "another", {"x": 1}), "another"),
    (ToolCallBegin(CallId("c1"), "shell", {"x": True}), "true"),
    (ToolCallBegin(CallId("c1"), "shell", {"x": 1.0}), "1.0"),
    (ToolCallBegin(CallId("c2"), "shell", {"x": 1}), "c2"),
    (ToolCallEnd(CallId("c1"), "shell", True, "another text", False, 1), "another text"),
    (ToolCallEnd(CallId("c2"), "another", False, LONG, True, 1), "c2"),
    (ExecCommandEnd(CallId("c2"), None, LONG, False, 1), "c2"),
]


@each_row(("data", "text"), DIFFERENT)
def test_what_no_item_says_is_written_with_its_event(data: EventData, text: str) -> None:
    originals = [
        model_request(),
        ItemsRecord(A, (user(LONG), assistant(LONG), call())),
        ToolOutputRecord(A, output(LONG)),
        event(data),
    ]
    rows = written(*originals)

    assert text.encode() in (rows[-1].header + (rows[-1].body or b""))
    assert whats(rows) == originals


def test_after_the_end_of_a_task_nobody_refers_to_it() -> None:
    """Bounded: what was said in a task is not held longer than the task."""
    codec = Codec(unredacted)
    item = assistant(LONG)
    written(ItemsRecord(A, (item,)), event(TurnAborted("interrupted")), codec=codec)

    rows = written(event(AgentMessage(LONG, item.id)), codec=codec)

    assert occurrences(rows, LONG) == 1


def test_only_so_many_items_are_held() -> None:
    codec = Codec(unredacted)
    written(*(ItemsRecord(A, (assistant(f"{n} {LONG}", id=f"a{n}"),)) for n in range(300)), codec=codec)

    early = written(event(AgentMessage(f"0 {LONG}", ItemId("a0"))), codec=codec)
    late = written(event(AgentMessage(f"299 {LONG}", ItemId("a299"))), codec=codec)

    assert (occurrences(early, LONG), occurrences(late, LONG)) == (1, 0)


def test_ids_and_values_that_were_given_up_are_written_again() -> None:
    originals = [
        event(TokenCount(NO_USAGE, n % 20, "key"), seq=n + 1, task_id=TaskId(f"task {n % 10}")) for n in range(45)
    ]
    rows = written(*originals)

    assert whats(rows) == originals


# ── what joins the history later ─────────────────────────────────────────────────────────────────────────────


def test_what_was_queued_or_has_ended_is_written_once() -> None:
    """Contract of Queued and Ended: the same item joins the history later."""
    message, result = user(LONG, sender="ada"), output(LONG)
    originals = [
        QueuedInputRecord(A, message),
        ItemsRecord(A, (call(),)),
        ToolOutputRecord(A, result),
        ItemsRecord(A, (result,)),
        ItemsRecord(A, (message,)),
    ]
    rows = written(*originals)

    assert occurrences(rows, LONG) == 2
    assert whats(rows) == originals


def test_what_joins_the_history_changed_is_written_again() -> None:
    originals = [QueuedInputRecord(A, user(LONG)), ItemsRecord(A, (user(LONG + "and more"),))]
    rows = written(*originals)

    assert occurrences(rows, LONG) == 2
    assert whats(rows) == originals


def test_an_item_of_a_stricter_source_is_a_header_in_a_full_conversation() -> None:
    """S002-19: the policy travels. What stands around it is stored."""
    result = output("the child's words", storage=HeadersOnly())
    rows = written(ItemsRecord(A, (call(),)), ToolOutputRecord(A, result), ItemsRecord(A, (result, user("go on"))))
    line = list(read_rows(map(as_stored, rows)))[-1]

    assert occurrences(rows, "child") == 0
    assert line.what == ItemsRecord(
        A,
        (
            ToolOutput(
                ItemId("row-3"), CallId("c1"), (TextPart("[not stored: 17 characters]"),), storage=HeadersOnly()
            ),
            user("go on"),
        ),
    )
    assert line.missing == (4,)


def test_of_an_item_that_may_not_be_stored_at_all_only_its_place_is() -> None:
    """S002-17: a gap would part the parent's calls from their outputs. Not even its length is told."""
    result = output("the child's words", storage=NoStorage(), success=False)
    rows = written(ItemsRecord(A, (call(),)), ItemsRecord(A, (result,)))
    (item,) = list(read_rows(map(as_stored, rows)))[-1].what.items

    assert (item.call_id, item.success) == (CallId("c1"), False)
    assert item.text == "[not stored: 0 characters]"
    assert b"chars" not in rows[-1].header


# ── names, digests, lists ────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_name_that_was_never_offered_is_a_text_of_the_model() -> None:
    """HARDENING E1: a model may write anything where a name should stand."""
    originals = [
        model_request(),
        ItemsRecord(A, (call(name="CANARY"), call(name="", id="c2"))),
        event(ToolCallBegin(CallId("c9"), "CANARY", {})),
    ]

    assert occurrences(written(*originals, policy=HeadersOnly()), "CANARY") == 0
    assert whats(written(*originals)) == originals


def test_an_event_with_a_text_where_a_name_should_be_hides_nothing_in_its_header() -> None:
    """HARDENING E1: a tool may publish what it likes."""
    data = ErrorEvent("my own words", "and more of them")

    assert occurrences(written(event(data), policy=HeadersOnly()), "own") == 0
    assert whats(written(event(data))) == [event(data)]


@each_row(("message", "hits"), [("0123456789abcdef" * 2, 1), ("the client's own words", 0)])
def test_only_the_key_of_a_message_id_may_stand_in_a_header(message: str, hits: int) -> None:
    """A message id is the client's text, its digest is not."""
    rows = written(SubmissionRecord(A, TASK, TRACE, message), policy=HeadersOnly())
    (line,) = read_rows(map(as_stored, rows))

    assert occurrences(rows, "own words") == 0
    assert line.what == SubmissionRecord(A, TASK, TRACE, message if hits else None)


@each_row("noted", [NoteRecord(A, "bond", {"id": "x"}), NoteRecord(A, "bond", {}), NoteRecord(A, "bond")])
def test_a_note_is_text_and_its_name_is_not(noted: NoteRecord) -> None:
    """S003-32: what an agent calls its session is kept by the storage policy."""
    (line,) = read_rows(map(as_stored, written(noted)))
    assert (line.what, line.missing) == (noted, ())
    (line,) = read_rows(map(as_stored, written(noted, policy=HeadersOnly())))
    assert line.what == NoteRecord(A, "bond")
    assert bool(line.missing) is (noted.value is not None)
    assert list(read_rows(map(as_stored, written(noted, policy=NoStorage())))) == []


@each_row("policy", [Full(), HeadersOnly(), Ttl(1.0)])
def test_what_is_pinned_of_mcp_tools_is_no_text_and_outlives_the_texts(policy: StoragePolicy) -> None:
    """HARDENING C1, E4"""
    noted = NoteRecord(A, MCP_PINS, {"fs__read": "0" * 64})
    rows = written(noted, policy=policy)
    (line,) = read_rows(map(as_stored, rows))
    assert (line.what, line.missing) == (noted, ())
    assert (rows[-1].body, rows[-1].expires) == (None, None)
    assert list(read_rows(map(as_stored, written(noted, policy=NoStorage())))) == []


def test_what_only_calls_itself_a_pin_is_text() -> None:
    """HARDENING E1"""
    noted = NoteRecord(A, MCP_PINS, {"fs__read": "somebody's own words"})
    rows = written(noted, policy=HeadersOnly())
    (line,) = read_rows(map(as_stored, rows))
    assert occurrences(rows, "own words") == 0
    assert line.what == NoteRecord(A, MCP_PINS)


@each_row("drawn", [CanvasRecord(A, 1, "<p>", "a title", "now"), CanvasRecord(A, 2, ""), CanvasRecord(A, 3)])
def test_a_page_is_text_and_its_number_is_not(drawn: CanvasRecord) -> None:
    """S002-16: that a canvas changed is known under any policy that keeps headers; what it showed is not."""
    (line,) = read_rows(map(as_stored, written(drawn)))
    assert (line.what, line.missing) == (drawn, ())
    (line,) = read_rows(map(as_stored, written(drawn, policy=HeadersOnly())))
    assert line.what == CanvasRecord(A, drawn.revision)
    assert bool(line.missing) is (drawn.html is not None)
    assert list(read_rows(map(as_stored, written(drawn, policy=NoStorage())))) == []


def test_a_tool_list_is_written_once_in_a_conversation() -> None:
    tools = b'[{"name":"shell","description":"' + LONG.encode() + b'"}]'
    originals = [
        model_request(tools),
        model_request(tools),
        model_request(tools, conversation=B),
        model_request(b"[]"),
        model_request(tools),
    ]
    rows = written(*originals)

    assert occurrences(rows, LONG) == 2
    assert whats(rows) == originals


def test_a_tool_list_that_will_expire_is_written_again_in_time() -> None:
    codec = Codec(unredacted)
    times = (0.0, 4.0, 6.0)
    kinds = [[row.kind for row in codec.record(model_request(), Ttl(10.0), ts)] for ts in times]

    assert [names.count("prompt") for names in kinds] == [1, 0, 1]


def test_a_prompt_digest_that_follows_from_the_others_is_not_written() -> None:
    parts = ("1" * 64, "2" * 64, "3" * 64, hashlib.sha256(b"{}").hexdigest())
    prompt = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    record = ModelRequestRecord(A, TASK, *parts[:3], 4, prompt, b"[]", output_schema="{}")
    rows = written(record)

    assert b"prompt" not in rows[-1].header
    assert whats(rows) == [record]


def test_a_request_for_notes_says_which_items_they_are_of() -> None:
    """S002-15: whoever proves it must know what the model was shown."""
    record = ModelRequestRecord(A, TASK, "1" * 64, "2" * 64, "3" * 64, 4, "5" * 64, b"[]", summarises=((2, 5), (7, 9)))
    assert whats(written(record)) == [record]


def test_a_request_to_another_model_names_it() -> None:
    """Issue 24 (3): what a fallback model was shown is proved by its own wire."""
    record = ModelRequestRecord(A, TASK, "1" * 64, "2" * 64, "3" * 64, 4, "5" * 64, b"[]", model="acme/two")
    assert whats(written(record)) == [record]


def test_ids_stand_once() -> None:
    """A conversation is named once, a task's ids once a task."""
    originals = [event(ErrorEvent("limit", str(n)), seq=n) for n in range(1, 5)]
    kinds = [row.kind for row in written(*originals)]

    assert kinds == ["session", "conversation", "task", "event", "event", "event", "event"]


def test_an_ordinary_turn_takes_little_more_than_its_items() -> None:
    """Issue 21: 1.35 times the bytes of items of 1 KB on the disk. What the store adds is not counted here."""
    codec = Codec(unredacted)
    size = items = 0
    for number in range(20):
        task, span = new_task_id(), new_span_id()
        ask, answer = user("x" * 1024, id=new_item_id()), assistant("y" * 1024, id=new_item_id())
        usage, history = Usage(1200, 1100, 300, 0, 1500), hashlib.sha256(str(number).encode()).hexdigest()
        prompt = request_digest("1" * 64, "2" * 64, history, None)
        fields = {"task_id": task, "span_id": span, "sub_id": f"sub/{new_item_id()}"}
        rows = written(
            SubmissionRecord(A, task, TRACE, None),
            ItemsRecord(A, (ask,)),
            event(TaskStarted("user", ask.text[:120]), **fields),
            ModelRequestRecord(A, task, "1" * 64, "2" * 64, history, 2 * number, prompt, b"[]"),
            ItemsRecord(A, (answer,)),
            event(AgentMessage(answer.text, answer.id), **fields),
            event(TokenCount(usage, 128_000, "5" * 32), **fields),
            event(TaskComplete("completed", answer.text, usage), **fields),
            codec=codec,
        )
        items += len(msgspec.json.encode((ask, answer)))
        size += sum(len(row.header) + len(row.body or b"") for row in rows)

    assert size <= 1.16 * items


def test_a_new_epoch_is_said_once() -> None:
    originals = [event(ErrorEvent("limit", ""), epoch=epoch) for epoch in (0, 0, 1, 1)]

    assert [row.kind for row in written(*originals)].count("session") == 2
    assert whats(written(*originals)) == originals


# ── what cannot be written ───────────────────────────────────────────────────────────────────────────────────


@each_row("raw", [object(), "\ud800"])
def test_what_is_no_json_is_recorded_without_its_text(raw: Any) -> None:
    """A journal never raises."""
    (line,) = read_rows(map(as_stored, written(event(ForeignEvent("other", raw)))))

    assert line.what == event(ForeignEvent("other", None))
    assert line.missing == (line.n,)


def test_a_header_that_is_no_json_is_a_damaged_line() -> None:
    rows = written(msgspec.structs.replace(agreed(Full()), rights={"a": object()}), event(ErrorEvent("limit", "")))

    assert [line.damaged for line in read_rows(map(as_stored, rows))] == [(2,), ()]


def test_a_call_that_cannot_be_compared_is_written() -> None:
    rows = written(model_request(), ItemsRecord(A, (call(),)), event(ToolCallBegin(CallId("c1"), "shell", object())))

    assert rows[-1].header == b'{"own":true}'


def test_a_time_that_is_none_counts_as_long_ago() -> None:
    rows = written(event(ErrorEvent("limit", ""), ts="yesterday"))

    assert {row.ts for row in rows} == {0.0}


def test_every_body_is_redacted() -> None:
    codec = Codec(lambda body: body.replace(b"hunter2", b"*"))
    rows = written(*turn()[:2], ItemsRecord(A, (user("hunter2"),)), event(BackgroundEvent("hunter2")), codec=codec)

    assert occurrences(rows, "hunter2") == 0


# ── after a failure, after erasing, after a restart ──────────────────────────────────────────────────────────


def test_a_record_that_goes_on_knows_its_conversations_lists_and_calls() -> None:
    reader = RowReader()
    first = [
        agreed(Full()),
        model_request(),
        ItemsRecord(A, (call(),)),
        event(ErrorEvent("limit", "")),
        agreed(HeadersOnly(), B),
    ]
    rows = written(*first, codec=Codec(unredacted))
    assert len(list(reader.lines(map(as_stored, rows)))) == len(first)

    codec = Codec(unredacted, reader.known)
    more = [model_request(), ItemsRecord(A, (output("done"),)), event(ErrorEvent("limit", ""), B, epoch=1)]
    new = written(*more, codec=codec)

    assert new[0].n > rows[-1].n
    assert not any(row.kind == "conversation" for row in new)
    assert codec.written.number(A) == 1
    assert whats([*rows, *new]) == [*first, *more]


def test_an_event_of_a_conversation_need_not_belong_to_a_task() -> None:
    originals = [event(ErrorEvent("limit", ""), sub_id=SESSION, task_id=None, trace_id=None, span_id=None)]
    rows = written(*originals)

    assert rows[-1].task == 0
    assert whats(rows) == originals


def test_digests_that_are_none_are_texts() -> None:
    record = ModelRequestRecord(A, TASK, "my words", "2" * 64, "my words", 4, "my words", b"\xff", override="mine")

    assert whats(written(record)) == [record]
    assert occurrences(written(record, policy=HeadersOnly()), "my") == 0


def test_a_request_of_another_task_has_its_own_row() -> None:
    originals = [
        model_request(),
        model_request(task=TaskId("another")),
        event(ErrorEvent("limit", "")),
        model_request(task=TaskId("another")),
        model_request(),
    ]
    rows = written(*originals)

    assert [row.kind for row in rows].count("task") == 3
    assert whats(rows) == originals


def test_session_wide_events_belong_to_no_conversation() -> None:
    usual = event(ErrorEvent("limit", ""), None, sub_id=SESSION, task_id=None, trace_id=None, span_id=None)
    odd = event(TokenCount(NO_USAGE, 1, "key"), None)
    rows = written(usual, odd)

    assert {row.conversation for row in rows} == {0}
    assert rows[1].task == 0
    assert whats(rows) == [usual, odd]


def test_forks_and_rewritings_are_read_back() -> None:
    originals = [
        ForkRecord(B, A, 3),
        RewriteRecord(A, (0, 2), 5, 1, None),
        RewriteRecord(A, (), 0, 0, None, 9, (2, 4), 1_024),
        RewriteRecord(A, (), 5, 0, Summary(ItemId("s"), LONG, 7)),
        ItemsRecord(A, ()),
        ItemsRecord(A, (), pinned=True, seed=True),
    ]

    assert whats(written(*originals)) == originals
