"""What is wrong with a part of an answer does not cost the whole."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.mcp.client.json_repair import (
    MAX_BLOCKS,
    MAX_REPAIRED,
    decode_odd_numbers,
    repair_if_needed,
    repair_result,
    repair_text,
)
from tertulia.mcp.server_connection import MODERN
from tests.tables import each_row

OLD = "2025-06-18"
TEXT = {"type": "text", "text": "x"}


@given(text=st.text())
def test_what_is_whole_is_not_mended(text: str) -> None:
    for spelled in (json.dumps(text).encode(), msgspec.json.encode(text.encode("utf-8", "replace").decode())):
        assert json.loads(repair_text(spelled)) == json.loads(spelled)


@given(data=st.binary(max_size=60))
def test_what_is_mended_is_text_without_halves(data: bytes) -> None:
    repair_text(data).decode()


@each_row(
    ("text", "after"),
    [
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\ud83d"', rb'"\ufffd"'),
        (b"\xff", "\ufffd".encode()),
        (b"x" * MAX_REPAIRED + b"\xff", b"x" * MAX_REPAIRED + b"\xff"),
    ],
)
def test_a_text_is_mended_where_it_must_be_and_while_that_is_quick(text: bytes, after: bytes) -> None:
    assert repair_if_needed(text) == after


@each_row("data", [b"{}", b"<html>", b'{"a": 1.5e10}', b"NaN NaN", b"[Infinity"])
def test_what_is_wrong_in_another_way_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_odd_numbers(data)


def test_numbers_that_are_none_are_nothing() -> None:
    large = "1" * 25
    assert decode_odd_numbers(f"[NaN, Infinity, 1e400, 2.5, {large}, {'9' * 5000}]".encode()) == [
        *(None, None, None, 2.5),
        float(large),
        None,
    ]


@pytest.mark.parametrize(("version", "after"), [("", {}), (OLD, {}), (MODERN, {"resultType": "complete"})])
def test_in_the_modern_era_an_answer_that_does_not_say_whether_it_is_complete_is(version: str, after: Any) -> None:
    result: dict[str, Any] = {}
    repair_result(result, version)
    assert result == after


def test_structured_content_needs_no_other() -> None:
    result: dict[str, Any] = {"structuredContent": {"a": 1}}
    repair_result(result, OLD)
    assert result == {"structuredContent": {"a": 1}, "content": []}


def test_of_too_many_pieces_the_rest_is_counted() -> None:
    """HARDENING C10: before anybody looks at each of them."""
    whole: dict[str, Any] = {"content": [TEXT] * MAX_BLOCKS}
    repair_result(whole, OLD)
    assert whole["content"] == [TEXT] * MAX_BLOCKS
    over: dict[str, Any] = {"content": [TEXT] * (MAX_BLOCKS + 5)}
    repair_result(over, OLD)
    assert over["content"] == [*[TEXT] * MAX_BLOCKS, {"type": "text", "text": "[5 more pieces were left out]"}]


@pytest.mark.parametrize("content", [None, "x", {"a": 1}])
def test_content_that_is_no_list_is_left_to_those_who_refuse_it(content: Any) -> None:
    result = {"content": content}
    repair_result(result, MODERN)
    assert result["content"] is content


def test_in_the_modern_era_a_list_need_not_say_for_how_long_it_holds() -> None:
    result: dict[str, Any] = {"tools": [], "ttlMs": 5}
    repair_result(result, MODERN)
    assert result == {"tools": [], "ttlMs": 5, "cacheScope": "private", "resultType": "complete"}


def test_before_a_version_is_agreed_on_nobody_knows_what_a_tool_is() -> None:
    result: dict[str, Any] = {"tools": [None]}
    repair_result(result, "")
    assert result == {"tools": [None]}
    repair_result(result, OLD)
    assert result["tools"] != [None]
