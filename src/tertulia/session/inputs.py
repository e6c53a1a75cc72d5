"""Parses plain values from any surface into frozen inputs, or refuses them with one clear error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import ChangeFromPython, OpenFromPython
from tertulia.protocol.validation_text import explain_validation
from tertulia.tools.function import as_tools

MAX_VALUES = 50_000
"""Of one request, those aside that are the user's own: items of a message have three each."""

T = TypeVar("T")
F = TypeVar("F", OpenFromPython, ChangeFromPython)
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FREE_FORM_FIELDS = frozenset({"previous_result", "output_schema", "arguments", "model"})
"""Values that are the user's own and whose keys are left alone."""

_NEVER_GIVEN = frozenset({"functions", "worktree"})
"""Fields of the inputs that this package fills in itself."""


def parse(kind: type[T], values: Mapping[str, Any]) -> T:
    """An input of that kind; InvalidParams names the field that is wrong, missing or unknown."""
    return convert(kind, to_snake_case(values))


def convert(kind: type[T], values: Mapping[str, Any]) -> T:
    """The same for keys that are in snake_case already."""
    try:
        # From attributes too: from Python an agent may be described by an `AgentInstanceMeta`.
        return msgspec.convert(values, kind, from_attributes=True)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(explain_validation(error, kind, hidden=_NEVER_GIVEN)) from None
    except UnicodeEncodeError:
        raise InvalidParamsError("there is a lone surrogate where none may be; send valid Unicode") from None
    except RecursionError:
        raise InvalidParamsError("the values are nested too deeply") from None


def parse_with_functions(kind: type[F], values: Mapping[str, Any]) -> F:
    """The same for what Python gives a conversation: `tools` holds functions and tools, which stay as they are."""
    values = dict(values)
    if "functions" in values:
        raise InvalidParamsError("there is an unknown field `functions`; Python functions are given as `tools`")
    if "worktree" in values:
        raise InvalidParamsError('there is an unknown field `worktree`; say workspace = "worktree"')
    tools = values.pop("tools", UNSET)
    spec = parse(kind, values)
    return spec if tools is UNSET else replace(spec, functions=None if tools is None else as_tools(tools))


def to_snake_case(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with snake_case keys; camelCase is accepted, both spellings of one field are not.

    InvalidParams for more values than any request has: what is done with them here and later is done in one step.
    """
    _check_number(values)
    return _snake_case(values)


def _check_number(values: Mapping[str, Any]) -> None:
    count = 0
    waiting: list[Any] = [values]
    # Containers put their elements at the end of the list under iteration: no recursion.
    for container in waiting:
        count += len(container)
        if count > MAX_VALUES:
            raise InvalidParamsError(f"there are more than {MAX_VALUES:,} values; send less at once")
        for name in cast("Iterable[Any]", container):
            entry = cast(Any, container[name] if isinstance(container, Mapping) else name)
            own = container is values and _snake_name(name) in _FREE_FORM_FIELDS
            if isinstance(entry, dict | list) and not own:
                waiting.append(entry)


def _snake_name(key: str) -> str:
    return _CAMEL_BOUNDARY.sub("_", key).lower() if not key.islower() else key


def _snake_case(values: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = _snake_name(key)
        if name in result:
            raise InvalidParamsError(f"`{name}` is given twice")
        result[name] = value if name in _FREE_FORM_FIELDS else _snake_nested(value)
    return result


def _snake_nested(value: Any) -> Any:
    match value:
        case dict() if all(isinstance(key, str) for key in value):  # pyright: ignore[reportUnknownVariableType]
            return _snake_case(value)  # pyright: ignore[reportUnknownArgumentType]
        case list():
            return [_snake_nested(entry) for entry in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
