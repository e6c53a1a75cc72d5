"""The keywords of JSON Schema, each compiled once to a check of values.

`BUILDERS` holds those that tool schemas use, of draft 2020-12 with the older spellings that generators still
write. A keyword that is not in it demands nothing, as the specification has it; `format` is one of these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from tertulia.schema import container_keywords
from tertulia.schema.check import (
    JSON_TYPES,
    Budget,
    Check,
    Problem,
    Site,
    canonical_value,
    is_array,
    json_type,
    list_values,
    shorten_value,
)

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
    "required": container_keywords.required,
    "minProperties": _size("object", operator.ge, "at least {} properties"),
    "maxProperties": _size("object", operator.le, "at most {} properties"),
    "properties": container_keywords.properties,
    "patternProperties": container_keywords.pattern_properties,
    "additionalProperties": container_keywords.additional_properties,
    "propertyNames": container_keywords.property_names,
    "minItems": _size("array", operator.ge, "at least {} items"),
    "maxItems": _size("array", operator.le, "at most {} items"),
    "prefixItems": container_keywords.prefix_items,
    "items": container_keywords.items,
    "uniqueItems": container_keywords.unique_items,
    "$ref": _ref,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
"""In the order in which they are checked: the cheap and telling ones first."""
