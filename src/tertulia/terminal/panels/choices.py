"""Messages of the panels to the application: show, open, interrupt or close a conversation."""

from __future__ import annotations

from textual.message import Message

from tertulia.protocol.ids import ConversationId


class ConversationChosen(Message):
    """A person wants to see this conversation."""

    def __init__(self, conversation_id: ConversationId) -> None:
        super().__init__()
        self.conversation_id = conversation_id


class InterruptRequested(Message):
    """A person wants this conversation, and all that work for it, to stop."""

    def __init__(self, conversation_id: ConversationId) -> None:
        super().__init__()
        self.conversation_id = conversation_id


class CloseRequested(Message):
    """A person wants this conversation to be closed."""

    def __init__(self, conversation_id: ConversationId) -> None:
        super().__init__()
        self.conversation_id = conversation_id


class NewRequested(Message):
    """A person wants a new conversation below this one."""

    def __init__(self, parent_id: ConversationId) -> None:
        super().__init__()
        self.parent_id = parent_id
