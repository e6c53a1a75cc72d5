"""What was said, read from the one history."""

from __future__ import annotations

from tertulia.executors.prompt.history_prompt import build_executor_prompt_with_history as build
from tertulia.executors.prompt.history_prompt import transcript
from tertulia.history.store import Cut
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import ImagePart, Summary, TextPart, UserMessage
from tests.history.items import call, model, output, rounds, seed, store_of, thought, user


def test_users_and_model_speak_and_nothing_else_does() -> None:
    """X-60, S003-04: injected messages, thoughts, calls and outputs are left out."""
    store = store_of(
        [user("one", sender="ann")],
        [thought(), call("c"), output("c")],
        [model("two")],
        [user("three")],
        seeds=[seed()],
    )
    assert transcript(store.snapshot()) == [
        {"role": "user", "text": "one", "username": "ann"},
        {"role": "assistant", "text": "two"},
        {"role": "user", "text": "three"},
    ]


def test_the_current_message_and_what_follows_are_not_told() -> None:
    """X-53: by its id, so that the same words twice are no error."""
    current = user("again")
    store = store_of([user("again")], [model("first answer")], [current], [model("begun")])
    text = transcript(store.snapshot(), before=current.id)
    assert [message["text"] for message in text] == ["again", "first answer"]
    assert "first answer" in build(text, "again")


def test_an_item_that_is_gone_hides_nothing() -> None:
    store = store_of([user("one")], [model("two")])
    assert len(transcript(store.snapshot(), before=ItemId("gone"))) == 2


def test_the_newest_alone_oldest_first() -> None:
    view = store_of(*rounds(20, "")).snapshot()
    assert [message["text"] for message in transcript(view, limit=3)] == ["answer 18. ", "request 19. ", "answer 19. "]
    assert transcript(view, limit=0) == []


def test_a_summary_speaks_for_what_it_stands_for() -> None:
    """X-60: what was compacted away is not lost to an agent that starts anew."""
    store = store_of(*rounds(2, ""))
    store.rewrite(Cut(2), Summary(ItemId("s"), "they greeted"), expected_revision=0)
    text = transcript(store.snapshot())
    assert text[0] == {"role": "assistant", "text": "[Summary of what was said before]\nthey greeted"}
    assert [message["text"] for message in text[1:]] == ["request 1. ", "answer 1. "]


def test_a_picture_is_mentioned() -> None:
    parts = (TextPart("look"), ImagePart("data:image/png;base64,AAAA"))
    assert transcript(store_of([UserMessage(ItemId("p"), parts)]).snapshot())[0]["text"] == "look\n[picture]"
