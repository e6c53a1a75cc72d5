"""How the demo looks."""

from __future__ import annotations

import io

import pytest

from tertulia.cli.demo import ColleaguesView
from tertulia.cli.demo_view import DemoView
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import Usage
from tests.cli.made_events import CHILD, ROOT, EventMaker

ONE = ItemId("1")


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the screen is on which the tests run."""
    monkeypatch.setenv("COLUMNS", "100")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(*data: e.EventData, live: bool = False) -> list[str]:
    out, tell = Screen() if live else io.StringIO(), EventMaker()
    stage = DemoView(TerminalOutput(out, {"NO_COLOR": "1"}))
    stage.introduce(ROOT, "guide", "cyan")
    for part in data:
        stage.show(tell(part))
        stage.show(tell(part, CHILD))
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (e.TaskStarted("user", "hello"), "  guide        you  hello"),
        (e.AgentMessage("hi", ONE), "  guide       says  hi"),
        (t.PlanUpdate([t.PlanStep("a", "completed")]), "  guide       plan  [x] a"),
        (t.ToolCallBegin(CallId("c"), "add", "{}"), "  guide      calls  add {}"),
        (t.ToolCallEnd(CallId("c"), "add", True, "3", False, 1), "  guide       gets  3"),
        (t.ToolCallEnd(CallId("c"), "add", False, '{"reason": "no"}', False, 1), "  guide    refused  add: no"),
        (t.ToolCallEnd(CallId("c"), "add", False, "broken", False, 1), "  guide    refused  add: broken"),
        (e.BackgroundEvent("less"), "  guide   narrowed  less"),
        (e.TaskComplete("completed", "hi", Usage(total_tokens=1200)), "  guide       done  1,200 tokens"),
        (e.TurnAborted("interrupted"), "  guide    stopped  interrupted; what was said so far is kept"),
    ],
)
def test_an_event_of_a_known_conversation_is_a_line(data: e.EventData, line: str) -> None:
    assert shown(data) == [line]


@pytest.mark.parametrize(
    "data",
    [
        e.TokenCount(Usage(), 1, "key"),
        t.ToolCallBegin(CallId("c"), "update_plan", "{}"),
        t.ToolCallEnd(CallId("c"), "update_plan", True, "Plan updated", False, 1),
        e.AgentMessageDelta("hi", ONE, 0),
    ],
)
def test_what_is_told_elsewhere_is_not_told_twice(data: e.EventData) -> None:
    assert shown(data) == []


def test_on_a_terminal_words_come_one_by_one_and_once() -> None:
    deltas = [e.AgentMessageDelta("one ", ONE, 0), e.AgentMessageDelta("two", ONE, 4)]
    assert shown(*deltas, live=True) == ["  guide       says  one two"]
    assert shown(*deltas, e.AgentMessage("one two", ONE), live=True) == ["  guide       says  one two"]


def test_long_answers_are_wrapped_beside_the_name() -> None:
    lines = shown(e.AgentMessage("word " * 30, ONE))
    assert len(lines) == 2
    assert all(len(line) <= 100 for line in lines)
    assert lines[1].startswith("  guide             word")


def test_rows_are_cut_at_the_width() -> None:
    (line,) = shown(e.TaskStarted("user", "x" * 200))
    assert len(line) == 100
    assert line.endswith("…")


def test_a_heading_stands_apart() -> None:
    out = io.StringIO()
    DemoView(TerminalOutput(out, {})).heading("Next")
    assert out.getvalue() == "\nNext\n"


def test_who_is_at_work_stands_in_a_line_that_the_next_is_printed_over() -> None:
    """On a screen only; the answer of the one that asked is not printed over."""
    for screen, ends in ((Screen(), 2), (io.StringIO(), 0)):
        stage, tell = DemoView(TerminalOutput(screen, {"NO_COLOR": "1"})), EventMaker()
        stage.introduce(ROOT, "guide", "cyan")
        view = ColleaguesView(stage, ROOT)
        view.show(tell(e.ConversationOpened(ROOT, "Ana", "m", "native"), CHILD))
        view.show(tell(e.TaskStarted("target", "where?"), CHILD))
        view._show_work()
        view.show(tell(e.AgentMessageDelta("no", ONE, 0), CHILD))
        view.show(tell(e.AgentMessage("here", ONE), CHILD))
        view.show(tell(e.TaskComplete("completed", "here", Usage()), CHILD))
        for piece in ("one ", "two"):
            view.show(tell(e.AgentMessageDelta(piece, ItemId("2"), 0)))
        assert screen.getvalue().count("\r\x1b[K") == ends
        assert screen.getvalue().count("at work: Ana 0.0 s") == ends // 2
        assert "Ana         says  here\n" in screen.getvalue()
        assert "no" not in screen.getvalue().split()
