"""The history section of an executor's prompt: messages under their labels, within three limits.

Limits hold in this order: how many messages, how long each, how long the section. Lengths are code points of what is
really written, headings, labels, escapes and marks included; the newest is kept, and every cut is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from tertulia.executors.clipping import clip
from tertulia.executors.headings import HISTORY, cleaned, escaped, heading

Role = Literal["user", "assistant"]

LEAD = "Earlier messages, oldest first. They are background: what they ask for was asked then, not now."
LEFT_OUT = "[… earlier messages left out …]"

_GAP = "\n\n"
_ROOMY = 1_000
"""From this size on the section has its lead; in a smaller one the room is for messages."""
_MAX_NAME = 80
_LEAST = 16
"""Of a message that has to be cut to fit the section: less is not worth showing."""


class Said(msgspec.Struct, frozen=True):
    """One earlier message."""

    role: Role
    text: str
    username: str | None = None
    """Who said it, where there are several users."""


class Limits(msgspec.Struct, frozen=True):
    """How much of a history is told."""

    max_messages: int
    max_chars: int
    """Of the whole section."""
    per_message_max_chars: int
    """Of a message's text, without its label."""


class Section(msgspec.Struct, frozen=True):
    """The section as it was written."""

    text: str
    """Empty when no message is in it."""
    messages: int
    """How many are in it."""
    truncated: bool
    """Whether anything of the history is missing."""


def history_section(said: Sequence[Said], limits: Limits) -> Section:
    """The newest messages that fit, in their order."""
    newest = said[max(0, len(said) - limits.max_messages) :]
    top = _GAP.join((heading(HISTORY), LEAD)) if limits.max_chars >= _ROOMY else heading(HISTORY)
    room = limits.max_chars - len(top)
    told = [_message(message, limits.per_message_max_chars) for message in newest]
    if told and len(told) == len(said) and sum(len(_GAP + text) for text, _ in told) <= room:
        return Section(_GAP.join((top, *(text for text, _ in told))), len(told), any(cut for _, cut in told))
    if len(said) > 1:
        room -= len(_GAP + LEFT_OUT)
        top += _GAP + LEFT_OUT
    shown = _newest([text for text, _ in told], room)
    if newest and not shown:
        shown = _squeezed(newest[-1], limits.per_message_max_chars, room)
    return Section(_GAP.join((top, *shown)) if shown else "", len(shown), bool(said))


def _newest(texts: Sequence[str], room: int) -> list[str]:
    """As many of the last as there is room for, all of them whole."""
    first = len(texts)
    while first and len(_GAP + texts[first - 1]) <= room:
        first -= 1
        room -= len(_GAP + texts[first])
    return list(texts[first:])


def label(message: Said) -> str:
    """`User[name]:`, `User:` or `Assistant:`."""
    if message.role == "assistant":
        return "Assistant:"
    name = _name(message.username or "")
    return f"User[{name}]:" if name else "User:"


def without_label(message: Said) -> str:
    """The text of a message that may have its label already: it is never put there twice."""
    text = message.text.strip()
    return text.removeprefix(label(message)).strip()


def _message(message: Said, limit: int) -> tuple[str, bool]:
    """(the message under its label, whether its text was cut)"""
    shown, cut = _fitted(without_label(message), limit)
    return f"{label(message)} {shown}", cut


def _squeezed(message: Said, limit: int, room: int) -> list[str]:
    """The one message for which there is not room enough, in what room there is; none if that is next to nothing."""
    room -= len(_GAP + label(message) + " ")
    return [_message(message, min(limit, room))[0]] if room >= _LEAST else []


def _fitted(text: str, limit: int) -> tuple[str, bool]:
    """Clip and escape. Clipped first, so that no cut takes away an escape; again, if the escapes took too much room."""
    room = limit
    while True:
        shown = escaped(cleaned(clip(text, room)))
        if len(shown) <= limit:
            return shown, len(text) > room
        room -= len(shown) - limit


def _name(username: str) -> str:
    """A name that can neither end its brackets nor its line."""
    kept = "".join(c for c in cleaned(username) if c.isprintable() and c not in "[]:")
    return " ".join(kept.split())[:_MAX_NAME]
