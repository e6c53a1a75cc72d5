"""Messages of the panels to the application: show, open, interrupt or close a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from tertulia.protocol.ids import ConversationId


@dataclass
class ConversationChosen(Message):
    """A person wants to see this conversation."""

    conversation_id: ConversationId


@dataclass
class InterruptRequested(Message):
    """A person wants this conversation, and all that work for it, to stop."""

    conversation_id: ConversationId


@dataclass
class CloseRequested(Message):
    """A person wants this conversation to be closed."""

    conversation_id: ConversationId


@dataclass
class NewRequested(Message):
    """A person wants a new conversation below this one."""

    parent_id: ConversationId
