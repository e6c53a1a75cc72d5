"""`exec` for people: on a terminal, and into a pipe."""

from __future__ import annotations

import asyncio
import io

import msgspec
import pytest

from tertulia.cli.exec import text_output
from tertulia.cli.exec.run_message import MessageOutcome
from tertulia.cli.exec.text_output import TextView
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ItemId, TaskId
from tertulia.protocol.items import Usage
from tertulia.scheduler.reply import Reply
from tests.cli.made_events import CHILD, CONFIGURED, ROOT, EventMaker

ONE, TWO = ItemId("1"), ItemId("2")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Watched:
    """A view and what was seen of it."""

    def __init__(self, *, live: bool, warnings: list[str] | None = None) -> None:
        self._out = Screen() if live else io.StringIO()
        self._notes = io.StringIO()
        self._tell = EventMaker()
        self.view = TextView(
            TerminalOutput(self._out, {"NO_COLOR": "1"}), TerminalOutput(self._notes, {}), warnings or []
        )
        self.view.show(self._tell(CONFIGURED, None, None))

    def show(self, *data: e.EventData, conversation: str = ROOT) -> None:
        for part in data:
            self.view.show(self._tell(part, CHILD if conversation == CHILD else ROOT))

    @property
    def out(self) -> str:
        return self._out.getvalue()

    @property
    def notes(self) -> list[str]:
        return self._notes.getvalue().splitlines()


def reply(text: str | None) -> Reply:
    return Reply(text, "completed", Usage(1200, 7, 34, 0, 1234), 2, 1.25, TaskId("task"), "trace")


def test_into_a_pipe_goes_the_final_answer_and_a_line_end() -> None:
    seen = Watched(live=False)
    seen.show(e.AgentMessageDelta("Let ", ONE, 0), e.AgentMessage("Let me see.", ONE))
    seen.show(t.ToolCallBegin(CallId("c"), "look", "{}"), e.AgentMessage("Done.", TWO))
    assert seen.out == ""
    seen.view.end(MessageOutcome("completed", reply("Done.")))
    assert seen.out == "Done.\n"
    assert seen.notes[0] == "said Let me see."


def test_an_answer_after_an_answer_was_the_final_one() -> None:
    seen = Watched(live=False)
    seen.show(e.AgentMessage("First.", ONE), e.AgentMessage("Second.", TWO))
    seen.view.end(MessageOutcome("completed", reply("Second.")))
    assert seen.out == "Second.\n"
    assert seen.notes[0] == "said First."


def test_a_model_that_says_nothing_leaves_the_pipe_empty() -> None:
    seen = Watched(live=False)
    seen.view.end(MessageOutcome("completed", reply(None)))
    assert seen.out == ""


@pytest.mark.parametrize("status", ["failed", "interrupted", "timeout"])
def test_what_was_said_before_a_bad_end_is_not_the_answer(status: str) -> None:
    seen = Watched(live=False)
    seen.show(e.AgentMessage("Half an ans", ONE))
    seen.view.end(MessageOutcome(status))  # pyright: ignore[reportArgumentType]
    assert seen.out == ""
    assert seen.notes == ["said Half an ans", status]


def test_on_a_terminal_the_answer_comes_in_pieces_and_once() -> None:
    seen = Watched(live=True)
    seen.show(e.AgentMessageDelta("It ", ONE, 0))
    assert seen.out == "It "
    seen.show(
        e.AgentMessageDelta("works.", ONE, 3), e.AgentReasoning("hm", ItemId("r")), e.AgentMessage("It works.", ONE)
    )
    seen.view.end(MessageOutcome("completed", reply("It works.")))
    assert seen.out == "It works.\n"


def test_an_answer_without_pieces_is_shown_whole() -> None:
    seen = Watched(live=True)
    seen.show(e.AgentMessage("At once.", ONE))
    assert seen.out == "At once.\n"


def test_two_answers_stand_on_two_lines() -> None:
    seen = Watched(live=True)
    seen.show(e.AgentMessageDelta("one", ONE, 0), e.AgentMessageDelta("two", TWO, 0))
    seen.show(e.AgentMessage("one", ONE), e.AgentMessage("two", TWO))
    assert seen.out == "one\ntwo\n"


def test_a_note_does_not_run_into_a_half_written_line() -> None:
    seen = Watched(live=True)
    seen.show(
        e.AgentMessageDelta("half", ONE, 0), e.BackgroundEvent("the stream was cut, once more", discard_deltas=True)
    )
    seen.show(e.AgentMessageDelta("whole", TWO, 0), e.AgentMessage("whole", TWO))
    assert seen.out == "half\nwhole\n"
    assert seen.notes == ["note the stream was cut, once more"]


