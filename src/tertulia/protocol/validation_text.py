"""Explains why a value does not fit a type (the place, the expected type, the allowed values), why a text is not TOML
or JSON, and why a value cannot be written as JSON.

The explanations are derived from the error texts of msgspec, `tomllib` and `json`, which are never shown themselves.
They repeat no value, because it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import inspect

from tertulia.lazy_pattern import lazy_pattern
from tertulia.protocol.name_hints import name_hint

TYPE_WORDS: Mapping[str, str] = {
    "array": "a list",
    "bool": "true or false",
    "bytes": "bytes",
    "date": "a date",
    "datetime": "a date and time",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "NoneType": "nothing",
    "null": "nothing",
    "object": "an object",
    "str": "a text",
    "uuid": "a UUID",
}
_BOUNDS = {
    ">= ": "of at least ",
    "<= ": "of at most ",
    "> ": "greater than ",
    "< ": "less than ",
    "that's a multiple of ": "that is a multiple of ",
    "matching regex ": "that matches ",
}
_LENGTHS = {"str": "characters", "array": "entries", "object": "keys", "bytes": "bytes"}
_FORMS = {
    "datetime": "a date and time such as 2026-01-31T12:00:00Z",
    "date": "a date such as 2026-01-31",
    "time": "a time such as 12:00:00",
    "duration": "a duration such as PT5M",
    "UUID": "a UUID",
    "base64": "base64 text",
    "decimal": "a decimal number",
}
"""The expected form of a text, by the word that msgspec uses for it."""
_AT = lazy_pattern(r"(`key` in )?`\$?\.?([^`]*)`\Z")
_EXPECTED = lazy_pattern(r"Expected `([^`]+)`(?: (of length )?(.+?))?(?:, got (.+))?\Z", re.DOTALL)
_FIELD = lazy_pattern(r"Object (missing|contains)[^`]*`(.*)`\Z", re.DOTALL)
_ENTRY = lazy_pattern(r"(.+)\[\.\.\.\]\Z")
"""The place of an entry in an object with arbitrary keys: msgspec does not name the key."""
_STEP = lazy_pattern(r"\[[^\]]*\]|[^.\[\]]+")
_MAX_NAME = 80


def explain_validation(
    error: msgspec.ValidationError,
    kind: Any,
    words: Mapping[str, str] = TYPE_WORDS,
    notes: Mapping[str, str] | None = None,
    hidden: Container[str] = (),
) -> str:
    """One sentence: "items[0].text: expected a text, got a whole number".

    Args:
        error: The error that msgspec raised.
        kind: The type that the value should have.
        words: Our words for types.
        notes: By the name of an unknown field, what to do instead.
        hidden: Fields of the type that a caller cannot set, so that they are not proposed.
    """
    what, key, place = _split(str(error))
    if (field := _FIELD.match(what)) is not None:
        what = _explain_field(
            (field[1], field[2]), [name for name in _fields(kind, place) if name not in hidden], notes
        )
    elif (expected := _EXPECTED.match(what)) is not None:
        what = _explain_type(expected, kind, "" if key else place, words)
    elif what.startswith("Invalid "):
        what = _explain_form(what, kind, place)
    elif what.endswith("out of range"):
        what = "the number is out of range"
    where = f"a key of {place or 'it'}" if key else _ENTRY.sub(r"a value of \1", place)
    return f"{where}: {what}" if where else what


NOT_JSON = "it holds something else than texts, numbers, true, false, null, lists and tables with texts as keys"
"""Why a value of Python cannot be written as JSON."""

_TOML = {
    "Invalid value": 'a value that there is not; a text stands in quotes: key = "text"',
    "Invalid statement": 'a line that is neither key = "value" nor [table]',
    "Invalid initial character": "a key with a character that stands in keys only within quotes",
    "Expected '='": 'a key without a value; a line is key = "value", or [table]',
    "Expected newline": 'more after a value; a line is key = "value", or [table]',
    "Expected ']": "a [table] without its closing bracket",
    "Cannot overwrite": "the same key stands there twice",
    "Cannot declare": "the same table stands there twice",
    "Cannot mutate": "the same table stands there twice",
    "Duplicate inline": "the same key stands there twice",
    "Unclosed array": "a list without its closing bracket",
    "Unclosed inline": "a table without its closing brace",
    "Unterminated": "a text without its closing quotes",
    "Expected \"'": "a text without its closing quotes",
    "Illegal": "a character that stands only in a text of several lines, within three quotes",
    "Unescaped": "a backslash that begins no escape; write two, or put the text into single quotes",
    "Invalid hex": "an escape that stands for no character",
    "Escaped": "an escape that stands for no character",
    "Invalid date": "a date or a time that there is not",
    "Found invalid": "a character that cannot stand in the file",
    "Exceeds": "a number of too many digits",
}
"""Our explanation, by the beginning of the error text of `tomllib`."""
_JSON = {
    "Expecting value": "a value is missing",
    "Expecting property": "a name in double quotes is missing",
    "Expecting ':'": "a colon is missing",
    "Expecting ','": "a comma or a closing bracket is missing",
    "Illegal trailing": "there is a comma too many",
    "Unterminated": "a text has no closing quote",
    "Invalid control": "a text has a control character that is not escaped",
    "Invalid \\e": "a backslash begins no escape",
    "Invalid \\u": "an escape has not four hexadecimal digits",
    "Extra data": "there is more after the end",
    "Unexpected UTF-8 BOM": "it begins with a byte order mark; save it without",
}
"""Our explanation, by the beginning of the error text of `json`."""
_TOML_PLACE = lazy_pattern(r"\(at ([^()]*)\)\Z")


def explain_toml(error: ValueError) -> str:
    """Why a text is not TOML, with the place; `error` comes from `tomllib`."""
    message = str(error)
    problem = next((ours for theirs, ours in _TOML.items() if message.startswith(theirs)), "it cannot be read")
    place = _TOML_PLACE.search(message)
    return f"not TOML at {place[1]}: {problem}" if place else f"not TOML: {problem}"


def explain_json(error: ValueError) -> str:
    """Why a text is not JSON, without the place; `error` comes from `json`."""
    message = str(error)
    return next((ours for theirs, ours in _JSON.items() if message.startswith(theirs)), "it cannot be read")


def explain_decoding(error: Exception, kind: Any = Any) -> str:
    """Why bytes are not a JSON value of that type; `error` comes from `msgspec.json.decode`."""
    match error:
        case msgspec.ValidationError():
            return explain_validation(error, kind)
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case UnicodeEncodeError():
            return "it has a lone surrogate; send valid Unicode"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            at = re.search(r"\(byte (\d+)\)", str(error))
            return f"it goes wrong at byte {at[1]}" if at else "it breaks off"


def is_encodable(text: str) -> bool:
    """Whether it can be written as UTF-8: a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _split(text: str) -> tuple[str, bool, str]:
    """(msgspec's text, whether it is about a key, the place). The last place counts: a value may look like a place."""
    before, _, place = text.rpartition(" - at ")
    at = _AT.match(place)
    return (text, False, "") if at is None else (before, at[1] is not None, at[2])


