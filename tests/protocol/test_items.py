"""Items of a history."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
    readable_arguments,
    text_of,
    text_parts,
)
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
from tests.tables import each_row

ids = st.text(min_size=1, max_size=8).map(ItemId)
texts = st.text(max_size=20) | st.sampled_from(["\u2028\u2029\x85", "\n", "\0", "😀"])
parts = st.lists(st.builds(TextPart, texts) | st.builds(ImagePart, texts), max_size=3).map(tuple)
storages = st.sampled_from([None, Full(), HeadersOnly(), NoStorage(), Ttl(5)])
kinds = st.sampled_from(["function", "custom"])
items = st.one_of(
    st.builds(UserMessage, ids, parts, st.none() | texts, st.booleans(), storages),
    st.builds(AssistantMessage, ids, parts, storages),
    st.builds(Reasoning, ids, texts, texts, st.none() | texts, storages),
    st.builds(ToolCall, ids, texts.map(CallId), texts, texts, kinds, storages),
    st.builds(ToolOutput, ids, texts.map(CallId), parts, st.booleans(), kinds, storages),
    st.builds(Summary, ids, texts, st.integers(0, 100), storages),
)

decoder = msgspec.json.Decoder(Item)


@given(items)
def test_every_item_survives_json_as_one_line(item) -> None:
    """E11: a record that holds U+2028 or U+0085 stays one record."""
    encoded = msgspec.json.encode(item)
    assert decoder.decode(encoded) == item
    assert b"\n" not in encoded


@given(items)
def test_an_item_never_changes(item) -> None:
    """S002-27"""
    before = msgspec.json.encode(item)
    with pytest.raises(AttributeError):
        item.id = ItemId("other")
    assert msgspec.json.encode(item) == before


def test_the_union_is_closed() -> None:
    with pytest.raises(msgspec.ValidationError, match="teapot"):
        decoder.decode(b'{"type":"teapot","id":"1"}')


def test_an_item_can_be_stricter_about_storage_than_its_conversation() -> None:
    answer = ToolOutput(ItemId("1"), CallId("c"), text_parts("secret"), storage=HeadersOnly())
    assert msgspec.json.decode(msgspec.json.encode(answer))["storage"] == {"type": "headers_only"}


def test_what_is_usual_is_not_written() -> None:
    assert msgspec.json.encode(AssistantMessage(ItemId("1"), text_parts("hi"))) == (
        b'{"type":"assistant","id":"1","parts":[{"type":"text","text":"hi"}]}'
    )


@each_row("kind", [UserMessage, AssistantMessage])
def test_the_text_of_a_message_is_its_text_parts_joined(kind) -> None:
    mixed = (TextPart("a"), ImagePart("data:x"), TextPart("b"))
    assert kind(ItemId("1"), mixed).text == "ab"
    assert kind(ItemId("1"), ()).text == ""
    assert kind(ItemId("1"), (ImagePart("data:x"),)).text == ""
    assert ToolOutput(ItemId("1"), CallId("c"), mixed).text == "ab"


@given(texts)
def test_a_text_is_one_part_or_none(text) -> None:
    assert text_of(text_parts(text)) == text
    assert len(text_parts(text)) == (1 if text else 0)


@each_row(
    ("arguments", "kind", "readable"),
    [
        ('{"a":[1,2.5,true]}', "function", {"a": [1, 2.5, True]}),
        ("not json", "function", "not json"),
        ("[" * 100_000, "function", "[" * 100_000),
        ('"' + "x" * 65536 + '"', "function", '"' + "x" * 65536 + '"'),
        ("[" * 5_000, "function", "[" * 5_000),
        ('{"a":1}', "custom", '{"a":1}'),
    ],
)
def test_arguments_that_are_json_are_read_and_others_stay_as_they_are(arguments, kind, readable) -> None:
    assert readable_arguments(ToolCall(ItemId("1"), CallId("c"), "t", arguments, kind)) == readable
