"""Schemas: the same verdicts as the reference library, and bounds that hold for any schema and any value."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.schema.keywords import BUILDERS
from tertulia.schema.schema import MAX_BYTES, MAX_NODES, Schema
from tests.tables import each_row
from tests.thorough import examples
from tests.tools.calling import at_most_100_ms


def schema(document: Any) -> Schema:
    return Schema.compile(json.dumps(document))


def fits(document: Any, value: Any) -> bool:
    try:
        schema(document).validate(value)
    except InvalidParamsError:
        return False
    return True


# ---- verdicts

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 0.5, -1.5, 0.3]), st.text("ab", max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
SMALL = st.integers(0, 3)
REFERENCES = st.sampled_from(["#/$defs/x", "#/$defs/y", "#", "#/$defs/x/$defs/deep~1er"])
PATTERNS = st.sampled_from(["^a", "b$", "^(a|b)+$", "a{2}"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any mixture of keywords; `$ref` only below a member, so that no reference leads straight to itself."""
    members = inner | st.builds(lambda reference: {"$ref": reference}, REFERENCES)
    several = st.lists(inner, min_size=1, max_size=3)
    strategies = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": SMALL,
        "maximum": st.sampled_from([0.5, 2]),
        "exclusiveMinimum": SMALL,
        "exclusiveMaximum": SMALL,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": SMALL,
        "maxLength": SMALL,
        "pattern": PATTERNS,
        "minItems": SMALL,
        "maxItems": SMALL,
        "uniqueItems": st.booleans(),
        "items": members,
        "prefixItems": st.lists(members, min_size=1, max_size=2),
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "properties": st.dictionaries(NAMES, members, max_size=3),
        "patternProperties": st.dictionaries(PATTERNS, members, max_size=2),
        "additionalProperties": members,
        "propertyNames": inner,
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "format": st.just("date-time"),
        "x-unknown": VALUES,
    }
    # A few at a time: with many, hardly any value fits, and two that always say no agree about everything.
    few = st.sets(st.sampled_from(sorted(strategies)), max_size=5).map(sorted)
    return few.flatmap(lambda names: st.fixed_dictionaries({name: strategies[name] for name in names}))


SCHEMAS = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=4)


@settings(max_examples=examples(1_000))
@given(st.dictionaries(st.sampled_from(["x", "y"]), SCHEMAS, max_size=2), SCHEMAS, VALUES)
def test_the_verdict_is_that_of_the_reference_library(defs: dict[str, Any], document: Any, value: Any) -> None:
    deep = {"type": "integer"}
    x = defs.get("x")
    defs = {"y": True, **defs, "x": {**(x if isinstance(x, dict) else {}), "$defs": {"deep/er": deep}}}
    document = {**(document if isinstance(document, dict) else {"not": not document}), "$defs": defs}
    expected = jsonschema.Draft202012Validator(document).is_valid(value)
    assert fits(document, value) is expected


TREE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["value"],
    "additionalProperties": False,
}


def test_a_schema_may_contain_itself() -> None:
    leaf: dict[str, Any] = {"value": 1}
    assert fits(TREE, {"value": 1, "children": [leaf, {"value": 2, "children": [leaf]}]})
    assert not fits(TREE, {"value": 1, "children": [leaf, {"value": 2, "children": [{}]}]})


def test_a_pattern_may_be_used_as_often_as_one_likes() -> None:
    document = {"properties": {str(n): {"pattern": f"^({'a' * 1000}|x)$"} for n in range(100)}}
    assert fits(document, dict.fromkeys(map(str, range(100)), "x"))


def test_a_reference_may_lead_into_a_list() -> None:
    document = {"prefixItems": [{"type": "string"}, {"$ref": "#/prefixItems/0"}]}
    assert fits(document, ["a", "b"])
    assert not fits(document, ["a", 1])


def test_a_property_that_the_schema_does_not_know_is_allowed_unless_it_says_otherwise() -> None:
    """C14: extra."""
    assert fits({"properties": {"a": {}}}, {"b": 1})
    assert not fits({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1})


