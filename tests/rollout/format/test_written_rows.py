"""What later rows refer to, and again has a row where the first is gone."""

from __future__ import annotations

import tracemalloc

import msgspec

from tertulia.protocol.events import ConversationClosed, ErrorEvent, Event
from tertulia.protocol.ids import CallId, ConversationId, ItemId, TaskId
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy, Ttl
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.format.row_reader import RowReader, read_rows
from tertulia.rollout.format.written_rows import ConversationRows, ItemRef, bare_calls
from tests.rollout.recorded import LONG, turn, whats
from tests.rollout.recording import (
    A,
    B,
    agreed,
    as_stored,
    assistant,
    call,
    event,
    model_request,
    output,
    unredacted,
    user,
    written,
)
from tests.tables import each_row

TASK_KEY = ("sub", "task", None, None)
DIGESTS = ("1" * 64, "2" * 64)


def filled() -> ConversationRows:
    """Rows 4 to 11 of a conversation in row 3."""
    rows = ConversationRows(3)
    rows.offered = b'[{"name":"shell"}]'
    rows.note_task(TASK_KEY, 4)
    rows.repeated = ((1, "key"), 5)
    rows.note_prompt(DIGESTS, 6, Full(), 1.0)
    for n, item in enumerate((user("x"), assistant("x"), call()), 7):
        rows.joined(ItemRef(n, Full(), item))
    rows.will_join(ItemRef(10, Full(), output("x"), 9))
    rows.will_join(ItemRef(11, Full(), user("y", id="u2")))
    return rows


def test_only_a_name_among_the_offered_tools_is_a_name() -> None:
    """HARDENING E1"""
    rows = filled()

    assert rows.offers("shell")
    assert not any(map(rows.offers, ("", "she", "CANARY", 'a","b', "\ud800")))


def referred(rows: ConversationRows) -> list[int]:
    """The numbers of all rows that later ones may refer to."""
    refs = [rows.last_input, rows.answer, *rows.spoken.values(), *rows.calls.values(), *rows.outputs.values()]
    items = {ref.n for ref in (*refs, *rows.waiting.values(), *rows.answered.values()) if ref is not None}
    others = [rows.prompt(DIGESTS, Full(), 1.0), None if rows.repeated is None else rows.repeated[1]]
    return sorted(items | set(rows.tasks.values()) | {n for n in others if n is not None})


@each_row("n", range(3, 13))
def test_rows_that_were_never_written_are_not_referred_to(n: int) -> None:
    rows = filled()
    rows.forget(n)
    assert referred(rows) == list(range(4, n))[:8]


def test_after_erasing_only_rows_without_texts_are_referred_to() -> None:
    """HARDENING E5"""
    left = filled().erased()

    assert (left.n, referred(left)) == (3, [4, 9])
    assert left.calls == bare_calls({CallId("c1"): 9})
    assert left.offers("shell")


def test_what_joins_the_history_and_tasks_that_end_are_forgotten() -> None:
    rows = filled()
    rows.joined(ItemRef(20, Full(), output("x")))
    rows.joined(ItemRef(21, Full(), user("y", id="u2")))
    rows.task_ended()

    assert (rows.waiting, rows.outputs, rows.calls, rows.spoken) == ({}, {}, {}, {})
    assert (rows.answer, rows.last_input) == (None, None)
    assert list(rows.answered) == [CallId("c1")]


def test_an_output_of_a_call_that_is_not_known_answers_none() -> None:
    rows = ConversationRows(3)
    rows.joined(ItemRef(4, Full(), output("one", id="c9")))
    assert rows.answered == {}


def test_the_oldest_is_given_up_when_there_are_too_many() -> None:
    rows = ConversationRows(3)
    for n in range(1, 301):
        rows.joined(ItemRef(n, Full(), assistant(str(n), id=str(n))))
        rows.note_task((None, str(n), None, None), n)

    assert len(rows.spoken) == 256
    assert ItemId("1") not in rows.spoken
    assert (rows.task(TaskId("300")), rows.task(TaskId("200"))) == (300, None)


def test_only_the_very_same_item_under_the_same_policy_is_waiting() -> None:
    rows = ConversationRows(3)
    rows.will_join(ItemRef(1, Full(), user("one")))

    assert rows.same(user("one"), Full()) is not None
    assert rows.same(user("one"), HeadersOnly()) is None
    assert rows.same(user("two"), Full()) is None
    assert rows.same(user("one", id="other"), Full()) is None


PROMPTS: list[tuple[StoragePolicy, StoragePolicy, float, bool]] = [
    (Full(), Full(), 1e9, True),
    (Full(), HeadersOnly(), 0.0, True),
    (HeadersOnly(), HeadersOnly(), 0.0, True),
    (HeadersOnly(), Full(), 0.0, False),
    (Ttl(10.0), Full(), 0.0, False),
    (Ttl(10.0), Ttl(10.0), 5.0, True),
    (Ttl(10.0), Ttl(10.0), 6.0, False),
]


