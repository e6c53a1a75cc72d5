"""What later rows of a conversation can point to."""

from __future__ import annotations

from tertulia.protocol.ids import CallId
from tertulia.protocol.storage import Full
from tertulia.rollout.format.conversation_rows import ConversationRows, bare_calls
from tertulia.rollout.format.item_references import ItemRef
from tests.rollout.recording import assistant, call


def named() -> ConversationRows:
    conversation = ConversationRows(3)
    conversation.offered = b'[{"name":"shell"}]'
    conversation.names, conversation.scopes, conversation.tools = {("a",): 4}, {("b",): 5}, {"c": (6, 1.0)}
    conversation.recent.note_said(ItemRef(7, Full(), assistant("x")))
    conversation.recent.note_said(ItemRef(8, Full(), call()))
    return conversation


def test_only_a_name_among_the_offered_tools_is_a_name() -> None:
    """HARDENING E1"""
    conversation = named()

    assert conversation.offers("shell")
    assert not any(map(conversation.offers, ("", "she", "CANARY", 'a","b', "\ud800")))


def test_rows_that_were_never_written_are_not_pointed_to() -> None:
    conversation = named()

    conversation.forget(6)

    assert (conversation.names, conversation.scopes, conversation.tools) == ({("a",): 4}, {("b",): 5}, {})
    assert not conversation.recent.spoken
    assert not conversation.recent.calls


def test_after_erasing_only_rows_without_texts_are_pointed_to() -> None:
    """HARDENING E5"""
    left = named().erased()

    assert (left.n, left.scopes, left.names, left.tools) == (3, {("b",): 5}, {}, {})
    assert not left.recent.spoken
    assert left.recent.calls == bare_calls({CallId("c1"): 8})
    assert left.offers("shell")
