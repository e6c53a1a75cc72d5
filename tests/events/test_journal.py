"""The port of the journal. Its contract is exercised in test_bus_commit.py and test_bus_machine.py."""

from __future__ import annotations

from tertulia.events.bus import EventBus
from tertulia.events.journal import NoJournal
from tests.events.scripted import SESSION, StillClock, message


def test_where_nothing_is_kept_there_is_nothing_to_wait_for() -> None:
    bus = EventBus(SESSION, StillClock(), NoJournal())
    event = bus.publish(message())
    assert NoJournal().write(event) is None
    assert bus.last_seq == event.seq == 1