def test_older_spellings_of_generators_are_understood() -> None:
    assert not fits({"items": [{"type": "string"}]}, [1])
    assert fits({"minimum": 1, "exclusiveMinimum": True}, 2)
    assert not fits({"minimum": 1, "exclusiveMinimum": True}, 0)
    assert not fits({"definitions": {"n": {"type": "null"}}, "$ref": "#/definitions/n"}, 1)


@each_row(
    ("document", "value", "message"),
    [
        (TREE, {"value": "x"}, "$.value: expected integer, got string"),
        (TREE, {"children": []}, '$: expected a property "value", got "children"'),
        (
            TREE,
            {"value": 1, "children": [{"value": 1, "colour": 3}]},
            '$.children[0].colour: expected no such property (there are "value", "children"), got integer',
        ),
        ({"enum": ["on", "off", 3, None]}, "up", '$: expected one of "on", "off", 3, None, got "up"'),
        ({"const": {"a": 1}}, [], "$: expected object, got another"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "$: expected string or null, got integer"),
        ({"anyOf": [{"type": "string"}, {"items": {"type": "null"}}]}, [1], "$[0]: expected null, got integer"),
        ({"oneOf": [{}, True]}, 1, "$: expected exactly one alternative to fit, got 2 that do"),
        ({"not": {}}, 1, "$: expected something else, got integer"),
        ({"maxLength": 2}, "abc", "$: expected at most 2 characters, got 3"),
        ({"pattern": "^a"}, "b" * 80, f'$: expected text that matches ^a, got "{"b" * 64}…'),
        ({"multipleOf": 0.1}, 0.25, "$: expected a multiple of 0.1, got 0.25"),
        ({"uniqueItems": True}, [1, 1.0], "$[1]: expected each item once, got 1.0 again"),
        ({"properties": {"a b": {"minimum": 3}}}, {"a b": 2}, '$."a b": expected a number of at least 3, got 2'),
        (False, 1, "$: expected nothing, got integer"),
    ],
)
def test_a_refusal_names_the_place_and_what_was_expected(document: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        schema(document).validate(value)
    assert caught.value.message == message


def test_a_refusal_is_short_however_long_the_schema_and_the_value() -> None:
    name = "x" * 100_000
    document = {"properties": {f"{name}{i}": True for i in range(2)}, "additionalProperties": False}
    with pytest.raises(InvalidParamsError) as caught:
        schema({"items": document}).validate([{name: name}])
    assert len(caught.value.message) < 1_000


# ---- schemas that cannot be used

LOOP = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}


