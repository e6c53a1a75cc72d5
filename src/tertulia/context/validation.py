"""What providers and callers hand in, looked at once: InvalidParams says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import check_text

MAX_PROSE = 64 * 1024
_PLAIN = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}\Z")

# As those that we put around what nobody said: user_instructions, context_additions, environment_context.
# However it is written: a model reads `< / User_Instructions >` like the real one.
_TAG = re.compile(r"<(?=[\s/]*[a-z]+(?:_[a-z]+)+[\s/]*>)", re.IGNORECASE)

T = TypeVar("T")


def build(kind: Callable[..., T], known: Mapping[str, Any], what: str) -> T:
    """Made of fields with these values; a field that is missing or unknown is named."""
    try:
        return kind(**known)
    except TypeError as error:
        raise InvalidParamsError(f"{what} cannot be made: {error}") from None


def read_fields(given: object, what: str) -> dict[str, Any]:
    """A mapping's fields, `camelCase` and `snake_case` alike."""
    if not isinstance(given, Mapping):
        raise InvalidParamsError(f"{what} must be a mapping, not {type(given).__name__}")
    pairs = cast("Mapping[object, Any]", given).items()
    return {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower(): value for key, value in pairs}


def require_text(what: str, value: object) -> str:
    """A text with something in it."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise InvalidParamsError(f"{what} must be a text")
    return value


def require_prose(what: str, value: object) -> str:
    """A text that a model can be shown: perhaps empty, and not a book."""
    if not isinstance(value, str) or len(value) > MAX_PROSE or "\0" in value:
        raise InvalidParamsError(f"{what} must be a text of at most {MAX_PROSE:,} characters")
    return check_text(value, what)


def require_line(what: str, value: object) -> str:
    """One line, short enough for a list."""
    if not isinstance(value, str) or not _PLAIN.match(value):
        raise InvalidParamsError(f"{what} must be one line of at most 200 characters")
    return value


def require_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in choices:
        raise InvalidParamsError(f"{field} {value!r:.40} is not {' or '.join(choices)}")


def require_texts(what: str, values: object) -> list[str]:
    """A list of texts."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidParamsError(f"{what} must be a list of texts")
    given = list(cast("Sequence[object]", values))
    if not all(isinstance(value, str) and "\0" not in value for value in given):
        raise InvalidParamsError(f"{what} must be a list of texts")
    return cast("list[str]", given)


def environment_list(server: str, given: object) -> list[dict[str, str]]:
    """A dict, or a list of {name, value}, as such a list."""
    try:
        if isinstance(given, Mapping):
            pairs = list(cast("Mapping[str, str]", given).items())
        else:
            pairs = [(pair["name"], pair["value"]) for pair in cast("Sequence[Mapping[str, str]]", given)]
    except (KeyError, TypeError):
        raise InvalidParamsError(
            f"variables of MCP server {server!r} must be a dict or a list of {{name, value}}"
        ) from None
    require_texts(f"variables of MCP server {server!r}", [part for pair in pairs for part in pair])
    return [{"name": name, "value": value} for name, value in pairs]


def escape_tags(text: str) -> str:
    """A text of somebody's file, which cannot end the message that it stands in, nor look like the next one."""
    return _TAG.sub("&lt;", text)
