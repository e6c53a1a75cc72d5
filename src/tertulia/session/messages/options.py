"""What a message can be given in Python, parsed once into what every surface submits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

import msgspec
from msgspec.structs import replace

from tertulia.conversation.output_check import OutputCheck, check_by_type
from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import InputItem, Message
from tertulia.protocol.name_hints import name_hint
from tertulia.scheduler.reply import Reply, TypedReply
from tertulia.session.inputs import parse

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
    """For executors: what the step before this one of a pipeline came to."""
    base_instructions_override: str | None
    """In place of the conversation's base instructions, for this task and its continuations only."""


def parse_message(conversation: ConversationId, content: MessageContent, options: MessageOptions) -> Message:
    """The message that a caller in Python means; InvalidParams where it is none."""
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
    return None if output_type is None else check_by_type(output_type)


def reply_reader(output_type: type[Any] | None) -> Callable[[Reply], Reply]:
    """Makes the reply of a message that asked for this type."""
    return lambda reply: reply if output_type is None else TypedReply[Any].of(reply, output_type)
