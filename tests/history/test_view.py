"""What a reader sees of a history, and that it goes on seeing it."""

from __future__ import annotations

import tracemalloc

import pytest

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import Item, Summary
from tests.history.items import call, model, output, rounds, seed, store_of, user


def test_a_view_shows_the_very_items_in_order_as_often_as_asked() -> None:
    """S002-25: identity of items."""
    turns: list[list[Item]] = [[user()], [call("a")], [output("a"), model()]]
    first = seed()
    view = store_of(*turns, seeds=[first]).snapshot()
    expected = [first, *turns[0], *turns[1], *turns[2]]
    for _ in range(2):
        assert [id(item) for item in view] == [id(item) for item in expected]
    assert len(view) == len(view) == 5
    assert [segment.items for segment in view.newest_first()] == [s.items for s in view.segments()][::-1]


def test_taking_and_walking_a_view_of_a_long_history_allocates_next_to_nothing() -> None:
    """S002-25: no concatenation of the whole."""
    store = store_of(*rounds(5_000, "x"))
    view = store.snapshot()
    sum(1 for _ in view)
    tracemalloc.start()
    try:
        walked = sum(1 for _ in store.snapshot())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert walked == 20_000
    assert peak < 4_096


def test_a_view_does_not_change_under_its_reader() -> None:
    """S002-27: neither by an append nor by a half-read iteration across one."""
    store = store_of([user("one")], [call("a")])
    view = store.snapshot()
    seen, facts = list(view), (len(view), view.open_calls, view.totals.digest, view.revision, view.totals)
    reading = iter(view)
    next(reading)
    store.append([output("a"), model("late")])
    assert list(reading) == seen[1:]
    assert [message.text for message in view.messages()] == ["one"]
    assert list(view) == seen
    assert (len(view), view.open_calls, view.totals.digest, view.revision, view.totals) == facts
    assert store.totals.item_count == 4


def test_messages_are_the_newest_oldest_first_without_what_we_injected() -> None:
    question, answer, asked_again = user("one"), model("two"), user("three")
    store = store_of(
        [Summary(ItemId("s"), "so far")],
        [question, call("a"), output("a"), answer],
        [seed("<new>rules</new>"), asked_again],
        seeds=[seed()],
    )
    assert store.messages() == [question, answer, asked_again]
    assert store.messages(2) == [answer, asked_again]
    assert store.messages(0) == []
    assert store.messages(99) == [question, answer, asked_again]
    with pytest.raises(InvalidParamsError, match="limit"):
        store.messages(-1)


def test_messages_stop_reading_as_soon_as_there_are_enough() -> None:
    store = store_of(*rounds(5_000, "x"))
    tracemalloc.start()
    try:
        assert len(store.messages(3)) == 3
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_096


def test_rounds_are_counted_from_one_and_reach_to_the_next_request() -> None:
    last = model()
    view = store_of([user(), model()], [seed()], [user(), call("a")], [output("a"), last], seeds=[seed()]).snapshot()
    assert [view.end_of(1), view.end_of(2)] == [4, 8]
    assert view.end_of(last.id) == 8
    for none in (0, -1):
        with pytest.raises(InvalidParamsError, match="from 1"):
            view.end_of(none)
    with pytest.raises(NotFoundError, match="2 rounds"):
        view.end_of(3)
    with pytest.raises(NotFoundError, match="'nobody'"):
        view.end_of(ItemId("nobody"))
