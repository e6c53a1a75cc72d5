"""Reading what anybody may have written: everything that makes sense, nothing that does harm."""

from __future__ import annotations

import random
import time
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.protocol.events import EVENT_TYPES, AgentMessage, ErrorEvent, Event, TaskStarted, TokenCount
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import NO_USAGE, TextPart, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.records import ItemsRecord, Record, ToolOutputRecord
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.format.headers import SKELETON
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader, read_rows
from tertulia.rollout.store import Row, StoredRow
from tests.rollout.recorded import conversation, damaged, stored, without_bodies
from tests.rollout.recording import (
    SESSION,
    A,
    B,
    agreed,
    as_stored,
    assistant,
    event,
    events,
    json,
    model_request,
    records,
    unredacted,
    user,
    written,
)
from tests.tables import each_row

# ── texts that are not there ─────────────────────────────────────────────────────────────────────────────────


def test_items_whose_texts_are_gone_are_placeholders_of_the_same_kind() -> None:
    """S002-18, HARDENING E5: what a sweep leaves can still be read; calls and outputs still match."""
    rows = without_bodies(stored(*conversation()))
    lines = list(read_rows(rows))
    items = [item for line in lines if isinstance(line.what, ItemsRecord) for item in line.what.items]
    ended = next(line.what for line in lines if isinstance(line.what, ToolOutputRecord))

    assert [type(line.what) for line in lines] == [type(what) for what in conversation()]
    assert items[0] == UserMessage(ItemId("row-5"), (TextPart("[not stored: 5 characters]"),), injected=True)
    assert items[3] == ToolCall(ItemId("row-12"), CallId("row-12"), "shell", "{}")
    assert (
        items[4]
        == ended.output
        == ToolOutput(ItemId("row-15"), CallId("row-12"), (TextPart("[not stored: 2 characters]"),), success=False)
    )
    assert items[5].text == "[not stored: 4 characters]"


# ── rows that are not there, or damaged ──────────────────────────────────────────────────────────────────────


@each_row("index", range(len(stored(*conversation()))))
def test_a_damaged_row_costs_no_other_one(index: int) -> None:
    """HARDENING F4 at this level: whichever row it is, also one that others point to."""
    rows = stored(*conversation())
    rows[index] = damaged(rows[index])
    lines = list(read_rows(rows))
    readable = [line for line in lines if line.what is not None]

    assert any(rows[index].n in line.damaged for line in lines)
    assert len(readable) >= len(conversation()) - (6 if rows[index].kind == "session" else 1)


def test_a_conversation_whose_name_is_damaged_is_known_by_what_was_agreed() -> None:
    rows = stored(*conversation())
    lines = list(read_rows([damaged(rows[0]), *rows[1:]]))

    assert [line.what for line in lines[1:]] == conversation()


def test_a_text_that_is_damaged_is_missing() -> None:
    rows = stored(ItemsRecord(A, (user("hello"), user("you", id="u2"))))
    rows[1] = replace(rows[1], body=None, damaged=True)
    (line,) = read_rows(rows)

    assert [item.text for item in line.what.items] == ["[not stored: 5 characters]", "you"]
    assert (line.n, line.missing, line.damaged) == (2, (2,), (2,))


def test_what_is_left_of_a_segment_is_one_segment() -> None:
    """Some of its rows may have been deleted; the next one is another segment all the same."""
    first, second = (
        ItemsRecord(A, tuple(user(str(n), id=str(n)) for n in range(4))),
        ItemsRecord(A, (user("x"), user("y"))),
    )
    state, *rows = stored(first, second)
    left = [state, rows[1], rows[3], rows[5]]

    assert [[item.text for item in line.what.items] for line in read_rows(left)] == [["1", "3"], ["y"]]


def test_a_segment_ends_where_another_begins() -> None:
    state, *rows = stored(ItemsRecord(A, (user("1"), user("2"))), ItemsRecord(A, (user("3"), user("4"))))
    left = [state, rows[0], rows[2], rows[3]]

    assert [[item.text for item in line.what.items] for line in read_rows(left)] == [["1"], ["3", "4"]]


def test_a_segment_of_which_nothing_can_be_read_is_a_damaged_line() -> None:
    rows = stored(ItemsRecord(A, (user("1"),)))
    rows[1] = replace(rows[1], type="nonsense")
    (line,) = read_rows(rows)

    assert (line.what, line.damaged) == (None, (2,))


