"""What `claude -p --output-format stream-json` prints, understood."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.command.claude_stream import ClaudeStream
from tertulia.executors.executor import (
    AgentDelta,
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
    ThoughtDelta,
    ToolUseBegin,
    ToolUseEnd,
    UsageReport,
    WebSearchAct,
)
from tertulia.protocol.items import Usage
from tertulia.protocol.tool_events import PlanStep
from tests.executors.recorded import feed, finish, in_pieces, lines_of, mutated, names, recorded, understood
from tests.tables import each_row

RUN = "00000000-0000-4000-8000-000000000001"


def assistant(*blocks: dict[str, Any], message: str = "m", **more: Any) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"id": message, "content": list(blocks)},
        "parent_tool_use_id": None,
        **more,
    }


def use(tool: str, value: dict[str, Any], call: str = "c") -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": tool, "input": value}


def result(content: Any, call: str = "c", **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, **more}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


# ---- recordings


def test_a_plain_answer() -> None:
    parser = ClaudeStream()
    assert [*feed(parser, recorded("claude_plain")), *finish(parser)] == [
        NativeSessionId(RUN),
        Thought("msg_1:0", "hm, a greeting"),
        AgentText("msg_1:1", "ok 1"),
        UsageReport(Usage(15, 3, 5, 0, 20)),
        RunFinished("ok 1"),
    ]


def test_deltas_have_the_id_of_their_whole() -> None:
    steps = understood(ClaudeStream(), recorded("claude_partial"))
    assert steps[1:-1] == [
        ThoughtDelta("msg_1:0", "hm, a greeting"),
        Thought("msg_1:0", "hm, a greeting"),
        AgentDelta("msg_1:1", "ok"),
        AgentDelta("msg_1:1", " 1"),
        AgentText("msg_1:1", "ok 1"),
    ]


def test_tools_in_our_words() -> None:
    """One vocabulary: commands, patches, MCP; the rest by the agent's own names."""
    steps = understood(ClaudeStream(), recorded("claude_tools"))
    done = {step.id: step for step in steps if isinstance(step, ToolUseEnd)}
    assert [done[f"toolu_{n}"].act for n in range(1, 9)] == [
        CommandAct(("bash", "-c", "echo hi")),
        CommandAct(("bash", "-c", "echo out; exit 3")),
        PatchAct((FileChangeAct("/workspace/new.txt", "add"),)),
        PatchAct((FileChangeAct("/workspace/new.txt", "update"),)),
        None,
        McpCallAct("time", "get_current_time"),
        None,
        None,
    ]
    assert [done[f"toolu_{n}"].success for n in range(1, 9)] == [True, False, True, True, False, True, True, False]
    assert (done["toolu_1"].exit_code, done["toolu_2"].exit_code, done["toolu_3"].exit_code) == (0, 3, None)
    assert done["toolu_1"].output == "hi"
    assert done["toolu_6"].name == "time__get_current_time"
    assert [step.id for step in steps if isinstance(step, ToolUseBegin)] == [f"toolu_{n}" for n in range(1, 9)]
    assert not [step for step in steps if isinstance(step, AgentPlan)], "the plan was refused"
    assert steps[-1] == UsageReport(Usage(120, 24, 40, 0, 160))


def test_an_error_of_the_model_is_no_answer_and_the_result_says_that_it_was_the_end() -> None:
    """Its subtype is `success` all the same."""
    parser = ClaudeStream()
    steps = feed(parser, recorded("claude_error"))
    assert steps[1] == Notice("API Error: 400 mock broke")
    assert not [step for step in steps if isinstance(step, AgentText)]
    assert finish(parser) == [RunFailed("API Error: 400 mock broke")]


def test_a_retry_is_a_notice() -> None:
    steps = understood(ClaudeStream(), recorded("claude_retry"))
    assert steps[1] == Notice("the model could not be reached and is asked again (1 of 1)")


