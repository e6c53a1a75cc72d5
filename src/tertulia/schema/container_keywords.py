"""The keywords of JSON Schema that look into objects and arrays. See `keywords` for the rest and the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tertulia.schema.check import (
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


def required(site: Site, names: Any) -> Check:
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


def properties(site: Site, _: Any) -> Check:
    """What is expected of properties, by name."""
    checks = {name: site.below(schema) for name, schema in _table(site, "properties").items()}

    def named(value: Any, budget: Budget) -> _Members:
        if is_object(value):
            budget.spend(len(checks) >> 3)
            for name, expected_check in checks.items():
                if name in value:
                    yield name, value[name], expected_check

    return _for_each(named)


def pattern_properties(site: Site, _: Any) -> Check:
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


def additional_properties(site: Site, schema: Any) -> Check:
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


def property_names(site: Site, schema: Any) -> Check:
    """What is expected of the names themselves."""
    expected_check = site.below(schema)

    def names(value: Any, budget: Budget) -> _Members:
        if is_object(value):
            for name in value:
                yield name, name, expected_check

    return _for_each(names)


def prefix_items(site: Site, schemas: Any) -> Check:
    """What is expected of the first items, one by one."""
    if not is_array(schemas):
        site.refuse("`prefixItems` is not a list of schemas")
    checks = [site.below(schema) for schema in schemas]

    def first(value: Any, budget: Budget) -> _Members:
        if is_array(value):
            for index, (member, expected_check) in enumerate(zip(value, checks, strict=False)):
                yield index, member, expected_check

    return _for_each(first)


def items(site: Site, schema: Any) -> Check:
    """What is expected of every item after those."""
    if is_array(schema):
        return prefix_items(site, schema)  # the spelling before draft 2020-12
    prefix = site.keywords.get("prefixItems")
    start = len(prefix) if is_array(prefix) else 0
    expected_check = site.below(schema)

    def rest(value: Any, budget: Budget) -> _Members:
        if is_array(value):
            for index in range(start, len(value)):
                yield index, value[index], expected_check

    return _for_each(rest)


def unique_items(site: Site, wanted: Any) -> Check | None:
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
