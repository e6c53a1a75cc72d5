"""What `--plain` appends: a line a thing, each once, each with the name of its conversation where several speak."""

from __future__ import annotations

from tertulia.cli.output.work_lines import Line
from tertulia.cli.plain.lines import PlainLines
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tests.cli.made_events import CHILD, CONFIGURED, ROOT, EventMaker


def text_of(line: Line) -> str:
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in line)


class Reader:
    """Reads what a session tells, as a screen reader would."""

    def __init__(self) -> None:
        self.made = EventMaker()
        self.lines = PlainLines()
        self.take(CONFIGURED)
        self.take(e.ConversationOpened(None, None, "m", "native"))

    def take(self, data: e.EventData, conversation: ConversationId = ROOT) -> list[str]:
        return [text_of(line) for line in self.lines.take(self.made(data, conversation))]


def test_a_text_comes_line_by_line_and_no_line_twice() -> None:
    reader = Reader()
    item = ItemId("i")
    assert reader.take(e.AgentMessageDelta(item_id=item, text="one\ntw", offset=0)) == ["one"]
    assert reader.take(e.AgentMessageDelta(item_id=item, text="o", offset=6)) == []
    assert reader.take(e.AgentMessageDelta(item_id=item, text="\n\nthree", offset=7)) == ["two", ""]
    assert reader.take(e.AgentMessage(item_id=item, text="one\ntwo\n\nthree")) == ["three"]


def test_pieces_that_were_lost_come_with_the_whole_text() -> None:
    reader = Reader()
    item = ItemId("i")
    assert reader.take(e.AgentMessageDelta(item_id=item, text="one\n", offset=0)) == ["one"]
    assert reader.take(e.AgentMessageDelta(item_id=item, text="three\n", offset=8)) == []
    assert reader.take(e.AgentMessage(item_id=item, text="one\ntwo\nthree")) == ["two", "three"]


def test_a_delegation_says_who_waits_and_who_works_and_every_line_is_named() -> None:
    """S004-26, S004-33."""
    reader = Reader()
    arguments = {"user_instruction": "Run the tests", "title": "tester"}
    assert reader.take(t.ToolCallBegin(CallId("c"), "conv_create", arguments)) == ["asks a new conversation “tester”"]
    assert reader.take(e.TurnAborted("replaced")) == ["waits: tester works, then root goes on with the answer"]
    reader.take(e.ConversationOpened(ROOT, "tester", "m", "native"), CHILD)
    assert reader.take(e.AgentMessage(item_id=ItemId("a"), text="All pass.\n\nTwo slow."), CHILD) == [
        "tester: All pass.",
        "tester: Two slow.",
    ]
    assert reader.take(e.AgentMessage(item_id=ItemId("b"), text="Fine.")) == ["root: Fine."]


def test_of_a_plan_only_what_changed_is_told_again() -> None:
    reader = Reader()
    steps = [t.PlanStep("Read", "in_progress"), t.PlanStep("Test", "pending")]
    assert reader.take(t.PlanUpdate(steps)) == ["plan now: Read", "plan to do: Test"]
    steps = [t.PlanStep("Read", "completed"), t.PlanStep("Test", "pending")]
    assert reader.take(t.PlanUpdate(steps)) == ["plan done: Read"]


def test_a_warning_that_comes_again_is_told_once() -> None:
    reader = Reader()
    assert reader.take(e.WarningEvent("slow disk", "disk")) == ["warning: slow disk"]
    assert reader.take(e.WarningEvent("slow disk", "disk")) == []
