"""What was said in a conversation, as messages for an agent that was not there. One history: this only reads it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypedDict

from tertulia.history.segment import is_message
from tertulia.history.view import HistoryView
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import AssistantMessage, ImagePart, Item, Summary, UserMessage

_SUMMARY = "[Summary of what was said before]"


class TranscriptMessage(TypedDict, total=False):
    """One message, as `build_executor_prompt_with_history` takes it."""

    role: str
    text: str
    username: str


def transcript(view: HistoryView, *, before: ItemId | None = None, limit: int | None = None) -> list[TranscriptMessage]:
    """The newest messages, oldest first; what we injected, thoughts and calls of tools are left out.

    `before` is the item of the current message: neither it nor anything after it is told. A summary speaks for the
    messages whose place it took. Costs what it returns.
    """
    told = filter(None, map(_message, _newest_first(view, before)))
    newest = list(islice(told, limit))
    newest.reverse()
    return newest


def _newest_first(view: HistoryView, before: ItemId | None) -> Iterator[Item]:
    """What stands before that item; everything, where it does not stand there any more."""
    items = (item for segment in view.newest_first() for item in reversed(segment.items))
    if before is None or any(item.id == before for item in items):
        return items
    return _newest_first(view, None)


def _message(item: Item) -> TranscriptMessage | None:
    match item:
        case Summary(text=text):
            return TranscriptMessage(role="assistant", text=f"{_SUMMARY}\n{text}")
        case UserMessage(sender=str() as sender) if is_message(item):
            return TranscriptMessage(role="user", text=_text(item), username=sender)
        case UserMessage() if is_message(item):
            return TranscriptMessage(role="user", text=_text(item))
        case AssistantMessage():
            return TranscriptMessage(role="assistant", text=_text(item))
        case _:
            return None


def _text(message: UserMessage | AssistantMessage) -> str:
    """Its text, and that there was a picture where there was one."""
    pictures = sum(isinstance(part, ImagePart) for part in message.parts)
    return "\n".join(filter(None, (message.text, *["[picture]"] * pictures)))