def test_stopping_is_said_at_once() -> None:
    seen = Watched(live=True)
    seen.show(e.AgentMessageDelta("half", ONE, 0))
    seen.view.stopping("interrupted")
    assert seen.out == "half\n"
    assert seen.notes == ["stopping a second signal kills"]
    seen.view.stopping("timeout")
    assert seen.notes[-1] == "stopping the timeout has passed"


def test_other_conversations_are_only_noted() -> None:
    seen = Watched(live=True)
    seen.show(e.AgentMessageDelta("psst", ONE, 0), e.AgentMessage("psst", ONE), conversation=CHILD)
    assert seen.out == ""
    assert seen.notes == ["child-id said psst"]


def test_what_the_model_does_is_told_in_lines() -> None:
    seen = Watched(live=False, warnings=["a file is odd"])
    plan = t.PlanUpdate(
        [t.PlanStep("one", "completed"), t.PlanStep("two", "in_progress"), t.PlanStep("three", "pending")]
    )
    seen.show(e.AgentReasoning("first\nthis", ONE), plan, t.ToolCallBegin(CallId("c"), "add", '{"a": 1}'))
    seen.show(
        t.ToolCallEnd(CallId("c"), "add", True, "3", False, 1), t.ToolCallEnd(CallId("d"), "sub", False, "no", False, 1)
    )
    assert seen.notes == [
        "warning a file is odd",
        "thinking first this",
        "plan [x] one",
        "plan [>] two",
        "plan [ ] three",
        'call add {"a": 1}',
        "result 3",
        "failed no",
    ]


def test_what_is_not_as_asked_is_told_too() -> None:
    seen = Watched(live=False)
    seen.show(
        e.BackgroundEvent("sandbox: less", [{}]), e.WarningEvent("careful"), e.ErrorEvent("model_error", "no answer")
    )
    seen.show(e.TokenCount(Usage(), 1, "key"))
    assert seen.notes == ["narrowed sandbox: less", "warning careful", "error no answer"]


def test_the_last_line_says_what_it_cost() -> None:
    seen = Watched(live=False)
    seen.view.end(MessageOutcome("completed", reply("ok")))
    assert seen.notes == ["tokens 1,200 in (7 cached), 34 out · 2 tool calls · 1.2 s"]


def test_one_tool_call_is_one() -> None:
    seen = Watched(live=False)
    seen.view.end(MessageOutcome("completed", msgspec.structs.replace(reply("ok"), tool_calls=1)))
    assert seen.notes[0].endswith("34 out · 1 tool call · 1.2 s")


def test_a_task_that_waits_for_another_conversation_says_so() -> None:
    """S004-26, S004-33: replaced, the target runs, then it goes on; any other end is told at the end."""
    seen = Watched(live=False)
    seen.show(e.TurnAborted("replaced", CallId("c")))
    seen.show(e.TurnAborted("interrupted"), conversation=CHILD)
    (note,) = seen.notes
    assert note.startswith("waits goes on when every conversation that it asked")


async def test_nothing_turns_while_a_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 19, 6: the spinner is gone before any output, and stays away until the answer."""
    monkeypatch.setattr(text_output, "DELAY_S", 0.0)
    out, notes, tell = Screen(), Screen(), EventMaker()
    view = TextView(TerminalOutput(out, {}), TerminalOutput(notes, {}), [])

    async def turns() -> bool:
        before = notes.getvalue()
        for _ in range(10):
            await asyncio.sleep(0)
        return notes.getvalue() != before

    view.show(tell(CONFIGURED, None, None))
    assert not await turns(), "nothing is awaited yet"
    view.wait()
    view.show(tell(e.TaskStarted("user"), ROOT))
    assert await turns()
    view.show(tell(t.ApprovalRequest("a", "exec", ROOT, [], "ls", "", "", []), ROOT))
    assert notes.getvalue().endswith("\r\x1b[K")
    view.show(tell(e.AgentReasoning("hm", ONE), ROOT))
    assert notes.getvalue().endswith("\x1b[2mthinking\x1b[0m hm\n")
    assert not await turns()
    view.show(tell(t.ApprovalResolved("a", "allow", "once", [], "me"), ROOT))
    assert await turns()
    view.show(tell(e.AgentMessageDelta("An", ONE, 0), ROOT))
    assert (out.getvalue(), notes.getvalue()[-4:]) == ("An", "\r\x1b[K")
    assert not await turns(), "the answer is being written"
    view.rest()
    view.show(tell(e.AgentMessage("An", ONE), ROOT))
    assert not await turns()
