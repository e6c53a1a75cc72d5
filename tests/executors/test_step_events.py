"""What an executor does, told in the words of our own turns."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given

from tertulia.executors import executor as x
from tertulia.executors.command.claude_stream import ClaudeStream
from tertulia.executors.command.codex_jsonl import CodexJsonl
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
    Parser,
    PatchAct,
    RunFailed,
    RunFinished,
    RunInterrupted,
    Step,
    Thought,
    ThoughtDelta,
    ToolUseBegin,
    ToolUseEnd,
    UsageReport,
    WebSearchAct,
)
from tertulia.executors.step_events import StepEvents, bound_text
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import EVENT_TYPES
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.protocol.items import Usage
from tertulia.testing import FakeClock
from tests.executors.recorded import feed, finish, mutated, names, recorded
from tests.tables import each_row

CALL = CallId("run:c")


def step_events(**more: int) -> StepEvents:
    return StepEvents("codex", "run", "/workspace", FakeClock(), **more)


def events_of(output: bytes, parser: Parser) -> list[e.EventData]:
    made = step_events()
    return [event for step in (*feed(parser, output), *finish(parser)) for event in made.tell(step)]


def done(act: object = None, output: str = "out", *, success: bool = True, code: int | None = None) -> ToolUseEnd:
    return ToolUseEnd("c", "tool", {"a": 1}, act, success, output, code)  # type: ignore[arg-type]


# ---- every step


def test_there_is_an_answer_to_every_kind_of_step() -> None:
    assert set(StepEvents._tellers) == set(get_args(Step))


@each_row(
    ("step", "events"),
    [
        (NativeSessionId("x"), []),
        (AgentText("1", "hi"), [e.AgentMessage("hi", ItemId("run:1"))]),
        (Thought("1", "hm"), [e.AgentReasoning("hm", ItemId("run:1"))]),
        (AgentPlan((t.PlanStep("a", "pending"),)), [t.PlanUpdate([t.PlanStep("a", "pending")])]),
        (UsageReport(Usage(1, 0, 2, 0, 3), Usage(9, 9, 9, 9, 18)), [e.TokenCount(Usage(1, 0, 2, 0, 3), 0, "")]),
        (Notice("careful"), [e.WarningEvent("careful")]),
        (ForeignOutput({"x": 1}), [e.ForeignEvent("codex", {"x": 1})]),
        (RunFinished("x"), []),
        (RunFailed("x"), []),
        (RunInterrupted(), []),
    ],
)
def test_what_is_said(step: Step, events: list[e.EventData]) -> None:
    """DESIGN: one vocabulary; what is unknown is kept as foreign_event, and the task's end is not told here."""
    assert step_events().tell(step) == events


def test_deltas_carry_their_offset_and_the_whole_has_their_id() -> None:
    made = step_events()
    pieces = [made.tell(AgentDelta("1", text))[0] for text in ("ab", "cde")]
    assert pieces == [e.AgentMessageDelta("ab", ItemId("run:1"), 0), e.AgentMessageDelta("cde", ItemId("run:1"), 2)]
    assert made.tell(ThoughtDelta("2", "x")) == [e.AgentReasoningDelta("x", ItemId("run:2"), 0)]
    assert made.tell(AgentText("1", "abcde")) == [e.AgentMessage("abcde", ItemId("run:1"))]


def test_an_id_that_is_given_twice_is_two_messages() -> None:
    """Issue 11, bad input: an item of a history has one id, and nothing is lost."""
    made = step_events()
    steps = [AgentDelta("1", "a"), AgentText("1", "a"), AgentDelta("1", "b"), AgentText("1", "b"), AgentText("1", "c")]
    events: list[Any] = [made.tell(step)[0] for step in steps]
    assert [event.item_id for event in events] == ["run:1", "run:1", "run:1~2", "run:1~2", "run:1~3"]
    assert [events[0].offset, events[2].offset] == [0, 0]


