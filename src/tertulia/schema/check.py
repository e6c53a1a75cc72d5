"""The result of checking a value against a schema, and the budget that bounds the work.

A check returns the first problem it finds with as many others as the budget asks for, or None; it never raises for a
wrong value. All that it does beyond the constant it pays from the budget, so that no pair of schema and value can
hold the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeGuard

from tertulia.errors import InvalidParamsError
from tertulia.schema.pattern import Pattern

MAX_STEPS = 50_000
"""Of about half a microsecond: what checking one value may cost."""
MAX_PROBLEMS = 20
"""How many problems of one value are listed."""
MAX_DEPTH = 200
"""Checks inside checks: how deep the value is, times how indirect the schema is."""
_MAX_SHOWN = 240
"""Characters of a list in a message."""


class Budget:
    """What is left for checking one value."""

    __slots__ = ("depth", "max_problems", "steps")

    def __init__(self, *, max_problems: int = 1) -> None:
        self.steps = MAX_STEPS
        self.depth = MAX_DEPTH
        self.max_problems = max_problems
        """How many problems of a value are looked for."""

    def is_enough(self, found: Problem) -> bool:
        """Whether a problem has so many others that the check can end."""
        return len(found.others) + 1 >= self.max_problems

    def spend(self, steps: int) -> None:
        """Pay, or give up on the value."""
        self.steps -= steps
        if self.steps < 0:
            raise InvalidParamsError("too large to be checked against the schema")

    def descend(self) -> None:
        """Pay for one step down; who goes down adds one to `depth` when back."""
        self.spend(1)
        self.depth -= 1
        if self.depth < 0:
            raise InvalidParamsError("nested too deep to be checked against the schema")


class Problem:
    """Where a value is not what was expected. The path grows on the way back up, innermost key first."""

    __slots__ = ("expected", "got", "others", "path")

    def __init__(self, expected: str, got: str) -> None:
        self.expected = expected
        self.got = got
        self.path: list[str | int] = []
        self.others: tuple[Problem, ...] = ()
        """Further problems of the same value, where all are wanted."""

    def below(self, key: str | int) -> Problem:
        """The same problem, seen from the value that holds the other under this key."""
        self.path.append(key)
        for problem in self.others:
            problem.path.append(key)
        return self

    def after(self, first: Problem | None) -> Problem:
        """The first problem with this one and its others added; this one where there was none before."""
        if first is None:
            return self
        first.others += (self, *self.others)
        return first

    def __str__(self) -> str:
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{_name(key)}" for key in reversed(self.path))
        return f"${path}: expected {self.expected}, got {self.got}"


Check = Callable[[Any, Budget], Problem | None]


class Site(Protocol):
    """A place in a schema, as its keywords see it."""

    @property
    def keywords(self) -> Mapping[str, Any]:
        """All keywords of the place."""
        ...

    def below(self, schema: Any) -> Check:
        """A schema for a part of the value."""
        ...

    def beside(self, schema: Any) -> Check:
        """A schema for the value itself."""
        ...

    def target(self, reference: str) -> Check:
        """The schema that a reference names, for the value itself."""
        ...

    def pattern(self, source: Any) -> Pattern:
        """A regular expression; read once, however often the schema has it."""
        ...

    def refuse(self, why: str) -> NoReturn:
        """The schema cannot be used."""
        ...


_JSON_TYPES: dict[object, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
JSON_TYPES = frozenset(_JSON_TYPES.values())
"""The types of JSON Schema."""


def json_type(value: object) -> str:
    """The type of a value; a number with a fraction, or written with one, is a `number`."""
    return _JSON_TYPES.get(type(value), "something that is not JSON")


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Whether it is a JSON array."""
    return isinstance(value, list)


def canonical_value(value: Any, budget: Budget) -> str:
    """A text that equal JSON values share: 1 and 1.0 do, 1 and true do not.

    Texts, and not the values themselves, go into sets: whole numbers that collide there are easy to find.
    """
    budget.descend()
    if is_array(value):
        text = f"[{','.join([canonical_value(member, budget) for member in value])}]"
    elif is_object(value):
        members = [f"{key!r}:{canonical_value(member, budget)}" for key, member in value.items()]
        text = f"{{{','.join(sorted(members))}}}"
    elif isinstance(value, float) and value.is_integer():
        text = repr(int(value))
    else:
        text = repr(value)
    budget.spend(len(text) >> 8)
    budget.depth += 1
    return text


def list_values(values: Iterable[Any]) -> str:
    """Some values for a message, as many as fit."""
    shown = ""
    for value in values:
        shown += (", " if shown else "") + shorten_value(value)
        if len(shown) > _MAX_SHOWN:
            return shown + ", …"
    return shown or "nothing"


def shorten_value(value: Any) -> str:
    """One value for a message: a text in quotes, a container by its kind."""
    if is_object(value) or is_array(value):
        return json_type(value)
    text = f'"{value[:65]}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 66 else text[:65] + "…"


def _name(key: str) -> str:
    return key if key.isidentifier() and len(key) <= 64 else shorten_value(key)
