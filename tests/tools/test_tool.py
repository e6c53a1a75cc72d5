"""What every tool promises; a new member of the family is added to `MEMBERS` and runs through all of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tertulia.errors import DepthExceededError, InvalidParamsError, LimitError, TertuliaError
from tertulia.policy.limits import NO_LIMITS, Limits
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_spec import ToolSpec, is_legal
from tertulia.schema.schema import Schema
from tertulia.tools.dispatch import CheckedCall, Dispatch, check_call
from tertulia.tools.function import tool
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import ChainView, Handoff, Result, TargetResult, Tool, define_tool
from tertulia.tools.update_plan import UpdatePlan
from tests.deadlines import HANG_S
from tests.tables import each_row
from tests.tools.calling import StubTool, call, context


@tool
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


MEMBERS: list[tuple[Tool, Any]] = [
    (UpdatePlan(), {"plan": [{"step": "look", "status": "pending"}]}),
    (double, {"number": 2}),
]
"""Each with arguments that it takes."""
members = pytest.mark.parametrize(
    ("member", "arguments"), MEMBERS, ids=lambda tool: "" if isinstance(tool, dict) else tool.spec.name
)


def checked_by(member: Tool, arguments: Any) -> CheckedCall:
    registry = ToolRegistry([member])
    return check_call(call(member.spec.name, arguments), registry, {member.spec.name}, lambda _: context())


@members
def test_a_tool_is_well_described(member: Tool, arguments: Any) -> None:
    assert is_legal(member.spec.name)
    assert member.spec.description
    Schema.compile(member.spec.schema).validate(arguments)
    assert isinstance(member.parallel_safe, bool)
    assert isinstance(member.read_only, bool)


@members
def test_a_description_is_the_same_every_time(member: Tool, arguments: Any) -> None:
    """C18: a view pins the digest."""
    spec = member.spec
    accepts = None if spec.accepts is None else msgspec.json.decode(spec.accepts)
    shown = msgspec.json.decode(spec.schema)
    again = ToolSpec.define(spec.name, spec.description, shown, source=spec.source, accepts=accepts)
    assert again == member.spec == spec


@members
def test_a_tool_takes_what_its_schema_takes_and_check_has_no_effect(member: Tool, arguments: Any) -> None:
    published: list[object] = []
    for _ in range(2):
        member.check(arguments, context(published.append))
    assert published == []


@members
@each_row("arguments_text", ["", "{}", "[]", "null", '{"x": 1}', "[" * 100_000, "{", '"\ud800"'])
def test_a_tool_is_never_run_with_what_its_schema_refuses(member: Tool, arguments: Any, arguments_text: str) -> None:
    """C14."""
    assert checked_by(member, arguments_text).refusal is not None


@members
async def test_a_tool_answers_and_stops_when_it_is_cancelled(member: Tool, arguments: Any) -> None:
    async def run() -> list[bool]:
        dispatch = Dispatch([checked_by(member, arguments)], lambda _: context(), began=str, ended=str)
        await dispatch.run()
        return [output.result.success for output in dispatch.outputs]

    assert await run() == [True]
    async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
        running = group.create_task(run())
        running.cancel()
        await asyncio.wait([running])


def test_a_handoff_knows_how_to_close_its_call() -> None:
    handoff = Handoff(
        ConversationId("b"), (), lambda result: Result(result.text or "", success=result.status == "completed")
    )
    assert handoff.render(TargetResult(ConversationId("b"), "completed", "yes")) == Result("yes")
    assert handoff.render(TargetResult(ConversationId("b"), "failed", None, "timeout")) == Result("", success=False)


def test_a_result_is_good_and_goes_on_unless_it_says_otherwise() -> None:
    result = Result("done")
    assert result.success
    assert not result.ends_task
    assert result.storage is None
    with pytest.raises(AttributeError):
        result.text = "changed"  # type: ignore[misc]


def test_a_refusal_of_a_check_is_an_error_of_ours() -> None:
    with pytest.raises(InvalidParamsError):
        double.check({"number": "two"}, context())


# ---- where a call stands in its chain


@each_row(
    ("chain", "opens", "error", "named"),
    [
        (ChainView(), True, None, ""),
        (ChainView(depth=7, interrupts=63, opened=63), True, None, ""),
        (ChainView(depth=8), False, DepthExceededError, "max_interrupt_chain_depth = 8"),
        (ChainView(interrupts=64), False, LimitError, "max_task_interrupts"),
        (ChainView(opened=64), True, LimitError, "max_chain_conversations"),
        (ChainView(opened=64), False, None, ""),
        (ChainView(depth=8, interrupts=64, opened=64), True, DepthExceededError, "8 conversations"),
    ],
)
def test_a_handoff_that_would_break_a_limit_is_refused_by_its_name(
    chain: ChainView, opens: bool, error: type[TertuliaError] | None, named: str
) -> None:
    """G5, X-16"""
    chain.check(NO_LIMITS, opens=opens)
    if error is None:
        chain.check(Limits(), opens=opens)
    else:
        with pytest.raises(error, match=named):
            chain.check(Limits(), opens=opens)


def test_one_more_may_wait_below_the_limit() -> None:
    limits = Limits(max_interrupt_chain_depth=2)
    assert [ChainView(depth).may_deepen(limits) for depth in range(4)] == [True, True, False, False]
    assert ChainView(1_000).may_deepen(NO_LIMITS)


SHOWN = {"path": {"type": "string"}, "mode": {"type": "string", "enum": ["a", "b"]}}
ALSO = {"detail": {"type": ["string", "null"]}}


def taken(spec: ToolSpec) -> Schema:
    return ToolRegistry([StubTool("other")]).schema(spec)


def test_what_is_only_taken_is_not_shown() -> None:
    """Issue 7"""
    spec = define_tool("look", "Looks.", SHOWN, ["path"], ALSO)
    shown = json.loads(spec.schema)
    assert shown == {"type": "object", "properties": SHOWN, "required": ["path"], "additionalProperties": False}
    assert spec.digest == define_tool("look", "Looks.", SHOWN, ["path"]).digest
    taken(spec).validate({"path": "x", "detail": "original"})


def test_what_is_not_required_may_be_null() -> None:
    spec = define_tool("look", "Looks.", SHOWN, ["path"])
    taken(spec).validate({"path": "x", "mode": None})
    taken(spec).validate({"path": "x", "mode": "b"})


@each_row("wrong", [{"path": None}, {"path": "x", "mode": "c"}, {"path": "x", "detail": "d"}, {}])
def test_everything_else_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParamsError):
        taken(define_tool("look", "Looks.", SHOWN, ["path"])).validate(wrong)