@each_row(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"\ud800"', "not JSON"),
        ("[]", "neither an object"),
        ('{"properties": {"a": 3}}', "neither an object"),
        ('{"properties": []}', "`properties` is not an object"),
        ('{"type": "int"}', "`type` names"),
        ('{"type": ["string", 3]}', "`type` names"),
        ('{"enum": "a"}', "`enum` is not a list"),
        ('{"required": true}', "`required` is not a list"),
        ('{"required": [1]}', "`required` is not a list"),
        ('{"anyOf": []}', "`anyOf` is not a list"),
        ('{"allOf": {}}', "`allOf` is not a list"),
        ('{"prefixItems": {}}', "`prefixItems` is not a list"),
        ('{"minLength": "3"}', "without a number"),
        ('{"multipleOf": 0}', "positive number"),
        ('{"pattern": 3}', "a pattern is not a text"),
        ('{"pattern": "("}', "without its )"),
        ('{"patternProperties": {"(": {}}}', "without its )"),
        ('{"$ref": 3}', "`$ref` is not a text"),
        ('{"$ref": "https://example.org/schema.json"}', "is not inside it"),
        ('{"$ref": "other.json#/a"}', "is not inside it"),
        ('{"$ref": "#anchor"}', "is not inside it"),
        ('{"$ref": "#/$defs/none"}', "there is no"),
        ('{"allOf": [{"$ref": "#/allOf/9"}]}', "there is no"),
        ('{"allOf": [{"$ref": "#/allOf/' + "9" * 5_000 + '"}]}', "there is no"),
        ('{"$ref": "#/\\u0000/%zz/~2/٣"}', "there is no"),
        ('{"$ref": "#"}', "back to itself"),
        (json.dumps({**LOOP, "properties": {"p": {"$ref": "#/$defs/a"}}}), "back to itself"),
        ('{"not": {"$ref": "#"}}', "back to itself"),
        (" " * (MAX_BYTES + 1), "longer than"),
        (json.dumps({"allOf": [{"pattern": str(n) * 1000} for n in range(60)]}), "its patterns are longer"),
        ('{"anyOf": [' + ",".join(["{}"] * MAX_NODES) + "]}", "more than"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_in_time(text: str, why: str) -> None:
    """C14: `$ref` loop."""
    with at_most_100_ms(), pytest.raises(InvalidParamsError) as caught:
        Schema.compile(text)
    assert why in caught.value.message


KEYWORDS = st.sampled_from([*BUILDERS, "$defs", "a"])
ANYTHING = st.recursive(
    SCALARS | st.sampled_from(["#", "#/a", "#/allOf/0", "string", "^a(b", "a*", 10**300, 5e-324, -1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(1000))
@given(st.dictionaries(KEYWORDS, ANYTHING, max_size=5), VALUES)
def test_any_document_is_a_schema_or_refused_and_nothing_else(document: Any, value: Any) -> None:
    assert fits(document, value) in {True, False}


def test_a_loop_that_nothing_refers_to_does_no_harm() -> None:
    assert fits({**LOOP, "type": "integer"}, 1)


# ---- bounds


def nested(depth: int, wrap: Any, inside: Any = 0) -> Any:
    for _ in range(depth):
        inside = wrap(inside)
    return inside


DOUBLING = {
    "$defs": {"t": {"anyOf": [{"items": {"$ref": "#/$defs/t"}, "maxItems": 0}, {"items": {"$ref": "#/$defs/t"}}]}},
    "$ref": "#/$defs/t",
    "not": {"$ref": "#/$defs/t"},
}
BRANCHING = {
    "$defs": {"t": {"type": "array", "oneOf": [{"items": {"$ref": "#/$defs/t"}}] * 9}},
    "$ref": "#/$defs/t",
}
HOSTILE: dict[str, Callable[[], tuple[Any, Any]]] = {
    "deep": lambda: ({"items": {"$ref": "#"}}, nested(900, lambda inner: [inner])),
    "deep in an enum": lambda: ({"enum": [[1]]}, nested(900, lambda inner: [inner])),
    "deep in unique items": lambda: ({"uniqueItems": True}, nested(900, lambda inner: [{"a": inner}])),
    "wide": lambda: ({"items": {"type": "integer"}}, [1] * 1_000_000),
    "wide object": lambda: ({"additionalProperties": {"type": "integer"}}, {str(n): 1 for n in range(200_000)}),
    "names": lambda: ({"propertyNames": {"maxLength": 9}}, {str(n): 1 for n in range(200_000)}),
    "numbers that collide in a set": lambda: ({"uniqueItems": True}, [n * ((1 << 61) - 1) for n in range(200_000)]),
    "multiples": lambda: ({"items": {"multipleOf": 0.001}}, [0.1] * 100_000),
    "alternatives that double": lambda: (DOUBLING, nested(60, lambda inner: [inner, inner], [])),
    "alternatives that multiply": lambda: (BRANCHING, nested(60, lambda inner: [inner], [])),
    "a bomb in every item": lambda: ({"items": {"pattern": "^((a|b)*c?)*d?$"}}, ["ab" * 500] * 10_000),
    "a bomb in every name": lambda: ({"patternProperties": {"^(a|b)*$": True}}, {"a" * n: 1 for n in range(1_000)}),
    "many names wanted": lambda: ({"items": {"required": ["a"] * 10_000}}, [{"a": 1}] * 10_000),
    "many names known": lambda: ({"items": {"properties": {str(n): True for n in range(4_000)}}}, [{}] * 10_000),
    "large constants": lambda: ({"items": {"enum": [["x" * 1000] * 50]}}, [["x" * 1000] * 50] * 10_000),
    "long texts in an enum": lambda: ({"items": {"not": {"const": ["x"]}}}, [["x" * 1_000_000]] * 1_000),
}


@each_row("case", HOSTILE)
def test_no_pair_of_schema_and_value_holds_the_process(case: str) -> None:
    """C14: extra, huge, deep, `$ref` loop, regex bomb: refused within 100 ms."""
    document, value = HOSTILE[case]()
    compiled = schema(document)

    # At one of three depths: a recursion that goes to and fro over the end of a piece of the interpreter's own stack
    # takes 25 times as long (500 ms; Python 3.11), wherever that end happens to be.
    spent = [below(frames, lambda: seconds_of_refusal(compiled, value)) for frames in (0, 40, 80)]
    assert min(spent) < (0.1 if sys.gettrace() is None else 1.0), spent


def seconds_of_refusal(compiled: Schema, value: object) -> float:
    """CPU time of a value that is refused."""
    began = time.thread_time()
    with pytest.raises(InvalidParamsError, match="to be checked"):
        compiled.validate(value)
    return time.thread_time() - began


def below(frames: int, act: Callable[[], float]) -> float:
    """What it returns with so many more frames on the stack."""
    return below(frames - 1, act) if frames else act()


def test_a_long_text_costs_nothing_where_only_its_type_and_length_are_asked() -> None:
    assert fits({"type": "string", "minLength": 1, "maxLength": 20_000_000}, "x" * 10_000_000)
    assert not fits({"enum": ["a", "b"]}, "x" * 10_000_000)


def test_a_schema_of_a_thousand_parts_in_a_row_is_no_deeper_than_its_values() -> None:
    defs = {f"t{n}": {"properties": {"next": {"$ref": f"#/$defs/t{n + 1}"}}} for n in range(2_000)}
    document = {"$defs": {**defs, "t2000": {"type": "null"}}, "$ref": "#/$defs/t0"}
    assert fits(document, nested(30, lambda inner: {"next": inner}, {}))


# ---- all problems

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "required": ["sku", "count"], "properties": {"count": {"minimum": 1}}},
        },
        "to": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"street": {"type": "string"}}}]},
    },
    "required": ["id", "lines"],
}


