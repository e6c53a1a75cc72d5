"""Says in our words what pydantic found wrong with a value. No word of pydantic is shown, and no value.

pydantic is not imported: a problem is an entry of `ValidationError.errors()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

_EXPECTED = {
    "bool": "expected true or false",
    "bytes": "expected base64 text",
    "date": "expected a date",
    "datetime": "expected a date and time",
    "dict": "expected an object",
    "float": "expected a number",
    "int": "expected a whole number",
    "is": "expected another type",
    "list": "expected a list",
    "mapping": "expected an object",
    "missing": "it is missing",
    "model": "expected an object",
    "none": "expected nothing",
    "set": "expected a list without repetitions",
    "string": "expected a text",
    "tuple": "expected a list",
    "url": "expected an address",
    "uuid": "expected a UUID",
}
"""By the first word of a problem's type."""

_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("gt", "expected more than {}"),
    "greater_than_equal": ("ge", "expected at least {}"),
    "less_than": ("lt", "expected less than {}"),
    "less_than_equal": ("le", "expected at most {}"),
    "multiple_of": ("multiple_of", "expected a multiple of {}"),
    "string_pattern_mismatch": ("pattern", "expected a text that matches {}"),
    "string_too_long": ("max_length", "expected at most {} characters"),
    "string_too_short": ("min_length", "expected at least {} characters"),
    "too_long": ("max_length", "expected at most {} entries"),
    "too_short": ("min_length", "expected at least {} entries"),
    "enum": ("expected", "expected one of {}"),
    "literal_error": ("expected", "expected one of {}"),
    "union_tag_invalid": ("expected_tags", "expected one of {}"),
}
"""By a problem's type: the entry of its context that the type's author chose, and the sentence made of it."""

NOT_ALLOWED = "it is not one of the values that are allowed"


def model_problems(error: Any) -> list[dict[str, Any]]:
    """The problems in a ValidationError of pydantic, without the values that were given."""
    return cast("list[dict[str, Any]]", error.errors(include_url=False, include_input=False))


def explain_problem(problem: Mapping[str, Any], otherwise: str = NOT_ALLOWED) -> str:
    """What is wrong, in a few words; `otherwise` where there are none for it."""
    kind, context = str(problem["type"]), cast("Mapping[str, Any]", problem.get("ctx") or {})
    if (bound := _BOUNDS.get(kind)) is not None and bound[0] in context:
        value = str(context[bound[0]])
        return bound[1].format(_word_list(value) if bound[0].startswith("expected") else value)
    if kind == "extra_forbidden":
        return "there is no such field"
    return _EXPECTED.get(kind.partition("_")[0], otherwise)


def problem_place(location: Sequence[str | int]) -> str:
    """Where a problem is: `items[0].text`, or nothing for the value as a whole."""
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in location)
    return path.removeprefix(".")


def explain_model_error(error: ValueError) -> str:
    """All problems in one line; what a model's own validators say is its author's text, and stays."""
    if not callable(cast("Callable[..., Any] | None", getattr(error, "errors", None))):
        return str(error)
    return "; ".join(map(_located_problem, model_problems(error)))


def _located_problem(problem: Mapping[str, Any]) -> str:
    what = explain_problem(problem)
    if problem["type"] in ("value_error", "assertion_error"):
        what = str(problem["msg"]).partition(", ")[2] or NOT_ALLOWED
    place = problem_place(problem["loc"])
    return f"{place}: {what}" if place else what


def _word_list(listed: str) -> str:
    """`'a', 'b' or 'c'`, as pydantic lists values, as `a, b, c`."""
    return listed.replace("' or '", "', '").replace("'", "")
