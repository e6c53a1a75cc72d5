"""What a transcript asks its application to do."""

from __future__ import annotations

from textual.message import Message

from tertulia.protocol.ids import ConversationId


class ForkRequested(Message):
    """A person wants to fork the conversation at this cell."""

    def __init__(self, cell_key: str, conversation_id: ConversationId) -> None:
        super().__init__()
        self.cell_key = cell_key
        self.conversation_id = conversation_id


class CopyRequested(Message):
    """This text is to be put on the clipboard."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class OpenFile(Message):
    """This file is to be opened in the person's editor, at this line."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__()
        self.path = path
        self.line = line


class SearchClosed(Message):
    """The search of the transcript has ended, and its matches are marked no more."""