def thorough(document: Any) -> Schema:
    return Schema.compile(json.dumps(document), thorough=True)


def test_all_problems_of_a_value_are_listed_each_with_its_path() -> None:
    problems = thorough(ORDER).problems({"lines": [{"count": 0}, {"sku": 1, "count": 2}, {}], "to": {"street": 4}})
    assert problems == [
        '$: expected a property "id", got "lines", "to"',
        '$.lines[0]: expected a property "sku", got "count"',
        "$.lines[0].count: expected a number of at least 1, got 0",
        '$.lines[2]: expected a property "sku", got nothing',
        '$.lines[2]: expected a property "count", got nothing',
        "$.to.street: expected string, got integer",
    ]
    assert thorough(ORDER).problems({"id": 1, "lines": []}) == []


def test_a_list_of_problems_is_bounded_in_length_and_time() -> None:
    deep: Any = {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}
    value: Any = [0] * 2_000
    for _ in range(60):
        value = [value, value[:50]]
    usable = thorough(deep)
    with at_most_100_ms():
        problems = usable.problems(value)
    assert len(problems) == 20


@settings(max_examples=examples(1_000))
@given(SCHEMAS, VALUES)
def test_there_are_problems_exactly_where_a_value_is_refused(document: Any, value: Any) -> None:
    try:
        usable = thorough(document)
    except InvalidParamsError:
        return
    assert bool(usable.problems(value)) is not fits(document, value)
