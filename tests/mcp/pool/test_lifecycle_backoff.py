"""How long a failing server is left alone."""

from __future__ import annotations

import pytest

from tertulia.mcp.pool.lifecycle import LONGEST_BACKOFF_S, MAX_FAILURES, Backoff
from tertulia.testing import FakeClock


def test_a_server_that_never_failed_may_be_tried_at_once() -> None:
    backoff = Backoff(FakeClock())
    assert (backoff.left_s(), backoff.failures, backoff.hopeless) == (0.0, 0, False)


def test_each_failure_doubles_the_wait_up_to_a_minute() -> None:
    clock = FakeClock()
    backoff = Backoff(clock)
    waits: list[float] = []
    for _ in range(10):
        backoff.failed()
        waits.append(backoff.left_s())
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_the_wait_passes_with_time_and_never_below_nothing() -> None:
    clock = FakeClock()
    backoff = Backoff(clock)
    backoff.failed()
    clock.advance(0.2)
    assert backoff.left_s() == pytest.approx(0.3)
    clock.advance(100)
    assert backoff.left_s() == 0.0


def test_a_change_of_the_date_changes_nothing() -> None:
    clock = FakeClock()
    backoff = Backoff(clock)
    backoff.failed()
    clock.set_wall(0.0)
    assert backoff.left_s() == 0.5


def test_one_that_dies_right_after_each_start_waits_longer_and_longer() -> None:
    clock = FakeClock()
    backoff = Backoff(clock)
    for _ in range(3):
        backoff.started()
        clock.advance(LONGEST_BACKOFF_S)
        backoff.failed()
    assert backoff.left_s() == 2.0


def test_one_that_lived_long_begins_anew() -> None:
    clock = FakeClock()
    backoff = Backoff(clock)
    for _ in range(3):
        backoff.failed()
    backoff.started()
    clock.advance(LONGEST_BACKOFF_S + 1)
    backoff.failed()
    assert (backoff.left_s(), backoff.failures) == (0.5, 1)


def test_a_start_that_failed_after_a_long_life_counts_on() -> None:
    clock = FakeClock()
    backoff = Backoff(clock)
    backoff.started()
    clock.advance(LONGEST_BACKOFF_S + 1)
    backoff.failed()
    clock.advance(LONGEST_BACKOFF_S + 1)
    backoff.failed()
    assert backoff.failures == 2


def test_after_so_many_failures_it_is_hopeless() -> None:
    backoff = Backoff(FakeClock())
    for _ in range(MAX_FAILURES):
        backoff.failed()
    assert not backoff.hopeless
    backoff.failed()
    assert backoff.hopeless


def test_a_server_that_fails_for_years_overflows_nothing() -> None:
    backoff = Backoff(FakeClock())
    backoff.failures = 100_000
    backoff.failed()
    assert backoff.left_s() == LONGEST_BACKOFF_S


def test_who_insists_need_not_wait_but_the_count_goes_on() -> None:
    backoff = Backoff(FakeClock())
    backoff.failed()
    backoff.waive()
    assert (backoff.left_s(), backoff.failures) == (0.0, 1)
    backoff.failed()
    assert backoff.left_s() == 1.0
