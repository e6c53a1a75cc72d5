"""The parameters of a tool as a full JSON Schema, whichever of the usual ways somebody wrote them down in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from tertulia.errors import InvalidParamsError

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ONLY_IN_SCHEMAS = frozenset({"$defs", "$ref", "$schema", "allOf", "anyOf", "oneOf"})


def full_schema(parameters: object) -> dict[str, Any]:
    """A schema of an object. Taken are a schema, a map from names to what is known of each, and None.

    In a map a text is the name of a type, or else a description, and `required: true` is where people put it. A
    value that says nothing (a number, a list, None) leaves its parameter free.
    """
    if parameters is None:
        return {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping):
        raise InvalidParamsError(f"parameters must be a JSON Schema or a map of parameters, not {_kind(parameters)}")
    given = {str(key): value for key, value in cast("Mapping[object, Any]", parameters).items()}
    if _is_schema(given):
        return {**given, "type": "object", **_readable(given)}
    properties = {name: _property(value) for name, value in given.items()}
    required = [name for name, value in properties.items() if value.pop("required", None) is True]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def usage_line(schema: Mapping[str, Any]) -> str:
    """A call's arguments in one line: `{"html": string, "title"?: string}`. Says less of what it does not understand.

    >>> usage(full_schema({"n": {"type": "integer", "required": True}, "why": 7}))
    '{"n": integer, "why"?: any}'
    """
    properties = schema.get("properties")
    required = schema.get("required")
    needed = set(map(str, cast("list[object]", required))) if isinstance(required, list) else set[str]()
    return "{" + ", ".join(_arguments(properties, needed)) + "}"


def _arguments(properties: object, needed: set[str]) -> Iterator[str]:
    if isinstance(properties, Mapping):
        for name, value in cast("Mapping[object, object]", properties).items():
            kind = cast("Mapping[str, object]", value).get("type") if isinstance(value, Mapping) else None
            mark = "" if str(name) in needed else "?"
            yield f'"{name}"{mark}: {kind if isinstance(kind, str) else "any"}'


def _is_schema(given: Mapping[str, Any]) -> bool:
    # A parameter may be called `type` or `properties`; what stands behind the name tells them apart.
    if given.get("type") == "object" or _ONLY_IN_SCHEMAS & given.keys():
        return True
    properties = given.get("properties")
    return isinstance(properties, Mapping) and all(
        isinstance(value, Mapping | bool) for value in cast("Mapping[object, object]", properties).values()
    )


def _readable(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        return {"properties": {}}
    pairs = cast("Mapping[object, Any]", properties).items()
    return {"properties": {str(name): value if isinstance(value, bool) else _property(value) for name, value in pairs}}


def _property(value: object) -> dict[str, Any]:
    match value:
        case Mapping():
            return {str(key): each for key, each in cast("Mapping[object, Any]", value).items()}
        case str() if value in _TYPES:
            return {"type": value}
        case str():
            return {"description": value}
        case _:
            return {}


def _kind(value: object) -> str:
    return type(value).__name__
