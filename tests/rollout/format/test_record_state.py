"""What a recorder begins with."""

from __future__ import annotations

from tertulia.protocol.ids import CallId
from tertulia.protocol.storage import Full
from tertulia.rollout.format.record_state import ConversationRecordState, RecordState
from tests.rollout.recording import call, output


def test_of_a_record_that_is_empty_nothing_is_known() -> None:
    known = RecordState()

    assert (known.last_n, known.session_id, known.epoch, known.last_seq, known.conversations) == (0, None, -1, 0, {})


def test_two_conversations_share_nothing() -> None:
    one, other = ConversationRecordState(1, Full()), ConversationRecordState(2, Full())
    one.calls[CallId("c1")] = 1

    assert other.calls == {}


def test_calls_that_were_answered_are_known_for_a_while() -> None:
    """R3: the next owner may have to tell their end."""
    conversation = ConversationRecordState(1, Full())
    conversation.note(output("x", id="unknown"), 1)
    for n in range(300):
        conversation.note(call(id=f"c{n}"), n)
        conversation.note(output("x", id=f"c{n}"), n)

    assert conversation.calls == {}
    assert list(conversation.answered.values()) == list(range(44, 300))
