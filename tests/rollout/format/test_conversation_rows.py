"""What later rows of a conversation can point to."""

from __future__ import annotations

from tertulia.protocol.ids import CallId
from tertulia.protocol.storage import Full
from tertulia.rollout.format.conversation_rows import ConversationRows, bare_calls
from tertulia.rollout.format.item_references import ItemRef
from tests.rollout.recording import assistant, call


def named() -> ConversationRows:
    talk = ConversationRows(3)
    talk.offered = b'[{"name":"shell"}]'
    talk.names, talk.scopes, talk.tools = {("a",): 4}, {("b",): 5}, {"c": (6, 1.0)}
    talk.recent.note_said(ItemRef(7, Full(), assistant("x")))
    talk.recent.note_said(ItemRef(8, Full(), call()))
    return talk


def test_only_a_name_among_the_offered_tools_is_a_name() -> None:
    """HARDENING E1"""
    talk = named()

    assert talk.offers("shell")
    assert not any(map(talk.offers, ("", "she", "CANARY", 'a","b', "\ud800")))


def test_rows_that_were_never_written_are_not_pointed_to() -> None:
    talk = named()

    talk.forget(6)

    assert (talk.names, talk.scopes, talk.tools) == ({("a",): 4}, {("b",): 5}, {})
    assert not talk.recent.spoken
    assert not talk.recent.calls


def test_after_erasing_only_rows_without_texts_are_pointed_to() -> None:
    """HARDENING E5"""
    left = named().erased()

    assert (left.n, left.scopes, left.names, left.tools) == (3, {("b",): 5}, {}, {})
    assert not left.recent.spoken
    assert left.recent.calls == bare_calls({CallId("c1"): 8})
    assert left.offers("shell")
