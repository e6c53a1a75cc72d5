"""Pieces of a message: each character once, in order, whatever was lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.events import AgentMessage, AgentMessageDelta, AgentReasoning, AgentReasoningDelta
from tertulia.protocol.ids import ItemId
from tertulia.server.acp.text_stream import TextStream

ONE = ItemId("one")


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.booleans())))
def test_whatever_pieces_are_lost_the_message_arrives_once(pieces: list[tuple[str, bool]]) -> None:
    """Issue 10 (4): a slow editor loses deltas, never text."""
    words, heard, offset = TextStream(), "", 0
    for text, lost in pieces:
        update = None if lost else words.piece(AgentMessageDelta(text, ONE, offset))
        heard += "" if update is None else update["content"]["text"]
        offset += len(text)
    whole = "".join(text for text, _ in pieces)
    update = words.whole(AgentMessage(whole, ONE))
    assert heard + ("" if update is None else update["content"]["text"]) == whole


def test_thoughts_and_words_are_told_apart() -> None:
    """Issue 10 (4)."""
    words = TextStream()
    thought = words.piece(AgentReasoningDelta("hm", ItemId("r"), 0))
    assert thought is not None
    assert (thought["sessionUpdate"], thought["messageId"]) == ("agent_thought_chunk", "r")
    rest = words.whole(AgentReasoning("hmm", ItemId("r")))
    assert rest is not None
    assert rest["content"] == {"type": "text", "text": "m"}


def test_an_answer_that_begins_again_is_said_to() -> None:
    """DESIGN, Models: discard_deltas; ACP cannot take back what was shown."""
    words = TextStream()
    assert words.begin_again() is None
    words.piece(AgentMessageDelta("half an ans", ONE, 0))
    again = words.begin_again()
    assert again is not None
    assert again["sessionUpdate"] == "agent_thought_chunk"
    assert words.piece(AgentMessageDelta("half an answer", ONE, 0)) is not None
