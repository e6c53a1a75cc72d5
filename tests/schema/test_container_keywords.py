"""Keywords that look into objects and arrays: which members each concerns, and where the problem is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.schema.schema import Schema
from tests.tables import each_row

TEXT = {"type": "string"}


@each_row(
    ("document", "passes", "fails"),
    [
        ({"required": ["a"]}, [{"a": None}, [], 1], {"$": {}}),
        ({"properties": {"a": TEXT}}, [{"a": ""}, {"b": 1}, [], "a"], {"$.a": {"a": 1}}),
        ({"patternProperties": {"^a": TEXT}}, [{"ab": "", "b": 1}, []], {"$.ab": {"ab": 1}}),
        ({"patternProperties": {"a": TEXT, "b": {"maxLength": 1}}}, [{"ab": "x"}], {"$.ab": {"ab": "xx"}}),
        ({"additionalProperties": TEXT}, [{}, {"a": ""}, []], {"$.a": {"a": 1}}),
        ({"additionalProperties": True}, [{"a": 1}], {}),
        (
            {"properties": {"a": True}, "patternProperties": {"^b": True}, "additionalProperties": False},
            [{"a": 1, "bb": 2}, []],
            {"$.c": {"a": 1, "c": 1}},
        ),
        ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, []], {"$.ab": {"ab": 1}}),
        ({"items": TEXT}, [[], ["a"], {"a": 1}], {"$[1]": ["a", 1]}),
        ({"prefixItems": [TEXT]}, [[], ["a", 1]], {"$[0]": [1]}),
        ({"prefixItems": [TEXT], "items": False}, [["a"]], {"$[1]": ["a", 1]}),
        ({"items": [TEXT, TEXT]}, [["a", "b", 1]], {"$[1]": ["a", 1]}),
        ({"uniqueItems": True}, [[1, True, "1", [1], {"a": 1}], {}], {"$[2]": [1, 2, 1.0]}),
        ({"uniqueItems": False}, [[1, 1]], {}),
    ],
)
def test_a_keyword_concerns_these_members(document: Any, passes: list[Any], fails: dict[str, Any]) -> None:
    schema = Schema.compile(msgspec.json.encode(document).decode())
    for value in passes:
        schema.validate(value)
    for place, value in fails.items():
        with pytest.raises(InvalidParamsError) as caught:
            schema.validate(value)
        assert caught.value.message.split(": ")[0] == place


def test_the_first_unknown_property_is_named_every_time() -> None:
    schema = Schema.compile('{"additionalProperties": false}')
    value = dict.fromkeys("zyxwv", 1)
    with pytest.raises(InvalidParamsError, match=r"^\$\.z: expected no property at all, got integer"):
        schema.validate(value)
