"""Dispatch: all calls are checked before any runs, and whatever a tool does, the model gets one output for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tertulia.errors import ApprovalDeniedError, ClosedError
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import NewConversation, TextInput
from tertulia.protocol.items import ImagePart, TextPart, ToolCall
from tertulia.tools.dispatch import (
    MAX_ARGUMENTS,
    MAX_BRACKETS,
    MAX_CALLS,
    MAX_PARALLEL,
    CheckedCall,
    CompletedCall,
    Dispatch,
    check_calls,
    render_result,
)
from tertulia.tools.function import tool
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import CallContext, Handoff, Result, TargetResult, Tool
from tertulia.tools.update_plan import UpdatePlan
from tests.deadlines import HANG_S
from tests.loop_steps import MOST_S, loop_steps
from tests.tables import Large, each_row
from tests.tools.calling import HandClock, StubTool, at_most_100_ms, call, context

DEADLINE = HANG_S
HANDOFF = Handoff(ConversationId("other"), (), lambda result: Result(result.text or ""))


class Answer:
    """Checks and runs the calls of one answer, and remembers what was told."""

    def __init__(self, *tools: Tool, offered: set[str] | None = None, **context: Any) -> None:
        self.registry = ToolRegistry(tools)
        self.offered = {tool.spec.name for tool in tools} if offered is None else offered
        self.news: list[str] = []
        self.dropped: list[ToolCall] = []
        self.dispatch: Dispatch | None = None
        self._context = context

    def context_for(self, call: ToolCall) -> CallContext:
        return context(call_id=call.call_id, **self._context)

    async def check(self, *calls: ToolCall) -> list[CheckedCall]:
        checked, self.dropped = await check_calls(calls, self.registry, self.offered, self.context_for)
        return checked

    async def prepare(self, *calls: ToolCall, timeout_s: float | None = DEADLINE) -> Dispatch:
        self.dispatch = Dispatch(
            await self.check(*calls),
            self.context_for,
            began=lambda call: self.news.append(f"{call.call_id} began"),
            ended=lambda ended: self.news.append(f"{ended.call.call_id} ended"),
            timeout_s=timeout_s,
        )
        return self.dispatch

    async def __call__(self, *calls: ToolCall, timeout_s: float | None = DEADLINE) -> list[CompletedCall]:
        dispatch = await self.prepare(*calls, timeout_s=timeout_s)
        await dispatch.run()
        return dispatch.outputs


def failing(error: BaseException) -> Callable[[Any, CallContext], Result]:
    def run(arguments: Any, call: CallContext) -> Result:
        raise error

    return run


def code(result: Result) -> str:
    assert not result.success
    refusal = msgspec.json.decode(result.text)
    assert refusal["ok"] is False
    assert refusal["reason"]
    return refusal["code"]


TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 10}},
    "required": ["text"],
    "additionalProperties": False,
}

# ---- checking


@each_row(
    ("refused", "expected"),
    [
        (call("nothing"), "not_found"),
        (call("hidden"), "not_found"),
        (call("searched"), "not_found"),
        (Large(lambda: call("x" * 1_000_000)), "not_found"),
        (call("echo", "{"), "invalid_params"),
        (call("echo", '{"text": NaN}'), "invalid_params"),
        (call("echo", '{"text": "\ud800"}'), "invalid_params"),
        (call("echo", "[1]"), "invalid_params"),
        (call("echo", '"text"'), "invalid_params"),
        (call("echo", "null"), "invalid_params"),
        (call("echo", ""), "invalid_params"),
        (call("echo", "{}"), "invalid_params"),
        (call("echo", {"text": 3}), "invalid_params"),
        (call("echo", {"text": "long enough to be too long"}), "invalid_params"),
        (call("echo", {"text": "a", "more": 1}), "invalid_params"),
        (call("echo", "[" * 100_000 + "]" * 100_000), "invalid_params"),
        (call("echo", '{"text":' + "[" * 100_000), "invalid_params"),
        (Large(lambda: call("echo", " " * (MAX_ARGUMENTS + 1))), "invalid_params"),
        (Large(lambda: call("echo", f'{{"text": [{"[]," * (MAX_ARGUMENTS // 3 - 9)}0]}}')), "invalid_params"),
        (call("echo", f'{{"text": [{"[]," * (MAX_BRACKETS - 2)}0]}}'), "invalid_params"),
        (Large(lambda: call("echo", '{"text": [' + '"a",' * (MAX_ARGUMENTS // 4 - 9) + "0]}")), "invalid_params"),
        (call("looping", "{}"), "invalid_params"),
        (call("bomb", {"text": "a" * 200_000 + "!"}), "invalid_params"),
        (call("denied"), "approval_denied"),
        (call("broken"), "internal"),
    ],
)
async def test_a_refused_call_gets_its_error_and_the_others_run(refused: ToolCall, expected: str) -> None:
    """X-12, C14: each is an error output, refused in time; valid siblings on both sides run."""
    echo = StubTool("echo", parameters=TEXT)
    quiet = [
        StubTool("hidden"),
        StubTool("searched", kind="hosted"),
        StubTool("looping", parameters={"$ref": "#"}),
        StubTool("bomb", parameters={"type": "object", "properties": {"text": {"pattern": "^((a|b)*c?)*$"}}}),
        StubTool("denied", check=failing(ApprovalDeniedError("not this one"))),
        StubTool("broken", check=failing(ValueError("a fault of the tool"))),
    ]
    answer = Answer(echo, *quiet)
    answer.offered.discard("hidden")
    refused = msgspec.structs.replace(refused, call_id="refused")
    calls = [call("echo", {"text": "a"}, "first"), refused, call("echo", {"text": "b"}, "last")]

    with at_most_100_ms():
        checked = await answer.check(*calls)
    assert [step.refusal is None for step in checked] == [True, False, True]
    assert echo.runs == []

    first, second, third = await answer(*calls)
    assert first.result.success
    assert code(second.result) == expected
    assert third.result.success
    assert len(second.result.text) < 3_000
    assert echo.runs == [{"text": "a"}, {"text": "b"}]
    assert all(step.runs == [] for step in quiet)
    assert answer.news == [f"{name} {what}" for name in ("first", "refused", "last") for what in ("began", "ended")]


async def test_the_reason_names_the_place_in_the_arguments() -> None:
    (checked,) = await Answer(StubTool("echo", parameters=TEXT)).check(call("echo", {"text": 3}))
    assert checked.refusal is not None
    assert msgspec.json.decode(checked.refusal.text)["reason"] == "$.text: expected string, got integer"


async def test_an_answer_with_many_large_calls_leaves_the_loop_to_others() -> None:
    """L1, L6: 128 calls, each of which is read for 10 ms, were checked in one step of 1.3 s."""
    lists = {"plan": [[]] * 40_000}
    steps_of_plans = {"plan": [{"step": "x", "status": "pending"}] * 1_000}
    plan = UpdatePlan()
    for arguments, success in ((lists, False), (steps_of_plans, True)):
        calls = [call("update_plan", arguments, f"call-{number}") for number in range(32)]
        async with loop_steps() as steps:
            ended = await Answer(plan)(*calls)
        assert [end.result.success for end in ended] == [success] * 32
        assert steps.longest_s < MOST_S


async def test_all_calls_are_checked_before_any_runs() -> None:
    """X-12."""
    seen: list[str] = []
    tools = [
        StubTool(
            name,
            lambda arguments, call, name=name: seen.append(f"{name} runs") or Result(""),
            check=lambda arguments, call, name=name: seen.append(f"{name} is checked"),
        )
        for name in ("a", "b")
    ]
    await Answer(*tools)(call("a", call_id="1"), call("b", call_id="2"))
    assert seen == ["a is checked", "b is checked", "a runs", "b runs"]


async def test_a_second_call_with_the_same_id_is_dropped_and_never_runs() -> None:
    """X-12, DESIGN: duplicate call ids."""
    echo = StubTool("echo", parameters=TEXT)
    answer = Answer(echo)
    again = call("echo", {"text": "again"}, "1")
    ended = await answer(call("echo", {"text": "once"}, "1"), again, call("echo", {"text": "other"}, "2"), again)
    assert [end.call.call_id for end in ended] == ["1", "2"]
    assert answer.dropped == [again, again]
    assert echo.runs == [{"text": "once"}, {"text": "other"}]
    assert echo.checks == 2


async def test_a_call_after_a_refused_one_of_the_same_id_is_dropped_too() -> None:
    answer = Answer(StubTool("echo"))
    ended = await answer(call("nothing", call_id="1"), call("echo", call_id="1"))
    assert [code(end.result) for end in ended] == ["not_found"]
    assert len(answer.dropped) == 1


async def test_an_answer_has_so_many_calls_and_the_rest_is_refused() -> None:
    echo = StubTool("echo", parallel_safe=True)
    ended = await Answer(echo)(*(call("echo", call_id=str(n)) for n in range(MAX_CALLS + 2)))
    assert [end.result.success for end in ended] == [True] * MAX_CALLS + [False] * 2
    assert code(ended[-1].result) == "limit"
    assert len(echo.runs) == MAX_CALLS


async def test_a_dotted_name_finds_a_conversation_tool() -> None:
    create = StubTool("conv_create")
    (ended,) = await Answer(create)(call("conv.create"))
    assert ended.result.success


async def test_no_arguments_at_all_are_an_empty_object() -> None:
    echo = StubTool("echo")
    await Answer(echo)(call("echo", ""))
    assert echo.runs == [{}]


async def test_a_custom_tool_gets_its_text_whichever_way_it_comes() -> None:
    patch = StubTool("apply_patch", kind="custom")
    answer = Answer(patch)
    ended = await answer(
        call("apply_patch", "*** {not json", "1", "custom"),
        call("apply_patch", {"input": "*** Begin"}, "2"),
        call("apply_patch", {"input": 3}, "3"),
        call("apply_patch", {"input": "x", "more": 1}, "4"),
    )
    assert [end.result.success for end in ended] == [True, True, False, False]
    assert patch.runs == ["*** {not json", "*** Begin"]


# ---- running: order, siblings, handoffs


async def test_siblings_run_one_after_another_and_neighbours_that_are_parallel_safe_together() -> None:
    meeting = asyncio.Barrier(2)

    async def meet(arguments: Any, call: CallContext) -> Result:
        await meeting.wait()
        return Result("met")

    answer = Answer(StubTool("alone"), StubTool("meet", meet, parallel_safe=True))
    ended = await answer(
        call("alone", call_id="1"), call("meet", call_id="2"), call("meet", call_id="3"), call("alone", call_id="4")
    )
    assert [end.result.text for end in ended] == ["done", "met", "met", "done"]
    assert answer.news[:4] == ["1 began", "1 ended", "2 began", "3 began"]
    assert answer.news[-2:] == ["4 began", "4 ended"]


async def test_outputs_are_in_the_order_of_calls_and_ends_in_the_order_of_ending() -> None:
    last_ended = asyncio.Event()

    async def first(arguments: Any, call: CallContext) -> Result:
        await last_ended.wait()
        return Result("first")

    async def last(arguments: Any, call: CallContext) -> Result:
        last_ended.set()
        return Result("last")

    answer = Answer(StubTool("first", first, parallel_safe=True), StubTool("last", last, parallel_safe=True))
    ended = await answer(call("first", call_id="1"), call("last", call_id="2"))
    assert [end.result.text for end in ended] == ["first", "last"]
    assert answer.news == ["1 began", "2 began", "2 ended", "1 ended"]


async def test_only_so_many_run_at_once() -> None:
    running: list[int] = []
    most = 0

    async def count(arguments: Any, call: CallContext) -> Result:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.pop()
        return Result("")

    ended = await Answer(StubTool("count", count, parallel_safe=True))(
        *(call("count", call_id=str(n)) for n in range(50))
    )
    assert len(ended) == 50
    assert most == MAX_PARALLEL


async def test_ordinary_calls_run_before_any_handoff_which_begins_and_does_not_end() -> None:
    """X-12: later ordinary siblings run before the switch, in order."""
    echo = StubTool("echo")
    answer = Answer(StubTool("conv_send", lambda arguments, call: HANDOFF), echo)
    send, between, again = call("conv_send", call_id="1"), call("echo", call_id="2"), call("conv_send", call_id="3")
    ended = await answer(send, between, again)
    assert [end.call for end in ended] == [between]
    assert answer.dispatch is not None
    assert answer.dispatch.handoffs == [(send, HANDOFF), (again, HANDOFF)]
    assert answer.news == ["1 began", "2 began", "2 ended", "3 began"]


async def test_nothing_runs_after_a_call_that_ended_the_task() -> None:
    echo = StubTool("echo")
    answer = Answer(StubTool("conv_destroy", lambda arguments, call: Result("gone", ends_task=True)), echo)
    ended = await answer(call("conv_destroy", call_id="1"), call("echo", call_id="2"))
    assert [end.result.ends_task for end in ended] == [True]
    assert echo.runs == []
    assert answer.dispatch is not None
    assert [event.begun for event in answer.dispatch.progress] == [True, False]


async def test_the_duration_is_that_of_the_injected_clock() -> None:
    clock = HandClock()

    def work(arguments: Any, call: CallContext) -> Result:
        clock.seconds += 1.2345
        return Result("")

    (ended,) = await Answer(StubTool("work", work), clock=clock)(call("work"))
    assert ended.duration_ms == 1234


# ---- running: whatever a tool does


class Mute(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


class Cruel(BaseException):
    """Not an Exception, and none of those that Python knows."""


@each_row(
    ("error", "expected"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (KeyError(), "KeyError"),
        (Mute(), "Mute"),
        (Large(lambda: OSError("x" * 10_000_000)), "OSError: xxx"),
        (ValueError("\ud800"), "ValueError: \ufffd"),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (RecursionError(), "RecursionError"),
        (MemoryError(), "MemoryError"),
        (SystemExit(3), "SystemExit: 3"),
        (Cruel(), "Cruel"),
        (BaseExceptionGroup("several", [Cruel()]), "BaseExceptionGroup: several"),
        (asyncio.CancelledError("its own"), "CancelledError: its own"),
    ],
)
@pytest.mark.parametrize("parallel_safe", [False, True])
async def test_a_tool_that_raises_gets_an_output_without_a_traceback(
    error: BaseException, expected: str, parallel_safe: bool
) -> None:
    bad = StubTool("bad", failing(error), parallel_safe=parallel_safe)
    ended = await Answer(bad, StubTool("echo"))(
        call("bad", call_id="1"), call("bad", call_id="2"), call("echo", call_id="3")
    )
    for end in ended[:2]:
        assert not end.result.success
        assert end.result.text.startswith(expected)
        assert "Traceback" not in end.result.text
        assert len(end.result.text) <= 2_000
    assert ended[2].result.success


async def test_an_error_of_ours_keeps_its_code() -> None:
    (ended,) = await Answer(StubTool("bad", failing(ClosedError("it was closed"))))(call("bad"))
    assert code(ended.result) == "closed"


async def test_ctrl_c_is_not_a_tools_business() -> None:
    answer = Answer(StubTool("bad", failing(KeyboardInterrupt())))
    dispatch = await answer.prepare(call("bad"))
    with pytest.raises(KeyboardInterrupt):
        dispatch.run().send(None)


async def test_a_function_that_exits_its_thread_is_an_error_output() -> None:
    @tool
    def leave(how: str) -> None:
        raise KeyboardInterrupt if how == "interrupt" else SystemExit(how)

    ended = await Answer(leave)(call("leave", {"how": "interrupt"}, "1"), call("leave", {"how": "exit"}, "2"))
    assert [code(end.result) for end in ended] == ["internal", "internal"]


async def test_a_tool_that_hangs_is_timed_out_and_the_rest_runs() -> None:
    async def hang(arguments: Any, call: CallContext) -> Result:
        await asyncio.Event().wait()
        return Result("never")

    async def hang_and_fail(arguments: Any, call: CallContext) -> Result:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while it was stopped")

    answer = Answer(StubTool("hang", hang), StubTool("fail", hang_and_fail), StubTool("echo"))
    ended = await answer(
        call("hang", call_id="1"), call("fail", call_id="2"), call("echo", call_id="3"), timeout_s=0.001
    )
    assert [end.result.text for end in ended] == ["timed out after 0.001 s", "timed out after 0.001 s", "done"]
    assert [end.result.success for end in ended] == [False, False, True]


async def test_without_a_timeout_a_call_may_take_its_time() -> None:
    (ended,) = await Answer(StubTool("echo"))(call("echo"), timeout_s=None)
    assert ended.result.success


@each_row("returned", [None, b"bytes", "text", 3, Result(b"bytes"), Result(None)])
async def test_a_tool_that_returns_something_else_gets_an_output(returned: Any) -> None:
    (ended,) = await Answer(StubTool("bad", lambda arguments, call: returned))(call("bad"))
    assert not ended.result.success
    assert ended.result.text == f"the tool returned {type(returned).__name__} instead of a result"


@each_row(
    "returned",
    [
        Result("x", parts=(1,)),  # type: ignore[arg-type]
        Result("x", parts=None),  # type: ignore[arg-type]
        Result("x", parts=(TextPart(5),)),  # type: ignore[arg-type]
        Result("x", storage="full"),  # type: ignore[arg-type]
        Handoff(ConversationId("other"), (1,), Result),  # type: ignore[arg-type]
        Handoff(ConversationId("other"), (TextInput(None),), Result),  # type: ignore[arg-type]
        Handoff(NewConversation(limits=5), (TextInput("hi"),), Result),  # type: ignore[arg-type]
        Handoff(5, (TextInput("hi"),), Result),  # type: ignore[arg-type]
    ],
)
async def test_a_result_or_handoff_with_something_else_inside_gets_an_output(returned: Any) -> None:
    """A tool's mistake is told to the model, and does not end the task."""
    answer = Answer(StubTool("bad", lambda arguments, call: returned))
    (ended,) = await answer(call("bad"))
    assert not ended.result.success
    assert ended.result.text.startswith(f"the tool returned a {type(returned).__name__} that cannot be used: ")
    assert answer.news == ["call-1 began", "call-1 ended"]


