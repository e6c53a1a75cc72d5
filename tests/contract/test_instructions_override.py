"""Instructions for one task: `base_instructions_override` of a message, in Python and on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call
from tests.contract.app_server import Refused, serving
from tests.contract.python_session import soon

TODAY = "Only today: answer in verse."


def had_override(model: ScriptedModel) -> list[bool]:
    """Of each request, whether it had the instructions of the one task."""
    return [request.instructions.startswith(TODAY) for request in model.requests]


async def test_it_holds_for_its_task_and_for_nothing_else() -> None:
    """S000-12, S004-24: byte for byte in place of the base instructions, and gone with the task."""
    model = ScriptedModel(["one", "two", "three"])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        conversation = await session.open(base_instructions="Be brief.")
        before = (await conversation.context()).base_instructions
        await soon(conversation.message("1", base_instructions_override=TODAY))
        await soon(conversation.message("2"))
        assert [request.instructions for request in model.requests] == [TODAY, "Be brief."]
        events = [event async for event in conversation.stream("3", base_instructions_override="")]
        assert events[-1].type == "task_complete"
        assert model.requests[2].instructions == ""
        assert (await conversation.context()).base_instructions == before == "Be brief."


async def test_it_holds_in_continuations_and_not_in_the_conversation_that_was_asked() -> None:
    """S004-16, S004-24: the task goes on after its target has answered; the target is another conversation's task."""
    create = call("conv_create", {"user_instruction": "Say hello."})
    model = ScriptedModel([create, "Hello.", "It said hello.", "later"])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        reply = await soon(session.root.message("go", base_instructions_override=TODAY))
        assert reply.text == "It said hello."
        await soon(session.root.message("and now?"))
        assert had_override(model) == [True, False, True, False]


async def test_over_the_wire_it_is_a_field_of_the_message(tmp_path: Path) -> None:
    """A wrong one is refused by its name, and leaves nothing behind."""
    async with serving(tmp_path, ["one", "two"]) as server:
        wrong: list[Any] = [7, ["x"], "x" * (16 * 1024 * 1024 + 1)]
        for value in wrong:
            with pytest.raises(Refused) as refused:
                await server.call(
                    "conversation/message", conversation_id="root", text="hi", base_instructions_override=value
                )
            assert refused.value.code == "invalid_params"
            assert "base_instructions_override" in refused.value.message
        assert (await server.call("conversation/history", conversation_id="root"))["entries"] == []
        answer = await server.call(
            "conversation/message", conversation_id="root", text="hi", baseInstructionsOverride=TODAY
        )
        assert answer["last_assistant_message"] == "one"
        context = await server.call("conversation/context", conversation_id="root")
        assert TODAY not in str(context)


@pytest.mark.parametrize(("policy", "expected"), [("full", True), ("headers_only", False), ("none", False)])
async def test_it_is_stored_as_the_policy_says_and_not_one_byte_more(
    tmp_path: Path, policy: str, expected: bool
) -> None:
    """DESIGN, storage policy is total: what a task was told is content like any other."""
    canary = "canary-of-the-override-4711"
    async with serving(tmp_path, ["one"], "-c", f'storage_policy="{policy}"') as server:
        await server.call("conversation/message", conversation_id="root", text="hi", base_instructions_override=canary)
        assert server.process.stdin is not None
        server.process.stdin.close()
        await soon(server.process.wait())
    stored = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert (canary.encode() in stored) == expected


async def test_another_agent_is_told_it_instead_of_the_instructions_of_its_conversation(tmp_path: Path) -> None:
    """The backend makes no difference."""
    show = {"command": ["/bin/cat"], "sandbox": {"workspace-write": []}, "output": "text"}
    settings = tertulia.Settings(model=ScriptedModel([]), cwd=str(tmp_path), executors={"echo": show})
    async with tertulia.Session.start(settings) as session:
        conversation = await session.open(backend="command:echo", base_instructions="Be brief.")
        first = await soon(conversation.message("1", base_instructions_override=TODAY))
        second = await soon(conversation.message("2"))
        assert TODAY in (first.text or ""), first
        assert "Be brief." not in (first.text or "")
        assert "Be brief." in (second.text or "")
