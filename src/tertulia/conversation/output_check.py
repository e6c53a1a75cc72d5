"""Checks the final answer of a task against its schema, and asks the model once to repair it.

The schema is handed to the model, but not every API holds the model to it: so the answer is checked here. Not here:
the events and the end of a task that fails over it, which are as for any other error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import msgspec
from msgspec.structs import replace

from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import InvalidOutputError, InvalidParamsError
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import TextPart, UserMessage
from tertulia.protocol.validation_text import NOT_JSON, explain_decoding, explain_validation
from tertulia.schema.python_types import UndescribableTypeError, convert_value, describe_object
from tertulia.schema.schema import Schema

_MAX_SHOWN = 4_000
"""Characters of all problems together, in an error and in what the model is told."""


class OutputCheck(msgspec.Struct, frozen=True, eq=False):
    """The form of an answer, for the model and for us."""

    schema: str
    """What the model is given, as JSON."""
    find_problems: Callable[[Any], list[str]]
    """What is wrong with a decoded answer; may raise InvalidParams where it is too large to be checked."""
    name: str = "answer"
    """What the schema is called in a request."""
    holds: bool = True
    """Whether the answer is checked here. Where not, only the provider holds the model to the schema."""

    def problems(self, answer: str | None) -> list[str]:
        """What is wrong with an answer; empty where nothing is."""
        if not self.holds:
            return []
        if not answer:
            return ["there was no answer"]
        try:
            return self.find_problems(decode_output(answer))
        except ValueError as error:
            return [str(error)]
        except InvalidParamsError as error:
            return [error.message]


class OutputOptions(Protocol):
    """What a plan says about the answer of its task."""

    @property
    def output(self) -> OutputCheck | None:
        """What the answer must be; None where any answer will do."""
        ...

    @property
    def may_repair(self) -> bool:
        """Whether no earlier task of the message has asked the model to answer again."""
        ...


def decode_output(answer: str) -> Any:
    """The JSON value that an answer is; ValueError where it is none."""
    try:
        return msgspec.json.decode(answer)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the answer is not JSON: {explain_decoding(error)}") from None


def check_by_schema(schema: dict[str, Any]) -> OutputCheck:
    """The check for a JSON Schema; InvalidParams where it cannot be used."""
    try:
        text = msgspec.json.encode(schema).decode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidParamsError(f"output_schema cannot be written as JSON: {NOT_JSON}") from None
    return OutputCheck(text, _compile(text, "output_schema").problems)


CODEX_SCHEMA_NAME = "codex_output_schema"
"""What Codex calls the schema of an answer: providers and proxies of Codex clients may look for it."""


def unchecked_schema(schema: dict[str, Any], name: str = CODEX_SCHEMA_NAME) -> OutputCheck:
    """A schema for the model under a name, whose answer is not checked. InvalidParams where it cannot be used."""
    return replace(check_by_schema(schema), name=name, holds=False)


def check_by_type(output_type: type[Any]) -> OutputCheck:
    """The check for a dataclass, Struct, TypedDict or pydantic model; InvalidParams where it cannot be described.

    The model is told to give every field; an answer that leaves one out which has a default is taken all the same.
    """
    try:
        schema = describe_object(output_type)
    except (UndescribableTypeError, NameError) as error:
        raise InvalidParamsError(
            f"output_type {_name(output_type)} cannot be described to a model: {error}; its fields may be what JSON "
            "has (str, int, float, bool, list, dict, None), or dataclasses, TypedDicts and models of these"
        ) from None
    if schema.get("type") != "object" or "properties" not in schema:
        raise InvalidParamsError(
            f"output_type must be a dataclass, a msgspec Struct, a TypedDict or a pydantic model, "
            f"not {_name(output_type)}: put it into a field of one of these"
        )
    lenient = _compile(msgspec.json.encode(schema).decode(), "output_type")

    def find_problems(value: Any) -> list[str]:
        if problems := lenient.problems(value):
            return problems
        try:
            convert_value(value, output_type)
        except msgspec.ValidationError as error:
            return [explain_validation(error, output_type)]
        return []

    return OutputCheck(msgspec.json.encode(_with_all_fields(schema)).decode(), find_problems)


def request_repair(scope: TaskScope, options: OutputOptions) -> UserMessage | None:
    """Ask the model to answer again where its answer is not what it must be; None where it is.

    The message is in the history when this returns. Once in a task and its continuations; then, or where the task may
    make no further request, the answer that does not fit is an InvalidOutput.
    """
    check = options.output
    problems = [] if check is None else check.problems(scope.last_text)
    if not problems:
        return None
    if scope.repaired or not options.may_repair:
        raise _invalid_output(problems, repaired=True)
    scope.repaired = True
    item = UserMessage(new_item_id(), (TextPart(_repair_text(problems)),), injected=True)
    scope.say([item])
    return item


def require_output(scope: TaskScope, options: OutputOptions) -> None:
    """Raise InvalidOutput where the answer is not what it must be, and the model cannot be asked again."""
    check = options.output
    if check is not None and (problems := check.problems(scope.last_text)):
        raise _invalid_output(problems, repaired=False)


def is_repair_request(item: UserMessage) -> bool:
    """Whether a message is one that asks the model to answer again."""
    return item.injected and item.text.startswith(_REPAIR_TAG)


_REPAIR_TAG = "<output_errors>"


def _repair_text(problems: list[str]) -> str:
    listed = "\n".join(f"- {problem}" for problem in problems)[:_MAX_SHOWN]
    return (
        f"{_REPAIR_TAG}\nThe answer does not fit its schema:\n{listed}\n"
        "Answer again, with the whole JSON value that fits and nothing around it.\n</output_errors>"
    )


def _invalid_output(problems: list[str], *, repaired: bool) -> InvalidOutputError:
    again = ", also after one repair" if repaired else ""
    listed = "; ".join(problems)[:_MAX_SHOWN]
    return InvalidOutputError(f"the answer does not fit the output schema{again}: {listed}", problems)


def _compile(text: str, where: str) -> Schema:
    try:
        return Schema.compile(text, thorough=True)
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{where}: {error.message}") from None


def _with_all_fields(schema: Any) -> Any:
    """The same schema with every property required and no others, as the strict mode of providers demands it."""
    if isinstance(schema, list):
        return [_with_all_fields(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, Any]", schema)
    strict = {name: _with_all_fields(part) for name, part in table.items() if name not in ("default", "discriminator")}
    if isinstance(table.get("properties"), dict) and table.get("type") == "object":
        properties = cast("dict[str, Any]", table["properties"])
        # A property may itself be called `default`.
        strict["properties"] = {name: _with_all_fields(part) for name, part in properties.items()}
        strict |= {"required": list(properties), "additionalProperties": False}
    return strict


def _name(output_type: object) -> str:
    return getattr(output_type, "__name__", None) or repr(output_type)[:80]