@each_row(("first", "second", "ts", "serves"), PROMPTS)
def test_a_prompt_serves_as_long_as_its_text_does(
    first: StoragePolicy, second: StoragePolicy, ts: float, serves: bool
) -> None:
    rows = ConversationRows(3)
    rows.note_prompt(DIGESTS, 4, first, 0.0)

    assert rows.prompt(DIGESTS, second, ts) == (4 if serves else None)


def test_after_a_failure_everything_that_was_lost_is_named_again() -> None:
    codec = Codec(unredacted)
    rows = written(agreed(Full()), *turn()[1:5], codec=codec)
    lost = written(*turn()[5:], agreed(Full(), B), codec=codec)

    codec.written.forget(lost[0].n)
    again = written(*turn()[5:], agreed(Full(), B), codec=codec)

    assert again[0].n > lost[-1].n
    assert whats([*rows, *again])[1:] == [*turn()[1:], agreed(Full(), B)]


def test_after_a_failure_of_everything_the_session_is_named_again() -> None:
    codec = Codec(unredacted)
    lost = written(*turn(), codec=codec)

    codec.written.forget(1)

    assert whats(written(*turn(), codec=codec)) == turn()
    assert codec.last_n > lost[-1].n


def test_after_erasing_nothing_points_to_what_there_was() -> None:
    """HARDENING E5: Full, headers_only, Full again: later events must not lean on texts that are gone."""
    codec = Codec(unredacted)
    before = turn()[:10]
    rows = [msgspec.structs.replace(row, body=None) for row in written(*before, codec=codec)]

    codec.written.erased(A)
    codec.written.erased(B)
    rest = turn()[10:]
    lines = list(read_rows(map(as_stored, [*rows, *written(*rest, codec=codec)])))[len(before) :]

    assert [line.missing for line in lines] == [()] * len(rest)
    assert lines[0].what.data.output == LONG + "."
    assert lines[2].what == rest[2], "the tool list is there again"
    assert lines[-1].what == rest[-1]


def test_a_conversation_nobody_wrote_of_has_no_row() -> None:
    assert Codec(unredacted).written.number(A) is None


def closed(conversation: ConversationId) -> Event:
    return event(ConversationClosed(), conversation)


def test_what_a_closed_conversation_had_is_forgotten_but_for_its_row() -> None:
    """HARDENING target 8: a session that opens and closes one conversation after the other does not grow."""
    codec = Codec(unredacted)
    written(*turn(), codec=codec)
    tracemalloc.start()
    for index in range(200):
        one = ConversationId(f"conversation-{index}")
        written(agreed(Full(), one), event(ErrorEvent("limit", ""), one), closed(one), codec=codec)
    held = tracemalloc.get_traced_memory()[0] / 200
    tracemalloc.stop()
    assert held < 600

    assert codec.written.number(ConversationId("conversation-7")) is not None


def test_what_is_heard_of_a_conversation_after_its_end_points_to_the_same_row() -> None:
    codec = Codec(unredacted)
    first = [agreed(Full()), event(ErrorEvent("limit", ""), seq=1), closed(A)]
    rows = written(*first, codec=codec)
    late = event(ErrorEvent("late", ""), seq=2)
    more = written(late, codec=codec)

    assert not any(row.kind == "conversation" for row in more)
    assert codec.written.number(A) == rows[0].n
    assert whats([*rows, *more]) == [*first, late]


def test_a_closed_conversation_whose_row_was_never_written_is_named_again() -> None:
    codec = Codec(unredacted)
    written(agreed(Full()), closed(A), codec=codec)

    codec.written.forget(1)

    assert codec.written.number(A) is None
    assert whats(written(agreed(Full()), codec=codec)) == [agreed(Full())]
    codec.written.close(B)
    assert codec.written.number(B) is None


def test_of_a_record_that_goes_on_closed_conversations_are_known_by_their_row_alone() -> None:
    """HARDENING target 8."""
    codec, reader = Codec(unredacted), RowReader()
    first = [agreed(Full()), model_request(), closed(A), agreed(Full(), B)]
    rows = written(*first, codec=codec)
    assert len(list(reader.lines(map(as_stored, rows)))) == len(first)
    assert [conversation.closed for conversation in reader.known.conversations.values()] == [True, False]

    again = Codec(unredacted, reader.known)
    more = [model_request(), event(ErrorEvent("late", ""), epoch=1)]
    new = written(*more, codec=again)

    assert again.written.number(A) == rows[0].n
    assert not any(row.kind == "conversation" for row in new)
    assert whats([*rows, *new]) == [*first, *more]
