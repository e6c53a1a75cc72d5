"""The defaults of required properties, put in where a caller left the property out.

Generators of schemas mark a property as required and give it a default: the caller may leave it out, and the server
counts on its being there. Only such properties are filled. What was given is never changed, null included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tertulia.schema.verdict import Budget, is_array, is_object

Resolve = Callable[[str], Any]
"""The schema that a reference names."""


def has_defaults(schema: Any) -> bool:
    """Whether this place of a schema requires a property that has a default."""
    return any(True for _ in _required_defaults(schema))


def filled(value: Any, schema: Any, resolve: Resolve, budget: Budget) -> Any:
    """The value with the defaults, a copy as far as anything was put in; the same value where nothing was.

    Looks into given properties and items, through references and `allOf`. Alternatives (`anyOf`, `if`) are left alone:
    which of them is meant is not known before the value is checked. A default itself is taken as it is.
    """
    budget.descend()
    if is_object(schema):
        if isinstance(reference := schema.get("$ref"), str):
            value = filled(value, resolve(reference), resolve, budget)
        if is_array(parts := schema.get("allOf")):
            for part in parts:
                value = filled(value, part, resolve, budget)
        if is_object(value):
            value = _object(value, schema, resolve, budget)
        elif is_array(value) and is_object(item := schema.get("items")):
            value = _list(value, item, resolve, budget)
    budget.depth += 1
    return value


def _object(value: dict[str, Any], schema: dict[str, Any], resolve: Resolve, budget: Budget) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if is_object(properties := schema.get("properties")):
        budget.spend(len(properties) >> 3)
        for name, below in properties.items():
            if name in value and (member := filled(value[name], below, resolve, budget)) is not value[name]:
                changed[name] = member
    for name, default in _required_defaults(schema):
        if name not in value:
            changed[name] = _copy(default, budget)
    return {**value, **changed} if changed else value


def _list(value: list[Any], item: dict[str, Any], resolve: Resolve, budget: Budget) -> list[Any]:
    members = [filled(member, item, resolve, budget) for member in value]
    return members if any(new is not old for new, old in zip(members, value, strict=True)) else value


def _required_defaults(schema: Any) -> list[tuple[str, Any]]:
    if not is_object(schema) or not is_object(properties := schema.get("properties")):
        return []
    names = schema.get("required")
    known = [name for name in names if isinstance(name, str) and name in properties] if is_array(names) else []
    tables = [(name, table) for name in known if is_object(table := properties[name])]
    return [(name, table["default"]) for name, table in tables if "default" in table]


def _copy(default: Any, budget: Budget) -> Any:
    """Of its own, and paid for by its size: a default is the server's, and a list may ask for it thousands of times."""
    text = msgspec.json.encode(default)
    budget.spend(1 + (len(text) >> 4))
    return msgspec.json.decode(text)
