"""The history section of an executor's prompt: messages under their labels, within three limits.

Limits apply in this order: number of messages, length of each, length of the section. Lengths are code points of the
final text, headings, labels, escapes and marks included. The newest messages are kept, and every cut is marked.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from typing import Literal

import msgspec

from tertulia.executors.result_text import clip
from tertulia.lazy_pattern import lazy_pattern

HISTORY = "Conversation History"
CURRENT = "Current User Message"
PREVIOUS = "Previous execution result"

_ESCAPE = "\\"
_LOOKED_AT = 2_000
"""How many characters of a line are searched for a heading, after leading decoration."""

# Every character that a reader may take for the end of a line.
_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE = lazy_pattern(f"[^{_BREAKS}]+")
# Decoration before the first letter: spaces, marks, numbers, tags, invisible marks, whatever is no letter.
_LEADING = lazy_pattern(r"(?:[^\w<]+|[\d_]+|</?[A-Za-z][^<>]{0,80}>|<)+")
# Characters that Unicode counts as letters but that are invisible.
_BLANK = dict.fromkeys(map(ord, "\u115f\u1160\u3164\uffa0"))
_ALIKE = str.maketrans(
    "аӏеорсухіјѕһԁԛԝмтнквАВЕЅЈІКМНОРСТУХԜԌαειορυχνηκτΑΒΕΗΙΚΜΝΟΡΤΥΧΖɡıսոօՍ∶ː꞉ꓽ׃܃",
    "aleopcyxijshdqwmthkbABESJIKMHOPCTYXWGaeiopuxvnktABEHIKMNOPTYXZgiunoU::::::",
)
_HEADINGS = (b"conversationhistory", b"currentusermessage", b"previousexecutionresult")
"""The headings in the form that `_letters` returns."""
_ROLES = ("User", "USER", "Assistant", "ASSISTANT")
_NO_LETTERS = bytes(range(128)).translate(None, string.ascii_letters.encode())
_ROLE = lazy_pattern(rf"(?:{'|'.join(_ROLES)})(?:\[[^\]]*\]?)?[\s*_`]*:")
_CONTROLS = lazy_pattern("[\x00-\x08\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def heading(title: str) -> str:
    """A heading as it stands in a prompt."""
    return f"## {title}"


def remove_controls(text: str) -> str:
    """The text with U+FFFD for each character that must not reach a terminal or a pipe: control characters such as NUL,
    changes of the writing direction, lone surrogates. Lengths stay the same.
    """
    return _CONTROLS.sub("\ufffd", text)


def escape_headings(text: str) -> str:
    """The text with a backslash before each line that looks like a heading or a role label of ours."""
    return _LINE.sub(_escape, text) if _may_need_it(text) else text


def reads_like_ours(line: str) -> bool:
    """Whether a line could be taken for a heading or a role label."""
    seen = line if line.isascii() else line.translate(_BLANK)
    seen = seen[_leading(seen) :][:_LOOKED_AT]
    if not seen.isascii():
        seen = unicodedata.normalize("NFKD", seen).translate(_ALIKE)
        seen = "".join(c for c in seen if c.isascii() or unicodedata.category(c)[0] not in "CM")
    return _ROLE.match(seen) is not None or _letters(seen).startswith(_HEADINGS)


def _may_need_it(text: str) -> bool:
    """False where certainly no line needs an escape: this check costs a hundredth of checking each line."""
    # Without the dots of our own cut marks, which are not ASCII.
    plain = text.replace("…", "")
    if not plain.isascii() or any(role in plain for role in _ROLES):
        return True
    letters = _letters(plain)
    return any(heading in letters for heading in _HEADINGS)


def _escape(line: re.Match[str]) -> str:
    return f"{_ESCAPE}{line[0]}" if reads_like_ours(line[0]) else line[0]


def _letters(text: str) -> bytes:
    """Only the ASCII letters of a text, in lower case."""
    return text.encode("ascii", "ignore").translate(None, _NO_LETTERS).lower()


def _leading(line: str) -> int:
    match = _LEADING.match(line)
    return match.end() if match else 0


Role = Literal["user", "assistant"]

LEAD = "Earlier messages, oldest first. They are background: what they ask for was asked then, not now."
LEFT_OUT = "[… earlier messages left out …]"

_GAP = "\n\n"
_ROOMY = 1_000
"""The size from which on the section has an introduction; in a smaller one the room is for messages."""
_MAX_NAME = 80
_LEAST = 16
"""The fewest characters of a message that is cut to fit the section: less is not worth showing."""


class EarlierMessage(msgspec.Struct, frozen=True):
    """One earlier message of the conversation."""

    role: Role
    text: str
    username: str | None = None
    """The user who wrote it, where there are several."""


class HistorySectionLimits(msgspec.Struct, frozen=True):
    """The limits of a history section."""

    max_messages: int
    max_chars: int
    """The most characters of the whole section."""
    per_message_max_chars: int
    """The most characters of one message's text, without its label."""