def test_a_refused_resume_fails_without_an_id() -> None:
    """S003-32: the id that was asked for is in the result, and it is not one to be kept."""
    parser = ClaudeStream()
    assert not [step for step in feed(parser, recorded("claude_resume_refused")) if isinstance(step, NativeSessionId)]
    (end,) = finish(parser)
    assert isinstance(end, RunFailed)
    assert end.message.startswith("No conversation found")


@each_row("name", names("claude"))
def test_a_recording_has_nothing_foreign_and_may_come_in_any_pieces(name: str) -> None:
    whole = [*feed(parser := ClaudeStream(), recorded(name)), *finish(parser)]
    assert not [step for step in whole if isinstance(step, ForeignOutput)]
    assert parser.passed_over == 0
    for sizes in ([1], [7, 64], [1_000]):
        assert in_pieces(ClaudeStream(), recorded(name), sizes) == whole


# ---- every kind of line


def test_a_plan_is_told_once_it_was_taken() -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]
    steps = understood(ClaudeStream(), lines_of(assistant(use("TodoWrite", {"todos": todos})), result("ok")))
    assert isinstance(steps[0], ToolUseBegin)
    assert steps[1] == AgentPlan((PlanStep("a", "completed"), PlanStep("b", "in_progress")))
    assert isinstance(steps[2], ToolUseEnd)


def test_a_plan_of_another_form_is_a_tool_like_others() -> None:
    steps = understood(ClaudeStream(), lines_of(assistant(use("TodoWrite", {"todos": [{"content": 7}]})), result("ok")))
    assert [type(step) for step in steps] == [ToolUseBegin, ToolUseEnd]


@each_row(
    ("tool", "value", "act"),
    [
        ("WebSearch", {"query": "x"}, WebSearchAct("x")),
        ("NotebookEdit", {"notebook_path": "n"}, PatchAct((FileChangeAct("n", "update"),))),
        ("Bash", {"command": 7}, None),
        ("Write", {}, None),
        ("mcp__only", {}, None),
        ("mcp__tertulia__fs__read", {}, McpCallAct("tertulia", "fs__read")),
        ("Read", {"file_path": "x"}, None),
    ],
)
def test_tools_for_which_there_is_a_word(tool: str, value: dict[str, Any], act: object) -> None:
    (begun,) = understood(ClaudeStream(), lines_of(assistant(use(tool, value))))
    assert isinstance(begun, ToolUseBegin)
    assert begun.act == act


def test_a_search_by_the_provider_begins_and_ends_within_a_message() -> None:
    begin = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    end = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result"}]}
    begun, done = understood(ClaudeStream(), lines_of(assistant(begin, end)))
    assert isinstance(begun, ToolUseBegin)
    assert done == ToolUseEnd("s", "web_search", {"query": "x"}, WebSearchAct("x"), True, "")


def test_words_of_a_helper_are_not_the_answer_and_what_it_does_is_told() -> None:
    text = assistant({"type": "text", "text": "helper"}, parent_tool_use_id="t")
    tool = assistant(use("Read", {}), parent_tool_use_id="t", message="n")
    delta = {"type": "stream_event", "event": {"type": "content_block_delta"}, "parent_tool_use_id": "t"}
    assert understood(ClaudeStream(), lines_of(text, tool, delta)) == [
        ForeignOutput(text),
        ToolUseBegin("c", "Read", {}),
    ]


def test_one_strange_block_costs_no_other() -> None:
    line = assistant({"type": "text", "text": "yes"}, {"type": "telepathy"})
    results = result("ok")
    results["message"]["content"].append({"type": "tool_result", "tool_use_id": "nobody", "content": "x"})
    steps = understood(ClaudeStream(), lines_of(line, assistant(use("Read", {}), message="n"), results))
    assert steps[:2] == [AgentText("m:0", "yes"), ForeignOutput(line)]
    assert isinstance(steps[3], ToolUseEnd)
    assert steps[4:] == [ForeignOutput(results)]


