"""A result is told whole, without its control fields; `test_continuity.py` has the shapes."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.result_text import TEXT_FIELDS, clip, is_plain_text, plain_text, result_text, value_text
from tertulia.protocol.items import Usage
from tests.tables import each_row

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def test_value_alone() -> None:
    """S003-05"""
    assert value_text({"value": "v", "text": "t"}) == "v"
    assert value_text({"text": "t"}) == ""
    assert value_text("plain") == "plain"


@each_row(
    ("value", "expected"),
    [(True, "true"), (7, "7"), (1.5, "1.5"), (10**30, str(10**30)), (1 << 9_000, "[a whole number of 9,001 bits]"),
     (math.inf, "inf"), (b"xy", "[2 bytes]"), (object(), "[object]"), ({"a", }, "a"),
     (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"), (Usage(1, 0, 2, 0, 3), None)],
)  # fmt: skip
def test_plain_values_are_told_as_json_has_them(value: object, expected: str | None) -> None:
    """S003-06: and what JSON has nothing for is told in words."""
    text = result_text({"value": value})
    assert text == expected if expected is not None else "output_" not in text


@each_row(
    ("result", "expected"),
    [
        ({"files": ["a.py"], "passed": 0}, '{"files":["a.py"],"passed":0}'),
        ({"text": "t", "score": 1, "trace_id": "x"}, '{"text":"t","score":1}'),
        ({"value": None, "score": 1}, '{"score":1}'),
        ({"value": [{"type": "text", "text": "one"}, {"type": "image", "url": "u"}]},
         '[{"type":"text","text":"one"},{"type":"image","url":"u"}]'),
        ([{"n": 1}, {"session_id": "s"}], '[{"n":1}]'),
        ([1, 2], "1\n2"),
        ({"error": {"code": 7, "events": []}}, '{"error":{"code":7}}'),
        ({"prevented": True, "tokenizer": "x"}, '{"prevented":true,"tokenizer":"x"}'),
        ({"a": {"b": {"sessionId": "s", "apiKey": "k", "totalCostUsd": 1}}}, ""),
    ],
)  # fmt: skip
def test_what_is_not_a_text_is_serialised_and_never_dropped(result: object, expected: str) -> None:
    """S003-05, S003-06, X-54 as narrowed: control fields stay out, everything else is told."""
    assert result_text(result) == expected


def test_what_is_too_deep_or_too_much_is_marked() -> None:
    nested: Any = "text"
    for _ in range(100_000):
        nested = {"value": nested}
    assert "nested too deep" in result_text(nested)
    assert result_text({"value": list(range(100_000))}).endswith(" more …]")
    assert " more]" in result_text({str(number): 1 for number in range(100_000)})


def test_only_the_text_of_what_a_tool_returned() -> None:
    """A picture in a tool's result is not words."""
    assert plain_text([{"type": "text", "text": "one"}, {"type": "image", "data": "AAAA"}]) == "one"
    assert plain_text({"value": object(), "output": True}) == "true"
    assert is_plain_text({"value": "v"})
    assert not is_plain_text({"n": 1})


@given(ANYTHING)
def test_control_fields_never_leak(anything: Any) -> None:
    """X-54: not at any depth, and not in any spelling."""
    for name in ("session_id", "resumeSessionId", "codex-events", "ACCESS_TOKEN", "total_cost_usd", "apiKey"):
        assert result_text({"value": [{name: "CANARY", "x": 1}]}) == '[{"x":1}]'
    assert result_text({"session_id": "CANARY", "events": [{"CANARY": anything}]}) == ""
    assert isinstance(result_text(anything), str)
    assert "CANARY" not in result_text({"value": anything, "token": "CANARY", TEXT_FIELDS[1]: {"token": "CANARY"}})


def test_what_fits_is_left_alone() -> None:
    assert clip("abc", 3) == "abc"


def test_what_is_too_long_keeps_its_head_and_its_tail_and_says_how_much_is_gone() -> None:
    """X-56"""
    shown = clip("x" * 500 + "y" * 500, 100)
    assert 96 <= len(shown) <= 100
    assert shown.startswith("xxxx")
    assert shown.endswith("yyyy")
    gone = 1_000 - shown.count("x") - shown.count("y")
    assert f" [… {gone} characters cut …] " in shown


@each_row(("room", "shown"), [(-1, ""), (0, ""), (1, "…"), (2, "a…"), (3, "a…z")])
def test_the_least_room_has_the_least_mark(room: int, shown: str) -> None:
    assert clip("abcxyz", room) == shown


@given(st.text(max_size=300), st.integers(0, 320))
def test_the_room_is_never_exceeded_and_no_cut_is_silent(text: str, room: int) -> None:
    """E12"""
    shown = clip(text, room)
    assert len(shown) <= room
    assert shown == text if len(text) <= room else room == 0 or "…" in shown
