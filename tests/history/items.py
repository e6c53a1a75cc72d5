"""Items in a few words, and an encoder that counts, for the tests of history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count

import msgspec

from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    Item,
    Reasoning,
    ToolCall,
    ToolOutput,
    UserMessage,
    text_parts,
)

UNLIMITED = HistoryLimits()
_numbers = count(1)


def _id() -> ItemId:
    return ItemId(f"i{next(_numbers)}")


def user(text: str = "do it", *, injected: bool = False, sender: str | None = None) -> UserMessage:
    return UserMessage(_id(), text_parts(text), sender=sender, injected=injected)


def model(text: str = "done") -> AssistantMessage:
    return AssistantMessage(_id(), text_parts(text))


def thought(text: str = "hm") -> Reasoning:
    return Reasoning(_id(), text)


def call(call_id: str, name: str = "shell", arguments: str = "{}") -> ToolCall:
    return ToolCall(_id(), CallId(call_id), name, arguments)


def output(call_id: str, text: str = "ok") -> ToolOutput:
    return ToolOutput(_id(), CallId(call_id), text_parts(text))


def seed(text: str = "<env>here</env>") -> UserMessage:
    return user(text, injected=True)


def store_of(*turns: Sequence[Item], seeds: Sequence[Item] = (), limits: HistoryLimits = UNLIMITED) -> HistoryStore:
    store = HistoryStore(limits, seeds)
    for turn in turns:
        store.append(turn)
    return store


def rounds(number: int, text: str = "x" * 400) -> list[list[Item]]:
    """So many rounds, each a request and a turn with one call: two segments, about 300 tokens."""
    turns: list[list[Item]] = []
    for n in range(number):
        turns += [[user(f"request {n}. {text}")], [call(f"c{n}"), output(f"c{n}", text), model(f"answer {n}. {text}")]]
    return turns


class CountingEncoder:
    """Spells items as their JSON and counts how often each row of items was spelled."""

    def __init__(self, name: str = "items", *, silent: Iterable[type] = ()) -> None:
        self.name = name
        self.silent = tuple(silent)
        self.encoded: Counter[tuple[str, ...]] = Counter()

    def spell(self, items: Iterable[Item]) -> bytes:
        """The same bytes, uncounted."""
        spoken = [item for item in items if not isinstance(item, self.silent)]
        return msgspec.json.encode(spoken)[1:-1]

    def encode_items(self, items: Sequence[Item]) -> bytes:
        self.encoded[tuple(item.id for item in items)] += 1
        return self.spell(items)
