"""Checks of values from providers and callers. Each raises InvalidParamsError, which says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.lazy_pattern import lazy_pattern
from tertulia.protocol.inputs import check_text

MAX_PROSE = 64 * 1024
_PLAIN = lazy_pattern(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}\Z")
_CONTROLS = lazy_pattern(r"[\x00-\x1f\x7f\ud800-\udfff]")

# Tags like those around injected messages: user_instructions, context_additions, environment_context. In any spelling:
# a model takes `< / User_Instructions >` for the real tag.
_TAG = lazy_pattern(r"<(?=[\s/]*[a-z]+(?:_[a-z]+)+[\s/]*>)", re.IGNORECASE)

T = TypeVar("T", bound=msgspec.Struct)


def build(kind: type[T], values: Mapping[str, Any], what: str) -> T:
    """A struct with these values; InvalidParamsError names a field that is missing or unknown."""
    fields = msgspec.structs.fields(kind)
    names = [field.name for field in fields]
    if unknown := sorted(values.keys() - set(names)):
        raise InvalidParamsError(f"{what} has no field {unknown[0]!r:.80}; there are {', '.join(names)}")
    if missing := [field.name for field in fields if field.required and field.name not in values]:
        raise InvalidParamsError(f"{what} needs {' and '.join(missing)}")
    return kind(**values)


def read_fields(entry: object, what: str) -> dict[str, Any]:
    """The fields of a mapping; `camelCase` becomes `snake_case`."""
    if not isinstance(entry, Mapping):
        raise InvalidParamsError(f"{what} must be a mapping, not {type(entry).__name__}")
    pairs = cast("Mapping[object, Any]", entry).items()
    return {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower(): value for key, value in pairs}


def require_text(what: str, value: object) -> str:
    """Require a text that is not blank."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise InvalidParamsError(f"{what} must be a text")
    return value


def require_prose(what: str, value: object) -> str:
    """Require a text that can be shown to a model: perhaps empty, and bounded."""
    if not isinstance(value, str) or len(value) > MAX_PROSE or "\0" in value:
        raise InvalidParamsError(f"{what} must be a text of at most {MAX_PROSE:,} characters")
    return check_text(value, what)


def require_line(what: str, value: object) -> str:
    """Require one line of at most 200 characters."""
    if not isinstance(value, str) or not _PLAIN.match(value):
        raise InvalidParamsError(f"{what} must be one line of at most 200 characters")
    return value


def require_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Require that a field has one of the given values."""
    if value not in choices:
        raise InvalidParamsError(f"{field} {value!r:.40} is not {' or '.join(choices)}")


def require_texts(what: str, values: object) -> list[str]:
    """Require a list of texts."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidParamsError(f"{what} must be a list of texts")
    texts = list(cast("Sequence[object]", values))
    if not all(isinstance(value, str) and "\0" not in value for value in texts):
        raise InvalidParamsError(f"{what} must be a list of texts")
    return cast("list[str]", texts)


def environment_list(server: str, variables: object) -> list[dict[str, str]]:
    """The variables as a list of {name, value}, from a dict or from such a list."""
    try:
        if isinstance(variables, Mapping):
            pairs = list(cast("Mapping[str, str]", variables).items())
        else:
            pairs = [(pair["name"], pair["value"]) for pair in cast("Sequence[Mapping[str, str]]", variables)]
    except (KeyError, TypeError):
        raise InvalidParamsError(
            f"variables of MCP server {server!r} must be a dict or a list of {{name, value}}"
        ) from None
    require_texts(f"variables of MCP server {server!r}", [part for pair in pairs for part in pair])
    return [{"name": name, "value": value} for name, value in pairs]


def escape_tags(text: str) -> str:
    """Escape tags in a file's text, so that it cannot end the message around it or look like the next message."""
    return _TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """The text as one line that can be shown to a model: control characters replaced, tags escaped."""
    return escape_tags(_CONTROLS.sub("?", text))
