"""The edge: plain values become frozen inputs, or one clear refusal."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
import pytest

from tertulia.errors import InvalidParamsError, MethodNotFoundError
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import ForkConversation, Message, NewConversation, OpenFromPython, TextInput
from tertulia.session.host import Host
from tertulia.session.inputs import MessageOptions, parse, parse_message, to_snake_case
from tertulia.session.operations import call
from tertulia.session.settings.settings import Settings
from tests.tables import each_row


@each_row(
    ("value", "becomes"),
    [
        ({"conversationId": "c"}, {"conversation_id": "c"}),
        ({"conversation_id": "c"}, {"conversation_id": "c"}),
        ({"ifBusy": 1, "message_id": 2}, {"if_busy": 1, "message_id": 2}),
        ({"items": [{"imageUrl": "x"}]}, {"items": [{"image_url": "x"}]}),
        ({"limits": {"taskTimeoutS": 1}}, {"limits": {"task_timeout_s": 1}}),
        ({"outputSchema": {"camelCase": 1}}, {"output_schema": {"camelCase": 1}}),
        ({"previousResult": {"aB": [{"cD": 1}]}}, {"previous_result": {"aB": [{"cD": 1}]}}),
        ({"text": "camelCase stays"}, {"text": "camelCase stays"}),
    ],
)
def test_camel_case_keys_become_snake_case_and_the_users_own_stay(
    value: dict[str, Any], becomes: dict[str, Any]
) -> None:
    """S000-35"""
    assert to_snake_case(value) == becomes
    assert to_snake_case(becomes) == becomes


@pytest.mark.parametrize("value", [{"aB": 1, "a_b": 2}, {"items": [{"imageUrl": 1, "image_url": 2}]}])
def test_one_field_in_two_spellings_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidParamsError, match="twice"):
        to_snake_case(value)


def test_an_input_is_what_it_says() -> None:
    message = parse(Message, {"conversationId": "c", "items": [{"type": "text", "text": "hi"}], "ifBusy": "fail"})
    assert (message.conversation_id, message.items, message.if_busy) == ("c", [TextInput("hi")], "fail")
    with pytest.raises(AttributeError):
        message.text = "changed"  # type: ignore[misc]


@each_row(
    ("kind", "values", "named"),
    [
        (Message, {}, "conversation_id"),
        (Message, {"conversation_id": "c", "bananas": 1}, "bananas"),
        (Message, {"conversation_id": 5}, "conversation_id"),
        (Message, {"conversation_id": "c", "items": [{"type": "text"}]}, "items[0]"),
        (
            Message,
            {"conversation_id": "c", "items": [{"type": "film"}]},
            "type: expected one of text, image, local_image",
        ),
        (Message, {"conversation_id": "c", "if_busy": "maybe"}, "if_busy"),
        (Message, {"conversation_id": "c", "detach": "yes"}, "detach"),
        (NewConversation, {"include_plan_tool": "yes"}, "include_plan_tool"),
        (ForkConversation, {"conversation_id": "c", "at": 1.5}, "at"),
    ],
)
def test_a_refusal_names_the_field(kind: type[msgspec.Struct], values: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        parse(kind, values)
    assert named in refusal.value.message
    assert "$." not in refusal.value.message
    assert refusal.value.__cause__ is None


def test_what_is_nested_without_end_or_cannot_be_encoded_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = {"a": deep}
    for bad in ({"limits": deep}, {"\ud800": 1}, {"limits": {5: 1}}):
        with pytest.raises(InvalidParamsError):
            parse(NewConversation, bad)


def test_absent_and_null_are_different() -> None:
    """X-67"""
    assert parse(NewConversation, {}).title is msgspec.UNSET
    assert parse(NewConversation, {"title": None}).title is None


@pytest.mark.parametrize("slip", ["functionz", "worktre"])
def test_a_field_that_no_caller_may_give_is_not_proposed(slip: str) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        parse(OpenFromPython, {slip: 1})
    assert not {"functions", "worktree"} & set(re.findall(r"[a-z_]+", refusal.value.message))


def test_an_unknown_option_of_a_message_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidParamsError, match=r"no option 'sendr'; did you mean sender\?"):
        parse_message(ConversationId("c"), "hello", cast("MessageOptions", {"sendr": "x"}))
    with pytest.raises(InvalidParamsError, match="no option 'zzz'; there are message_id, sender, if_busy"):
        parse_message(ConversationId("c"), "hello", cast("MessageOptions", {"zzz": 1}))


async def test_an_unknown_operation_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(MethodNotFoundError, match=r"'conversation/opn'; did you mean conversation/open\?"):
        await call(Host(Settings()), None, "conversation/opn", {})
