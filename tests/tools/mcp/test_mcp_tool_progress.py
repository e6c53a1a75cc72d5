"""Progress of MCP calls: at most ten a second, the last of what came meanwhile, nothing after the end."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.protocol.events import EventData
from tertulia.protocol.tool_events import McpToolCallProgress
from tertulia.tools.mcp.mcp_tool import ProgressReport
from tests.policy.virtual_time import run
from tests.tools.calling import context


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[float, McpToolCallProgress]] = []

    def __call__(self, event: EventData) -> None:
        assert isinstance(event, McpToolCallProgress)
        self.events.append((asyncio.get_running_loop().time(), event))


def test_a_flood_is_merged_to_ten_a_second_and_the_last_of_each_tenth_is_told() -> None:
    async def scene() -> None:
        told = Told()
        report = ProgressReport(context(told))
        for step in range(1_000):
            report(step, 1_000, f"step {step}")
            await asyncio.sleep(0.002)
        report.close()
        times = [at for at, _ in told.events]
        assert len(times) == pytest.approx(20, abs=1)
        assert all(later - sooner >= 0.099 for sooner, later in pairwise(times))
        events = [event for _, event in told.events]
        assert [event.offset for event in events] == list(range(len(events)))
        assert len({event.item_id for event in events}) == 1
        assert events[1].progress == pytest.approx(49, abs=1)

    run(scene())


def test_what_comes_alone_is_told_at_once_and_what_was_held_back_a_little_later() -> None:
    async def scene() -> None:
        told = Told()
        report = ProgressReport(context(told))
        report(1, None, None)
        report(2, 4, "half")
        await asyncio.sleep(5)
        report(4, 4, None)
        assert [(round(at, 3), event.progress, event.total, event.message) for at, event in told.events] == [
            (0.0, 1.0, None, None), (0.1, 2.0, 4.0, "half"), (5.0, 4.0, 4.0, None),
        ]  # fmt: skip
        report.close()

    run(scene())


def test_nothing_is_told_after_the_end() -> None:
    async def scene() -> None:
        told = Told()
        report = ProgressReport(context(told))
        report(1, None, None)
        report(2, None, None)
        report.close()
        report(3, None, None)
        await asyncio.sleep(1)
        assert [event.progress for _, event in told.events] == [1.0]

    run(scene())


def test_closing_one_that_never_told_anything_does_no_harm() -> None:
    ProgressReport(context()).close()


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ((float("nan"), None, None), None),
        ((float("inf"), 1.0, None), None),
        ((1.0, float("inf"), None), (1.0, None, None)),
        ((1, 2, "\ud800"), (1.0, 2.0, "\ufffd")),
    ],
)
def test_what_no_event_can_carry_is_left_out(said: Any, kept: Any) -> None:
    async def scene() -> None:
        told = Told()
        report = ProgressReport(context(told))
        report(*said)
        report.close()
        assert [(e.progress, e.total, e.message) for _, e in told.events] == ([] if kept is None else [kept])

    run(scene())


def test_a_message_is_bounded() -> None:
    async def scene() -> None:
        told = Told()
        report = ProgressReport(context(told))
        report(1, None, "x" * 1_000_000)
        report.close()
        [(_, event)] = told.events
        assert event.message is not None
        assert len(event.message.encode()) <= 1_000

    run(scene())


def test_a_task_that_is_over_is_no_trouble_of_the_server() -> None:
    async def scene() -> None:
        def over(event: EventData) -> None:
            raise asyncio.CancelledError("this task is over")

        report = ProgressReport(replace(context(), publish=over))
        report(1, None, None)
        report.close()

    run(scene())
