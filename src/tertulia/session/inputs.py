"""Parses plain values from any surface into frozen inputs, or refuses them with one clear error.

Also the options of a message from Python, which become the same input that every surface submits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import ChangeFromPython, InputItem, Message, OpenFromPython
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.validation_text import explain_validation
from tertulia.scheduler.reply import Reply, TypedReply
from tertulia.tools.function import as_tools

if TYPE_CHECKING:
    from tertulia.conversation.output_check import OutputCheck

MAX_VALUES = 50_000
"""The most values of one request, not counting those that belong to the user; an item of a message has three."""

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
    # Iterative: each container appends its elements to the list that is iterated.
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


MessageContent = str | Sequence[InputItem | dict[str, Any]]


class MessageOptions(TypedDict, total=False):
    """How a message is submitted. None is the default of each."""

    message_id: str | None
    """The same id again gives the same answer, not a second run."""
    sender: str | None
    """Who says it, where several people write in one conversation."""
    if_busy: Literal["wait", "fail"] | None
    """What to do where a task runs already; `wait` is the default."""
    output_schema: dict[str, Any] | None
    """The JSON Schema that the final answer must fit; a model whose answer does not is asked once to repair it."""
    task_type: Literal["code", "chat"] | None
    """For executors: how much they are told of earlier messages."""
    previous_result: Any
    """For executors: the result of the previous step of a pipeline."""
    base_instructions_override: str | None
    """In place of the conversation's base instructions, for this task and its continuations only."""


def parse_message(conversation: ConversationId, content: MessageContent, options: MessageOptions) -> Message:
    """The message of a caller in Python, parsed; InvalidParams where it is not one."""
    if unknown := options.keys() - MessageOptions.__annotations__.keys():
        hint = name_hint(min(unknown), MessageOptions.__annotations__)
        raise InvalidParamsError(f"a message has no option {min(unknown)!r}; {hint}")
    present = {name: value for name, value in options.items() if value is not None}
    if isinstance(content, str):
        if not present:
            return Message(conversation_id=conversation, text=content)
        return replace(parse(Message, {"conversation_id": conversation, **present}), text=content)
    try:
        items = msgspec.to_builtins(list(content))
    except (TypeError, RecursionError):
        raise InvalidParamsError(
            f"a message is a text or a list of items, which are texts and images, not {type(content).__name__}"
        ) from None
    return parse(Message, {"conversation_id": conversation, "items": items, **present})


def parse_output_type(output_type: type[Any] | None) -> OutputCheck | None:
    """What the answer must be; None where any answer will do."""
    if output_type is None:
        return None
    # Imported here: most answers are text.
    from tertulia.conversation.output_check import check_by_type

    return check_by_type(output_type)


def reply_reader(output_type: type[Any] | None) -> Callable[[Reply], Reply]:
    """Makes the reply of a message that asked for this type."""
    return lambda reply: reply if output_type is None else TypedReply[Any].of(reply, output_type)
