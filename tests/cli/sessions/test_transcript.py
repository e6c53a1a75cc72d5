"""A session that was, as a person reads it."""

from __future__ import annotations

import io

from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.sessions.replay import Transcript
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import AssistantMessage, TextPart, UserMessage
from tertulia.protocol.records import ItemsRecord, Record, TermsRecord
from tertulia.protocol.storage import Full
from tertulia.rollout.format.record_lines import RecordLine
from tests.cli.made_events import CHILD, CONFIGURED, ROOT, EventMaker


class Told:
    """A transcript and what stands in it."""

    def __init__(self, only: ConversationId | None = None) -> None:
        self._stream = io.StringIO()
        self._tell = EventMaker()
        self._view = Transcript(TerminalOutput(self._stream, {}), only)
        self.event(CONFIGURED, None)

    def event(self, data: e.EventData, conversation: ConversationId | None = ROOT) -> None:
        self._view.take(RecordLine(1, 0.0, self._tell(data, conversation)))

    def record(self, record: Record | None) -> None:
        self._view.take(RecordLine(1, 0.0, record))

    def said(self, text: str, conversation: ConversationId = ROOT, *, injected: bool = False) -> None:
        self.record(ItemsRecord(conversation, (UserMessage(ItemId("i"), (TextPart(text),), injected=injected),)))

    def answered(self, text: str, id: str, conversation: ConversationId = ROOT) -> None:
        self.record(ItemsRecord(conversation, (AssistantMessage(ItemId(id), (TextPart(text),)),)))

    def finish(self) -> None:
        self._view.finish()

    @property
    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()


def titled(conversation: ConversationId, title: str | None) -> TermsRecord:
    return TermsRecord(conversation, Full(), {}, {"parent_id": ROOT}, {"title": title})


def test_question_and_answer_stand_in_one_stream() -> None:
    told = Told()
    told.said("<environment_context>", injected=True)
    told.said("What is it?\nTell me.")
    told.event(t.ToolCallBegin(CallId("c"), "look", {"at": "it"}))
    told.event(t.ToolCallEnd(CallId("c"), "look", True, "a cat", False, 1))
    told.event(e.AgentMessage("A cat.\nBlack.", ItemId("a")))
    assert told.lines == [
        "you What is it?", "Tell me.", 'call look {"at":"it"}', "result a cat", "A cat.", "Black.",
    ]  # fmt: skip


def test_other_conversations_are_told_in_short_under_their_names() -> None:
    told = Told()
    told.record(titled(CHILD, "reviewer"))
    told.said("Review a.py", CHILD)
    told.event(e.AgentMessage("Looks right.", ItemId("a")), CHILD)
    told.event(e.AgentMessage("Well.", ItemId("b")), ConversationId("0123456789"))
    assert told.lines == ["reviewer was asked Review a.py", "reviewer said Looks right.", "01234567 said Well."]


def test_one_conversation_alone() -> None:
    told = Told(CHILD)
    told.said("for root")
    told.event(e.AgentMessage("from root", ItemId("a")))
    told.said("for me", CHILD)
    told.event(e.AgentMessage("from me", ItemId("b")), CHILD)
    assert told.lines == ["you for me", "from me"]


def test_answers_that_no_event_tells_of_are_told_all_the_same() -> None:
    """A fork has the history, and none of the events."""
    told = Told()
    told.said("first")
    told.answered("one", "1")
    told.said("second")
    told.answered("two", "2")
    told.answered("elsewhere", "3", CHILD)
    assert told.lines == ["you first", "one", "you second", "two"]
    told.finish()
    assert told.lines[4:] == ["child-id said elsewhere"]


def test_an_answer_that_an_event_tells_of_is_told_once_and_in_its_place() -> None:
    told = Told()
    told.answered("Well.", "1")
    told.event(e.AgentReasoning("Hm.", ItemId("0")))
    told.event(e.AgentMessage("", ItemId("1")))
    told.finish()
    assert told.lines == ["thinking Hm.", "Well."]


def test_what_is_not_stored_how_it_ended_and_that_it_went_on() -> None:
    told = Told()
    told.event(e.AgentMessage("", ItemId("a")))
    told.event(e.AgentMessage("", ItemId("b")), CHILD)
    told.event(e.TurnAborted("replaced"))
    told.event(e.TurnAborted("crash"))
    told.event(CONFIGURED, None)
    told.record(None)
    assert told.lines == [
        "[not stored]",
        "child-id said [not stored]",
        "stopped crash",
        "resumed 2026-01-01T00:00:00.000Z with scripted/test",
    ]
