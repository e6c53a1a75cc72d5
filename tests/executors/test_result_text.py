"""Only text of a result is read, wherever it lies; `test_continuity.py` has the shapes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.result_text import TEXT_FIELDS, result_text, value_text

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


@pytest.mark.parametrize(
    ("value", "told"), [(True, "true"), (7, "7"), (1.5, "1.5"), (10**30, ""), (b"x", ""), (object(), "")]
)
def test_plain_values_are_told_as_json_has_them(value: object, told: str) -> None:
    """S003-06"""
    assert result_text({"value": value}) == told


def test_it_does_not_look_deeper_than_results_are() -> None:
    nested: Any = "text"
    for _ in range(100_000):
        nested = {"value": nested}
    assert result_text(nested) == ""


@given(ANYTHING)
def test_control_fields_never_leak(anything: Any) -> None:
    """X-54: of a table only known fields are read."""
    assert result_text({"session_id": "CANARY", "events": [{"CANARY": anything}]}) == ""
    assert isinstance(result_text(anything), str)
    assert "CANARY" not in result_text({"value": anything, "token": "CANARY", TEXT_FIELDS[1]: {"token": "CANARY"}})
