"""Reading a record: a fold that does nothing and believes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import StorageError
from tertulia.protocol.events import Event, TaskComplete
from tertulia.protocol.ids import ConversationId, ItemId, SessionId, TaskId
from tertulia.protocol.items import NO_USAGE, Summary
from tertulia.protocol.records import ForkRecord, ItemsRecord, Record, RewriteRecord, SubmissionRecord, TermsRecord
from tertulia.protocol.storage import Ttl
from tertulia.rollout.format.row_reader import RecordLine
from tertulia.session.resume.recorded_state import RecordedState
from tests.history.items import output, user

A, B = ConversationId("a"), ConversationId("b")


def read(*records: Record) -> RecordedState:
    return RecordedState().read(RecordLine(n, float(n), record) for n, record in enumerate(records, start=1))


def items_record(*texts: str, **fields: Any) -> ItemsRecord:
    return ItemsRecord(A, tuple(map(user, texts)), **fields)


def words(past: RecordedState, id: ConversationId = A) -> list[str]:
    return [item.text for item in past.conversations[id].items]


def test_a_rewrite_lays_the_pieces_as_the_history_did() -> None:
    summary = Summary(ItemId("s"), "so far", 2)
    rewritten = RewriteRecord(A, kept=(0, 2), end=4, place=1, summary=summary)
    past = read(
        items_record("seed", seed=True, pinned=True),
        items_record("1"),
        items_record("2"),
        items_record("3"),
        items_record("4"),
        rewritten,
        items_record("5"),
    )
    assert words(past) == ["seed", "so far", "2", "4", "5"]


def test_a_rewrite_whose_pieces_are_lost_does_what_it_can() -> None:
    """F4: places that are not there are left out."""
    past = read(items_record("1"), RewriteRecord(A, kept=(0, 7), end=9, place=3, summary=None), items_record("2"))
    assert words(past) == ["1", "2"]


def test_a_rewrite_finds_its_places_although_the_oldest_pieces_have_expired() -> None:
    """E4: what a sweep has deleted were the oldest."""
    summary = Summary(ItemId("s"), "so far", 2)
    rewritten = RewriteRecord(A, kept=(0, 2), end=4, place=1, summary=summary, total=6)
    past = read(items_record("2"), items_record("3"), items_record("4"), items_record("5"), rewritten)
    assert words(past) == ["so far", "2", "4", "5"]


def test_outputs_are_shortened_where_the_history_shortened_them_although_the_oldest_pieces_have_expired() -> None:
    """Issue 24, 6; E4."""
    ended = [ItemsRecord(A, (output(name, name * 5_000),)) for name in "abc"]
    past = read(*ended, RewriteRecord(A, (), 0, 0, None, total=4, shortened=(0, 1, 2, 9), shortened_to=1_024))
    assert [len(text) <= 1_024 for text in words(past)] == [True, True, False]
    assert ["removed to make room" in text for text in words(past)] == [True, True, False]


def test_a_fork_begins_with_the_first_items_also_in_the_middle_of_a_piece() -> None:
    past = read(
        items_record("seed"), items_record("1", "2", "3"), items_record("4"), ForkRecord(B, A, 3), items_record("5")
    )
    assert words(past, B) == ["seed", "1", "2"]
    assert words(past) == ["seed", "1", "2", "3", "4", "5"]


def test_a_fork_has_nothing_that_was_said_after_its_place_although_the_oldest_items_have_expired() -> None:
    """E10, E4: it had the first three of five; two of those are gone."""
    past = read(items_record("2"), items_record("3", "4"), ForkRecord(B, A, 3, total=5), items_record("5"))
    assert words(past, B) == ["2"]
    assert words(past) == ["2", "3", "4", "5"]


def test_an_output_whose_call_has_expired_is_not_counted_by_a_fork() -> None:
    """E10, E4: the history that was forked did not have it any more."""
    terms = TermsRecord(A, Ttl(1.0), {}, {}, {})
    left = ItemsRecord(A, (output("gone"), user("2")))
    past = read(terms, left, items_record("3"), ForkRecord(B, A, 3, total=4), items_record("4"))
    assert words(past, B) == ["2"]


def test_a_record_that_does_not_say_how_the_session_began_is_refused() -> None:
    with pytest.raises(StorageError, match="how the session began"):
        read(items_record("1")).identity()


def test_damaged_lines_are_counted_and_left_out() -> None:
    lines = [RecordLine(1, 1.0, None, damaged=(1, 2)), RecordLine(3, 1.0, items_record("1"))]
    past = RecordedState().read(lines)
    assert (past.damaged, words(past)) == (2, ["1"])


def test_a_message_that_was_noted_again_after_its_end_is_not_open_again() -> None:
    """R3: the next life would close its task a second time, as crashed, and then run the message once more."""
    submitted = SubmissionRecord(A, TaskId("t"), "trace", "key")
    end = TaskComplete("completed", "done", NO_USAGE)
    event = Event(1, 1, "", end.type, SessionId("s"), "", A, TaskId("t"), "trace", None, end)
    past = RecordedState().read(
        RecordLine(n, 1.0, record) for n, record in enumerate((submitted, event, submitted), start=1)
    )
    assert past.unfinished == {}
    assert past.chains["trace"].end == end
