"""Whatever a client sends that does not fit: the refusal names the place and the values that are allowed, in our words.

Every type that a surface parses is fed, field by field, with values of other types, without what it needs, with
misspelt fields, with unknown words and with numbers out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from acp import schema as acp
from msgspec import inspect

from tertulia.errors import InvalidParamsError
from tertulia.protocol import inputs
from tertulia.protocol.conversation_fields import CONVERSATION_FIELDS, Words
from tertulia.protocol.subscriptions import Subscribe
from tertulia.protocol.validation_text import explain_decoding
from tertulia.server.acp import agent as acp_agent
from tertulia.server.codex import params as codex
from tertulia.server.mcp import codex_tools
from tertulia.server.mcp.broker_address import BrokerGreeting
from tertulia.session.inputs import parse
from tertulia.session.operations import OPERATIONS
from tests.tables import each_row

LIBRARY_WORDS = (
    *("Expected `", "Expected ", "Object missing", "Object contains", "Input should", "validation error", "$.", "`$"),
    *("Invalid enum", "Invalid value", "pydantic", "msgspec", "type=", "input_value", "`str`", "`int`", "`bool`"),
    *("NoneType", "valid string", "Field required", "Input data", "malformed"),
)

Parser = Callable[[Any, dict[str, Any]], Any]


def _read_codex_tool(kind: Any, values: dict[str, Any]) -> Any:
    return codex_tools._read_arguments(values, kind)  # pyright: ignore[reportPrivateUsage]


def _read_greeting(kind: Any, values: dict[str, Any]) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(values), type=kind)
    except msgspec.DecodeError as error:
        raise InvalidParamsError(explain_decoding(error, kind)) from None


def _structs(module: Any) -> list[type[msgspec.Struct]]:
    own = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, msgspec.Struct)]
    return [kind for kind in own if kind.__module__ == module.__name__ and not kind.__name__.startswith("_")]


OPERATION_KINDS = dict.fromkeys([*(operation.kind for operation in OPERATIONS.values()), inputs.Initialize, Subscribe])
KINDS: list[tuple[Parser, type[msgspec.Struct]]] = [
    *((parse, kind) for kind in OPERATION_KINDS),
    *((codex.read_params, kind) for kind in _structs(codex)),
    *((_read_codex_tool, kind) for kind in (codex_tools.Codex, codex_tools.CodexReply)),
    (_read_greeting, BrokerGreeting),
]


def _members(info: inspect.Type) -> list[inspect.Type]:
    match info:
        case inspect.UnionType(types=types):
            return [member for inner in types for member in _members(inner)]
        case inspect.Metadata(type=inner):
            return _members(inner)
        case _:
            return [info]


def wrong_values(info: inspect.Type) -> Iterator[Any]:
    """Values that none of the types takes; none for a field that takes anything."""
    members = _members(info)
    if any(isinstance(member, inspect.AnyType) for member in members):
        return
    taken = {type(member) for member in members}
    if inspect.LiteralType in taken:
        yield "no-such-word"
    for kind, value in (
        (inspect.StrType, "a text"),
        (inspect.FloatType, 1.5),
        (inspect.BoolType, True),
        (inspect.ListType, [[]]),
        (inspect.DictType, {"x": []}),
    ):
        loose = {inspect.FloatType: {inspect.IntType}, inspect.DictType: {inspect.StructType}}.get(kind, set())
        if kind not in taken and not (loose & taken) and not (inspect.LiteralType in taken and isinstance(value, str)):
            yield value
    for member in members:
        if isinstance(member, inspect.IntType) and member.ge is not None:
            yield member.ge - 1


def example(info: inspect.Type) -> Any:
    """A value that fits, for the fields that have to be there."""
    match _members(info)[0]:
        case inspect.StrType():
            return "x"
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType():
            return 1
        case inspect.ListType():
            return []
        case inspect.StructType(cls=cls):
            return required(cls)
        case other:
            raise AssertionError(f"no example for {other}")


def required(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: example(field.type) for field in inspect.type_info(kind).fields if field.required}


def words_of(info: inspect.Type) -> list[str]:
    return [
        str(value) for member in _members(info) if isinstance(member, inspect.LiteralType) for value in member.values
    ]


def refusal(read: Parser, kind: Any, values: dict[str, Any]) -> str:
    with pytest.raises(InvalidParamsError) as raised:
        read(kind, values)
    message = raised.value.message
    assert not [word for word in LIBRARY_WORDS if word in message], message
    assert raised.value.__cause__ is None
    return message


@each_row(("read", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_every_field_of_every_input_is_refused_in_our_words(read: Parser, kind: type[msgspec.Struct]) -> None:
    """Wrong types, unknown words, numbers out of range: the place is named, and so are the words that there are."""
    whole = required(kind)
    for field in inspect.type_info(kind).fields:
        for wrong in wrong_values(field.type):
            message = refusal(read, kind, {**whole, field.encode_name: wrong})
            assert field.encode_name in message, f"{field.encode_name}={wrong!r}: {message}"
            assert all(word in message for word in words_of(field.type)), f"{field.encode_name}={wrong!r}: {message}"


@each_row(("read", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_field_that_is_missing_is_named(read: Parser, kind: type[msgspec.Struct]) -> None:
    whole = required(kind)
    for name in whole:
        assert f"`{name}`" in refusal(read, kind, {key: value for key, value in whole.items() if key != name})


@each_row(("read", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_misspelt_field_is_refused_with_the_one_that_was_meant(read: Parser, kind: type[msgspec.Struct]) -> None:
    """Where unknown fields are refused at all: Codex clients send many that mean nothing here."""
    if not kind.__struct_config__.forbid_unknown_fields:
        return
    for field in inspect.type_info(kind).fields:
        misspelt = field.encode_name + "x"
        message = refusal(read, kind, {**required(kind), misspelt: 1})
        assert f"unknown field `{misspelt}`" in message
        assert "did you mean " in message, message


def test_every_word_of_a_conversation_field_is_listed_when_a_text_is_no_word_or_no_text() -> None:
    for row in CONVERSATION_FIELDS:
        if isinstance(row.kind, Words) and row.doc is not None:
            message = refusal(parse, inputs.NewConversation, {row.name: 5})
            assert all(word in message for word in row.kind.spelled()), message


@each_row(
    ("kind", "values", "sentence"),
    [
        (acp.NewSessionRequest, {"mcpServers": []}, "cwd: it is missing"),
        (acp.NewSessionRequest, {"cwd": 5, "mcpServers": []}, "cwd: expected a text"),
        (acp.PromptRequest, {"sessionId": "s", "prompt": "hi"}, "prompt: expected a list"),
        (acp.PromptRequest, {"prompt": []}, "sessionId: it is missing"),
        (acp.SetSessionModeRequest, {"sessionId": "s", "modeId": []}, "modeId: expected a text"),
        (acp.ListSessionsRequest, {"cwd": 5}, "cwd: expected a text"),
        (acp.PromptRequest, 5, "params: expected an object"),
    ],
)
def test_what_an_editor_sends_is_refused_in_our_words(kind: Any, values: Any, sentence: str) -> None:
    assert refusal(acp_agent._read, kind, values) == sentence  # pyright: ignore[reportPrivateUsage]


@each_row("kind", [method.reads for method in acp_agent._METHODS.values()], ids=lambda kind: kind.__name__)
def test_every_field_of_an_editors_requests_is_refused_in_our_words(kind: Any) -> None:
    for name, field in kind.model_fields.items():
        for wrong in ([[[]]], 5, {"x": {}}, "text", True, -1):
            try:
                kind.model_validate({field.alias or name: wrong})
            except ValueError:
                refusal(acp_agent._read, kind, {field.alias or name: wrong})  # pyright: ignore[reportPrivateUsage]
