"""What a transcript asks its application to do."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from tertulia.protocol.ids import ConversationId


@dataclass
class ForkRequested(Message):
    """A person wants to fork the conversation at this cell."""

    cell_key: str
    conversation_id: ConversationId


@dataclass
class CopyRequested(Message):
    """This text is to be put on the clipboard."""

    text: str


@dataclass
class OpenFile(Message):
    """This file is to be opened in the person's editor, at this line."""

    path: str
    line: int


class SearchClosed(Message):
    """The search of the transcript has ended, and its matches are marked no more."""


@dataclass
class WeaveRequested(Message):
    """A person wants this conversation and those below it in one stream, or one conversation again."""

    conversation_id: ConversationId | None
    """None: the conversation that is seen."""


class NextQuestionRequested(Message):
    """A person wants to see the next conversation that asks something."""
