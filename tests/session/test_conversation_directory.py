"""A conversation tool in a person's hands: the same checks, the same answers, and root is left as it was."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.testing import fail, say
from tests.session.staging import Stage, stage
from tests.tables import each_row


async def called(on: Stage, name: str, **arguments: Any) -> tuple[dict[str, Any], bool]:
    result = await on.root.call_conv_tool(name, msgspec.json.encode(arguments).decode())
    return msgspec.json.decode(result.text), result.success


def ids(on: Stage) -> list[str]:
    return [conversation.id for conversation in on.session.conversations()]


async def test_a_conversation_is_created_answers_and_stays_and_root_knows_nothing() -> None:
    """S004-37: through the same code; what a person does is not put into root's mouth."""
    async with stage("looks right") as on:
        before = on.parts.conversations.root.history.totals.digest
        answer, success = await called(on, "conv_create", user_instruction="Review", title="reviewer")
        assert success
        assert (answer["status"], answer["last_assistant_message"]) == ("completed", "looks right")
        child = on.session.conversation(answer["conversation_id"])
        assert (child.info.title, child.info.parent_id) == ("reviewer", on.root.id)
        assert on.parts.conversations.root.history.totals.digest == before


@pytest.mark.parametrize("name", ["conv_list", "conv.list"])
async def test_dotted_names_are_understood(name: str) -> None:
    """S004-37."""
    async with stage() as on:
        answer, success = await called(on, name)
        assert success
        assert [conversation["id"] for conversation in answer["conversations"]] == [on.root.id]


async def test_all_five_in_a_row() -> None:
    async with stage("hello", "hello again") as on:
        made, _ = await called(on, "conv_create", user_instruction="hi")
        child = made["conversation_id"]
        sent, _ = await called(on, "conv_send", conversation_id=child, text="and?")
        assert sent["last_assistant_message"] == "hello again"
        history, _ = await called(on, "conv_history", conversation_id=child, limit=2)
        assert [entry["text"] for entry in history["entries"]] == ["and?", "hello again"]
        assert (await called(on, "conv_destroy", conversation_id=child))[1]
        assert ids(on) == [on.root.id]


@each_row(
    ("name", "arguments", "code"),
    [
        ("conv_send", {"conversation_id": "nobody", "text": "hi"}, "not_found"),
        ("conv_send", {"conversation_id": "root", "text": "hi"}, "awaiting_result"),
        ("conv_create", {}, "invalid_params"),
        ("conv_create", {"user_instruction": "hi", "colour": "red"}, "invalid_params"),
        ("conv_create", {"user_instruction": "hi", "base_instruction_file": "gone.md"}, "invalid_params"),
        ("conv_history", {"conversation_id": "root", "limit": 0}, "invalid_params"),
        ("conv_destroy", {"conversation_id": "root"}, "invalid_params"),
    ],
)
async def test_what_a_model_would_be_refused_is_refused(name: str, arguments: dict[str, Any], code: str) -> None:
    """Issue 6, bad input: refused before any side effect."""
    async with stage() as on:
        before = ids(on)
        answer, success = await called(on, name, **arguments)
        assert (success, answer["ok"], answer["code"]) == (False, False, code)
        assert ids(on) == before


async def test_tools_that_root_does_not_have_are_not_called() -> None:
    """Views are enforced when the call is made."""
    async with stage(include_conv_tools=False) as on:
        answer, success = await called(on, "conv_list")
        assert (success, answer["code"]) == (False, "not_found")


async def test_a_target_that_fails_or_is_stopped_is_an_answer() -> None:
    async with stage(fail("overloaded")) as on:
        answer, success = await called(on, "conv_create", user_instruction="hi")
        assert (success, answer["status"], answer["code"]) == (False, "failed", "model_error")


async def test_a_picture_that_is_not_there_is_refused_and_nothing_is_opened() -> None:
    async with stage() as on:
        picture = {"type": "local_image", "path": "gone.png"}
        answer, success = await called(on, "conv_create", user_instruction="look", items=[picture])
        assert (success, answer["ok"]) == (False, False)
        assert ids(on) == [on.root.id]


async def test_somebody_may_stop_the_target() -> None:
    async with stage(say("never", gate=asyncio.Event())) as on:
        calling = on.begin(called(on, "conv_create", user_instruction="hi"))
        await on.until("task_started")
        child = on.session.conversations()[1]
        assert await child.interrupt()
        answer, success = await calling
        assert (success, answer["status"], answer["code"]) == (False, "cancelled", "cancelled")
        on.check_idle()


async def test_what_is_no_conversation_tool_is_a_mistake_of_the_caller() -> None:
    async with stage() as on:
        with pytest.raises(InvalidParamsError, match="conv_create, conv_send"):
            await on.root.call_conv_tool("shell", "{}")
