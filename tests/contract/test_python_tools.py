"""Tools from Python: a typed function becomes a tool; a call that cannot run gets an output that says so."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import ScriptedModel, call, say
from tests.contract.python_session import past, soon
from tests.tables import each_row


@tertulia.tool
def add(first: int, second: int = 2) -> int:
    """Add two numbers."""
    return first + second


@tertulia.tool
async def shout(text: str, how: Literal["loud", "louder"] = "loud") -> str:
    """Say it louder."""
    await asyncio.sleep(0)
    return text.upper() + ("!" if how == "louder" else "")


@tertulia.tool
async def burn() -> str:
    """Raise."""
    raise RuntimeError("the disk is on fire")


@tertulia.tool
def chatter() -> str:
    """Say far too much."""
    return "\n".join(f"line {number}" for number in range(1_000_000))


def session_with(model: ScriptedModel, **settings: Any) -> Any:
    settings = {"tools": [add, shout, burn, chatter], "approval_policy": "never", **settings}
    return tertulia.Session.start(tertulia.Settings(model=model, **settings))


async def ends(session: tertulia.Session) -> list[Any]:
    return [event.data for event in await past(session, type="tool_call_end")]


async def test_functions_are_offered_after_the_built_in_tools_in_the_order_they_were_given() -> None:
    """S002-29, S002-31."""
    model = ScriptedModel(["Hi."])
    async with session_with(model) as session:
        listed = session.root.tools()
        await session.root.message("Hello")
    names = [tool.name for tool in listed]
    assert names[-4:] == ["add", "shout", "burn", "chatter"]
    assert "update_plan" in names[:-4]
    assert [tool.source for tool in listed][-4:] == ["function"] * 4
    assert next(tool.source for tool in listed if tool.name == "update_plan") == "builtin"
    assert all(tool.digest for tool in listed)
    assert list(model.requests[0].tools) == names, "what is listed is what the model is offered"


def test_a_tool_is_still_the_function_it_was() -> None:
    assert add(40) == 42


async def test_functions_run_plain_or_async_and_their_results_reach_the_model() -> None:
    model = ScriptedModel([call("add", {"first": 40}), call("shout", {"text": "hey", "how": "louder"}), "Done."])
    async with session_with(model) as session:
        reply = await soon(session.root.message("Go"))
        seen = await ends(session)
    assert reply.tool_calls == 2
    assert [(end.name, end.success, end.output) for end in seen] == [("add", True, "42"), ("shout", True, "HEY!")]
    assert model.requests[1].last_input == "42"


@each_row(
    ("name", "arguments", "code"),
    [
        ("nothing", {}, None),
        ("add", '{"first": ', "invalid_params"),
        ("add", {"first": "forty"}, "invalid_params"),
        ("add", {}, "invalid_params"),
        ("add", {"first": 1, "third": 3}, "invalid_params"),
        ("shout", {"text": "x", "how": "quietly"}, "invalid_params"),
        ("add", "[1, 2]", "invalid_params"),
    ],
)
async def test_a_call_that_cannot_run_gets_an_output_that_says_why_and_the_task_goes_on(
    name: str, arguments: Any, code: str | None
) -> None:
    """{ok: false, code, reason}, also for a tool that was not offered."""
    model = ScriptedModel([call(name, arguments, "c1"), "I see."])
    async with session_with(model) as session:
        reply = await soon(session.root.message("Go"))
        seen = await ends(session)
    assert (reply.status, reply.text) == ("completed", "I see.")
    assert [(end.call_id, end.success) for end in seen] == [("c1", False)]
    output = json.loads(seen[0].output)
    assert output["ok"] is False
    assert output["reason"]
    assert output["code"] == code or code is None


async def test_a_tool_that_raises_is_an_output_and_not_the_end() -> None:
    model = ScriptedModel([call("burn", {}), "It burns."])
    async with session_with(model) as session:
        reply = await soon(session.root.message("Go"))
        seen = await ends(session)
    assert reply.text == "It burns."
    assert seen[0].success is False
    assert "on fire" in seen[0].output


async def test_a_million_lines_are_bounded_at_head_and_tail_with_the_true_size() -> None:
    model = ScriptedModel([call("chatter", {}), "Much."])
    async with session_with(model) as session:
        await soon(session.root.message("Go"))
        end = (await ends(session))[0]
    assert end.truncated is True
    assert len(end.output.encode()) < 80_000
    assert end.output.startswith("line 0\n")
    assert end.output.endswith("line 999999")
    true_size = len("\n".join(f"line {number}" for number in range(1_000_000)))
    assert str(true_size) in end.output.replace(",", "")


async def test_valid_calls_of_an_answer_run_beside_a_refused_one() -> None:
    """Call ids get exactly one output each, in order."""
    calls = [call("add", {"first": 1}, "a"), call("nothing", {}, "b"), call("add", {"first": 5}, "c")]
    model = ScriptedModel([say("Working.", *calls), "Done."])
    async with session_with(model) as session:
        await soon(session.root.message("Go"))
        seen = await ends(session)
    assert sorted((end.call_id, end.success) for end in seen) == [("a", True), ("b", False), ("c", True)]


async def test_a_second_call_with_the_same_id_is_dropped_with_a_warning_and_never_recorded() -> None:
    calls = [call("add", {"first": 1}, "same"), call("add", {"first": 100}, "same")]
    model = ScriptedModel([say("Twice.", *calls), "Done."])
    async with session_with(model) as session:
        reply = await soon(session.root.message("Go"))
        assert len(await ends(session)) == 1
        assert len(await past(session, type="tool_call_begin")) == 1
        assert await past(session, type="warning")
    assert reply.tool_calls == 1
    recorded = [item.call_id for item in model.last_request.items if hasattr(item, "call_id")]
    assert recorded == ["same", "same"], "one call and one output"


async def test_the_plan_tool_can_be_left_out_and_a_call_to_it_is_refused() -> None:
    """S000-24, S000-38: what is listed and what a call may reach are the same set."""
    plan = {"plan": [{"step": "Look", "status": "pending"}]}
    model = ScriptedModel([call("update_plan", plan), "No plan."])
    async with session_with(model) as session:
        conversation = await session.open(include_plan_tool=False)
        assert "update_plan" not in [tool.name for tool in conversation.tools()]
        assert "update_plan" in [tool.name for tool in session.root.tools()]
        await soon(conversation.message("Plan"))
        assert [end.success for end in await ends(session)] == [False]
        assert not await past(session, type="plan_update")


def _another_add() -> Any:
    def other(first: str) -> str:
        """Not the same at all."""
        return first

    other.__name__ = "add"
    return tertulia.tool(other)


async def test_two_tools_of_one_name_and_different_shape_are_a_conflict() -> None:
    """S002-30, X-26: a typed error that names it, at the start or where a conversation is opened; nothing is opened."""
    with pytest.raises(errors.ToolConflictError, match="'add'") as caught:
        async with session_with(ScriptedModel([]), tools=[add, _another_add()]):
            pytest.fail("it began")
    assert caught.value.code == "tool_conflict"
    async with session_with(ScriptedModel([]), tools=[add]) as session:
        with pytest.raises(errors.ToolConflictError, match="'add'"):
            await session.open(tools=[_another_add()])
        assert session.conversations() == [session.root]


async def test_where_conflicts_are_skipped_there_is_a_warning_and_neither_is_offered() -> None:
    """S002-30: no shadowing; the conversation works without both."""
    model = ScriptedModel([call("add", {"first": "1"}), "Done."])
    async with session_with(model, tools=[add], on_tool_conflict="skip") as session:
        conversation = await session.open(tools=[_another_add()])
        (warning,) = [warning for warning in conversation.warnings if "'add'" in warning]
        assert "claimed by" in warning
        assert "add" not in [tool.name for tool in conversation.tools()]
        assert (await soon(conversation.message("go"))).status == "completed"
        assert "add" not in [tool.name for tool in model.requests[0].request.tools]
        assert [end.success for end in await ends(session)] == [False]


async def test_one_tool_that_comes_twice_is_one_tool() -> None:
    """S002-30, X-26: the same signature is no conflict, and it is called once."""
    model = ScriptedModel([call("add", {"first": 1}), "Done."])
    async with session_with(model, tools=[add, add]) as session:
        conversation = await session.open()
        assert [tool.name for tool in conversation.tools()].count("add") == 1
        assert not conversation.warnings
        await soon(conversation.message("go"))
        assert [end.success for end in await ends(session)] == [True]


async def test_the_same_tools_have_the_same_cache_key_and_other_tools_another() -> None:
    """S000-45, X-68."""
    async with session_with(ScriptedModel([])) as session:
        one, two = await session.open(), await session.open()
        bare = await session.open(include_plan_tool=False)
        other = await session.open(base_instructions="Other.")
        keys = [(await conversation.context()).cache_key for conversation in (one, two, bare, other)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


@pytest.mark.parametrize("name", ["bad name", "dotted.name", "é"])
def test_a_tool_whose_name_no_model_would_take_is_refused(name: str) -> None:
    """S000-25."""

    def nameless() -> str:
        """Nothing."""
        return ""

    nameless.__name__ = name
    with pytest.raises(errors.InvalidParamsError):
        tertulia.tool(nameless)
