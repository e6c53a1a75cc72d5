"""Says in our words why a value does not fit a type: the place, what is expected there, the values that are allowed.

Made from msgspec's own text, of which no word is shown. It repeats no value: one may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

TYPE_WORDS: Mapping[str, str] = {
    "array": "a list",
    "bool": "true or false",
    "date": "a date",
    "datetime": "a date and time",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "NoneType": "nothing",
    "null": "nothing",
    "object": "an object",
    "str": "a text",
}
_PLACE = re.compile(r"`\$?\.?([^`]*)`")
_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")


def explain_validation(error: msgspec.ValidationError, kind: Any, words: Mapping[str, str] = TYPE_WORDS) -> str:
    """One sentence: "items[0].text: expected a text, got a whole number". `kind`: the type that the value is to be."""
    what, _, at = str(error).partition(" - at ")
    place = _PLACE.sub(r"\1", at)
    field = _PLACE.search(what)
    if what.startswith("Invalid "):
        what = _expected_choice(kind, place)
    elif what.startswith("Object missing") and field is not None:
        what = f"it lacks the key `{field[1]}`"
    elif what.startswith("Object contains unknown") and field is not None:
        names = ", ".join(name for struct in _structs(kind, place) for name in struct)
        what = f"there is an unknown field `{field[1][:80]}`" + (f"; there are {names}" if names else "")
    else:
        named = re.sub(r"`([\w |]+)`", lambda types: _any_of(types[1], words), what)
        what = named.replace("Expected", "expected")
    return f"{place}: {what}" if place else what


def _any_of(types: str, words: Mapping[str, str]) -> str:
    return " or ".join(words.get(name, f"`{name}`") for name in types.split(" | "))


def _expected_choice(kind: Any, place: str) -> str:
    choices = dict.fromkeys(str(choice) for choice in _choices(kind, place))
    return f"expected one of {', '.join(choices)}" if choices else "it is not one of the values that are allowed"


def _choices(kind: Any, place: str) -> Iterator[object]:
    """The values that the type allows there: of a literal or an enum, or the tags of a union."""
    for info in _types_at(kind, place):
        match info:
            case inspect.LiteralType(values=values):
                yield from values
            case inspect.EnumType(cls=cls):
                yield from (member.value for member in cls)
            case _:
                pass
    *above, last = _STEP.findall(place) or [""]
    for owner in _walk(kind, above):
        if isinstance(owner, inspect.StructType) and owner.tag is not None and owner.tag_field == last:
            yield owner.tag


def _structs(kind: Any, place: str) -> Iterator[tuple[str, ...]]:
    for info in _types_at(kind, place):
        if isinstance(info, inspect.StructType):
            yield tuple(field.encode_name for field in info.fields)


def _types_at(kind: Any, place: str) -> list[inspect.Type]:
    return _walk(kind, _STEP.findall(place))


def _walk(kind: Any, steps: list[str]) -> list[inspect.Type]:
    """The types that a value at the end of these steps may have; none where they cannot be followed."""
    try:
        types = list(_members(inspect.type_info(kind)))
    except (NameError, TypeError):
        return []
    for step in steps:
        types = [member for outer in types for inner in _inside(outer, step) for member in _members(inner)]
    return types


def _members(info: inspect.Type) -> Iterator[inspect.Type]:
    match info:
        case inspect.UnionType(types=types):
            for member in types:
                yield from _members(member)
        case inspect.Metadata(type=inner):
            yield from _members(inner)
        case _:
            yield info


def _inside(outer: inspect.Type, step: str) -> Iterator[inspect.Type]:
    match outer:
        case inspect.StructType(fields=fields):
            yield from (field.type for field in fields if field.encode_name == step)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) | inspect.SetType(item_type=item):
            yield item
        case inspect.DictType(value_type=value):
            yield value
        case _:
            pass