async def test_a_picture_that_cannot_be_encoded_is_mended() -> None:
    result = Result("x", parts=(ImagePart("https://example.org/\ud800"),))
    (ended,) = await Answer(StubTool("show", lambda arguments, call: result))(call("show"))
    assert ended.result.parts == (ImagePart("https://example.org/\ufffd"),)


@each_row(
    "text",
    [
        Large(lambda: "".join(f"{n}\n" for n in range(1_000_000))),
        Large(lambda: "x" * 10_000_000),
        "\ud800" * 100_000,
        "\0" * 100_000,
        Large(lambda: "é" * 5_000_000),
    ],
)
@pytest.mark.parametrize("limit", [1_000, 65_536])
async def test_an_output_is_bounded_and_says_its_true_size(text: str, limit: int) -> None:
    """G3."""
    (ended,) = await Answer(StubTool("big", lambda arguments, call: Result(text)), max_output_bytes=limit)(call("big"))
    assert ended.truncated
    assert ended.result.success
    assert limit - 8 < len(ended.result.text.encode()) <= limit
    assert f"{len(text.encode('utf-8', 'surrogatepass')):,} bytes" in ended.result.text


async def test_without_a_limit_an_output_is_bounded_all_the_same() -> None:
    (ended,) = await Answer(StubTool("big", lambda arguments, call: Result("x" * 2_000_000)))(call("big"))
    assert ended.truncated
    assert len(ended.result.text) <= 1_048_576


