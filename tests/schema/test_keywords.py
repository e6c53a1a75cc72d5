"""Keywords one by one: what each lets pass, what it refuses, and what it does not concern."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.schema.keywords import BUILDERS
from tertulia.schema.schema import Schema
from tests.tables import each_row

BIG = 10**300


@each_row(
    ("keyword", "limit", "passes", "fails"),
    [
        ("type", "integer", [1, 1.0, BIG], [True, 1.5, "1", None]),
        ("type", "number", [1, 1.5], [True, "1"]),
        ("type", ["string", "null"], ["", None], [1, [], {}]),
        ("type", "boolean", [True], [1, 0]),
        ("enum", ["a", 1, None, [1, {"b": 2}]], ["a", 1, 1.0, None, [1.0, {"b": 2}]], ["b", True, [], [1, {}], {}]),
        ("enum", [], [], [None, 1]),
        ("const", False, [False], [0, None]),
        ("minimum", 2, [2, 2.5, BIG, "1", None, True], [1, 1.9, -BIG]),
        ("maximum", 2, [2, 1, "9"], [3, BIG]),
        ("exclusiveMinimum", 2, [3], [2]),
        ("exclusiveMaximum", 2, [1], [2]),
        ("multipleOf", 0.1, [0.3, 1, 1e20, "x", True], [0.25]),
        ("multipleOf", 3, [9, -3, 0, BIG * 3], [BIG, 1.5]),
        ("minLength", 2, ["ab", "😀😀", [], 1], ["a", "😀"]),
        ("maxLength", 1, ["😀"], ["ab"]),
        ("pattern", "^a+$", ["aa", 1, None], ["b", "aa\n"]),
        ("minItems", 1, [[0], "", {}], [[]]),
        ("maxItems", 1, [[0]], [[0, 0]]),
        ("minProperties", 1, [{"a": 1}, []], [{}]),
        ("maxProperties", 0, [{}], [{"a": 1}]),
        ("allOf", [{"minimum": 1}, {"maximum": 2}], [1, 2], [0, 3]),
        ("anyOf", [{"minimum": 3}, {"maximum": 1}], [0, 4], [2]),
        ("oneOf", [{"minimum": 2}, {"maximum": 3}], [1, 4], [2, 3]),
        ("not", {"type": "null"}, [1], [None]),
        ("$ref", "#/$defs/text", ["a"], [1]),
    ],
)
def test_a_keyword_demands_this(keyword: str, limit: Any, passes: list[Any], fails: list[Any]) -> None:
    document = {keyword: limit, "$defs": {"text": {"type": "string"}}}
    schema = Schema.compile(msgspec.json.encode(document).decode())
    for value in passes:
        schema.validate(value)
    for value in fails:
        with pytest.raises(InvalidParamsError, match=r"^\$: expected .+, got .+"):
            schema.validate(value)


def test_a_keyword_that_is_not_known_demands_nothing() -> None:
    assert "format" not in BUILDERS
    Schema.compile('{"format": "date", "x-anything": {"type": 3}}').validate("not a date")