def test_kinds_and_types_of_another_version_are_handed_on() -> None:
    rows = stored(event(ErrorEvent("limit", "")), ItemsRecord(A, (user("1"),)))
    new_type = replace(rows[3], n=90, type="from_the_future")
    new_kind = replace(rows[4], n=91, kind="from_the_future")

    assert [line.raw for line in read_rows([*rows, new_type, new_kind])] == [None, None, new_type, new_kind]


def test_a_row_that_was_read_before_is_not_read_again() -> None:
    """Who follows a session may be given the same rows twice."""
    rows = stored(*conversation())
    reader = RowReader()
    first = list(reader.lines(rows[:9]))

    assert len(first) + len(list(reader.lines(rows))) == len(conversation())


# ── what is known ────────────────────────────────────────────────────────────────────────────────────────────


def test_reading_tells_what_a_recorder_has_to_know() -> None:
    rows = stored(*conversation()[:6], event(ErrorEvent("limit", ""), B, seq=9, epoch=3), agreed(HeadersOnly(), B))
    reader = RowReader()
    assert list(reader.lines(rows))
    known = reader.known

    assert (known.session_id, known.epoch, known.last_seq, known.last_n) == (SESSION, 3, 9, rows[-1].n)
    assert [(id, state.storage) for id, state in known.conversations.items()] == [(A, Full()), (B, HeadersOnly())]
    assert known.conversations[A].calls == {CallId("c1"): 12}


def test_a_call_that_was_answered_is_not_open() -> None:
    reader = RowReader()
    assert list(reader.lines(stored(*conversation())))

    assert reader.known.conversations[A].calls == {}


def test_of_a_conversation_nothing_was_agreed_of_nothing_may_be_stored() -> None:
    reader = RowReader()
    assert list(reader.lines(stored(event(ErrorEvent("limit", "")))))

    assert reader.known.conversations[A].storage == NoStorage()


# ── crafted rows ─────────────────────────────────────────────────────────────────────────────────────────────


def crafted(kind: str, type: str, header: Any, body: Any = None, n: int = 50, **columns: Any) -> StoredRow:
    encoded = header if isinstance(header, bytes) else msgspec.json.encode(header)
    text = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
    return StoredRow(
        **{"n": n, "kind": kind, "type": type, "ts": 1.0, "seq": None, "conversation": 1, "task": 0} | columns,
        header=encoded,
        body=text,
    )


NONSENSE = [
    crafted("event", "error", b"not json"),
    crafted("event", "error", {"code": ["x"]}, {"message": "x"}),
    crafted("event", "error", {}, b"[1]"),
    crafted("event", "error", {"code": "x"}, {"message": {}}),
    crafted("event", "error", {"code": "x"}, {}, conversation=99),
    crafted("event", "error", {"code": "x"}, {}, task=99),
    crafted("event", "error", {"code": "x"}, {}, ts=1e300),
    crafted("event", "error", {"code": "x"}, {}, ts=float("nan")),
    crafted("event", "error", {"code": "x", "ids": {"a": 1}}, {}),
    crafted("event", "task_complete", {"usage": [1, 2]}),
    crafted("event", "task_complete", {"usage": [1, 2, 3, 4, "5"]}),
    crafted("event", "task_complete", {"status": "other", "usage": [1, 2, 3, 4, 5]}),
    crafted("event", "task_started", {"ids": [1]}),
    crafted("event", "token_count", {"usage": [1, 2, 3, 4, 5]}, source=99),
    crafted("event", "token_count", {"usage": [1, 2, 3, 4, 5]}, source=50),
    crafted("event", "token_count", {"usage": [1, 2, 3, 4, 5], "cache_key": "x"}),
    crafted("said", "assistant", b"not json"),
    crafted("said", "assistant", {"chars": -1}),
    crafted("said", "assistant", {"parts": "x"}),
    crafted("said", "assistant", {"of": True}),
    crafted("said", "assistant", {}, {"id": 1, "text": 2}),
    crafted("said", "assistant", {}, {"id": "1"}),
    crafted("said", "assistant", {"same": True}, source=50),
    crafted("said", "assistant", {"same": True}),
    crafted("said", "assistant", {"same": [1]}),
    crafted("said", "assistant", {"storage": "sometimes"}, {"id": "1", "text": "2"}),
    crafted("said", "assistant", {}, {"id": "1", "parts": [{"type": "video"}]}),
    crafted("said", "assistant", {}, {"id": "1", "text": "2"}, conversation=99),
    crafted("said", "", {"of": 3}),
    crafted("ended", "user", {}, {"id": "1", "text": "2"}),
    crafted("queued", "assistant", {}, {"id": "1", "text": "2"}),
    crafted("queued", "nothing", {}, {}),
    crafted("rewritten", "", {"kept": "all", "end": 1, "place": 0}),
    crafted("rewritten", "assistant", {"kept": [], "end": 1, "place": 0}, {"id": "1", "text": "2"}),
    crafted("rewritten", "", {}),
    crafted("forked", "", {"from": 1, "items": 1}),
    crafted("forked", "", {"items": 1}),
    crafted("forked", "", {"from": "x", "items": 1, "total": "y"}),
    crafted("submitted", "", {}),
    crafted("submitted", "", {"task": None, "trace": None}),
    crafted("submitted", "", {"task": "a", "trace": "b", "message": 3}),
    crafted("asked", "", {"items": 1}),
    crafted("asked", "", {"items": 1}, source=99),
    crafted("asked", "", {}),
    crafted("prompt", "", {"instructions": 3}),
    crafted("prompt", "", {}, {"list": 3}),
    crafted("prompt", "", {}, {"tools_json": "?"}),
    crafted("agreed", "agreed", {"storage": {"ttl": -1}, "rights": {}, "place": {}}),
    crafted("agreed", "agreed", {"storage": "full", "rights": [], "place": {}}),
    crafted("agreed", "agreed", {"storage": "full"}),
    crafted("agreed", "agreed", {"storage": "full", "rights": {}, "place": {}}, conversation=99),
    crafted("conversation", "conversation", {"id": 3}),
    crafted("conversation", "conversation", {}),
    crafted("session", "session", {"id": "x", "epoch": "y"}),
    crafted("session", "session", {"id": 3, "epoch": 1}),
    crafted("task", "task", {"ids": "x"}),
    crafted("task", "task", {"ids": {"a": 1}}),
    crafted("task", "task", {}),
    crafted("event", "error", b"[" * 100_000),
    crafted("event", "error", b'{"code":' + b"9" * 10_000 + b"}"),
]


