"""From the past of a conversation to a conversation. The whole way is walked in test_recovery.py."""

from __future__ import annotations

from tertulia.conversation.terms import Terms
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item, ToolOutput
from tertulia.session.resume.rebuild import _history, mend_segments
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedSegment
from tests.conversation.conversations import terms
from tests.history.items import call, model, output, seed, user


def past(*pieces: RecordedSegment, tasks: int = 1) -> RecordedConversation:
    conversation = RecordedConversation(ConversationId("c"))
    conversation.pieces, conversation.tasks = list(pieces), tasks
    return conversation


def restored(conversation: RecordedConversation, under: Terms | None = None) -> tuple[list[Item], int]:
    store, missing, _ = _history(conversation, under or terms())
    return list(store.snapshot()), missing


def test_pieces_become_segments_again() -> None:
    first, question, answered = seed(), user("hi"), model("ho")
    items, missing = restored(
        past(
            RecordedSegment((first,), pinned=True, seed=True),
            RecordedSegment((question,)),
            RecordedSegment((answered,)),
        )
    )
    assert (items, missing) == ([first, question, answered], 0)


def test_what_lost_records_tore_apart_is_made_whole() -> None:
    """F4: a call whose output is lost gets one; an output whose call is lost goes."""
    question, lost, orphan = user("hi"), call("c1"), output("c0")
    items, _ = restored(
        past(
            RecordedSegment((question,)),
            RecordedSegment((orphan,)),
            RecordedSegment((lost,)),
            RecordedSegment((model("ho"),)),
        )
    )
    outputs = [item for item in items if isinstance(item, ToolOutput)]
    assert [item.call_id for item in outputs] == ["c1"]
    assert "damaged" in outputs[0].text


def test_seeds_that_were_not_stored_are_written_anew() -> None:
    segments = (RecordedSegment((seed(),), pinned=True, seed=True, missing=(0,)), RecordedSegment((user("hi"),)))
    items, missing = restored(past(*segments), terms(user="In French."))
    assert [item.text.split("\n")[0] for item in items] == ["<user_instructions>", "<environment_context>", "hi"]
    assert missing == 1


def test_a_conversation_of_which_no_word_is_left_says_so_once() -> None:
    segments = (RecordedSegment((user("?"),), missing=(0,)), RecordedSegment((model("?"),), missing=(0,)))
    items, missing = restored(past(*segments))
    assert [item.text.split("\n")[0] for item in items] == ["<environment_context>", "<not_stored>"]
    assert missing == 2


def test_a_conversation_in_which_nothing_was_said_has_lost_nothing() -> None:
    items, missing = restored(past(tasks=0))
    assert (len(items), missing) == (1, 0)


def test_what_a_forgotten_history_leaves_open_is_known() -> None:
    """R3: its calls without an output, and how many segments the record has."""
    segments = (
        RecordedSegment((seed(),), pinned=True, seed=True, missing=(0,)), RecordedSegment((user("?"),), missing=(0,)),
        RecordedSegment((call("c1"),), missing=(0,)), RecordedSegment((output("c1"),), missing=(0,)),
        RecordedSegment((call("c2"),), missing=(0,)),
    )  # fmt: skip
    _, _, forgotten = _history(past(*segments), terms())
    assert forgotten is not None
    assert ([call.call_id for call in forgotten.open_calls], forgotten.seeds, forgotten.segments) == (["c2"], (0,), 5)


def test_mended_pieces_are_as_old_as_their_oldest_item_and_keep_what_is_missing() -> None:
    """R3: nothing lives longer for having been mended."""
    pieces = [
        RecordedSegment((user("hi"),), ts=1.0), RecordedSegment((call("c1"),), missing=(0,), ts=3.0),
        RecordedSegment((model("ho"),), ts=2.0),
    ]  # fmt: skip
    whole = mend_segments(pieces)
    assert [(piece.ts, piece.missing) for piece in whole] == [(1.0, (1,)), (2.0, ())]
    assert [type(item).__name__ for piece in whole for item in piece.items] == [
        "UserMessage", "ToolCall", "ToolOutput", "AssistantMessage",
    ]  # fmt: skip
