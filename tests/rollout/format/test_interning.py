"""Names are given once, and again where the row that gave them is gone."""

from __future__ import annotations

import tracemalloc

import msgspec

from tertulia.protocol.events import ConversationClosed, ErrorEvent, Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.storage import Full
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.format.row_reader import RowReader, read_rows
from tests.rollout.recorded import LONG, turn, whats
from tests.rollout.recording import (
    A,
    B,
    agreed,
    as_stored,
    asked,
    event,
    unredacted,
    written,
)


def test_after_a_failure_everything_that_was_lost_is_named_again() -> None:
    codec = Codec(unredacted)
    kept = written(agreed(Full()), *turn()[1:5], codec=codec)
    lost = written(*turn()[5:], agreed(Full(), B), codec=codec)

    codec.naming.forget(lost[0].n)
    again = written(*turn()[5:], agreed(Full(), B), codec=codec)

    assert again[0].n > lost[-1].n
    assert whats([*kept, *again])[1:] == [*turn()[1:], agreed(Full(), B)]


def test_after_a_failure_of_everything_the_session_is_named_again() -> None:
    codec = Codec(unredacted)
    lost = written(*turn(), codec=codec)

    codec.naming.forget(1)

    assert whats(written(*turn(), codec=codec)) == turn()
    assert codec.last_n > lost[-1].n


def test_after_erasing_nothing_points_to_what_there_was() -> None:
    """HARDENING E5: Full, headers_only, Full again: later events must not lean on texts that are gone."""
    codec = Codec(unredacted)
    before = turn()[:10]
    rows = [msgspec.structs.replace(row, body=None) for row in written(*before, codec=codec)]

    codec.naming.erased(A)
    codec.naming.erased(B)
    rest = turn()[10:]
    lines = list(read_rows(map(as_stored, [*rows, *written(*rest, codec=codec)])))[len(before) :]

    assert [line.missing for line in lines] == [()] * len(rest)
    assert lines[0].what.data.output == LONG + "."
    assert lines[2].what == rest[2], "the tool list is there again"
    assert lines[-1].what == rest[-1]


def test_a_conversation_nobody_wrote_of_has_no_row() -> None:
    assert Codec(unredacted).naming.conversation(A) is None


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

    assert codec.naming.conversation(ConversationId("conversation-7")) is not None


def test_what_is_heard_of_a_conversation_after_its_end_points_to_the_same_row() -> None:
    codec = Codec(unredacted)
    first = [agreed(Full()), event(ErrorEvent("limit", ""), seq=1), closed(A)]
    rows = written(*first, codec=codec)
    late = event(ErrorEvent("late", ""), seq=2)
    more = written(late, codec=codec)

    assert not any(row.kind == "talk" for row in more)
    assert codec.naming.conversation(A) == rows[0].n
    assert whats([*rows, *more]) == [*first, late]


def test_a_closed_conversation_whose_row_was_never_written_is_named_again() -> None:
    codec = Codec(unredacted)
    written(agreed(Full()), closed(A), codec=codec)

    codec.naming.forget(1)

    assert codec.naming.conversation(A) is None
    assert whats(written(agreed(Full()), codec=codec)) == [agreed(Full())]
    codec.naming.closed(B)
    assert codec.naming.conversation(B) is None


def test_of_a_record_that_goes_on_closed_conversations_are_known_by_their_row_alone() -> None:
    """HARDENING target 8."""
    codec, reader = Codec(unredacted), RowReader()
    first = [agreed(Full()), asked(), closed(A), agreed(Full(), B)]
    rows = written(*first, codec=codec)
    assert len(list(reader.lines(map(as_stored, rows)))) == len(first)
    assert [conversation.closed for conversation in reader.known.conversations.values()] == [True, False]

    again = Codec(unredacted, reader.known)
    more = [asked(), event(ErrorEvent("late", ""), epoch=1)]
    new = written(*more, codec=again)

    assert again.naming.conversation(A) == rows[0].n
    assert not any(row.kind == "talk" for row in new)
    assert whats([*rows, *new]) == [*first, *more]
