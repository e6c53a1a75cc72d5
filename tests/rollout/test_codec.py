"""Rows out of events and records, and back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.protocol.events import Event
from tertulia.protocol.records import Record
from tertulia.rollout.reading import read
from tests.rollout.recording import as_stored, events, records, written


@given(st.lists(events | records, max_size=6))
@settings(max_examples=400)
def test_everything_written_in_full_is_read_back_exactly(whats: list[Event | Record]) -> None:
    """S002-15, HARDENING E11: every event type and every record, line separators included."""
    lines = list(read(map(as_stored, written(*whats))))

    assert [line.what for line in lines] == whats
    assert not any(line.missing or line.damaged for line in lines)