def test_names_of_tools_are_names() -> None:
    """Issue 11, bad input: an agent may call its tools what it likes, but not at any length."""
    act = McpCallAct("s" * 10_000, "t" * 10_000)
    step = ToolUseEnd("c", "n" * 10_000, {}, act, success=True, output="out")
    begun, finer, finer_end, ended = step_events().tell(step)
    shown: list[Any] = [begun, ended]
    assert all(0 < len(event.name) <= 200 for event in shown)
    shown = [finer, finer_end]
    assert all(0 < len(name) <= 200 for event in shown for name in (event.server, event.tool))


def test_deltas_of_a_message_without_end_are_told_as_far_as_a_message_can_be_long() -> None:
    """HARDENING C10: what is kept of a message that never becomes whole is bounded; and it has no gap."""
    made, piece = step_events(), "x" * (MAX_TEXT_BYTES // 2 - 1)
    assert [len(made.tell(AgentDelta("1", text))) for text in (piece, piece, "xxx", "x")] == [1, 1, 0, 0]
    assert len(made.tell(AgentDelta("2", "x"))) == 1


@each_row(
    ("act", "begin", "end"),
    [
        (
            CommandAct(("ls", "-l")),
            t.ExecCommandBegin(CALL, ["ls", "-l"], "/workspace"),
            t.ExecCommandEnd(CALL, 3, "out", False, 0),
        ),
        (
            PatchAct((FileChangeAct("a", "add"),)),
            t.PatchApplyBegin(CALL, [{"kind": "add", "path": "a"}]),
            t.PatchApplyEnd(CALL, True, "out"),
        ),
        (McpCallAct("s", "t"), t.McpToolCallBegin(CALL, "s", "t"), t.McpToolCallEnd(CALL, "s", "t", True, 0)),
        (WebSearchAct("q"), t.WebSearchBegin(CALL), t.WebSearchEnd(CALL, "q")),
    ],
)
def test_what_is_done_has_finer_events_between_begin_and_end(act: object, begin: e.EventData, end: e.EventData) -> None:
    """DESIGN Shapes: every tool call gives begin and end; `command_execution` is exec_command_begin and end."""
    made = step_events()
    assert made.tell(ToolUseBegin("c", "tool", {"a": 1}, act)) == [t.ToolCallBegin(CALL, "tool", {"a": 1}), begin]  # type: ignore[arg-type]
    assert made.tell(done(act, code=3)) == [end, t.ToolCallEnd(CALL, "tool", True, "out", False, 0)]


def test_a_tool_without_a_finer_word_has_begin_and_end() -> None:
    events = [event for step in (ToolUseBegin("c", "tool", {}), done()) for event in step_events().tell(step)]
    assert [event.type for event in events] == ["tool_call_begin", "tool_call_begin", "tool_call_end"]


def test_an_end_without_a_beginning_gets_one_and_a_second_end_is_nothing() -> None:
    """One output a call, in every ending."""
    made = step_events()
    types = [event.type for event in made.tell(done(CommandAct(("ls",))))]
    assert types == ["tool_call_begin", "exec_command_begin", "exec_command_end", "tool_call_end"]
    assert made.tell(done(CommandAct(("ls",)))) == []
    assert made.tell(ToolUseBegin("c", "tool", {})) == []


def test_what_began_as_one_thing_does_not_end_as_another() -> None:
    made = step_events()
    made.tell(ToolUseBegin("c", "first", {}, CommandAct(("ls",))))
    assert made.tell(ToolUseBegin("c", "again", {})) == []
    assert made.tell(done(WebSearchAct("q"))) == [
        t.ExecCommandEnd(CALL, None, "out", False, 0),
        t.ToolCallEnd(CALL, "first", True, "out", False, 0),
    ]


def test_a_search_ends_with_the_query_that_it_was_found_to_be() -> None:
    made = step_events()
    made.tell(ToolUseBegin("c", "web_search", {}, WebSearchAct("")))
    assert made.tell(done(WebSearchAct("weather")))[0] == t.WebSearchEnd(CALL, "weather")


@pytest.mark.parametrize("ending", [RunFinished(), RunFailed("x"), RunInterrupted()])
def test_every_ending_closes_what_is_open(ending: Step) -> None:
    """Issue 11: an interrupted run leaves no call without its end."""
    made = step_events()
    made.tell(ToolUseBegin("c", "tool", {}, CommandAct(("sleep", "9"))))
    assert made.tell(ending) == [
        t.ExecCommandEnd(CALL, None, "interrupted", False, 0),
        t.ToolCallEnd(CALL, "tool", False, "interrupted", False, 0),
    ]
    assert made.tell(ending) == []


def test_how_long_it_took_is_measured_here() -> None:
    clock = FakeClock()
    made = StepEvents("codex", "run", "/", clock)
    made.tell(ToolUseBegin("c", "tool", {}))
    clock.advance(1.5)
    (end,) = made.tell(done())
    assert end["duration_ms"] == 1_500


def test_long_outputs_are_cut_and_say_so() -> None:
    made = step_events(max_output_bytes=100)
    (end,) = made.tell(done(output="é" * 1_000))[1:]
    assert end["truncated"] is True
    assert len(end["output"].encode()) <= 100
    assert step_events().tell(done(output="x" * 65_536))[1]["truncated"] is False
    assert bound_text("x" * 100_000, None) == "x" * 100_000
    assert bound_text("abc", 0) == ""


# ---- whole runs


@each_row("name", [*names("codex"), *names("claude")])
def test_a_recorded_run_tells_each_call_once_and_nothing_foreign(name: str) -> None:
    """DESIGN: native and foreign turns share one vocabulary."""
    events = events_of(recorded(name), CodexJsonl() if name.startswith("codex") else ClaudeStream())
    assert {event.type for event in events} <= set(EVENT_TYPES) - {"foreign_event", "task_complete", "turn_aborted"}
    for begin, end in (("tool_call_begin", "tool_call_end"), ("exec_command_begin", "exec_command_end")):
        begun = [event["call_id"] for event in events if event.type == begin]
        assert Counter(begun) == Counter(event["call_id"] for event in events if event.type == end)
        assert len(set(begun)) == len(begun)


def test_two_runs_that_number_alike_do_not_share_ids() -> None:
    """CODEX, traps: item ids restart after a resume."""
    rooms = [StepEvents("codex", run, "/", FakeClock()) for run in ("one", "two")]
    first, second = (made.tell(done())[0]["call_id"] for made in rooms)
    assert first != second


@pytest.mark.parametrize("parser", [CodexJsonl, ClaudeStream])
def test_broken_output_keeps_begin_and_end_in_pairs(parser: type[CodexJsonl] | type[ClaudeStream]) -> None:
    @given(mutated("codex" if parser is CodexJsonl else "claude"))
    def check(output: bytes) -> None:
        events = events_of(output, parser())
        calls = Counter(event["call_id"] for event in events if event.type == "tool_call_begin")
        assert calls == Counter(event["call_id"] for event in events if event.type == "tool_call_end")
        assert set(calls.values()) <= {1}

    check()


def test_commands_and_changes_say_who_allowed_them_as_soon_as_it_is_known() -> None:
    """A1: an agent may tell of a call before it asks about it."""
    known: dict[str, t.Decider] = {"early": t.Decider("policy", "untrusted")}
    made = StepEvents("codex", "run", "/", FakeClock(), allowed_by=known.get)
    change = x.PatchAct((x.FileChangeAct("a", "add"),))
    begun = [made.tell(x.ToolUseBegin(id, "shell", {}, x.CommandAct(("ls",))))[-1] for id in ("early", "late")]
    made.tell(x.ToolUseBegin("edit", "edit", {}, change))
    known |= {"late": t.Decider("client", "ana"), "edit": t.Decider("grant", grant_id="g")}
    ended = [made.tell(x.ToolUseEnd(id, "shell", {}, x.CommandAct(("ls",)), True, ""))[0] for id in ("early", "late")]
    ended.append(made.tell(x.ToolUseEnd("edit", "edit", {}, change, True, ""))[0])
    assert [getattr(event, "allowed_by", None) for event in begun] == [known["early"], None]
    assert [getattr(event, "allowed_by", None) for event in ended] == [known["early"], known["late"], known["edit"]]
