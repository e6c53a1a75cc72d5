"""The fields of a form that an MCP server asks for: made from its JSON Schema, filled in by a person, checked here.

Pure. A value that does not fit is refused with a sentence at its field before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Literal, cast

import msgspec

FieldKind = Literal["text", "number", "integer", "yes_no", "choice", "choices"]
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


class FieldOption(msgspec.Struct, frozen=True):
    """One value that may be chosen, and what it is called."""

    value: Any
    label: str


class FieldProblem(ValueError):
    """A value does not fit its field; the message is for the person who fills it in."""


class ElicitationField(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a server wants."""

    name: str
    label: str
    help: str = ""
    kind: FieldKind
    required: bool
    options: tuple[FieldOption, ...] = ()
    default: Any = None
    schema: Mapping[str, Any]

    @property
    def hint(self) -> str:
        """What kind of value it wants, in a few words."""
        words = {
            "text": str(self.schema.get("format") or "text"),
            "number": "a number",
            "integer": "a whole number",
            "yes_no": "yes or no",
            "choice": "one of these",
            "choices": "any of these",
        }
        return f"{words[self.kind]}{_bounds(self.schema)}, {'required' if self.required else 'may stay empty'}"

    def parse(self, text: str) -> Any:
        """The value of a typed text; None for an empty one. FieldProblem says what it must be."""
        text = text.strip()
        if not text:
            return None
        match self.kind:
            case "integer" | "number":
                return self._number(text)
            case "text":
                self._check_text(text)
                return text
            case _:
                raise FieldProblem("choose it with ←, → and Space")

    def check(self, value: Any) -> None:
        """Raise FieldProblem where this value cannot be sent."""
        if value is None:
            if self.required:
                raise FieldProblem("this is required")
        elif self.kind == "text":
            self._check_text(str(value))
        elif self.kind in ("number", "integer"):
            self._check_number(value)
        elif self.kind == "choices":
            chosen = len(cast("list[Any]", value))
            _check_bounds(chosen, self.schema.get("minItems"), self.schema.get("maxItems"), "choose {} {}")

    def _number(self, text: str) -> int | float:
        try:
            number: int | float = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise FieldProblem(f"this must be {'a whole' if self.kind == 'integer' else 'a'} number") from None
        if number != number or number in (float("inf"), float("-inf")):
            raise FieldProblem("this must be a number that can be written down")
        self._check_number(number)
        return number

    def _check_number(self, number: int | float) -> None:
        schema = self.schema
        _check_bounds(number, schema.get("minimum"), schema.get("maximum"), "this must be {} {}")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if isinstance(above, int | float) and number <= above:
            raise FieldProblem(f"this must be more than {above}")
        if isinstance(below, int | float) and number >= below:
            raise FieldProblem(f"this must be less than {below}")

    def _check_text(self, text: str) -> None:
        schema = self.schema
        bounds = schema.get("minLength"), schema.get("maxLength")
        _check_bounds(len(text), *bounds, "this must have {} {} characters")
        check = _FORMATS.get(str(schema.get("format")))
        if check is not None:
            check(text)


def _check_bounds(number: float, least: Any, most: Any, sentence: str) -> None:
    if isinstance(least, int | float) and number < least:
        raise FieldProblem(sentence.format("at least", least))
    if isinstance(most, int | float) and number > most:
        raise FieldProblem(sentence.format("at most", most))


def _bounds(schema: Mapping[str, Any]) -> str:
    least = schema.get("minimum", schema.get("minLength", schema.get("minItems")))
    most = schema.get("maximum", schema.get("maxLength", schema.get("maxItems")))
    unit = " characters" if "minLength" in schema or "maxLength" in schema else ""
    if least is not None and most is not None:
        return f", {least} to {most}{unit}"
    if least is not None:
        return f", at least {least}{unit}"
    return "" if most is None else f", at most {most}{unit}"


def _email(text: str) -> None:
    if _EMAIL.fullmatch(text) is None:
        raise FieldProblem("this must be an e-mail address, such as ada@example.org")


def _uri(text: str) -> None:
    if _ADDRESS.fullmatch(text) is None:
        raise FieldProblem("this must be an address, such as https://example.org/page")


def _date(text: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise FieldProblem("this must be a date, such as 2026-11-17") from None


def _date_time(text: str) -> None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise FieldProblem("this must be a date and a time with its zone, such as 2026-11-17T21:30:00Z")


_FORMATS: dict[str, Callable[[str], None]] = {"email": _email, "uri": _uri, "date": _date, "date-time": _date_time}


# ---- reading the schema


def fields_of(schema: Mapping[str, Any]) -> list[ElicitationField]:
    """The fields that a schema asks for, in its order. A field without a type is text."""
    properties: Any = schema.get("properties")
    required: Any = schema.get("required")
    names = cast("list[Any]", required) if isinstance(required, list) else []
    table = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    return [_field(name, entry, required=name in names) for name, entry in table.items()]


def _field(name: str, entry: Any, *, required: bool) -> ElicitationField:
    schema = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    items: Any = schema.get("items")
    several = schema.get("type") == "array"
    source = cast("dict[str, Any]", items) if several and isinstance(items, dict) else schema
    options = _options(source)
    return ElicitationField(
        name=name,
        label=str(schema.get("title") or name),
        help=str(schema.get("description") or ""),
        kind=_kind(schema, options, several=several),
        required=required,
        options=options,
        default=schema.get("default"),
        schema=schema,
    )


def _kind(schema: Mapping[str, Any], options: tuple[FieldOption, ...], *, several: bool) -> FieldKind:
    if several:
        return "choices"
    if options:
        return "choice"
    kinds: dict[str, FieldKind] = {"boolean": "yes_no", "integer": "integer", "number": "number"}
    return kinds.get(str(schema.get("type")), "text")


def _options(schema: Mapping[str, Any]) -> tuple[FieldOption, ...]:
    named: Any = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(named, list):
        entries = [cast("dict[str, Any]", one) for one in cast("list[Any]", named) if isinstance(one, dict)]
        return tuple(
            FieldOption(one["const"], str(one.get("title", one["const"]))) for one in entries if "const" in one
        )
    values, names = schema.get("enum"), schema.get("enumNames")
    if not isinstance(values, list):
        return ()
    labels = cast("list[Any]", names) if isinstance(names, list) else []
    return tuple(
        FieldOption(value, str(labels[at]) if at < len(labels) else str(value))
        for at, value in enumerate(cast("list[Any]", values))
    )