@each_row(
    "line",
    [
        {"type": "rate_limit_event"},
        {"type": "system", "subtype": "compact_boundary"},
        {"type": "system", "subtype": "init", "session_id": "-x"},
        {"type": "assistant", "message": {"content": []}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "no id"}]}},
        {"type": "user", "message": {"content": "a text"}},
        {"type": "stream_event", "event": 7},
        {"no": "type"},
    ],
)
def test_what_is_unknown_in_name_or_form_is_kept(line: dict[str, Any]) -> None:
    assert understood(ClaudeStream(), lines_of(line)) == [ForeignOutput(line)]


def test_it_remembers_no_more_than_it_should() -> None:
    """An agent that begins without end fills no memory; an end whose beginning is forgotten is kept as it comes."""
    parser = ClaudeStream()
    for n in range(1_200):
        feed(parser, lines_of(assistant(use("Read", {}, f"c{n}"), message=f"m{n}")))
    forgotten, known = result("x", "c0"), result("x", "c1199")
    steps = feed(parser, lines_of(forgotten, known))
    assert steps[0] == ForeignOutput(forgotten)
    assert isinstance(steps[1], ToolUseEnd)


# ---- the end


@each_row(
    ("line", "end"),
    [
        ({"subtype": "success", "result": "x"}, RunFinished("x")),
        ({"subtype": "success", "result": 7}, RunFinished("7")),
        ({"subtype": "success", "result": {"n": 1, "session_id": "s"}}, RunFinished('{"n":1}')),
        ({"subtype": "success", "result": None}, RunFinished(None)),
        ({"subtype": "error_max_turns", "is_error": True}, RunFailed("the agent failed: 'error_max_turns'", "limit")),
        ({"subtype": "error_during_execution", "errors": ["a", "b"]}, RunFailed("a\nb")),
        ({}, RunFailed("the agent failed: None")),
    ],
)
def test_how_results_end(line: dict[str, Any], end: object) -> None:
    parser = ClaudeStream()
    (cost,) = feed(parser, lines_of({"type": "result", **line}))
    assert cost == UsageReport(Usage())
    assert parser.ended
    assert finish(parser) == [end]


def test_output_without_a_result_was_interrupted() -> None:
    """DESIGN Executors"""
    assert finish(ClaudeStream()) == [RunInterrupted()]


def test_of_several_results_the_last_counts_and_costs_add_up() -> None:
    """Work in the background goes on after the first."""
    parser = ClaudeStream()
    first = {"type": "result", "subtype": "success", "result": "one", "usage": {"input_tokens": 1}}
    second = first | {"result": "two", "usage": {"input_tokens": 2}}
    steps = feed(parser, lines_of(first))
    assert parser.ended
    steps += feed(parser, lines_of(assistant({"type": "text", "text": "more"})))
    assert not parser.ended
    steps += feed(parser, lines_of(second))
    assert sum(step.turn.input_tokens for step in steps if isinstance(step, UsageReport)) == 3
    assert finish(parser) == [RunFinished("two")]


def test_an_overlong_line_is_a_note_and_the_task_goes_on() -> None:
    """S003-27"""
    parser = ClaudeStream(max_line_bytes=4_000)
    assert feed(parser, b"x" * 5_000 + b"\n") == [ForeignOutput({"dropped_line_bytes": 5_000})]
    assert feed(parser, recorded("claude_plain"))
    assert finish(parser) == [RunFinished("ok 1")]


@given(mutated("claude"), st.lists(st.integers(1, 400), min_size=1, max_size=4))
def test_broken_output_never_breaks_the_parser(output: bytes, sizes: list[int]) -> None:
    """Issue 11: mutated JSONL. And how it is cut makes no difference."""
    steps = in_pieces(ClaudeStream(), output, sizes)
    assert [step for step in steps if isinstance(step, RunFinished | RunFailed | RunInterrupted)] == steps[-1:]
    assert steps == [*feed(parser := ClaudeStream(), output), *finish(parser)]
