"""Prints the record of a session as `exec` shows a running one, with the users' messages, all in one stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from tertulia.cli.exec.text_output import TextView
from tertulia.cli.output.conversation_tree import conversation_name
from tertulia.cli.output.terminal import TerminalOutput, shorten
from tertulia.protocol import events as e
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import AssistantMessage, UserMessage
from tertulia.protocol.records import ItemsRecord, TermsRecord
from tertulia.rollout.format.record_lines import RecordLine


class Transcript(TextView):
    """Takes the lines of a record. Messages of the root, or of one conversation, are shown in full, others in short."""

    def __init__(self, out: TerminalOutput, conversation_id: ConversationId | None = None) -> None:
        super().__init__(out, out, ())
        self._only = conversation_id
        self._names: dict[ConversationId | None, str] = {}
        self._begun = False
        self._unsaid: dict[ItemId, tuple[ConversationId, str]] = {}
        """Answers in the record without their event so far. In a fork they have none."""
        if conversation_id is not None:
            self._root = conversation_id

    def take(self, line: RecordLine) -> None:
        """Print one line of a record, if it is of use to a person."""
        match line.what:
            case e.Event() as event:
                if self._only in (None, event.conversation_id) or isinstance(event.data, e.SessionConfigured):
                    self.show(event)
            case ItemsRecord() as record:
                if self._only in (None, record.conversation_id):
                    self._hear(record)
            case TermsRecord(conversation_id=id, place=place, terms=terms):
                self._names[id] = conversation_name(id, terms.get("title"), place.get("parent_id"))
            case _:
                pass

    def finish(self) -> None:
        """Print the answers that no event followed; no line follows."""
        unsaid, self._unsaid = self._unsaid, {}
        for conversation_id, text in unsaid.values():
            self._speak(conversation_id, text)

    def _hear(self, record: ItemsRecord) -> None:
        self.finish()
        for item in record.items:
            if isinstance(item, AssistantMessage):
                self._unsaid[item.id] = (record.conversation_id, item.text)
            elif isinstance(item, UserMessage) and not item.injected:
                if record.conversation_id == self._root:
                    self._note("you", "bold", item.text)
                else:
                    self._note(self._name(record.conversation_id), "magenta", f"was asked {shorten(item.text)}")

    def _name(self, conversation_id: ConversationId | None) -> str:
        return self._names.get(conversation_id) or str(conversation_id)[:8]

    def _again(self, event: e.Event, data: e.SessionConfigured) -> None:
        self.finish()
        if self._only is None:
            self._root = data.root_conversation_id
        if self._begun:
            self._note("resumed", "dim", f"{event.ts} with {data.model}")
        self._begun = True

    def _spoke(self, event: e.Event, data: e.AgentMessage) -> None:
        _, text = self._unsaid.pop(data.item_id, (None, ""))
        self._speak(event.conversation_id, data.text or text or "[not stored]")

    def _speak(self, conversation_id: ConversationId | None, text: str) -> None:
        if conversation_id == self._root:
            self._break_line()
            self._out.line(text)
        else:
            self._note(self._name(conversation_id), "magenta", f"said {shorten(text)}")

    def _stopped(self, event: e.Event, data: e.TurnAborted) -> None:
        if data.reason != "replaced":
            self._note("stopped", "red", data.reason)

    _showers: ClassVar[Mapping[type[e.EventData], Callable[..., None]]] = {
        **TextView._showers,
        e.SessionConfigured: _again,
        e.AgentMessage: _spoke,
        e.TurnAborted: _stopped,
    }