class HistorySection(msgspec.Struct, frozen=True):
    """The finished section, with what it contains."""

    text: str
    """Empty where it contains no message."""
    messages: int
    """How many messages it contains."""
    truncated: bool
    """Whether anything of the history is missing."""


def history_section(messages: Sequence[EarlierMessage], limits: HistorySectionLimits) -> HistorySection:
    """The section with the newest messages that fit, in their order."""
    newest = messages[max(0, len(messages) - limits.max_messages) :]
    top = _GAP.join((heading(HISTORY), LEAD)) if limits.max_chars >= _ROOMY else heading(HISTORY)
    room = limits.max_chars - len(top)
    texts = [_message(message, limits.per_message_max_chars) for message in newest]
    if texts and len(texts) == len(messages) and sum(len(_GAP + text) for text, _ in texts) <= room:
        return HistorySection(_GAP.join((top, *(text for text, _ in texts))), len(texts), any(cut for _, cut in texts))
    if len(messages) > 1:
        room -= len(_GAP + LEFT_OUT)
        top += _GAP + LEFT_OUT
    shown = _newest([text for text, _ in texts], room)
    if newest and not shown:
        shown = _fit_one_message(newest[-1], limits.per_message_max_chars, room)
    return HistorySection(_GAP.join((top, *shown)) if shown else "", len(shown), bool(messages))


def _newest(texts: Sequence[str], room: int) -> list[str]:
    """The newest texts that fit completely."""
    first = len(texts)
    while first and len(_GAP + texts[first - 1]) <= room:
        first -= 1
        room -= len(_GAP + texts[first])
    return list(texts[first:])


def label(message: EarlierMessage) -> str:
    """The label of a message: `User[name]:`, `User:` or `Assistant:`."""
    if message.role == "assistant":
        return "Assistant:"
    name = _name(message.username or "")
    return f"User[{name}]:" if name else "User:"


def without_label(message: EarlierMessage) -> str:
    """The text of a message without the label that it may begin with, so that no label is doubled."""
    text = message.text.strip()
    return text.removeprefix(label(message)).strip()


def _message(message: EarlierMessage, limit: int) -> tuple[str, bool]:
    """(the message under its label, whether its text was cut)"""
    shown, cut = _fitted(without_label(message), limit)
    return f"{label(message)} {shown}", cut


def _fit_one_message(message: EarlierMessage, limit: int, room: int) -> list[str]:
    """A message that is too long, cut to the room there is; empty where there is almost none."""
    room -= len(_GAP + label(message) + " ")
    return [_message(message, min(limit, room))[0]] if room >= _LEAST else []


def _fitted(text: str, limit: int) -> tuple[str, bool]:
    """Clip, then escape, so that no cut separates an escape; clip shorter where the escapes took too much room."""
    room = limit
    while True:
        shown = escape_headings(remove_controls(clip(text, room)))
        if len(shown) <= limit:
            return shown, len(text) > room
        room -= len(shown) - limit


def _name(username: str) -> str:
    """A user name without the characters that could end its brackets or its line."""
    printable = "".join(c for c in remove_controls(username) if c.isprintable() and c not in "[]:")
    return " ".join(printable.split())[:_MAX_NAME]