@each_row("row", NONSENSE, ids=lambda row: f"{row.kind} {row.type} {row.header[:40]!r}")
def test_a_row_that_makes_no_sense_is_counted_and_skipped(row: StoredRow) -> None:
    """HARDENING E8: wrong types, wild references, deep nesting; what stands around it is read."""
    before, after = (
        stored(*conversation()),
        replace(stored(event(ErrorEvent("limit", "")))[-1], n=60, conversation=1, task=0),
    )
    lines = list(read_rows([*before, row, after]))

    assert [line.n for line in lines if line.damaged or line.what is None] == [50]
    assert [line.n for line in lines][-1] == 60
    assert lines[-1].what is not None


def test_a_reference_to_itself_or_forward_finds_nothing() -> None:
    """HARDENING E8: no cycles."""
    base = stored(*conversation())
    answer_row = next(row.n for row in base if row.type == "assistant")
    rows = [
        crafted("event", "agent_message", {}, n=50, source=50),
        crafted("event", "agent_message", {}, n=51, source=52),
        crafted("event", "task_started", {"upto": -5}, n=52, source=answer_row),
        crafted("event", "tool_call_end", {"duration_ms": 1}, n=53, source=answer_row),
        crafted("event", "tool_call_begin", {}, n=54, source=answer_row),
        crafted("event", "exec_command_end", {"exit_code": 0, "truncated": False, "duration_ms": 1}, n=55, source=-1),
        crafted("event", "approval_resolved", {"approval_id": "x", "decision": "deny"}, n=56, source=answer_row),
    ]
    lines = list(read_rows([*base, *rows]))[-7:]

    nothing = AgentMessage("", ItemId(""))
    assert [line.what.data for line in lines[:3]] == [nothing, nothing, TaskStarted("user", "")]
    assert [line.what.type for line in lines] == [row.type for row in rows]


def test_numbers_that_a_row_claims_are_not_allocated() -> None:
    """HARDENING E8: a billion characters, items, parts."""
    huge = 2**60
    rows = [
        *stored(agreed(Full())),
        crafted("said", "user", {"chars": huge, "parts": huge, "of": huge, "i": huge - 1}, n=50),
        crafted("said", "user", {"of": huge}, n=51),
        crafted("rewritten", "", {"kept": [huge], "end": huge, "place": huge}, n=52),
        crafted("forked", "", {"from": "x", "items": huge}, n=53),
        crafted("event", "task_started", {"upto": huge}, n=54, source=50),
    ]
    lines = list(read_rows(rows))

    assert lines[1].what.items[0].text == f"[not stored: {huge} characters, {huge} parts]"
    assert lines[2].what.items[0].text == "[not stored: 0 characters]"


