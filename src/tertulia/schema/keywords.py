"""The keywords of JSON Schema, each compiled once to a check of values.

`BUILDERS` holds those that tool schemas use, of draft 2020-12 with the older spellings that generators still
write. A keyword that is not in it demands nothing, as the specification has it; `format` is one of these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tertulia.schema.check import (
    JSON_TYPES,
    Budget,
    Check,
    Problem,
    Site,
    canonical_value,
    is_array,
    is_object,
    json_type,
    list_values,
    shorten_value,
)

# ── members of objects and arrays ────────────────────────────────────────────────────────────────────────────────

_Members = Iterator[tuple[str | int, Any, Check]]


def _for_each(members: Callable[[Any, Budget], _Members]) -> Check:
    """Check certain members of a value: each comes with its key and with what is expected of it."""

    def check(value: Any, budget: Budget) -> Problem | None:
        found: Problem | None = None
        for key, member, expected_check in members(value, budget):
            if (problem := expected_check(member, budget)) is not None:
                found = problem.below(key).after(found)
                if budget.is_enough(found):
                    break
        return found

    return check


def _table(site: Site, keyword: str) -> Mapping[str, Any]:
    table = site.keywords.get(keyword, {})
    return table if is_object(table) else site.refuse(f"`{keyword}` is not an object")


def _required(site: Site, names: Any) -> Check:
    """These properties must be there."""
    if not is_array(names) or not all(isinstance(name, str) for name in names):
        site.refuse("`required` is not a list of names")

    def check(value: Any, budget: Budget) -> Problem | None:
        found: Problem | None = None
        if is_object(value):
            budget.spend(len(names) >> 3)
            for name in names:
                if name not in value:
                    found = Problem(f"a property {shorten_value(name)}", list_values(value)).after(found)
                    if budget.is_enough(found):
                        break
        return found

    return check


def _properties(site: Site, _: Any) -> Check:
    """What is expected of properties, by name."""
    checks = {name: site.below(schema) for name, schema in _table(site, "properties").items()}

    def named(value: Any, budget: Budget) -> _Members:
        if is_object(value):
            budget.spend(len(checks) >> 3)
            for name, expected_check in checks.items():
                if name in value:
                    yield name, value[name], expected_check

    return _for_each(named)


def _pattern_properties(site: Site, _: Any) -> Check:
    """What is expected of properties whose name matches."""
    table = _table(site, "patternProperties")
    checks = [(site.pattern(source), site.below(schema)) for source, schema in table.items()]

    def matching(value: Any, budget: Budget) -> _Members:
        if is_object(value):
            for name, member in value.items():
                for pattern, expected_check in checks:
                    if pattern.occurs_in(name, budget.spend):
                        yield name, member, expected_check

    return _for_each(matching)


def _additional_properties(site: Site, schema: Any) -> Check:
    """What is expected of every other property; mostly that there is none."""
    known = _table(site, "properties").keys()
    patterns = [site.pattern(source) for source in _table(site, "patternProperties")]
    expected = f"no such property (there are {list_values(known)})" if known else "no property at all"

    def forbidden(value: Any, budget: Budget) -> Problem | None:
        return Problem(expected, json_type(value))

    expected_check = forbidden if schema is False else site.below(schema)

    def unknown(value: Any, budget: Budget) -> _Members:
        if is_object(value):
            budget.spend(len(value) >> 3)
            for name, member in value.items():
                if name not in known and not any(pattern.occurs_in(name, budget.spend) for pattern in patterns):
                    yield name, member, expected_check

    return _for_each(unknown)


def _property_names(site: Site, schema: Any) -> Check:
    """What is expected of the names themselves."""
    expected_check = site.below(schema)

    def names(value: Any, budget: Budget) -> _Members:
        if is_object(value):
            for name in value:
                yield name, name, expected_check

    return _for_each(names)


def _prefix_items(site: Site, schemas: Any) -> Check:
    """What is expected of the first items, one by one."""
    if not is_array(schemas):
        site.refuse("`prefixItems` is not a list of schemas")
    checks = [site.below(schema) for schema in schemas]

    def first(value: Any, budget: Budget) -> _Members:
        if is_array(value):
            for index, (member, expected_check) in enumerate(zip(value, checks, strict=False)):
                yield index, member, expected_check

    return _for_each(first)


def _items(site: Site, schema: Any) -> Check:
    """What is expected of every item after those."""
    if is_array(schema):
        return _prefix_items(site, schema)  # the spelling before draft 2020-12
    prefix = site.keywords.get("prefixItems")
    start = len(prefix) if is_array(prefix) else 0
    expected_check = site.below(schema)

    def rest(value: Any, budget: Budget) -> _Members:
        if is_array(value):
            for index in range(start, len(value)):
                yield index, value[index], expected_check

    return _for_each(rest)


def _unique_items(site: Site, wanted: Any) -> Check | None:
    """No two items are equal."""

    def check(value: Any, budget: Budget) -> Problem | None:
        if is_array(value):
            seen: set[str] = set()
            for index, member in enumerate(value):
                text = canonical_value(member, budget)
                if text in seen:
                    return Problem("each item once", f"{shorten_value(member)} again").below(index)
                seen.add(text)
        return None

    return check if wanted is True else None


Builder = Callable[[Site, Any], Check | None]
_CONTAINERS = ("object", "array")
_NUMBERS = ("integer", "number")

# ── any value ────────────────────────────────────────────────────────────────────────────────────────────────


def _type(site: Site, names: Any) -> Check:
    wanted: list[Any] = names if is_array(names) else [names]
    if not all(isinstance(name, str) and name in JSON_TYPES for name in wanted):
        site.refuse("`type` names something else than the types of JSON")
    allowed = {*wanted, "integer"} if "number" in wanted else set(wanted)
    expected = " or ".join(wanted)

    def check(value: Any, budget: Budget) -> Problem | None:
        got = json_type(value)
        if got in allowed or (got == "number" and "integer" in allowed and value.is_integer()):
            return None
        return Problem(expected, got)

    return check


def _enum(site: Site, values: Any) -> Check:
    if not is_array(values):
        site.refuse("`enum` is not a list")
    texts = frozenset(value for value in values if isinstance(value, str))
    others = frozenset(canonical_value(value, Budget()) for value in values if not isinstance(value, str))
    expected = list_values(values) if len(values) == 1 else f"one of {list_values(values)}"

    def check(value: Any, budget: Budget) -> Problem | None:
        # Nearly every enum is one of texts; a long text or a large object is then never walked.
        known = value in texts if isinstance(value, str) else bool(others) and canonical_value(value, budget) in others
        return (
            None if known else Problem(expected, "another" if json_type(value) in _CONTAINERS else shorten_value(value))
        )

    return check


def _const(site: Site, value: Any) -> Check:
    return _enum(site, [value])


def _ref(site: Site, reference: Any) -> Check:
    return site.target(reference) if isinstance(reference, str) else site.refuse("`$ref` is not a text")


# ── several schemas for one value ────────────────────────────────────────────────────────────────────────────


def _alternatives(site: Site, keyword: str) -> list[Check]:
    schemas = site.keywords[keyword]
    if not is_array(schemas) or not schemas:
        site.refuse(f"`{keyword}` is not a list of schemas")
    return [site.beside(schema) for schema in schemas]


def _all_of(site: Site, _: Any) -> Check:
    checks = _alternatives(site, "allOf")

    def check(value: Any, budget: Budget) -> Problem | None:
        found: Problem | None = None
        for alternative in checks:
            if (problem := alternative(value, budget)) is not None:
                found = problem.after(found)
                if budget.is_enough(found):
                    break
        return found

    return check


def _any_of(site: Site, _: Any) -> Check:
    checks = _alternatives(site, "anyOf")

    def check(value: Any, budget: Budget) -> Problem | None:
        problems: list[Problem] = []
        for alternative in checks:
            problem = alternative(value, budget)
            if problem is None:
                return None
            problems.append(problem)
        return _nearest_problem(problems)

    return check


def _one_of(site: Site, _: Any) -> Check:
    checks = _alternatives(site, "oneOf")

    def check(value: Any, budget: Budget) -> Problem | None:
        problems = [problem for alternative in checks if (problem := alternative(value, budget)) is not None]
        if len(problems) == len(checks):
            return _nearest_problem(problems)
        fitting = len(checks) - len(problems)
        return None if fitting == 1 else Problem("exactly one alternative to fit", f"{fitting} that do")

    return check


def _nearest_problem(problems: list[Problem]) -> Problem:
    """The alternative that was meant is the one that went wrong deepest inside; if none did, name them all."""
    deepest = max(problems, key=lambda problem: len(problem.path))
    if deepest.path:
        return deepest
    wanted = dict.fromkeys(problem.expected for problem in problems)
    return Problem(" or ".join(list(wanted)[:8]), deepest.got)


def _not(site: Site, schema: Any) -> Check:
    forbidden = site.beside(schema)

    def check(value: Any, budget: Budget) -> Problem | None:
        return Problem("something else", json_type(value)) if forbidden(value, budget) is None else None

    return check


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

_Comparison = Callable[[Any, Any], bool]


def _limit(holds: _Comparison, phrase: str) -> Builder:
    """A limit of a number itself."""
    return _size_limit(_NUMBERS, lambda value: value, holds, phrase)


def _size(of: str, holds: _Comparison, phrase: str) -> Builder:
    """A limit of how long a value is."""
    return _size_limit((of,), len, holds, phrase)


def _size_limit(kinds: tuple[str, ...], measure: Callable[[Any], Any], holds: _Comparison, phrase: str) -> Builder:
    def build(site: Site, limit: Any) -> Check | None:
        if isinstance(limit, bool):
            return None  # `exclusiveMinimum: true` of older drafts: the plain limit beside it is checked
        if json_type(limit) not in _NUMBERS:
            site.refuse(f"`{phrase.format('…')}` is said without a number")
        expected = phrase.format(shorten_value(limit))

        def check(value: Any, budget: Budget) -> Problem | None:
            if json_type(value) not in kinds or holds(measure(value), limit):
                return None
            return Problem(expected, shorten_value(measure(value)))

        return check

    return build


def _multiple_of(site: Site, unit: Any) -> Check:
    # Imported here: few schemas have it.
    from fractions import Fraction

    if json_type(unit) not in _NUMBERS or unit <= 0:
        site.refuse("`multipleOf` is not a positive number")
    expected = f"a multiple of {shorten_value(unit)}"

    def check(value: Any, budget: Budget) -> Problem | None:
        if json_type(value) not in _NUMBERS:
            return None
        # In decimals, as they were written: 0.3 is a multiple of 0.1, although no quotient of floats says so.
        budget.spend(32)
        whole = Fraction(repr(value)) % Fraction(repr(unit)) == 0
        return None if whole else Problem(expected, shorten_value(value))

    return check


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _pattern(site: Site, source: Any) -> Check:
    pattern = site.pattern(source)
    expected = f"text that matches {pattern.source[:200]}"

    def check(value: Any, budget: Budget) -> Problem | None:
        if not isinstance(value, str) or pattern.occurs_in(value, budget.spend):
            return None
        return Problem(expected, shorten_value(value))

    return check


BUILDERS: Mapping[str, Builder] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _limit(operator.ge, "a number of at least {}"),
    "maximum": _limit(operator.le, "a number of at most {}"),
    "exclusiveMinimum": _limit(operator.gt, "a number above {}"),
    "exclusiveMaximum": _limit(operator.lt, "a number below {}"),
    "multipleOf": _multiple_of,
    "minLength": _size("string", operator.ge, "at least {} characters"),
    "maxLength": _size("string", operator.le, "at most {} characters"),
    "pattern": _pattern,
    "required": _required,
    "minProperties": _size("object", operator.ge, "at least {} properties"),
    "maxProperties": _size("object", operator.le, "at most {} properties"),
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "minItems": _size("array", operator.ge, "at least {} items"),
    "maxItems": _size("array", operator.le, "at most {} items"),
    "prefixItems": _prefix_items,
    "items": _items,
    "uniqueItems": _unique_items,
    "$ref": _ref,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
"""In the order in which they are checked: the cheap and telling ones first."""
