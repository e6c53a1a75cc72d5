"""A status that can be waited for and watched."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.mcp.pool.server_status import StatusMonitor
from tests.mcp.virtual_time import in_virtual_time, steps


@in_virtual_time
async def test_every_change_is_told_once_and_what_is_no_change_is_not() -> None:
    standing = StatusMonitor(10.0, lambda: None)
    changes: list[tuple[str, str | None]] = []
    standing.watch(lambda: changes.append((standing.status, standing.error)))
    standing.become("stopped")
    assert changes == []
    standing.become("starting")
    standing.become("ready")
    standing.become("ready")
    standing.become("ready", "no list")
    standing.become("ready", "no list", changed=True)
    assert changes == [("starting", None), ("ready", None), ("ready", "no list"), ("ready", "no list")]


@in_virtual_time
async def test_who_leaves_while_being_told_is_told_no_more() -> None:
    standing = StatusMonitor(10.0, lambda: None)
    texts: list[str] = []

    def once() -> None:
        texts.append("first")
        unwatch()
        unwatch()

    unwatch = standing.watch(once)
    standing.watch(lambda: texts.append("second"))
    standing.become("failed", "x")
    standing.become("stopped")
    assert texts == ["first", "second", "second"]


@in_virtual_time
async def test_one_listener_may_watch_twice() -> None:
    standing = StatusMonitor(10.0, lambda: None)
    statuses: list[str] = []

    def listener() -> None:
        statuses.append(standing.status)

    unwatch = standing.watch(listener)
    standing.watch(listener)
    unwatch()
    standing.become("failed", "x")
    assert statuses == ["failed"]


@in_virtual_time
async def test_settled_waits_for_the_end_of_starting_only() -> None:
    standing = StatusMonitor(10.0, lambda: None)
    await standing.wait_until_known()
    standing.become("starting")
    waiting = [asyncio.create_task(standing.wait_until_known()) for _ in range(2)]
    await steps()
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    standing.become("failed", "x")
    await waiting[1]
    await standing.wait_until_known()


@in_virtual_time
async def test_who_wakes_up_to_find_it_starting_again_waits_on() -> None:
    standing = StatusMonitor(10.0, lambda: None)
    standing.become("starting")
    waiting = asyncio.create_task(standing.wait_until_known())
    await steps()
    standing.become("failed", "x")
    standing.become("starting")
    await steps()
    assert not waiting.done()
    standing.become("ready")
    await waiting


@in_virtual_time
async def test_patience_is_lost_at_the_deadline_and_only_while_starting() -> None:
    lost: list[float] = []
    loop = asyncio.get_running_loop()
    standing = StatusMonitor(10.0, lambda: lost.append(loop.time()))
    standing.become("starting")
    assert standing.deadline == loop.time() + 10
    standing.become("ready")
    assert standing.deadline is None
    await asyncio.sleep(100)
    assert lost == []
    began = loop.time()
    standing.become("starting")
    await asyncio.sleep(100)
    assert lost == [pytest.approx(began + 10)]
