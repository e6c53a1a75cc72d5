"""The ring: two bounds that always hold, and readers that are told what they can no longer have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tertulia.events.ring import Ring, event_weight
from tertulia.protocol.events import Event, EventData, ForeignEvent
from tertulia.protocol.ids import CallId
from tertulia.protocol.tool_events import PatchApplyBegin, PlanStep, PlanUpdate
from tests.events.scripted import SESSION, message, numbers
from tests.tables import each_row

ROOM = 1 << 40


class Slow:
    """Notes what it is told, and leaves after `patience` losses."""

    def __init__(self, ring: Ring, patience: int = 1000) -> None:
        self.ring, self.patience, self.missed_numbers = ring, patience, []
        ring.behind.add(self)

    def missed(self, seq: int, event: Event) -> None:
        assert event.seq == seq
        self.missed_numbers.append(seq)
        if len(self.missed_numbers) == self.patience:
            self.ring.behind.discard(self)


def numbered(seq: int, data: EventData | None = None) -> Event:
    data = data or message()
    return Event(0, seq, "", data.type, SESSION, SESSION, None, None, None, None, data)


def add(ring: Ring, event: Event) -> None:
    ring.add(event, event_weight(event.data))


def filled(count: int, max_events: int = 1000, max_bytes: int = ROOM) -> Ring:
    ring = Ring(max_events, max_bytes)
    for seq in range(1, count + 1):
        add(ring, numbered(seq))
    return ring


def test_an_empty_ring_begins_at_one() -> None:
    ring = Ring(10, ROOM)
    assert (ring.first, ring.last, list(ring.after(0))) == (1, 0, [])


@given(st.integers(0, 30), st.integers(1, 10), st.integers(0, 30))
def test_it_keeps_the_newest_and_gives_what_follows_a_number(count: int, max_events: int, cursor: int) -> None:
    ring = filled(count, max_events)
    stored = range(max(1, count - max_events + 1), count + 1)
    assert (ring.first, ring.last) == (stored.start, count)
    assert numbers(list(ring.after(cursor))) == [seq for seq in stored if seq > cursor]


def test_readers_that_are_behind_are_told_in_order_what_is_forgotten_and_no_others() -> None:
    ring = Ring(2, ROOM)
    early, gone = Slow(ring), Slow(ring)
    ring.behind.discard(gone)
    for seq in range(1, 6):
        add(ring, numbered(seq))
    assert early.missed_numbers == [1, 2, 3]
    assert gone.missed_numbers == []


def test_a_reader_may_leave_while_it_is_told() -> None:
    ring = Ring(1, ROOM)
    impatient, patient = Slow(ring, patience=1), Slow(ring)
    for seq in range(1, 4):
        add(ring, numbered(seq))
    assert (impatient.missed_numbers, patient.missed_numbers) == ([1], [1, 2])


def test_the_bound_in_bytes_holds_whatever_the_number() -> None:
    """G2: events of very different sizes."""
    ring = Ring(1000, 4 * event_weight(message()))
    for seq in range(1, 9):
        add(ring, numbered(seq))
    assert (ring.first, ring.last) == (5, 8)
    add(ring, numbered(9, message("x" * 1000)))
    assert ring.first > 6
    assert ring.last == 9


def test_an_event_larger_than_the_ring_is_forgotten_at_once_and_its_readers_are_told() -> None:
    ring = Ring(1000, 4 * event_weight(message()))
    slow = Slow(ring)
    add(ring, numbered(1))
    add(ring, numbered(2, message("x" * 100_000)))
    assert (ring.first, ring.last, list(ring.after(0))) == (3, 2, [])
    assert slow.missed_numbers == [1, 2]
    add(ring, numbered(3))
    assert numbers(list(ring.after(0))) == [3]


LONG = "x" * 100_000


@each_row(
    "data",
    [
        message(LONG),
        PatchApplyBegin(CallId("c"), [{"path": "p", "content": LONG}]),
        PlanUpdate([PlanStep(LONG, "pending")]),
        ForeignEvent("codex", {"deep": [{"deeper": (LONG,)}]}),
        ForeignEvent("codex", {LONG: 1}),
        ForeignEvent("codex", list(range(10_000))),
    ],
)
def test_the_weight_of_data_grows_with_what_is_in_it_however_deep(data: EventData) -> None:
    assert event_weight(data) > 100_000 > event_weight(message())


def test_nesting_is_never_too_deep_to_be_weighed() -> None:
    raw: list = []
    for _ in range(100_000):
        raw = [raw]
    assert event_weight(ForeignEvent("codex", raw)) > 100_000


def test_wide_characters_weigh_more() -> None:
    assert event_weight(message("🙂" * 1000)) > 3 * event_weight(message("x" * 1000)) / 2
