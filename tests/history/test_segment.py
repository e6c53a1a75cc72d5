"""What is known of a segment once it is sealed."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from msgspec.structs import replace

from tertulia.errors import InternalError, InvalidParamsError
from tertulia.history.segment import (
    IMAGE_TOKENS,
    Segment,
    estimate_tokens,
    is_message,
    is_user_request,
    seal,
    supersedes,
)
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import ImagePart, Item, Reasoning, Summary, TextPart, UserMessage, text_parts
from tests.history.items import call, model, output, seed, thought, user
from tests.tables import each_row


def test_the_digest_of_a_long_text_is_that_of_its_json() -> None:
    items = (user('"\n\x1b字' * 100_000), user("short"))
    assert seal(items).digest == hashlib.sha256(msgspec.json.encode(items)).digest()


def test_a_segment_holds_the_very_items_and_their_digest() -> None:
    """S002-21"""
    items = [user("hello"), model("hi")]
    segment = seal(items)
    assert all(held is item for held, item in zip(segment.items, items, strict=True))
    assert segment.digest == hashlib.sha256(msgspec.json.encode(items)).digest()
    assert not segment.pinned
    assert seal(items, pinned=True).pinned


def test_texts_weigh_their_utf8_bytes() -> None:
    """S002-21"""
    items: list[Item] = [
        user("añb"),
        model("abc"),
        Reasoning(ItemId("r"), "why", opaque="sealed"),
        replace(call("a", name="tool", arguments='{"x":1}'), opaque="signed"),
        output("a", "result"),
        Summary(ItemId("s"), "so far"),
    ]
    segment = seal(items)
    assert segment.byte_count == segment.weight == 4 + 3 + 9 + 17 + 6 + 6


def test_reasoning_without_a_sealed_form_weighs_its_text() -> None:
    assert seal([thought("hm")]).weight == 2


def test_a_picture_is_held_in_full_but_weighs_a_constant() -> None:
    """S002-21: max_bytes bounds memory, max_tokens what a model is asked to read."""
    picture = UserMessage(ItemId("p"), (TextPart("see"), ImagePart("data:" + "A" * 1_000_000)))
    segment = seal([picture])
    assert segment.byte_count == 3 + 5 + 1_000_000
    assert estimate_tokens(segment.weight) == IMAGE_TOKENS + 1


def test_messages_are_what_users_and_the_model_said() -> None:
    items = [user(), model(), seed(), thought(), call("a"), output("a"), Summary(ItemId("s"), "so far")]
    assert [is_message(item) for item in items] == [True, True, False, False, False, False, False]
    assert [is_user_request(item) for item in items] == [True, False, False, False, False, False, False]
    assert seal(items).message_count == 2


def test_the_pairing_proof_is_kept_with_the_segment() -> None:
    segment = seal([output("a"), call("b")])
    assert (segment.opens, segment.closes) == (("b",), ("a",))
    with pytest.raises(InternalError):
        seal([call("b"), call("b")])


@each_row(
    "items",
    [[user("\ud800")], [call("\udfff")], [call("a", arguments="\ud800")], [output("a", "\ud800")]],
)
def test_a_lone_surrogate_is_refused_and_not_repeated_in_the_error(items: list[Item]) -> None:
    with pytest.raises(InvalidParamsError, match="lone surrogate") as caught:
        seal(items)
    assert "\ud800" not in caught.value.message


@each_row("text", ["\x00", "a\u2028b\u0085c\nd", "\U0001f600", ""])
def test_any_other_text_is_taken_as_it_is(text: str) -> None:
    """E11, NUL"""
    assert seal([user(text)]).byte_count == len(text.encode())


def test_only_one_injected_message_of_the_same_tag_supersedes_another() -> None:
    """S002-24: what is pinned stays so until it is said anew."""

    def pinned_segment(*texts: str, injected: bool = True) -> Segment:
        items = [UserMessage(ItemId(text), text_parts(text), injected=injected) for text in texts]
        return seal(items, pinned=True)

    rules, again, place = (
        pinned_segment("<rules>a</rules>"),
        pinned_segment("<rules>b</rules>"),
        pinned_segment("<place>c</place>"),
    )
    assert supersedes(again, rules)
    assert not supersedes(place, rules)
    assert not supersedes(pinned_segment("<rules>a</rules>", "<rules>b</rules>"), rules)
    assert not supersedes(pinned_segment("<rules>a</rules>", injected=False), rules)
    assert not supersedes(again, seal(rules.items))
