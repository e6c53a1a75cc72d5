"""Items, taken apart and put together."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import ImagePart, Item, Reasoning, Summary, TextPart, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.storage import Full, HeadersOnly, Ttl
from tertulia.rollout.format.item_rows import is_tag, join_item, split_item, synthetic_call_id, tag_of
from tests.rollout.recording import assistant, call, items, output, user
from tests.tables import each_row

EXAMPLES: list[Item] = [
    user("hello"),
    user("hello", sender="ada", injected=True, storage=Ttl(5.0)),
    UserMessage(ItemId("u"), (TextPart("a"), ImagePart("data:"))),
    assistant("hello", storage=Full()),
    assistant(""),
    Reasoning(ItemId("r"), "hm", "chat", ""),
    Reasoning(ItemId("r"), "hm"),
    call(),
    call("free text", kind="custom"),
    output("42"),
    output("42", success=False, kind="custom", storage=HeadersOnly()),
    ToolOutput(ItemId("o"), CallId("c"), ()),
    Summary(ItemId("s"), "before"),
    Summary(ItemId("s"), "before", 7),
]


def again(item: Item) -> Item:
    header, body = (msgspec.json.decode(msgspec.json.encode(each)) for each in split_item(item))
    return join_item(tag_of(item), header, body, 5, None)


@each_row("item", EXAMPLES, ids=lambda item: type(item).__name__)
def test_an_item_comes_back_as_it_was(item: Item) -> None:
    """S002-15"""
    assert again(item) == item
    assert is_tag(tag_of(item))


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
    answer = join_item("tool_output", split_item(output("42"), call=5)[0], None, 9, None)

    assert isinstance(request, ToolCall)
    assert isinstance(answer, ToolOutput)
    assert request.call_id == answer.call_id == synthetic_call_id(5)
    assert request.name == "shell"


def test_an_output_has_the_call_id_of_its_call() -> None:
    header, body = split_item(output("42"), call=5)
    item = join_item("tool_output", header, body, 9, CallId("c1"))

    assert "call_id" not in body
    assert item == output("42")


def test_a_storage_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidParamsError):
        join_item("user", {"storage": "sometimes"}, {"id": "u", "text": "x"}, 1, None)
