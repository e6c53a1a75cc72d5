"""Items, taken apart and put together."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
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
)
from tertulia.protocol.storage import Full, HeadersOnly, Ttl
from tertulia.rollout.format.item_rows import ItemBody, ItemHeader, join_item, split_item, synthetic_call_id, tag_of
from tests.rollout.recording import assistant, call, items, output, user
from tests.tables import each_row

EXAMPLES: list[Item] = [
    user("hello"),
    user("hello", sender="ada", injected=True, storage=Ttl(5.0)),
    UserMessage(ItemId("u"), (TextPart("a"), ImagePart("data:"))),
    assistant("hello", storage=Full()),
    AssistantMessage(ItemId("a"), (TextPart("a"),), dialect="chat/x", opaque="commentary"),
    assistant(""),
    Reasoning(ItemId("r"), "hm", "chat", ""),
    Reasoning(ItemId("r"), "hm"),
    call(),
    replace(call(), dialect="chat/x", opaque='{"extra_content":{"google":{"thought_signature":"C+/=="}}}'),
    call("free text", kind="custom"),
    output("42"),
    output("42", success=False, kind="custom", storage=HeadersOnly()),
    ToolOutput(ItemId("o"), CallId("c"), ()),
    Summary(ItemId("s"), "before"),
    Summary(ItemId("s"), "before", 7),
]


def again(item: Item) -> Item:
    header, body = map(msgspec.json.encode, split_item(item))
    decoded = msgspec.json.decode(header, type=ItemHeader), msgspec.json.decode(body, type=ItemBody)
    return join_item(tag_of(item), *decoded, 5, None)


@each_row("item", EXAMPLES, ids=lambda item: type(item).__name__)
def test_an_item_comes_back_as_it_was(item: Item) -> None:
    """S002-15"""
    assert again(item) == item


@given(items)
def test_any_item_comes_back_as_it_was(item: Item) -> None:
    assert again(item) == item


@each_row("item", EXAMPLES, ids=lambda item: type(item).__name__)
def test_a_header_tells_counts_and_no_words(item: Item) -> None:
    """S002-16: without a body the kind, and what is no text, is still there."""
    header, _ = split_item(item)
    encoded = msgspec.json.encode(header)
    placeholder = join_item(tag_of(item), header, None, 5, None)

    for text in (b"hello", b"ada", b"hm", b"free", b"42", b"before", b"data:", b"chat", b"shell", b"c1"):
        assert text not in encoded
    assert type(placeholder) is type(item)
    assert placeholder.id == "row-5"
    assert placeholder.storage == item.storage


def test_a_call_and_its_output_without_their_texts_still_match() -> None:
    request = join_item("tool_call", split_item(call(), offered=True)[0], None, 5, None)
    answer = join_item("tool_output", split_item(output("42"), has_call=True)[0], None, 9, CallId("row-5"))

    assert isinstance(request, ToolCall)
    assert isinstance(answer, ToolOutput)
    assert request.call_id == answer.call_id == synthetic_call_id(5)
    assert request.name == "shell"


def test_an_output_has_the_call_id_of_its_call() -> None:
    header, body = split_item(output("42"), has_call=True)
    item = join_item("tool_output", header, body, 9, CallId("c1"))

    assert b"call_id" not in msgspec.json.encode(body)
    assert item == output("42")


def test_a_storage_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidParamsError):
        join_item("user", ItemHeader(storage="sometimes"), ItemBody(ItemId("u"), "x"), 1, None)


NO_ITEMS: list[tuple[str, ItemBody]] = [
    ("", ItemBody(ItemId("u"), "x")),
    ("video", ItemBody(ItemId("u"), "x")),
    ("user", ItemBody(ItemId("u"))),
    ("assistant", ItemBody(ItemId("u"))),
    ("reasoning", ItemBody(ItemId("u"), parts=())),
    ("summary", ItemBody(ItemId("u"), parts=())),
    ("tool_call", ItemBody(ItemId("u"), "{}")),
    ("tool_call", ItemBody(ItemId("u"), call_id=CallId("c"))),
    ("tool_output", ItemBody(ItemId("u"), "x")),
    ("tool_output", ItemBody(ItemId("u"), call_id=CallId("c"))),
]


@each_row(("tag", "body"), NO_ITEMS)
def test_what_is_no_item_is_refused(tag: str, body: ItemBody) -> None:
    with pytest.raises(LookupError, match="no item"):
        join_item(tag, ItemHeader(), body, 1, None)
