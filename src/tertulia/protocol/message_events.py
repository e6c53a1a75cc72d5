"""The event data of what persons say and decide, and of what other conversations ask.

The envelope and the union of all event data are in `events`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import ImagePart, Part
from tertulia.protocol.mapping_struct import BaseEventData, MappingStruct

MessageWay = Literal["message", "steer", "queued", "delegated"]
"""How a message came: sent and begun at once, put in while a task ran, sent and begun after it had waited, or written
by another conversation."""


class Attachment(MappingStruct, frozen=True, gc=False, omit_defaults=True):
    """A picture of a message, described: its content is in the history only."""

    type: Literal["image"] = "image"
    media_type: str | None = None
    """Such as `image/png`, where the message has the picture itself."""
    bytes: int | None = None
    """About how large it is then."""
    url: str | None = None
    """Its address, where the message has only that."""


class UserMessageEvent(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A message to a conversation, whole."""

    type: ClassVar[str] = "user_message"
    of_persons: ClassVar[bool] = True
    item_id: ItemId
    text: str
    how: MessageWay = "message"
    attachments: tuple[Attachment, ...] = ()
    sender: str | None = None
    """The name of the person, where there are several."""
    caller_id: ConversationId | None = None
    """The conversation that wrote it, and waits for the answer."""


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
    """A message that waited was taken back. Its task never began; its end follows."""

    type: ClassVar[str] = "message_taken_back"
    of_persons: ClassVar[bool] = True
    item_id: ItemId


class RightsWidened(BaseEventData, frozen=True, gc=False):
    """A person at the terminal has allowed the session, and its root, more. No client, model or file can."""

    type: ClassVar[str] = "rights_widened"
    of_persons: ClassVar[bool] = True
    field: str
    before: str | bool | dict[str, str | bool]
    """What the session was allowed so far, as settings spell it."""
    after: str | bool | dict[str, str | bool]
    by: str
    """The terminal at which it was done."""


def describe_attachments(parts: tuple[Part, ...]) -> tuple[Attachment, ...]:
    """The pictures of a message, without their content."""
    if len(parts) == 1 and not isinstance(parts[0], ImagePart):
        return ()
    return tuple(_attachment(part.image_url) for part in parts if isinstance(part, ImagePart))


def _attachment(address: str) -> Attachment:
    if not address.startswith("data:"):
        return Attachment(url=address)
    head, _, content = address.partition(",")
    media_type = head.removeprefix("data:").partition(";")[0]
    padding = len(content) - len(content[-2:].rstrip("=")) - len(content[:-2])
    return Attachment(media_type=media_type, bytes=len(content) * 3 // 4 - padding)
