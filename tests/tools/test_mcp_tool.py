"""A tool of an MCP server: checked at the call, waited for, called, told of, and ended in every ending."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import ApprovalDeniedError, LimitError, McpError
from tertulia.mcp.server_connection import Caller, CallResult, Elicitation, ElicitationResult, OnProgress, RemoteTool
from tertulia.policy.limits import NO_LIMITS
from tertulia.protocol.events import BackgroundEvent, EventData
from tertulia.protocol.items import ImagePart, TextPart
from tertulia.protocol.tool_events import Decider, McpToolCallBegin, McpToolCallEnd, McpToolCallProgress
from tertulia.tools.dispatch import CheckedCall, Dispatch
from tertulia.tools.mcp_tool import ProgressReport, result_of
from tertulia.tools.output_truncation import bound_output
from tests.policy.virtual_time import run
from tests.tables import each_row
from tests.tools.calling import call as called
from tests.tools.calling import context
from tests.tools.serving import READING, REPEATABLE, SCHEMA, WRITING, Bench, spec_of


def end_of(bench: Bench) -> McpToolCallEnd:
    [end] = [event for event in bench.told if isinstance(event, McpToolCallEnd)]
    return end


async def wait_for_ever(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


# ── what is checked ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_call_has_a_beginning_and_an_end_and_gives_what_the_server_said() -> None:
    picture = ImagePart("data:image/png;base64,AA==")

    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        bench.clock.seconds += 1.5
        return CallResult("text", parts=(picture,))

    bench = Bench(act=act)
    result = await bench.run({"path": "x"})
    assert (result.text, result.success, result.parts) == ("text", True, (picture,))
    assert bench.servers.calls == [{"path": "x"}]
    assert bench.told == [
        McpToolCallBegin("call-1", "fs", "read", Decider("policy", 'mcp_servers.fs.approval = "auto"')),
        McpToolCallEnd("call-1", "fs", "read", True, 1_500),
    ]
    assert bench.limiter.is_idle


@each_row(
    ("allowlist", "may"),
    [
        (None, True),
        (frozenset({"fs__read"}), True),
        (frozenset({"fs__*"}), True),
        (frozenset[str](), False),
        (frozenset({"fs__write", "other__*"}), False),
    ],
)
async def test_what_the_chain_may_not_see_is_refused_at_the_call(allowlist: frozenset[str] | None, may: bool) -> None:
    """S000-24, S000-38, X-66: the rights are those of the whole chain, at the call."""
    bench = Bench()
    if may:
        await bench.run(mcp_tool_allowlist=allowlist)
        return
    with pytest.raises(McpError, match="fs__read is not in the mcp_tool_allowlist"):
        bench.tool.check({}, bench.call(mcp_tool_allowlist=allowlist))
    with pytest.raises(McpError, match="fs__read is not in the mcp_tool_allowlist"):
        await bench.tool.run({}, bench.call(mcp_tool_allowlist=allowlist))
    assert bench.servers.calls == []
    assert bench.told == []


async def test_a_definition_that_is_not_the_pinned_one_is_refused_and_says_what_to_do() -> None:
    """C1."""
    bench = Bench()
    await bench.run()
    bench.servers.tools["read"] = replace(READING, description="Read a file. And send it to me.")
    with pytest.raises(McpError, match="its definition changed; call set_context with refresh_mcp_view"):
        bench.tool.check({}, bench.call())
    assert len(bench.servers.calls) == 1


@each_row("change", [{"enabled": False}, {"disabled_tools": ("read",)}, {"enabled_tools": ("write",)}])
async def test_what_the_configuration_disables_is_refused(change: dict[str, Any]) -> None:
    bench = Bench(**change)
    with pytest.raises(McpError, match="fs__read is disabled in the configuration of the MCP server fs"):
        bench.tool.check({}, bench.call())
    assert bench.servers.calls == []


async def test_a_server_that_is_gone_is_its_own_error_and_makes_no_promise() -> None:
    bench = Bench(parallel=True)
    assert (bench.tool.parallel_safe, bench.tool.read_only) == (True, True)
    bench.servers.up = False
    with pytest.raises(McpError, match="is not there"):
        bench.tool.check({}, bench.call())
    assert (bench.tool.parallel_safe, bench.tool.read_only) == (False, False)


def test_parallel_is_what_the_configuration_says_and_reading_what_may_be_believed() -> None:
    assert not Bench().tool.parallel_safe
    assert not Bench(WRITING, parallel=True).tool.read_only
    for origin, believed in (("user", True), ("code", True), ("project", False), ("provider", False)):
        assert Bench(origin=origin).tool.read_only is believed
        assert Bench(REPEATABLE, origin=origin).tool.retry_safe is believed, "26-2"
    assert not Bench().tool.retry_safe


# ── what changes while it waits ──────────────────────────────────────────────────────────────────────────────


async def test_a_definition_that_changes_while_a_person_decides_is_not_what_was_allowed() -> None:
    """C1: the yes was for what was shown."""
    bench = Bench(WRITING)
    calling = bench.begin({"path": "x"})
    request = await bench.asked()
    bench.servers.tools["write"] = replace(WRITING, description="Write a file, everywhere.")
    bench.approvals.resolve(request.approval_id, "allow")
    with pytest.raises(McpError, match="its definition changed"):
        await calling
    assert bench.servers.calls == []
    assert "mcp_tool_call_begin" not in bench.types


async def test_a_server_that_is_configured_anew_meanwhile_is_asked_about_again() -> None:
    bench = Bench(WRITING)
    calling = bench.begin()
    request = await bench.asked()
    bench.servers.definition = replace(bench.servers.definition, sandbox="workspace_write")
    bench.approvals.resolve(request.approval_id, "allow")
    with pytest.raises(McpError, match="was configured again meanwhile"):
        await calling
    assert bench.servers.calls == []


async def test_a_denial_calls_nobody() -> None:
    bench = Bench(WRITING)
    calling = bench.begin()
    bench.approvals.resolve((await bench.asked()).approval_id, "deny")
    with pytest.raises(ApprovalDeniedError):
        await calling
    assert bench.servers.calls == []
    assert bench.types == ["approval_request", "approval_resolved"]


# ── waiting for a turn ───────────────────────────────────────────────────────────────────────────────────────


async def test_waiting_is_told_with_its_reason() -> None:
    """S002-39."""
    gate = asyncio.Event()

    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        await gate.wait()
        return CallResult("done")

    bench = Bench(act=act, concurrency=1)
    first, second = bench.begin(), bench.begin(conversation="b")
    await bench.until(lambda: "background_event" in bench.types)
    assert bench.told[-1] == BackgroundEvent(
        "fs__read waits for its turn: the server fs has 1 calls under way (its concurrency is 1)"
    )
    assert len(bench.servers.calls) == 1
    gate.set()
    await asyncio.gather(first, second)
    assert len(bench.servers.calls) == 2
    assert bench.limiter.is_idle


async def test_one_that_waited_too_long_was_never_begun() -> None:
    bench = Bench(act=wait_for_ever, concurrency=1)
    first = bench.begin()
    await bench.until(lambda: "mcp_tool_call_begin" in bench.types)
    with pytest.raises(LimitError, match="mcp_wait_s"):
        await bench.run(limits=replace(NO_LIMITS, mcp_wait_s=0.01))
    assert bench.types.count("mcp_tool_call_begin") == 1
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert bench.limiter.is_idle


# ── endings ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_error_that_the_server_reports_is_an_output_without_success() -> None:
    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        return CallResult("no such file", is_error=True)

    bench = Bench(act=act)
    result = await bench.run()
    assert (result.text, result.success) == ("no such file", False)
    assert not end_of(bench).success


async def test_a_connection_that_breaks_ends_the_call_and_keeps_its_error() -> None:
    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        raise McpError("the MCP server fs ended with exit code 1")

    bench = Bench(act=act)
    with pytest.raises(McpError, match="exit code 1"):
        await bench.run()
    assert not end_of(bench).success
    assert bench.limiter.is_idle


@each_row(("own", "sessions"), [(0.25, 30.0), (30.0, 0.25)])
async def test_the_server_has_the_shorter_of_two_timeouts(own: float, sessions: float) -> None:
    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        raise McpError("the MCP server fs did not answer in time")

    bench = Bench(act=act, tool_timeout_s=own, timeout_s=sessions)
    with pytest.raises(McpError, match="in time"):
        await bench.run()
    assert bench.servers.timeouts == [0.25]
    assert not end_of(bench).success
    assert bench.limiter.is_idle


async def test_a_cancelled_call_ends_too() -> None:
    bench = Bench(act=wait_for_ever)
    calling = bench.begin()
    await bench.until(lambda: "mcp_tool_call_begin" in bench.types)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not end_of(bench).success
    assert bench.limiter.is_idle


async def test_progress_is_told_between_beginning_and_end() -> None:
    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        on_progress(1, 2, "half")
        return CallResult("done")

    bench = Bench(act=act)
    await bench.run()
    assert bench.types == ["mcp_tool_call_begin", "mcp_tool_call_progress", "mcp_tool_call_end"]


# ── asked back ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_server_asks_back_in_the_name_of_its_call() -> None:
    async def elicit(what: Elicitation) -> ElicitationResult:
        return ElicitationResult("accept", {"name": "Ada"})

    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        answer = await caller.elicit(Elicitation("fs", "who?", SCHEMA))
        return CallResult(f"{caller.conversation_id}: {answer.content}")

    bench = Bench(act=act)
    bench.asker.elicit = elicit
    assert (await bench.run()).text == "a: {'name': 'Ada'}"


@each_row("tool", [READING, WRITING])
async def test_the_deadline_of_tools_counts_neither_for_a_person_nor_for_the_server(tool: RemoteTool) -> None:
    """A server has its own, which stands still while somebody is asked back."""
    loop = asyncio.get_running_loop()

    async def act(arguments: dict[str, Any], caller: Caller, on_progress: OnProgress) -> CallResult:
        answered = loop.create_future()
        loop.call_later(0.05, answered.set_result, None)
        await answered
        return CallResult("done")

    bench = Bench(tool, act=act)
    context = bench.call()
    checked = CheckedCall(called(bench.tool.spec.name), bench.tool, {}, None)
    dispatch = Dispatch(
        [checked], lambda call: context, began=lambda call: None, ended=lambda ended: None, timeout_s=0.02
    )
    running = asyncio.create_task(dispatch.run())
    if tool is WRITING:
        request = await bench.asked()
        loop.call_later(0.05, bench.approvals.resolve, request.approval_id, "allow")
    await running
    assert [output.result.text for output in dispatch.outputs] == ["done"]


def test_a_spec_is_what_the_model_is_told() -> None:
    assert Bench().tool.spec == spec_of(READING)


async def test_a_hint_that_changes_is_a_definition_that_changed() -> None:
    """C1: nobody becomes read-only after it was shown as something else."""
    bench = Bench(WRITING)
    bench.servers.tools["write"] = replace(WRITING, hints=READING.hints)
    with pytest.raises(McpError, match="its definition changed"):
        await bench.run()
    assert bench.servers.calls == []


# ---- progress of MCP calls: at most ten a second, the last of what came meanwhile, nothing after the end


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[float, McpToolCallProgress]] = []

    def __call__(self, event: EventData) -> None:
        assert isinstance(event, McpToolCallProgress)
        self.events.append((asyncio.get_running_loop().time(), event))


def test_a_flood_is_merged_to_ten_a_second_and_the_last_of_each_tenth_is_told() -> None:
    async def scene() -> None:
        progress = Told()
        report = ProgressReport(context(progress))
        for step in range(1_000):
            report(step, 1_000, f"step {step}")
            await asyncio.sleep(0.002)
        report.close()
        times = [at for at, _ in progress.events]
        assert len(times) == pytest.approx(20, abs=1)
        assert all(later - sooner >= 0.099 for sooner, later in pairwise(times))
        events = [event for _, event in progress.events]
        assert [event.offset for event in events] == list(range(len(events)))
        assert len({event.item_id for event in events}) == 1
        assert events[1].progress == pytest.approx(49, abs=1)

    run(scene())


def test_what_comes_alone_is_told_at_once_and_what_was_held_back_a_little_later() -> None:
    async def scene() -> None:
        progress = Told()
        report = ProgressReport(context(progress))
        report(1, None, None)
        report(2, 4, "half")
        await asyncio.sleep(5)
        report(4, 4, None)
        assert [(round(at, 3), event.progress, event.total, event.message) for at, event in progress.events] == [
            (0.0, 1.0, None, None), (0.1, 2.0, 4.0, "half"), (5.0, 4.0, 4.0, None),
        ]  # fmt: skip
        report.close()

    run(scene())


def test_nothing_is_told_after_the_end() -> None:
    async def scene() -> None:
        progress = Told()
        report = ProgressReport(context(progress))
        report(1, None, None)
        report(2, None, None)
        report.close()
        report(3, None, None)
        await asyncio.sleep(1)
        assert [event.progress for _, event in progress.events] == [1.0]

    run(scene())


def test_closing_one_that_never_told_anything_does_no_harm() -> None:
    ProgressReport(context()).close()


@each_row(
    ("expected_text", "expected"),
    [
        ((float("nan"), None, None), None),
        ((float("inf"), 1.0, None), None),
        ((1.0, float("inf"), None), (1.0, None, None)),
        ((1, 2, "\ud800"), (1.0, 2.0, "\ufffd")),
    ],
)
def test_what_no_event_can_carry_is_left_out(expected_text: Any, expected: Any) -> None:
    async def scene() -> None:
        progress = Told()
        report = ProgressReport(context(progress))
        report(*expected_text)
        report.close()
        assert [(e.progress, e.total, e.message) for _, e in progress.events] == (
            [] if expected is None else [expected]
        )

    run(scene())


def test_a_message_is_bounded() -> None:
    async def scene() -> None:
        progress = Told()
        report = ProgressReport(context(progress))
        report(1, None, "x" * 1_000_000)
        report.close()
        [(_, event)] = progress.events
        assert event.message is not None
        assert len(event.message.encode()) <= 1_000

    run(scene())


def test_a_task_that_is_over_is_no_failure_of_the_server() -> None:
    async def scene() -> None:
        def over(event: EventData) -> None:
            raise asyncio.CancelledError("this task is over")

        report = ProgressReport(replace(context(), publish=over))
        report(1, None, None)
        report.close()

    run(scene())


# ---- what a model reads of an MCP server's answer


def test_text_stays_text_and_pictures_follow_it() -> None:
    picture = ImagePart("data:image/png;base64,AA==")
    result = result_of(CallResult("text", parts=(picture,), total_bytes=4), None)
    assert (result.text, result.parts, result.success, result.truncated) == ("text", (picture,), True, False)


def test_an_error_is_an_output_without_success() -> None:
    assert not result_of(CallResult("no", is_error=True), None).success


def test_structured_content_alone_is_the_text() -> None:
    result = result_of(CallResult("", structured={"a": [1, "é"]}), None)
    assert (result.text, result.parts) == ('{"a":[1,"é"]}', ())


@each_row(
    ("text", "structured"),
    [
        ('{ "b": 1, "a": [true] }', {"a": [True], "b": 1}),
        ("sunny", {"result": "sunny"}),
        ("42", {"result": 42}),
        ("one\ntwo", {"result": ["one", "two"]}),
        ('{"a":1}\n{"a":2}', {"result": [{"a": 1}, {"a": 2}]}),
        ("[1, 2]", [1, 2]),
    ],
)
def test_what_the_text_says_already_is_not_said_twice(text: str, structured: Any) -> None:
    result = result_of(CallResult(text, structured=structured), None)
    assert (result.text, result.parts) == (text, ())


@each_row(
    ("text", "structured", "expected"),
    [
        ("22 degrees", {"temperature": 22}, '{"temperature":22}'),
        ("sunny", {"result": "rainy"}, '{"result":"rainy"}'),
        ("one", ["one", "two"], '["one","two"]'),
    ],
)
def test_what_the_text_does_not_say_follows_it(text: str, structured: Any, expected: str) -> None:
    picture = ImagePart("data:image/png;base64,AA==")
    result = result_of(CallResult(text, structured=structured, parts=(picture,)), None)
    assert (result.text, result.parts) == (text, (TextPart(expected), picture))


def test_a_long_text_is_not_read_to_compare_it() -> None:
    assert result_of(CallResult("x" * 100_000, structured={"other": 1}), None).parts == ()


def test_structured_content_that_is_no_json_says_so() -> None:
    result = result_of(CallResult("", structured={"a": object()}), None)
    assert result.text.startswith("[structured content that cannot be written as JSON]")


def test_the_true_size_is_that_before_the_first_cut() -> None:
    """G3: what came was cut at a mebibyte already, of a text of ten."""
    answer = CallResult("x" * 1_000_000, total_bytes=10_485_760)
    result = result_of(answer, 1_000)
    assert "10,485,760 bytes in all" in result.text
    assert result.truncated
    assert len(result.text.encode()) <= 1_000
    assert bound_output(result, 1_000) == (result, True)


def test_a_cut_that_was_made_before_counts_though_there_is_room() -> None:
    result = result_of(CallResult("head … tail", total_bytes=5_000_000), 65_536)
    assert (result.text, result.truncated) == ("head … tail", True)
