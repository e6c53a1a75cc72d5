"""Time, injected."""

from __future__ import annotations

from datetime import UTC, datetime

from tertulia.events.clock import SystemClock, Timestamps
from tests.events.scripted import StillClock
from tests.tables import each_row


def test_the_system_clock_tells_wall_time_and_a_time_that_never_goes_back() -> None:
    clock = SystemClock()
    before, wall = clock.monotonic(), clock.now()
    assert abs(wall - datetime.now(UTC).timestamp()) < 60
    assert clock.monotonic() >= before


@each_row(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (0.007, "1970-01-01T00:00:00.007Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250Z"),
        (951_782_400.999, "2000-02-29T00:00:00.999Z"),
        (-0.5, "1969-12-31T23:59:59.500Z"),
    ],
)
def test_a_timestamp_is_rfc_3339_in_utc_with_milliseconds(seconds: float, text: str) -> None:
    assert Timestamps(StillClock(seconds))() == text


def test_a_timestamp_follows_the_clock_also_backwards() -> None:
    clock = StillClock(10.0)
    stamp = Timestamps(clock)
    seen = []
    for clock.seconds in (10.0, 10.001, 10.001, 11.5, 10.0):
        seen.append(stamp())
    assert [text[17:] for text in seen] == ["10.000Z", "10.001Z", "10.001Z", "11.500Z", "10.000Z"]


def test_within_a_millisecond_a_timestamp_is_formatted_once() -> None:
    stamp = Timestamps(StillClock(5.0))
    assert stamp() is stamp()