async def test_a_short_output_is_as_it_was() -> None:
    result = Result("as it was\0", success=False)
    (ended,) = await Answer(StubTool("small", lambda arguments, call: result), max_output_bytes=10)(call("small"))
    assert ended.result == result
    assert not ended.truncated


# ---- cancelling


async def cancelled_while_running(answer: Answer, *calls: ToolCall) -> Dispatch:
    dispatch = await answer.prepare(*calls)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        running = group.create_task(dispatch.run())
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
    return dispatch


async def hang(arguments: Any, call: CallContext) -> Result:
    await asyncio.Event().wait()
    return Result("never")


async def test_after_a_cancellation_it_is_known_what_ended_what_began_and_what_never_did() -> None:
    answer = Answer(StubTool("echo"), StubTool("hang", hang), StubTool("conv_send", lambda arguments, call: HANDOFF))
    dispatch = await cancelled_while_running(
        answer, *(call(name, call_id=name) for name in ("echo", "conv_send", "nothing", "hang")), call("echo")
    )
    states = [(event.begun, type(event.outcome)) for event in dispatch.progress]
    assert states == [
        (True, CompletedCall),
        (True, Handoff),
        (True, CompletedCall),
        (True, type(None)),
        (False, type(None)),
    ]
    assert answer.news[-1] == "hang began"


