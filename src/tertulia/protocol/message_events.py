"""The event data of messages and decisions of persons, and of messages from other conversations.

The envelope and the union of all event data are in `events`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import ImagePart, Part
from tertulia.protocol.mapping_struct import BaseEventData, MappingStruct

MessageWay = Literal["message", "steer", "queued", "delegated"]
"""How a message arrived: its task began at once, it joined a running task, its task began after waiting, or another
conversation wrote it."""


class Attachment(MappingStruct, frozen=True, gc=False, omit_defaults=True):
    """The description of a picture in a message; its content is in the history only."""

    type: Literal["image"] = "image"
    media_type: str | None = None
    """Such as `image/png`, if the message contains the picture itself."""
    bytes: int | None = None
    """The approximate size of the picture, if the message contains it."""
    url: str | None = None
    """The address of the picture, if the message contains only that."""


class UserMessageEvent(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A message to a conversation, with its whole text."""

    type: ClassVar[str] = "user_message"
    of_persons: ClassVar[bool] = True
    item_id: ItemId
    text: str
    how: MessageWay = "message"
    attachments: tuple[Attachment, ...] = ()
    sender: str | None = None
    """The name of the person, if several persons take part."""
    caller_id: ConversationId | None = None
    """The conversation that wrote the message and waits for the answer."""


class MessageQueued(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A message has to wait until its conversation, or a slot, is free. `user_message` follows when its task begins."""

    type: ClassVar[str] = "message_queued"
    of_persons: ClassVar[bool] = True
    item_id: ItemId
    preview: str
    """The first characters of its text."""
    attachments: int = 0
    """How many pictures it has."""
    sender: str | None = None


class MessageTakenBack(BaseEventData, frozen=True, gc=False):
    """A queued message was taken back. Its task never began; the event of the task's end follows."""

    type: ClassVar[str] = "message_taken_back"
    of_persons: ClassVar[bool] = True
    item_id: ItemId


class RightsWidened(BaseEventData, frozen=True, gc=False):
    """A person at the terminal has widened the rights of the session and its root. No client, model or file can."""

    type: ClassVar[str] = "rights_widened"
    of_persons: ClassVar[bool] = True
    field: str
    before: str | bool | dict[str, str | bool]
    """The right that the session had so far, in the spelling of settings."""
    after: str | bool | dict[str, str | bool]
    by: str
    """The terminal at which the person did so."""


def describe_attachments(parts: tuple[Part, ...]) -> tuple[Attachment, ...]:
    """The pictures of a message, without their content."""
    return tuple(_attachment(part.image_url) for part in parts if isinstance(part, ImagePart))


def _attachment(address: str) -> Attachment:
    if not address.startswith("data:"):
        return Attachment(url=address)
    head, _, content = address.partition(",")
    media_type = head.removeprefix("data:").partition(";")[0]
    padding = len(content) - len(content[-2:].rstrip("=")) - len(content[:-2])
    return Attachment(media_type=media_type, bytes=len(content) * 3 // 4 - padding)
