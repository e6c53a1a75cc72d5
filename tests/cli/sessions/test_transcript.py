"""A session that was, as a person reads it."""

from __future__ import annotations

import io

from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.sessions.replay import PrintedTranscript
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
        self._view = PrintedTranscript(TerminalOutput(self._stream, {}), only)
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
    transcript = Told()
    transcript.said("<environment_context>", injected=True)
    transcript.said("What is it?\nTell me.")
    transcript.event(t.ToolCallBegin(CallId("c"), "look", {"at": "it"}))
    transcript.event(t.ToolCallEnd(CallId("c"), "look", True, "a cat", False, 1))
    transcript.event(e.AgentMessage("A cat.\nBlack.", ItemId("a")))
    assert transcript.lines == [
        "you What is it?", "Tell me.", 'call look {"at":"it"}', "result a cat", "A cat.", "Black.",
    ]  # fmt: skip


def test_other_conversations_are_told_in_short_under_their_names() -> None:
    transcript = Told()
    transcript.record(titled(CHILD, "reviewer"))
    transcript.said("Review a.py", CHILD)
    transcript.event(e.AgentMessage("Looks right.", ItemId("a")), CHILD)
    transcript.event(e.AgentMessage("Well.", ItemId("b")), ConversationId("0123456789"))
    assert transcript.lines == ["reviewer was asked Review a.py", "reviewer said Looks right.", "01234567 said Well."]


def test_one_conversation_alone() -> None:
    transcript = Told(CHILD)
    transcript.said("for root")
    transcript.event(e.AgentMessage("from root", ItemId("a")))
    transcript.said("for me", CHILD)
    transcript.event(e.AgentMessage("from me", ItemId("b")), CHILD)
    assert transcript.lines == ["you for me", "from me"]


def test_answers_that_no_event_tells_of_are_told_all_the_same() -> None:
    """A fork has the history, and none of the events."""
    transcript = Told()
    transcript.said("first")
    transcript.answered("one", "1")
    transcript.said("second")
    transcript.answered("two", "2")
    transcript.answered("elsewhere", "3", CHILD)
    assert transcript.lines == ["you first", "one", "you second", "two"]
    transcript.finish()
    assert transcript.lines[4:] == ["child-id said elsewhere"]


def test_an_answer_that_an_event_tells_of_is_told_once_and_in_its_place() -> None:
    transcript = Told()
    transcript.answered("Well.", "1")
    transcript.event(e.AgentReasoning("Hm.", ItemId("0")))
    transcript.event(e.AgentMessage("", ItemId("1")))
    transcript.finish()
    assert transcript.lines == ["thinking Hm.", "Well."]


def test_what_is_not_stored_how_it_ended_and_that_it_went_on() -> None:
    transcript = Told()
    transcript.event(e.AgentMessage("", ItemId("a")))
    transcript.event(e.AgentMessage("", ItemId("b")), CHILD)
    transcript.event(e.TurnAborted("replaced"))
    transcript.event(e.TurnAborted("crash"))
    transcript.event(CONFIGURED, None)
    transcript.record(None)
    assert transcript.lines == [
        "[not stored]",
        "child-id said [not stored]",
        "stopped crash",
        "resumed 2026-01-01T00:00:00.000Z with scripted/test",
    ]