async def test_a_cancellation_stops_all_that_run_together() -> None:
    stopped: list[str] = []

    async def hang_until_stopped(arguments: Any, call: CallContext) -> Result:
        try:
            return await hang(arguments, call)
        finally:
            stopped.append(call.call_id)

    answer = Answer(StubTool("hang", hang_until_stopped, parallel_safe=True))
    dispatch = await cancelled_while_running(answer, call("hang", call_id="1"), call("hang", call_id="2"))
    assert sorted(stopped) == ["1", "2"]
    assert dispatch.outputs == []
    assert [event.begun for event in dispatch.progress] == [True, True]


async def test_a_tool_that_keeps_a_cancellation_to_itself_is_the_last_that_runs() -> None:
    async def swallow(arguments: Any, call: CallContext) -> Result:
        try:
            return await hang(arguments, call)
        except asyncio.CancelledError:
            return Result("cancelled? who?")

    echo = StubTool("echo")
    answer = Answer(StubTool("swallow", swallow), echo)
    dispatch = await cancelled_while_running(answer, call("swallow", call_id="1"), call("echo", call_id="2"))
    assert [output.result.text for output in dispatch.outputs] == ["cancelled? who?"]
    assert echo.runs == []


# ---- what becomes of a handoff


def throw(error: BaseException) -> Any:
    raise error