def test_a_reference_never_reaches_into_another_conversation() -> None:
    """HARDENING E10: even a crafted one."""
    rows = stored(
        agreed(Full()),
        agreed(Full(), B),
        event(TokenCount(NO_USAGE, 7, "private")),
        model_request(),
        ItemsRecord(A, (assistant("private"),)),
    )
    other = next(row.n for row in rows if row.kind == "conversation" and row.n > 1)
    counted, prompt, answer_row = (next(row.n for row in rows if name in row.type + row.kind) for name in _SPIED)
    task = next(row.n for row in rows if row.kind == "task")
    usage = {"usage": [1, 2, 3, 4, 5]}
    spy = [
        crafted("event", "agent_message", {}, n=50, conversation=other, source=answer_row),
        crafted("event", "token_count", usage, n=51, conversation=other, source=counted),
        crafted("said", "assistant", {"same": True}, n=52, conversation=other, source=answer_row),
        crafted("asked", "", {"items": 1}, n=53, conversation=other, source=prompt, task=task),
    ]
    message, count, item, request = list(read_rows([*rows, *spy]))[-4:]

    assert message.what.data.text == ""
    assert count.what.data.cache_key == ""
    assert item.what is None
    assert (request.what.tools, request.what.tools_json, request.damaged) == ("", b"", (53,))


_SPIED = ("token_count", "prompt", "assistant")
_VALUES = json | st.sampled_from([1, 2, 11, 50, -1, 2**63, "full", [1, 2, 3, 4, 5], True, ["a", "b", None, None], {}])
_KEYS = """same own upto empty usage ids id epoch storage rights place terms of i chars parts kind success from task
trace tool injected replaced kept end items message history prompt code status list tools_json text call_id pinned total
instructions tools context_window cache_key"""
_KINDS = "event said ended queued rewritten forked submitted asked agreed terms conversation task session prompt x"
_TYPES = [*EVENT_TYPES, "user", "assistant", "reasoning", "tool_call", "tool_output", "summary", "", *SKELETON]
_OBJECTS = st.dictionaries(st.sampled_from(_KEYS.split()) | st.text(max_size=3), _VALUES, max_size=5)
_ROWS = st.builds(
    lambda n, kind, type, header, body, conversation, task, damaged, source: StoredRow(
        n,
        kind,
        type,
        1.0,
        None,
        conversation,
        task,
        msgspec.json.encode(header),
        body and msgspec.json.encode(body),
        damaged,
        source,
    ),
    st.integers(30, 90),
    st.sampled_from(_KINDS.split()),
    st.sampled_from(_TYPES),
    _OBJECTS,
    st.none() | _OBJECTS,
    st.integers(0, 3),
    st.integers(0, 9),
    st.booleans(),
    st.integers(-1, 60),
)


@given(st.lists(_ROWS, max_size=8))
@settings(max_examples=300)
def test_crafted_rows_never_break_reading(rows: list[StoredRow]) -> None:
    """HARDENING E8, target 6"""
    lines = list(read_rows([*stored(*conversation()), *rows]))

    assert all(isinstance(line, RecordLine) for line in lines)
    assert [line.what for line in lines[: len(conversation()) - 1]] == conversation()[:-1]


@given(st.lists(events | records, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_mutated_rows_never_break_reading(whats: list[Event | Record], chance: random.Random) -> None:
    """HARDENING E8: bytes changed anywhere, rows lost, swapped and repeated."""
    rows = stored(*whats)
    chance.shuffle(rows)
    mutated: list[StoredRow] = []
    for row in rows:
        header = bytearray(row.header)
        header[chance.randrange(len(header))] = chance.randrange(256)
        mutated.append(replace(row, header=bytes(header)) if chance.random() < 0.5 else row)

    assert all(isinstance(line, RecordLine) for line in read_rows(mutated))


def test_reading_ten_thousand_items_is_quick() -> None:
    """Target: resume of 10,000 items in 300 ms, of which reading is the smaller part. Ten times that is a fault."""
    codec = Codec(unredacted)
    rows: list[Row] = []
    for n in range(5_000):
        rows += written(ItemsRecord(A, (user("x" * 200, id=f"u{n}"), assistant("y" * 200, id=f"a{n}"))), codec=codec)
    found = list(map(as_stored, rows))

    start = time.process_time()
    count = sum(1 for _ in read_rows(found))

    assert count == 5_000
    assert time.process_time() - start < 2
