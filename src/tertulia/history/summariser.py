"""The interface of a summariser, and an extractive summariser, which quotes and needs no model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from tertulia.history.carried_facts import without_block
from tertulia.history.segment import BYTES_PER_TOKEN, is_user_request, utf8_size
from tertulia.protocol.items import AssistantMessage, Item, Summary, ToolCall, UserMessage

_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？]|$)")
_LOOKED_AT = 400
_GAP = " … "
_LEAST = 8


class Summariser(Protocol):
    """Writes the text that replaces older items.

    Contract: reads the items and nothing else, an earlier `Summary` among them included; keeps to the budget as
    well as it can (the caller discards a text that saves nothing); raises when it cannot summarise.
    """

    async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
        """A summary of the items, of at most about `budget_tokens` tokens."""
        ...


class ExtractiveSummariser:
    """Summarises by quoting: what was asked, what was answered last, which tools were used. Never fails."""

    __slots__ = ()

    async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
        """The same text for the same items, never over the budget."""
        return extract_summary(items, budget_tokens)


def extract_summary(items: Iterable[Item], budget_tokens: int) -> str:
    """The summary of an `ExtractiveSummariser`, for callers that cannot wait.

    Earlier summaries are quoted within half of the budget, so that repeated summarising never grows.
    """
    earlier: list[str] = []
    requests: list[UserMessage] = []
    answers: list[AssistantMessage] = []
    tools: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Summary):
            earlier.append(without_block(item.text))
        elif isinstance(item, UserMessage) and is_user_request(item):
            requests.append(item)
        elif isinstance(item, AssistantMessage):
            answers.append(item)
        elif isinstance(item, ToolCall):
            tools[item.name] += 1
    room = budget_tokens * BYTES_PER_TOKEN
    carried = _clip("\n".join(earlier), room // 2)
    left = room - utf8_size(carried) - len("\n" * 3)
    used = ", ".join(f"{name} ×{count}" for name, count in sorted(tools.items()))
    sections = (
        carried,
        _section("Asked:", map(_request, reversed(requests)), left * 2 // 5),
        _section("Answered:", (f"- {_gist(message.text)}" for message in reversed(answers)), left * 2 // 5),
        _clip(f"Tools used: {used}", left // 5) if used else "",
    )
    return "\n".join(filter(None, sections))


def _request(message: UserMessage) -> str:
    gist = _gist(message.text)
    return f"- {message.sender}: {gist}" if message.sender else f"- {gist}"


def _gist(text: str) -> str:
    """The first sentence, on one line."""
    line = " ".join(text[:_LOOKED_AT].split())
    sentence = _SENTENCE.match(line)
    return sentence.group() if sentence else "(no text)"


def _section(title: str, newest_first: Iterable[str], room: int) -> str:
    """As many of the newest lines as there is room for, oldest first, under their title."""
    left = room - utf8_size(title)
    shown: list[str] = []
    for line in newest_first:
        clipped = _clip(line, left - 1)
        if not clipped:
            break
        left -= utf8_size(clipped) + 1
        shown.append(clipped)
    return "\n".join((title, *reversed(shown))) if shown else ""


def _clip(text: str, room: int) -> str:
    """The text in at most `room` bytes of UTF-8: whole, or its beginning and end, or nothing."""
    encoded = text.encode()
    if len(encoded) <= room:
        return text
    half = (room - utf8_size(_GAP)) // 2
    if half < _LEAST:
        return ""
    return encoded[:half].decode(errors="ignore") + _GAP + encoded[-half:].decode(errors="ignore")
