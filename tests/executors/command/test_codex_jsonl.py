"""What `codex exec --json` prints, understood."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.command.codex_jsonl import CodexJsonl
from tertulia.executors.executor import (
    AgentPlan,
    AgentText,
    CommandAct,
    FileChangeAct,
    ForeignOutput,
    McpCallAct,
    NativeSessionId,
    Notice,
    PatchAct,
    RunFailed,
    RunFinished,
    RunInterrupted,
    Thought,
    ToolUseBegin,
    ToolUseEnd,
    UsageReport,
    WebSearchAct,
)
from tertulia.protocol.items import Usage
from tertulia.protocol.tool_events import PlanStep
from tests.executors.recorded import feed, finish, in_pieces, lines_of, mutated, names, recorded, understood
from tests.tables import each_row


def item(event: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{event}", "item": {"id": "item_1", "type": kind, **fields}}


def usage(**counts: int) -> bytes:
    return lines_of({"type": "turn.completed", "usage": counts})


# ---- recordings


def test_a_plain_answer() -> None:
    """S003-26: a note that comes as an error is no failure."""
    steps = [*feed(parser := CodexJsonl(), recorded("codex_plain")), *finish(parser)]
    native, note, text, cost, end = steps
    assert native == NativeSessionId("<UUID>")
    assert isinstance(note, Notice)
    assert (text, end) == (AgentText("item_1", "ok 1"), RunFinished("ok 1"))
    assert cost == UsageReport(Usage(10, 0, 5, 0, 15), Usage(10, 0, 5, 0, 15))
    assert parser.passed_over == 0


@pytest.mark.parametrize(("name", "code", "output"), [("shell", 0, "hi\n"), ("shell_fails", 3, "")])
def test_a_command(name: str, code: int, output: str) -> None:
    """S003-26"""
    steps = understood(CodexJsonl(), recorded(f"codex_{name}"))
    (begun,) = [step for step in steps if isinstance(step, ToolUseBegin)]
    (done,) = [step for step in steps if isinstance(step, ToolUseEnd)]
    assert isinstance(begun.act, CommandAct)
    assert begun.act.argv[:2] == ("/bin/bash", "-c")
    assert (done.id, done.act, done.success, done.output, done.exit_code) == (
        begun.id,
        begun.act,
        code == 0,
        output,
        code,
    )


@pytest.mark.parametrize(
    ("name", "success", "output"), [("mcp", True, "3"), ("mcp_refused", False, "requires approval")]
)
def test_an_mcp_call(name: str, success: bool, output: str) -> None:
    """S003-26"""
    (done,) = [step for step in understood(CodexJsonl(), recorded(f"codex_{name}")) if isinstance(step, ToolUseEnd)]
    assert (done.name, done.act, done.arguments) == ("tiny__add", McpCallAct("tiny", "add"), {"a": 1, "b": 2})
    assert done.success is success
    assert output in done.output


def test_a_failed_turn() -> None:
    """S003-26: errors before it are notices, `turn.failed` is the end."""
    parser = CodexJsonl()
    steps = feed(parser, recorded("codex_error_500"))
    assert sum(isinstance(step, Notice) for step in steps) == 3
    assert parser.ended
    (end,) = finish(parser)
    assert isinstance(end, RunFailed)
    assert "high demand" in end.message


@each_row("name", names("codex"))
def test_a_recording_has_nothing_foreign_and_may_come_in_any_pieces(name: str) -> None:
    """S003-26, S003-27"""
    whole = [*feed(parser := CodexJsonl(), recorded(name)), *finish(parser)]
    assert not [step for step in whole if isinstance(step, ForeignOutput)]
    for sizes in ([1], [7, 64], [1_000]):
        assert in_pieces(CodexJsonl(), recorded(name), sizes) == whole


# ---- every kind of line


@each_row(
    "line", [{"thread_id": "t-1"}, {"threadId": "t-1"}, {"thread": {"id": "t-1"}}, {"thread_id": 7, "threadId": "t-1"}]
)
def test_the_id_of_the_thread_may_stand_in_three_places(line: dict[str, Any]) -> None:
    """S003-26"""
    assert understood(CodexJsonl(), lines_of({"type": "thread.started", **line})) == [NativeSessionId("t-1")]


def test_an_id_that_would_be_an_option_is_foreign() -> None:
    """S003-32"""
    line = {"type": "thread.started", "thread_id": "--dangerous"}
    assert understood(CodexJsonl(), lines_of(line)) == [ForeignOutput(line)]


def test_reasoning_and_messages() -> None:
    """S003-26"""
    output = lines_of(item("completed", "reasoning", text="hm"), item("completed", "agent_message", text="yes"))
    assert understood(CodexJsonl(), output) == [Thought("item_1", "hm"), AgentText("item_1", "yes")]


def test_changed_files() -> None:
    """S003-26"""
    changes = [{"path": "a", "kind": "add"}, {"path": "b", "kind": "delete"}, {"path": "c", "kind": "update"}]
    output = lines_of(
        item("started", "file_change", changes=changes, status="in_progress"),
        item("completed", "file_change", changes=changes, status="failed"),
    )
    act = PatchAct((FileChangeAct("a", "add"), FileChangeAct("b", "delete"), FileChangeAct("c", "update")))
    begun, done = understood(CodexJsonl(), output)
    assert begun == ToolUseBegin("item_1", "file_change", {"changes": changes}, act)
    assert done == ToolUseEnd("item_1", "file_change", {"changes": changes}, act, False, "")


def test_a_web_search_has_no_status_and_is_done_when_it_is_completed() -> None:
    """S003-26"""
    (done,) = understood(CodexJsonl(), lines_of(item("completed", "web_search", query="weather", action={"type": "x"})))
    assert done == ToolUseEnd("item_1", "web_search", {"query": "weather"}, WebSearchAct("weather"), True, "")


def test_a_declined_command_did_not_succeed() -> None:
    output = lines_of(item("completed", "command_execution", command="rm x", exit_code=None, status="declined"))
    (done,) = understood(CodexJsonl(), output)
    assert isinstance(done, ToolUseEnd)
    assert (done.success, done.exit_code) == (False, None)


def test_work_with_its_own_helpers_is_a_tool() -> None:
    fields = {"prompt": "look", "receiver_thread_ids": ["t"], "agents_states": {}}
    (begun,) = understood(CodexJsonl(), lines_of(item("started", "collab_tool_call", tool="spawn_agent", **fields)))
    assert begun == ToolUseBegin("item_1", "spawn_agent", fields, None)


def test_a_plan_is_told_when_it_changes() -> None:
    """S003-26: it is repeated when the turn ends."""
    first, second = ([{"text": "a", "completed": done}, {"text": "b", "completed": False}] for done in (False, True))
    output = lines_of(
        item("started", "todo_list", items=first),
        item("updated", "todo_list", items=second),
        item("completed", "todo_list", items=second),
    )
    assert understood(CodexJsonl(), output) == [
        AgentPlan((PlanStep("a", "pending"), PlanStep("b", "pending"))),
        AgentPlan((PlanStep("a", "completed"), PlanStep("b", "pending"))),
    ]


@each_row(
    "line",
    [
        {"type": "thread.renamed"},
        {"no": "type"},
        {"type": 7},
        {"type": "error"},
        {"type": "thread.started"},
        item("completed", "telepathy", text="x"),
        item("completed", "agent_message", text=7),
        item("updated", "agent_message", text="half"),
        item("completed", "command_execution", command=7),
        item("completed", "file_change", changes=[{"path": "a", "kind": "burn"}]),
        item("completed", "file_change", changes=[]),
        item("completed", "mcp_tool_call", server="x"),
        item("completed", "todo_list", items=[{"text": 1}]),
        item("completed", "todo_list"),
        item("completed", "web_search"),
        item("completed", "collab_tool_call"),
        item("completed", "error"),
        {"type": "item.completed", "item": {"type": "agent_message", "text": "no id"}},
        {"type": "item.completed", "item": 7},
    ],
)
def test_what_is_unknown_in_name_or_form_is_kept(line: dict[str, Any]) -> None:
    """S003-26: unknown types kept raw."""
    assert understood(CodexJsonl(), lines_of(line)) == [ForeignOutput(line)]


def test_updates_of_a_command_say_nothing_new() -> None:
    assert understood(CodexJsonl(), lines_of(item("updated", "command_execution", command="x"))) == []


# ---- usage


def test_usage_is_the_difference_to_what_the_thread_had_cost() -> None:
    """S003-26: Codex counts over the whole thread."""
    before = Usage(100, 40, 10, 5, 110)
    parser = CodexJsonl(before)
    steps = feed(parser, usage(input_tokens=150, cached_input_tokens=60, output_tokens=30, reasoning_output_tokens=6))
    assert steps == [UsageReport(Usage(50, 20, 20, 1, 70), Usage(150, 60, 30, 6, 180))]
    again = feed(parser, usage(input_tokens=150, cached_input_tokens=60, output_tokens=31, reasoning_output_tokens=6))
    assert again == [UsageReport(Usage(0, 0, 1, 0, 1), Usage(150, 60, 31, 6, 181))]


def test_a_resumed_thread_goes_on_counting_where_it_was() -> None:
    """S003-26, S003-32: another process, the same thread, the sum of both."""
    steps = understood(CodexJsonl(Usage(10, 4, 5, 2, 15)), recorded("codex_resumed"))
    assert steps[-1] == UsageReport(Usage(10, 4, 5, 2, 15), Usage(20, 8, 10, 4, 30))


def test_a_count_that_began_anew_is_all_of_this_turn() -> None:
    (cost,) = feed(CodexJsonl(Usage(100, 0, 10, 0, 110)), usage(input_tokens=20, output_tokens=30))
    assert cost == UsageReport(Usage(20, 0, 30, 0, 50), Usage(20, 0, 30, 0, 50))


# ---- the end


def test_output_without_a_last_line_was_interrupted() -> None:
    """S003-26, DESIGN Executors: whatever the exit code."""
    assert finish(CodexJsonl()) == [RunInterrupted()]
    parser = CodexJsonl()
    feed(parser, lines_of({"type": "turn.started"}, item("completed", "agent_message", text="half")))
    assert not parser.ended
    assert finish(parser) == [RunInterrupted()]


def test_a_turn_after_the_last_must_end_too() -> None:
    parser = CodexJsonl()
    feed(parser, usage())
    assert parser.ended
    feed(parser, lines_of({"type": "turn.started"}))
    assert not parser.ended
    assert finish(parser) == [RunInterrupted()]


def test_a_failure_without_a_reason_has_a_sentence() -> None:
    parser = CodexJsonl()
    feed(parser, lines_of({"type": "turn.failed"}))
    assert finish(parser) == [RunFailed("the agent failed and did not say why")]


def test_an_overlong_line_is_a_note_and_the_task_goes_on() -> None:
    """S003-27"""
    parser = CodexJsonl(max_line_bytes=1_000)
    long = lines_of(item("completed", "agent_message", text="x" * 1_000))
    assert feed(parser, long) == [ForeignOutput({"dropped_line_bytes": len(long) - 1})]
    assert isinstance(feed(parser, recorded("codex_plain"))[0], NativeSessionId)
    assert finish(parser) == [RunFinished("ok 1")]


@given(mutated("codex"), st.lists(st.integers(1, 400), min_size=1, max_size=4))
def test_broken_output_never_breaks_the_parser(output: bytes, sizes: list[int]) -> None:
    """Issue 11: mutated JSONL. And how it is cut makes no difference."""
    steps = in_pieces(CodexJsonl(), output, sizes)
    assert [step for step in steps if isinstance(step, RunFinished | RunFailed | RunInterrupted)] == steps[-1:]
    assert steps == [*feed(parser := CodexJsonl(), output), *finish(parser)]
