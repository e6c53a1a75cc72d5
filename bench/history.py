"""What a history costs: a turn early and late, a view, a trim, a fork, and a store that waits.

A turn is what a conversation does to its history in one turn: append a request and an answer with a tool call,
then take the view and the bytes for the next request. Its cost must not grow with what lies before it.
"""

from __future__ import annotations

import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

from tertulia.history.compaction import trim
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.models.wire import ItemsDialect
from tertulia.protocol.ids import CallId, ItemId, new_item_id
from tertulia.protocol.items import AssistantMessage, Item, ToolCall, ToolOutput, UserMessage, text_parts

UNLIMITED = HistoryLimits()
TEXT = "A tertulia is one table where many conversations are held in turn. " * 12
HISTORIES = 40
SPAN = 5


def run() -> list[tuple[str, float, str]]:
    """Measure; each result is (name, value, unit)."""
    early, late = _turns((10, 1_000))
    long = _history(1_000)
    chunks = long.encoded(ItemsDialect())
    return [
        ("turn 10", early, "us"),
        ("turn 1,000", late, "us"),
        ("turn 1,000 against turn 10", late / early, "x"),
        ("view of 1,000 turns", _microseconds(long.snapshot), "us"),
        ("bytes of 1,000 turns, ready", _microseconds(lambda: long.encoded(ItemsDialect())), "us"),
        ("chunks of 1,000 turns", float(len(chunks)), "chunks"),
        ("fork of 1,000 turns", _microseconds(long.fork, 20), "us"),
        ("trim of 1,000 turns to half", _trim(), "us"),
        ("idle store with one seed", _idle(), "bytes"),
    ]


def _turn(number: int) -> tuple[list[Item], list[Item]]:
    call_id = CallId(f"call_{number}")
    return [UserMessage(new_item_id(), text_parts(TEXT))], [
        ToolCall(new_item_id(), call_id, "shell", '{"command": ["ls"]}'),
        ToolOutput(new_item_id(), call_id, text_parts(TEXT)),
        AssistantMessage(new_item_id(), text_parts(TEXT)),
    ]


def _history(turns: int) -> HistoryStore:
    store = HistoryStore(UNLIMITED)
    for number in range(turns):
        for items in _turn(number):
            store.append(items)
    return store


def _turns(places: tuple[int, int]) -> list[float]:
    """CPU of the turns around each place, the mean of many histories: merging chunks is not every turn's work."""
    measured: list[list[float]] = [[] for _ in places]
    for _ in range(HISTORIES):
        dialect = ItemsDialect()
        store = HistoryStore(UNLIMITED)
        for number in range(max(places) + SPAN):
            question, answer = _turn(number)
            begin = time.process_time_ns()
            store.append(question)
            store.append(answer)
            store.snapshot()
            store.encoded(dialect)
            spent = time.process_time_ns() - begin
            for place, values in zip(places, measured, strict=True):
                if abs(number - place) <= SPAN:
                    values.append(spent / 1_000)
    return [statistics.fmean(values) for values in measured]


def _microseconds(act: Callable[[], object], times: int = 1_000) -> float:
    begin = time.process_time()
    for _ in range(times):
        act()
    return (time.process_time() - begin) / times * 1e6


def _trim() -> float:
    store = _history(1_000)
    store.encoded(ItemsDialect())
    half = HistoryLimits(max_items=store.totals.item_count // 2)
    return _microseconds(lambda: trim(store, limits=half), 1)


def _idle() -> float:
    """Without the seed itself, which is shared here."""
    seeds = [UserMessage(ItemId("seed"), text_parts("<environment/>"), injected=True)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    stores = [HistoryStore(UNLIMITED, seeds) for _ in range(1_000)]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before - sys.getsizeof(stores)) / len(stores)
