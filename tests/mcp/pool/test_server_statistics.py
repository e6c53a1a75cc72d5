"""What is counted of an MCP server: a bounded number of durations, and percentiles of them."""

from __future__ import annotations

import pytest

from tertulia.errors import McpError
from tertulia.events.clock import SystemClock
from tertulia.mcp.pool.server_statistics import KEPT_CALLS, ServerFigures, ServerStatistics, figures_of


def test_without_calls_nothing_is_known() -> None:
    assert figures_of([]) == figures_of([ServerStatistics(SystemClock())]) == ServerFigures()


def test_percentiles_are_of_the_last_calls_of_all_processes_together() -> None:
    one, two = ServerStatistics(SystemClock()), ServerStatistics(SystemClock())
    one.starts, two.starts, one.last_error_at, two.last_error_at = 3, 1, 5.0, 7.0
    one.durations_s.extend(n / 1000 for n in range(1, 51))
    two.durations_s.extend(n / 1000 for n in range(51, 101))
    assert figures_of([one, two]) == ServerFigures(restarts=2, p50_ms=50.0, p95_ms=95.0, last_error_at=7.0)
    one.durations_s.extend([9.0] * 10_000)
    assert len(one.durations_s) == KEPT_CALLS


async def test_a_call_that_fails_has_no_duration_and_a_time_of_its_error() -> None:
    statistics = ServerStatistics(SystemClock())

    async def fails() -> None:
        raise McpError("no")

    with pytest.raises(McpError):
        await statistics.measured(fails())
    assert (len(statistics.durations_s), statistics.last_error_at is None) == (0, False)
