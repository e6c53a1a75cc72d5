"""`open(tools=[…])`: functions of the program that only one conversation can call."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.server.api_schema import params_schema
from tertulia.testing import ScriptedModel, call, say
from tests.contract.python_session import past, soon, start_session


@tertulia.tool(read_only=True)
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


def shout(text: str) -> str:
    """Louder."""
    return text.upper()


def names(conversation: tertulia.Conversation) -> list[str]:
    return [tool.name for tool in conversation.tools() if tool.source == "function"]


def outputs(model: ScriptedModel) -> list[tertulia.ToolOutput]:
    return [item for item in model.last_request.items if isinstance(item, tertulia.ToolOutput)]


def same_name(value: int) -> Any:
    """A function `double` that looks to a model exactly like another of that name."""

    def double(number: int) -> int:
        """Twice the number."""
        return number + value

    return double


async def test_functions_are_seen_and_called_by_their_conversation_only() -> None:
    answer = call("double", {"number": 21})
    model = ScriptedModel([answer, say("42"), answer, say("no")])
    async with start_session(model=model) as session:
        counter = await soon(session.open(tools=[double, shout]))
        other = await soon(session.open())
        assert (names(counter), names(other), names(session.root)) == (["double", "shout"], [], [])
        await soon(counter.message("twice 21?"))
        assert [(item.text, item.success) for item in outputs(model)] == [("42", True)]
        await soon(other.message("twice 21?"))
        (refused,) = outputs(model)
        assert json.loads(refused.text)["code"] == "not_found"


async def test_arguments_are_checked_when_the_call_is_made() -> None:
    model = ScriptedModel([call("double", {"number": "many"}), say("oh")])
    async with start_session(model=model) as session:
        counter = await soon(session.open(tools=[double]))
        await soon(counter.message("twice?"))
        (refused,) = outputs(model)
        assert not refused.success
        assert "number" in refused.text


async def test_a_child_gets_none_of_its_callers_functions() -> None:
    create = call("conv_create", {"user_instruction": "twice 21?"})
    model = ScriptedModel([create, call("double", {"number": 21}), say("cannot"), say("done")])
    async with start_session(model=model) as session:
        caller = await soon(session.open(tools=[double]))
        await soon(caller.message("have it doubled"))
        (child,) = [one for one in session.conversations() if one not in (session.root, caller)]
        assert names(child) == []
        ends = [event.data for event in await past(session, type="tool_call_end")]
        assert [(end.name, end.success) for end in ends] == [("double", False), ("conv_create", True)]


async def test_neither_does_one_that_a_client_opens_below_it() -> None:
    async with start_session() as session:
        parent = await soon(session.open(tools=[double]))
        child = await soon(session.open(parent_id=parent.id))
        original = await soon(session.open(parent_id=parent.id, tools=[shout]))
        assert (names(child), names(original)) == ([], ["shout"])


async def test_a_fork_has_them() -> None:
    model = ScriptedModel([call("double", {"number": 4}), say("8")])
    async with start_session(model=model) as session:
        fork = await soon((await soon(session.open(tools=[double]))).fork())
        assert names(fork) == ["double"]
        await soon(fork.message("twice 4?"))
        assert [item.text for item in outputs(model)] == ["8"]


async def test_they_can_be_changed_and_taken_away() -> None:
    async with start_session() as session:
        conversation = await soon(session.open(tools=[double]))
        await soon(conversation.set_context(title="still there"))
        assert names(conversation) == ["double"]
        await soon(conversation.set_context(tools=[shout]))
        assert names(conversation) == ["shout"]
        await soon(conversation.set_context(tools=None))
        assert names(conversation) == []
        (*_, last) = await past(session, type="conversation_context_changed")
        assert last.data["fields"] == ["tools"]


async def test_the_same_function_as_the_sessions_is_one_tool() -> None:
    async with start_session(tools=[double]) as session:
        assert names(await soon(session.open(tools=[double, shout]))) == ["double", "shout"]


@pytest.mark.parametrize("name", ["update_plan", "apply_patch", "conv_create"])
async def test_no_function_takes_the_name_of_a_tool_of_ours(name: str) -> None:
    """Also where that tool is switched off: its name would still run it."""
    mine = tertulia.tool(shout, name=name)
    off = {"include_plan_tool": False, "include_apply_patch_tool": False, "include_conv_tools": False}
    async with start_session() as session:
        with pytest.raises(errors.ToolConflictError, match=name):
            await soon(session.open(tools=[mine], **off))
        assert len(session.conversations()) == 1


async def test_two_functions_of_one_name_are_refused_however_alike_they_look() -> None:
    async with start_session(tools=[double]) as session:
        with pytest.raises(errors.ToolConflictError, match="double"):
            await soon(session.open(tools=[same_name(1), same_name(2)]))
        with pytest.raises(errors.ToolConflictError, match="double"):
            await soon(session.open(tools=[same_name(1)]))


async def test_where_conflicts_are_skipped_the_name_is_offered_to_nobody() -> None:
    async with start_session(tools=[double], on_tool_conflict="skip") as session:
        conversation = await soon(session.open(tools=[same_name(1), shout]))
        assert names(conversation) == ["shout"]
        assert "double" in conversation.warnings[0]


@pytest.mark.parametrize("tools", [double, "double", [3], [None], {"double": double}])
async def test_anything_else_is_refused(tools: Any) -> None:
    async with start_session() as session:
        with pytest.raises(errors.InvalidParamsError, match="tools"):
            await soon(session.open(tools=tools))


async def test_neither_a_client_nor_another_spelling_can_hand_in_functions() -> None:
    async with start_session() as session:
        for field in ("functions", "tool"):
            with pytest.raises(errors.InvalidParamsError, match=field):
                await soon(session.open(**{field: []}))
    assert not {"tools", "functions"} & params_schema("conversation/open")["properties"].keys()


async def test_a_resumed_session_says_which_functions_are_missing_and_takes_them_again() -> None:
    async with start_session("noted") as session:
        counter = await soon(session.open(tools=[double, shout], title="counter"))
        quiet = await soon(session.open(tools=[double], storage_policy="headers_only"))
        await soon(counter.message("remember"))
    model = ScriptedModel([call("double", {"number": 3}), say("6")])
    async with tertulia.Session.resume(session.id, tertulia.Settings(model=model)) as again:
        (data,) = [event.data for event in await past(again, type="warning") if event.data["code"] == "not_restored"]
        assert counter.id in data["message"]
        assert "double, shout" in data["message"]
        assert "set_context(tools=[…])" in data["message"]
        assert names(again.conversation(quiet.id)) == []
        counter = again.conversation(counter.id)
        assert names(counter) == []
        await soon(counter.set_context(tools=[double]))
        await soon(counter.message("twice 3?"))
        assert [item.text for item in outputs(model)] == ["6"]