TARGET = TargetResult(ConversationId("other"), "completed", "the answer")


def test_a_handoff_is_answered_with_what_its_tool_makes_of_the_result() -> None:
    assert render_result(lambda target: Result(target.text or ""), TARGET, None) == (Result("the answer"), False)


def test_the_answer_of_a_handoff_is_bounded_like_any_output() -> None:
    result, truncated = render_result(lambda target: Result("x" * 10_000), TARGET, 1_000)
    assert truncated
    assert len(result.text) <= 1_000


@each_row(
    ("render", "expected"),
    [
        (lambda target: 1 // 0, "ZeroDivisionError: "),
        (lambda target: HANDOFF, "the tool answered a handoff with another one"),
        (lambda target: None, "the tool returned NoneType instead of a result"),
        (lambda target: throw(asyncio.CancelledError()), "CancelledError"),
        (lambda target: throw(GeneratorExit("x")), "GeneratorExit: x"),
        (lambda target: throw(SystemExit(3)), "SystemExit: 3"),
    ],
)
def test_a_handoff_that_cannot_be_rendered_is_an_error_output(render: Any, expected: str) -> None:
    result, truncated = render_result(render, TARGET, None)
    assert result.text.startswith(expected)
    assert not result.success
    assert not truncated


async def test_time_in_which_there_is_no_hurry_does_not_count() -> None:
    """A person is asked, or the tool has a deadline of its own; what was left before is left afterwards."""
    loop = asyncio.get_running_loop()

    async def patient(arguments: Any, call: CallContext) -> Result:
        long = asyncio.Event()
        with call.unhurried(), call.unhurried():
            loop.call_later(0.1, long.set)
            await long.wait()
        return Result("in time")

    async def hurried(arguments: Any, call: CallContext) -> Result:
        with call.unhurried():
            pass
        await asyncio.Event().wait()
        return Result("never")

    answer = Answer(StubTool("patient", patient), StubTool("hurried", hurried))
    ended = await answer(call("patient", call_id="1"), call("hurried", call_id="2"), timeout_s=0.02)
    assert [end.result.text for end in ended] == ["in time", "timed out after 0.02 s"]
    assert [output.result.success for output in await answer(call("patient"), timeout_s=None)] == [True]
