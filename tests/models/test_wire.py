"""The interface's own parts: the yardstick dialect, and a contract that can tell a bad wire from a good one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerItem,
    AnswerPiece,
    ItemsDialect,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
)
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import AssistantMessage, Item, ToolCall, Usage, UserMessage, text_parts
from tertulia.protocol.tool_spec import ToolSpec
from tests.models.wire_contract import check_answer, check_dialect, check_free_of_context, items
from tests.tables import each_row

ID, OTHER = ItemId("0" * 16), ItemId("1" * 16)


def said(text: str, item_id: ItemId = ID) -> AnswerItem:
    return AnswerItem(AssistantMessage(item_id, text_parts(text)))


def test_items_are_encoded_free_of_context() -> None:
    check_dialect(ItemsDialect())


@given(st.lists(items(), max_size=8))
def test_the_encoded_items_are_the_items(history: list[Item]) -> None:
    encoded = ItemsDialect().encode_items(history)
    assert msgspec.json.decode(b"[%b]" % encoded, type=list[Item]) == history


def test_a_record_with_unicode_line_breaks_stays_one_value() -> None:
    """HARDENING E11."""
    message = UserMessage(ID, text_parts("a\u2028b\u0085c\x00d"))
    assert msgspec.json.decode(ItemsDialect().encode_items([message]), type=Item) == message


def test_tools_are_encoded_in_order_with_their_schemas_as_json() -> None:
    tools = [ToolSpec.define("b", "second letter", {"type": "object"}), ToolSpec.define("a", "first letter")]
    assert msgspec.json.decode(ItemsDialect().encode_tools(tools)) == [
        ["b", "second letter", {"type": "object"}],
        ["a", "first letter", {"properties": {}, "type": "object"}],
    ]


@each_row(
    "pieces",
    [
        [TextDelta(ID, "a "), TextDelta(ID, "b"), said("a b"), AnswerEnd()],
        [said("no deltas at all"), AnswerEnd()],
        [TextDelta(ID, "begun"), AnswerFailure("broken off")],
        [TextDelta(OTHER, "lost"), RetryNotice("again"), TextDelta(ID, "a"), said("a"), AnswerEnd()],
        [AnswerItem(ToolCall(ID, CallId("call_1"), "shell", "{}")), AnswerEnd()],
    ],
)
def test_the_contract_accepts_good_answers(pieces: list[AnswerPiece]) -> None:
    check_answer(pieces)


@each_row(
    "pieces",
    [
        [],
        [TextDelta(ID, "a"), said("a")],
        [AnswerEnd(), AnswerEnd()],
        [AnswerFailure("a"), AnswerEnd()],
        [AnswerEnd(), said("late")],
        [TextDelta(ID, "a"), said("b"), AnswerEnd()],
        [TextDelta(ID, "a"), said("a", OTHER), AnswerEnd()],
        [ReasoningDelta(ID, "a"), AnswerEnd()],
        [TextDelta(ID, ""), said(""), AnswerEnd()],
        [TextDelta(ID, "a"), RetryNotice("again"), TextDelta(ID, "a"), said("a"), AnswerEnd()],
        [AnswerEnd(Usage(input_tokens=10, output_tokens=5, total_tokens=3))],
        [AnswerEnd(Usage(input_tokens=-1))],
    ],
)
def test_the_contract_refuses_bad_answers(pieces: list[AnswerPiece]) -> None:
    with pytest.raises(AssertionError):
        check_answer(pieces)


class NeighbourlyDialect(ItemsDialect):
    """Says how many there are, which depends on the neighbours."""

    def encode_items(self, items: list[Item]) -> bytes:
        return b",".join(b"%d" % len(items) for _ in items)


def test_the_contract_refuses_a_dialect_that_looks_at_the_neighbours() -> None:
    one, other = UserMessage(ID, text_parts("a")), UserMessage(OTHER, text_parts("b"))
    check_free_of_context(ItemsDialect(), [one], [other])
    with pytest.raises(AssertionError):
        check_free_of_context(NeighbourlyDialect(), [one], [other])
