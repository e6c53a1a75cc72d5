"""What the ACP and the Codex surface share: each character of a text once, in order, whatever was lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.events import AgentMessageDelta
from tertulia.protocol.ids import ItemId
from tertulia.server.surface_events import TextProgress

ONE = ItemId("one")


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.booleans())))
def test_whatever_pieces_are_lost_the_message_arrives_once(pieces: list[tuple[str, bool]]) -> None:
    """Issue 10 (4): a slow client loses deltas, never text."""
    progress, heard, offset = TextProgress(), "", 0
    for text, lost in pieces:
        heard += "" if lost else progress.new_text(AgentMessageDelta(text, ONE, offset))
        offset += len(text)
    whole = "".join(text for text, _ in pieces)
    assert heard + whole[progress.end(ONE) or 0 :] == whole
    assert ONE not in progress


def test_a_piece_that_comes_twice_is_sent_once() -> None:
    progress = TextProgress()
    assert progress.new_text(AgentMessageDelta("half", ONE, 0)) == "half"
    assert progress.new_text(AgentMessageDelta("half an answer", ONE, 0)) == " an answer"


def test_a_text_that_begins_again_is_sent_again() -> None:
    progress = TextProgress()
    assert not progress.forget()
    progress.new_text(AgentMessageDelta("behind something that is missing", ONE, 7))
    assert not progress.forget()
    progress.new_text(AgentMessageDelta("half", ONE, 0))
    assert progress.forget()
    assert progress.new_text(AgentMessageDelta("half", ONE, 0)) == "half"