def _fields(kind: Any, place: str) -> Iterable[str]:
    return dict.fromkeys(field for struct in _structs(kind, place) for field in struct)


def _explain_field(field: tuple[str, str], names: list[str], notes: Mapping[str, str] | None) -> str:
    fault, name = field
    if fault == "missing":
        return f"it lacks the key `{name}`"
    shown = name[:_MAX_NAME] if name.isprintable() else ascii(name[:_MAX_NAME])
    return f"there is an unknown field `{shown}`" + (f"; {name_hint(name, names, notes)}" if names else "")


def _explain_type(expected: re.Match[str], kind: Any, place: str, words: Mapping[str, str]) -> str:
    types, of_length, bound, got = expected.groups()
    if bound is not None:
        sentence = f"expected {_any_of(types, words)} {_explain_bound(bound, types if of_length else None)}"
    elif choices := list(_choices(kind, place)):
        literal = {"int" if isinstance(choice, int) else "str" for choice in choices}
        others = " | ".join(name for name in types.split(" | ") if name not in literal)
        return f"expected one of {_list(choices)}" + (f", or {_any_of(others, words)}" if others else "")
    else:
        sentence = f"expected {_any_of(types, words)}"
    if got is not None:
        sentence += f", got {_any_of(got.strip('`'), words) if '`' in got else got}"
    described = next(_descriptions(kind, place), None)
    return sentence if described is None else f"{sentence} ({described})"


def _explain_bound(bound: str, counted: str | None) -> str:
    """A bound in our words. `counted`: the type whose length is bounded; None if a value is bounded."""
    for theirs, ours in _BOUNDS.items():
        if bound.startswith(theirs):
            bound = ours + bound.removeprefix(theirs)
            break
    else:
        bound = f"of exactly {bound}"
    return bound if counted is None else f"{bound} {_LENGTHS.get(counted, 'entries')}"


def _explain_form(what: str, kind: Any, place: str) -> str:
    if choices := list(_choices(kind, place)):
        return f"expected one of {_list(choices)}"
    form = next((form for word, form in _FORMS.items() if word in what and "value" not in what), None)
    return "it is not one of the values that are allowed" if form is None else f"expected {form}"


def _any_of(types: str, words: Mapping[str, str]) -> str:
    return " or ".join(words.get(name, f"`{name}`") for name in types.split(" | "))


def _list(choices: list[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, choices)))


def _descriptions(kind: Any, place: str) -> Iterator[str]:
    """The descriptions in the type's metadata at a place: they list allowed words of texts that are checked later."""
    for info in _walk(kind, _STEP.findall(place), metadata=True):
        if isinstance(info, inspect.Metadata):
            about = cast("dict[str, Any]", info.extra_json_schema or {})
            if "description" in about:
                yield about["description"]


def _choices(kind: Any, place: str) -> Iterator[object]:
    """The values that the type allows at a place: those of a literal or an enum, or the tags of a union."""
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


def _walk(kind: Any, steps: list[str], *, metadata: bool = False) -> list[inspect.Type]:
    """The types that a value at the end of these steps may have; none if the steps do not exist in the type.

    `metadata`: whether to include the `Metadata` of annotated types.
    """
    try:
        types = list(_members(inspect.type_info(kind), metadata))
    except (NameError, TypeError):
        return []
    for step in steps:
        types = [member for outer in types for inner in _inside(outer, step) for member in _members(inner, metadata)]
    return types


def _members(info: inspect.Type, metadata: bool) -> Iterator[inspect.Type]:
    match info:
        case inspect.UnionType(types=types):
            for member in types:
                yield from _members(member, metadata)
        case inspect.Metadata(type=inner):
            if metadata:
                yield info
            yield from _members(inner, metadata)
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
