"""From start to start: every transition of a server, and that nobody's cancellation hurts another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import McpError
from tertulia.mcp.pool.pooled_server import (
    CLOSE_TRIES_S,
    LONGEST_BACKOFF_S,
    MAX_FAILURES,
    Backoff,
    close_connection,
)
from tertulia.mcp.server_connection import CallResult, ToolListing
from tertulia.testing import FakeClock
from tertulia.testing.fake_mcp_server import FakeMcpConnection, FakeMcpServer, fake_tool
from tests.mcp.pool_stage import ECHO, PoolStage, Told, call, pool_stage
from tests.mcp.virtual_time import in_virtual_time, steps
from tests.tables import each_row


def now() -> float:
    return asyncio.get_running_loop().time()


# ---- starting


@in_virtual_time
async def test_many_callers_wait_for_the_one_start() -> None:
    """S002-37: whoever comes while it starts waits for that start, and never begins a second."""
    async with pool_stage() as stage:
        stage.fake.starting.shut()
        server = stage.lease().server
        assert server.status == "starting"
        calls = [asyncio.create_task(call(server)) for _ in range(100)]
        await stage.fake.starting.until_reached()
        await steps()
        assert not any(task.done() for task in calls)
        stage.fake.starting.open()
        assert [(await task).text for task in calls] == ["root: {}"] * 100
        assert server.status == "ready"
        assert len(stage.fake.launches) == 1


@in_virtual_time
async def test_the_cancellation_of_one_caller_leaves_the_start_to_the_others() -> None:
    async with pool_stage() as stage:
        stage.fake.starting.shut()
        server = stage.lease(start="lazy").server
        first, second = (asyncio.create_task(call(server)) for _ in range(2))
        await stage.fake.starting.until_reached()
        first.cancel()
        await asyncio.wait({first})
        assert first.cancelled()
        assert server.status == "starting"
        stage.fake.starting.open()
        assert (await second).text
        assert len(stage.fake.launches) == 1


@in_virtual_time
async def test_a_start_that_hangs_fails_at_its_deadline_for_all_who_wait() -> None:
    """C11: hangs in initialize."""
    async with pool_stage() as stage:
        stage.fake.starting.shut()
        began = now()
        server = stage.lease(startup_timeout_s=3.0).server
        outcomes = await asyncio.gather(*(call(server) for _ in range(3)), return_exceptions=True)
        assert now() - began == pytest.approx(3.0)
        assert all(isinstance(outcome, McpError) for outcome in outcomes)
        assert "did not start within 3 s" in str(outcomes[0])
        assert server.status == "failed"


@in_virtual_time
async def test_a_start_that_cannot_even_be_ended_keeps_nobody_waiting_longer() -> None:
    """Tidying up after a start may take for ever; callers are told at the deadline all the same."""
    async with pool_stage() as stage:
        stuck, freed = asyncio.Event(), asyncio.Event()

        async def connect(*_: object, **__: object) -> object:
            try:
                await stuck.wait()
            finally:
                await freed.wait()
            raise AssertionError

        stage.pool._connect = connect
        began = now()
        server = stage.lease(startup_timeout_s=2.0, start="lazy").server
        with pytest.raises(McpError, match="did not start within 2 s"):
            await call(server)
        assert now() - began == pytest.approx(2.0)
        await asyncio.sleep(1)
        assert server.status == "failed"
        # The next one waits for the end of the first, and is bounded as well; it never runs beside it.
        with pytest.raises(McpError, match="did not start within 2 s"):
            await call(server)
        assert now() - began == pytest.approx(5.0)
        stage.pool._connect = stage.fake.connect
        await asyncio.sleep(2)
        again = asyncio.create_task(call(server))
        await steps()
        assert server.status == "starting"
        assert stage.fake.launches == []
        freed.set()
        assert (await again).text
        assert server.status == "ready"


@in_virtual_time
async def test_a_listing_that_fails_at_the_start_fails_the_start_and_closes_the_connection() -> None:
    async with pool_stage() as stage:
        stage.fake.list_errors.append("no list today")
        server = stage.lease(start="lazy").server
        await server.monitor.wait_until_known()
        assert (server.status, server.error, server.tools) == ("failed", "no list today", ())
        await steps()
        assert stage.fake.open == 0


class Stubborn:
    """A start that takes no notice of being cancelled, and comes about when nobody wants it any more."""

    def __init__(self, stage: PoolStage) -> None:
        self.reached, self.cancelled, self.freed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._fake = stage.fake
        stage.pool._connect = self.connect

    async def connect(self, *args: Any, **options: Any) -> FakeMcpConnection:
        self.reached.set()
        try:
            await self.freed.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            await self.freed.wait()
        return await self._fake.connect(*args, **options)


@in_virtual_time
async def test_a_start_that_comes_about_too_late_is_ended_at_once() -> None:
    async with pool_stage() as stage:
        start = Stubborn(stage)
        server = stage.lease(start="lazy", startup_timeout_s=2.0).server
        await server.monitor.wait_until_known()
        assert server.status == "failed"
        await start.cancelled.wait()
        start.freed.set()
        await steps()
        assert (server.status, len(stage.fake.connections), stage.fake.open) == ("failed", 1, 0)


@in_virtual_time
async def test_a_start_that_comes_about_too_late_does_not_stand_in_for_the_next() -> None:
    async with pool_stage() as stage:
        start = Stubborn(stage)
        server = stage.lease(start="lazy", startup_timeout_s=2.0).server
        await server.monitor.wait_until_known()
        await asyncio.sleep(1)
        again = asyncio.create_task(call(server))
        await steps()
        assert server.status == "starting"
        start.freed.set()
        assert (await again).text
        assert (len(stage.fake.connections), stage.fake.open) == (2, 1)


@in_virtual_time
async def test_a_start_that_takes_no_notice_of_being_stopped_is_ended_and_not_begun_again() -> None:
    """Eager, and so inclined to try again."""
    async with pool_stage() as stage:
        start = Stubborn(stage)
        server = stage.lease().server
        await start.reached.wait()
        stopping = asyncio.create_task(server.stop())
        await start.cancelled.wait()
        assert server.status == "stopped"
        start.freed.set()
        await stopping
        await asyncio.sleep(1_000)
        assert (server.status, len(stage.fake.connections), stage.fake.open) == ("stopped", 1, 0)


# ---- failing, and coming back


@in_virtual_time
async def test_a_call_on_a_failed_server_says_why_it_failed_and_when_it_will_be_tried() -> None:
    async with pool_stage() as stage:
        stage.fake.start_errors.extend(["fs: no such program", "still none"])
        server = stage.lease(start="lazy").server
        await server.monitor.wait_until_known()
        began = now()
        with pytest.raises(McpError, match=r"^fs: no such program; the next try is in 0\.5 s") as refused:
            await call(server)
        assert refused.value.detail["retry_after_s"] == pytest.approx(0.5)
        assert now() == began
        assert len(stage.fake.launches) == 1
        await asyncio.sleep(0.5)
        with pytest.raises(McpError, match="still none"):
            await call(server)
        with pytest.raises(McpError, match=r"the next try is in 1\.0 s"):
            await call(server)
        await asyncio.sleep(1)
        assert (await call(server)).text
        assert len(stage.fake.launches) == 3


@in_virtual_time
async def test_who_asks_for_a_listing_has_a_failed_server_tried_at_once() -> None:
    """Issue 8: `mcp/refresh` tries at once; a call waits for the back-off."""
    async with pool_stage() as stage:
        stage.fake.start_errors.extend(["no such program"] * 3)
        server = stage.lease(start="lazy").server
        await server.monitor.wait_until_known()
        began = now()
        for _ in range(2):
            with pytest.raises(McpError, match="no such program"):
                await server.refresh()
        await server.refresh()
        assert (server.status, now(), len(stage.fake.launches)) == ("ready", began, 4)


@in_virtual_time
async def test_a_connection_that_ends_by_itself_fails_the_calls_under_way_and_the_server() -> None:
    """C11: exits mid-call."""
    async with pool_stage() as stage:
        stage.fake.calling.shut()
        server = await stage.ready(start="lazy")
        listener = Told(server)
        pending = asyncio.create_task(call(server))
        await stage.fake.calling.until_reached()
        stage.fake.die("it exited with 3")
        with pytest.raises(McpError, match="it exited with 3"):
            await pending
        await steps()
        assert (server.status, server.error) == ("failed", "it exited with 3")
        assert listener.statuses == ["failed"]
        assert server.tools == (ECHO,)


@in_virtual_time
async def test_a_call_right_after_the_end_of_a_connection_is_not_sent_into_the_void() -> None:
    """Before the owner has even heard of it."""
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        stage.fake.die("it exited with 3")
        listener = Told(server)
        assert server.status == "ready"
        with pytest.raises(McpError, match="it exited with 3; the next try"):
            await call(server)
        assert server.status == "failed"
        await steps()
        assert listener.statuses == ["failed"]
        with pytest.raises(McpError, match=r"the next try is in 0\.5 s"):
            await call(server)


@in_virtual_time
async def test_a_lazy_server_that_died_starts_again_at_the_next_call_and_not_before() -> None:
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        stage.fake.die()
        await asyncio.sleep(1_000)
        assert (server.status, len(stage.fake.launches)) == ("failed", 1)
        assert (await call(server)).text
        assert (server.status, len(stage.fake.launches)) == ("ready", 2)
        assert stage.fake.open == 1


@in_virtual_time
async def test_an_eager_server_comes_back_by_itself_after_longer_and_longer_waits() -> None:
    async with pool_stage() as stage:
        server = await stage.ready()
        listener = Told(server)
        stage.fake.start_errors.extend(["no", "no", "no"])
        stage.fake.die()
        began, waits = now(), []
        for _ in range(4):
            await stage.fake.starting.until_reached(len(stage.fake.launches) + 1)
            waits.append(now() - began)
            began = now()
        await server.monitor.wait_until_known()
        assert waits == pytest.approx([0.5, 1.0, 2.0, 4.0])
        assert listener.statuses == ["failed", *["starting", "failed"] * 3, "starting", "ready"]


@in_virtual_time
async def test_a_server_that_dies_now_and_then_is_back_as_soon_as_the_first_time() -> None:
    async with pool_stage() as stage:
        server = await stage.ready()
        for _ in range(2 * MAX_FAILURES):
            await asyncio.sleep(100)
            began = now()
            stage.fake.die()
            await stage.fake.starting.until_reached(len(stage.fake.launches) + 1)
            assert now() - began == pytest.approx(0.5)
            await server.monitor.wait_until_known()
        assert server.status == "ready"


@in_virtual_time
async def test_a_server_that_never_comes_back_is_given_up_until_somebody_asks() -> None:
    async with pool_stage() as stage:
        stage.fake.start_errors.extend(["no"] * 100)
        server = stage.lease().server
        await asyncio.sleep(100_000)
        assert (server.status, len(stage.fake.launches)) == ("failed", MAX_FAILURES + 1)
        stage.fake.start_errors.clear()
        assert (await call(server)).text
        assert server.status == "ready"


@in_virtual_time
async def test_a_new_lease_has_a_server_tried_again_that_was_given_up() -> None:
    async with pool_stage() as stage:
        stage.fake.start_errors.extend(["no"] * (MAX_FAILURES + 1))
        server = stage.lease().server
        await asyncio.sleep(100_000)
        assert server.status == "failed"
        assert stage.lease().server is server
        await server.monitor.wait_until_known()
        assert server.status == "ready"


@in_virtual_time
async def test_a_server_that_nobody_leases_does_not_come_back() -> None:
    async with pool_stage() as stage:
        lease = stage.lease(idle_timeout_s=None)
        await lease.server.monitor.wait_until_known()
        lease.release()
        stage.fake.die()
        await asyncio.sleep(1_000)
        assert (lease.server.status, len(stage.fake.launches)) == ("failed", 1)


@in_virtual_time
async def test_a_lease_given_back_during_the_wait_ends_the_trying() -> None:
    async with pool_stage() as stage:
        stage.fake.start_errors.append("no")
        lease = stage.lease(idle_timeout_s=None)
        await lease.server.monitor.wait_until_known()
        assert lease.server.status == "failed"
        await steps()
        assert len(stage.nursery) == 1
        lease.release()
        await asyncio.sleep(1_000)
        assert len(stage.fake.launches) == 1
        assert len(stage.nursery) == 0


@in_virtual_time
async def test_a_lazy_lease_within_the_wait_begins_nothing() -> None:
    async with pool_stage() as stage:
        stage.fake.start_errors.append("no")
        server = stage.lease(start="lazy").server
        await server.monitor.wait_until_known()
        stage.lease(start="lazy")
        await asyncio.sleep(1_000)
        assert (server.status, len(stage.fake.launches)) == ("failed", 1)
        stage.lease(start="lazy")
        await server.monitor.wait_until_known()
        assert server.status == "ready"


@in_virtual_time
async def test_a_call_in_the_moment_the_wait_is_over_makes_the_try_and_only_one_is_made() -> None:
    async with pool_stage() as stage:
        stage.fake.start_errors.append("no")
        server = stage.lease().server
        await server.monitor.wait_until_known()
        loop = asyncio.get_running_loop()
        calls: list[asyncio.Task[CallResult]] = []
        # A timer that was set earlier for the same moment comes first.
        loop.call_at(loop.time() + 0.5, lambda: calls.append(loop.create_task(call(server))))
        await asyncio.sleep(1)
        assert (await calls[0]).text
        assert len(stage.fake.launches) == 2


@in_virtual_time
async def test_a_call_during_the_wait_whose_time_has_come_by_the_clock_nudges_the_one_who_waits() -> None:
    """Where the injected clock and the loop's own do not agree to the microsecond."""
    async with pool_stage() as stage:
        stage.fake.start_errors.append("no")
        server = stage.lease().server
        await server.monitor.wait_until_known()
        await steps()
        stage.fake.start_errors.append("again no")
        server.backoff._until = 0.0
        began = now()
        with pytest.raises(McpError, match="again no"):
            await call(server)
        assert now() == began
        # And that was all: the next one comes when its time has come.
        await stage.fake.starting.until_reached(3)
        assert now() - began == pytest.approx(1.0)
        await server.monitor.wait_until_known()
        assert (server.status, len(stage.fake.launches)) == ("ready", 3)


@in_virtual_time
async def test_a_lease_within_the_wait_does_not_shorten_it() -> None:
    async with pool_stage() as stage:
        stage.fake.start_errors.append("no")
        lazy = stage.lease(start="lazy")
        await lazy.server.monitor.wait_until_known()
        began = now()
        eager = stage.lease()
        assert eager.server is lazy.server
        assert eager.server.status == "failed"
        await stage.fake.starting.until_reached(2)
        assert now() - began == pytest.approx(0.5)
        await eager.server.monitor.wait_until_known()
        assert eager.server.status == "ready"


# ---- stopping


@in_virtual_time
async def test_a_call_while_it_stops_waits_for_the_end_and_starts_it_again() -> None:
    """Never two processes of one server at once."""
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        stage.fake.closing.shut()
        stopping = asyncio.create_task(server.stop())
        await stage.fake.closing.until_reached()
        assert server.status == "stopped"
        again = asyncio.create_task(call(server))
        await steps()
        assert (server.status, len(stage.fake.launches)) == ("starting", 1)
        stage.fake.closing.open()
        assert (await again).text
        await stopping
        assert (server.status, len(stage.fake.launches), stage.fake.open) == ("ready", 2, 1)


@in_virtual_time
async def test_those_who_wait_for_a_start_that_is_stopped_hear_so() -> None:
    async with pool_stage() as stage:
        stage.fake.starting.shut()
        server = stage.lease().server
        waiting = asyncio.create_task(call(server))
        await stage.fake.starting.until_reached()
        await server.stop()
        with pytest.raises(McpError, match="it was stopped"):
            await waiting
        assert server.status == "stopped"


@in_virtual_time
async def test_a_listing_that_was_due_does_not_outlive_the_connection() -> None:
    async with pool_stage() as stage:
        server = await stage.ready()
        stage.fake.change(ECHO)
        await steps()
        assert len(stage.nursery) == 2
        await server.stop()
        await steps()
        assert (len(stage.nursery), stage.fake.listing.reached) == (0, 1)


@in_virtual_time
async def test_a_start_that_is_stopped_before_its_first_step_is_stopped() -> None:
    async with pool_stage() as stage:
        server = stage.lease().server
        await server.stop()
        assert server.status == "stopped"
        assert stage.fake.launches == []


@in_virtual_time
async def test_a_stop_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """S002-41: release failure, retried."""
    async with pool_stage() as stage:
        server = await stage.ready()
        stage.fake.close_errors.append("not now")
        await server.stop()
        assert (server.status, server.error) == ("stopped", None)
        assert stage.fake.open == 0
        assert "could not be stopped: not now" in caplog.text


@in_virtual_time
async def test_a_stop_that_keeps_failing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """S002-41: release failure, warned of."""
    async with pool_stage() as stage:
        server = await stage.ready()
        listener = Told(server)
        stage.fake.close_errors.extend(["not now", "never"])
        await server.stop()
        assert (server.status, server.error) == ("stopped", "it could not be stopped: never")
        assert listener.errors == [None, "it could not be stopped: never"]
        stage.fake.die()


@in_virtual_time
async def test_a_server_whose_tasks_are_ended_from_outside_is_stopped() -> None:
    async with pool_stage() as stage:
        server = await stage.ready()
        assert await stage.nursery.close(1) == 0
        assert server.status == "stopped"
        assert stage.fake.open == 0


@in_virtual_time
async def test_tasks_ended_from_outside_during_a_start_leave_nobody_waiting() -> None:
    async with pool_stage() as stage:
        stage.fake.starting.shut()
        server = stage.lease().server
        waiting = asyncio.create_task(call(server))
        await stage.fake.starting.until_reached()
        await stage.nursery.close(1)
        with pytest.raises(McpError, match="it was stopped"):
            await waiting


@in_virtual_time
async def test_a_fault_of_ours_fails_the_server_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with pool_stage() as stage:

        async def connect(*_: object, **__: object) -> object:
            raise ZeroDivisionError

        stage.pool._connect = connect
        server = stage.lease(start="lazy").server
        with pytest.raises(McpError, match="a fault of ours"):
            await call(server)
        assert server.status == "failed"
        assert "ZeroDivisionError" in caplog.text


# ---- cancelled at every step


@each_row("step", range(40))
def test_a_caller_may_leave_at_any_step(step: int) -> None:
    """H1: cancel at every await; another caller is served, by the same start, and nothing is left."""

    @in_virtual_time
    async def scene() -> None:
        async with pool_stage() as stage:
            server = stage.lease(start="lazy").server
            leaving, staying = asyncio.create_task(call(server)), asyncio.create_task(call(server))
            await steps(step)
            leaving.cancel()
            assert (await staying).text == "root: {}"
            await asyncio.wait({leaving})
            assert len(stage.fake.launches) == 1
            assert stage.fake.connections[0].under_way == 0

    scene()


@each_row("step", range(1, 40))
def test_it_may_be_stopped_at_any_step(step: int) -> None:
    """H1, H2: stopped at every await of a start and a call; it ends, and can start again."""

    @in_virtual_time
    async def scene() -> None:
        async with pool_stage() as stage:
            server = stage.lease(start="lazy").server
            calling = asyncio.create_task(call(server))
            await steps(step)
            await server.stop()
            assert server.status == "stopped"
            assert stage.fake.open == 0
            await asyncio.wait({calling})
            assert calling.exception() is None or isinstance(calling.exception(), McpError)
            assert (await call(server)).text
            assert stage.fake.open == 1

    scene()


@each_row("step", range(1, 40))
def test_its_tasks_may_be_ended_at_any_step(step: int) -> None:
    """H1: the session's end cancels everything, whatever it is doing."""

    @in_virtual_time
    async def scene() -> None:
        async with pool_stage() as stage:
            server = stage.lease().server
            calling = asyncio.create_task(call(server))
            await steps(step)
            assert await stage.nursery.close(1) == 0
            [outcome] = await asyncio.gather(calling, return_exceptions=True)
            assert isinstance(outcome, CallResult | McpError)
            assert server.status == "stopped"
            assert stage.fake.open == 0

    scene()


# ---- how long a failing server is left alone


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


# ---- the end of a connection


@in_virtual_time
async def test_a_connection_that_ends_is_closed_once() -> None:
    server = FakeMcpServer()
    connection = FakeMcpConnection(server, lambda: None)
    assert await close_connection(connection, "fs") is None
    assert connection.gone.is_set()
    assert server.closing.reached == 1


@in_virtual_time
async def test_one_that_fails_is_asked_a_second_time(caplog: pytest.LogCaptureFixture) -> None:
    """S002-41: retried, and warned of."""
    server = FakeMcpServer()
    server.close_errors.append("busy")
    connection = FakeMcpConnection(server, lambda: None)
    assert await close_connection(connection, "fs") is None
    assert connection.gone.is_set()
    assert [record.message for record in caplog.records] == ["MCP server fs could not be stopped: busy"]


@in_virtual_time
async def test_one_that_never_ends_is_left_within_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    """S002-41."""
    server = FakeMcpServer()
    server.closing.shut()
    connection = FakeMcpConnection(server, lambda: None)
    began = asyncio.get_running_loop().time()
    assert await close_connection(connection, "fs") == "it did not end within 1.5 s"
    assert asyncio.get_running_loop().time() - began == pytest.approx(sum(CLOSE_TRIES_S))
    assert server.closing.reached == 2
    assert len(caplog.records) == 2


# ---- one shared server, as others see it


OTHER = fake_tool("echo", "Sends it to a stranger.")
NEW = fake_tool("new")


# ---- what it offers


@in_virtual_time
async def test_a_server_that_runs_says_what_it_offers_and_how_fast() -> None:
    async with pool_stage() as stage:
        stage.fake.listing.shut()
        server = stage.lease().server
        assert (server.tool_cache.was_listed, server.tools, server.connection, server.tool_cache.latency_ms) == (
            False,
            (),
            None,
            None,
        )
        await stage.fake.listing.until_reached()
        await asyncio.sleep(1.5)
        stage.fake.listing.open()
        await server.monitor.wait_until_known()
        assert (server.tool_cache.was_listed, server.tools, server.tool_cache.toolset.warnings) == (True, (ECHO,), ())
        assert server.connection is not None
        assert (server.connection.protocol_version, server.tool_cache.latency_ms, server.tool_cache.revision) == (
            "fake",
            1500,
            1,
        )


@in_virtual_time
async def test_a_change_that_the_server_tells_of_is_listed_and_told() -> None:
    """X-23."""
    async with pool_stage() as stage:
        server = await stage.ready()
        listener, before = Told(server), server.tool_cache.toolset.digest
        stage.fake.change(ECHO, NEW)
        await asyncio.sleep(1)
        assert server.tools == (ECHO, NEW)
        assert server.tool_cache.toolset.digest != before
        assert (listener.statuses, server.tool_cache.revision) == (["ready"], 2)


@in_virtual_time
async def test_a_change_told_during_the_start_is_listed_after_it() -> None:
    async with pool_stage() as stage:
        stage.fake.listing.shut()
        server = stage.lease().server
        await stage.fake.listing.until_reached()
        stage.fake.connections[0].tools_changed()
        stage.fake.listing.open()
        await server.monitor.wait_until_known()
        stage.fake.tools = (NEW,)
        await asyncio.sleep(1)
        assert server.tools == (NEW,)


@in_virtual_time
async def test_a_storm_of_changes_makes_a_few_listings_and_hinders_no_call() -> None:
    async with pool_stage() as stage:
        server = await stage.ready()
        for number in range(10_000):
            stage.fake.change(ECHO, fake_tool(f"t{number}"))
        began = asyncio.get_running_loop().time()
        assert (await call(server)).text
        assert asyncio.get_running_loop().time() == began
        await asyncio.sleep(5)
        assert stage.fake.listing.reached == 2
        assert [tool.name for tool in server.tools] == ["echo", "t9999"]


@in_virtual_time
async def test_a_listing_that_fails_keeps_the_tools_and_says_why_until_the_next_goes_well() -> None:
    """X-23: a failed listing keeps the old view."""
    async with pool_stage() as stage:
        server = await stage.ready()
        listener = Told(server)
        stage.fake.list_errors.append("fs: no list today")
        stage.fake.change(NEW)
        await asyncio.sleep(1)
        assert (server.status, server.error, server.tools) == ("ready", "no list today", (ECHO,))
        assert (await call(server)).text
        await server.refresh()
        assert (server.status, server.error, server.tools) == ("ready", None, (NEW,))
        assert listener.errors == ["no list today", None]


@in_virtual_time
async def test_a_listing_that_hangs_is_given_up() -> None:
    async with pool_stage() as stage:
        server = await stage.ready(startup_timeout_s=4.0)
        stage.fake.listing.shut()
        with pytest.raises(McpError, match="did not list its tools within 4 s"):
            await server.refresh()
        assert (server.status, server.tools) == ("ready", (ECHO,))
        assert server.error is not None


@in_virtual_time
async def test_a_connection_that_ends_during_a_listing_fails_both() -> None:
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        listener = Told(server)
        stage.fake.listing.shut()
        refreshing = asyncio.create_task(server.refresh())
        await stage.fake.listing.until_reached(2)
        stage.fake.die("it exited with 9")
        with pytest.raises(McpError):
            await refreshing
        await steps()
        assert (server.status, server.error, server.tools) == ("failed", "it exited with 9", (ECHO,))
        assert listener.statuses == ["failed"]


@in_virtual_time
async def test_a_listing_that_takes_no_notice_of_the_end_does_not_bring_the_server_back() -> None:
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        listing, connection = asyncio.Event(), stage.fake.connections[0]

        async def list_tools() -> ToolListing:
            try:
                listing.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise McpError("cancelled") from None
            raise AssertionError

        connection.list_tools = list_tools  # type: ignore[method-assign]
        refreshing = asyncio.create_task(server.refresh())
        await listing.wait()
        await server.stop()
        with pytest.raises(McpError):
            await refreshing
        assert (server.status, server.error) == ("stopped", None)


@in_virtual_time
async def test_a_refresh_of_a_server_that_does_not_run_starts_it() -> None:
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        await server.stop()
        stage.fake.tools = (NEW,)
        await server.refresh()
        assert (server.status, server.tools) == ("ready", (NEW,))


@in_virtual_time
async def test_it_is_stale_only_while_it_runs() -> None:
    """X-23: ttlMs."""
    async with pool_stage() as stage:
        loop = asyncio.get_running_loop()
        stage.fake.ttl_s = 30.0
        server = await stage.ready(start="lazy")
        assert not server.is_stale(loop.time())
        await asyncio.sleep(30)
        assert server.is_stale(loop.time())
        await server.refresh()
        assert not server.is_stale(loop.time())
        await asyncio.sleep(30)
        await server.stop()
        assert not server.is_stale(loop.time())


@in_virtual_time
async def test_a_restart_gives_the_same_digest_for_the_same_tools() -> None:
    """C18: across restarts."""
    async with pool_stage() as stage:
        stage.fake.tools = (NEW, ECHO)
        server = await stage.ready()
        before, listener = server.tool_cache.toolset.digest, Told(server)
        await server.stop()
        stage.fake.tools = (fake_tool("echo", "Says it again."), fake_tool("new"))
        await server.refresh()
        assert (server.tool_cache.toolset.digest, server.tool_cache.revision) == (before, 1)
        assert listener.statuses == ["stopped", "starting", "ready"]


# ---- calls


@in_virtual_time
async def test_a_call_goes_to_the_tool_with_its_arguments_and_its_caller() -> None:
    async with pool_stage() as stage:
        heard: list[tuple[float, float | None, str | None]] = []

        async def work(arguments: dict[str, object], who: object, on_progress: object) -> CallResult:
            on_progress(1, 2, "half")  # type: ignore[operator]
            return CallResult("done", is_error=True, total_bytes=4)

        stage.fake.handlers["echo"] = work
        server = await stage.ready()
        answer = await call(server, on_progress=lambda *news: heard.append(news))
        assert answer == CallResult("done", is_error=True, total_bytes=4)
        assert heard == [(1, 2, "half")]


@in_virtual_time
async def test_calls_of_many_run_side_by_side_on_one_connection() -> None:
    """S002-37, S002-41: reuse."""
    async with pool_stage() as stage:
        stage.fake.calling.shut()
        server = await stage.ready()
        calls = [asyncio.create_task(call(server)) for _ in range(500)]
        await stage.fake.calling.until_reached(500)
        assert stage.fake.connections[0].under_way == 500
        stage.fake.calling.open()
        await asyncio.gather(*calls)
        assert len(stage.fake.connections) == 1


@in_virtual_time
async def test_a_tool_that_it_does_not_offer_is_not_called() -> None:
    async with pool_stage() as stage:
        server = await stage.ready()
        with pytest.raises(McpError, match="fs: the server has no tool 'rm'"):
            await call(server, "rm")
        assert stage.fake.calling.reached == 0


@in_virtual_time
async def test_a_tool_that_is_another_one_after_a_restart_is_not_called() -> None:
    """C1: the definition changed while it did not run, and the call itself started it."""
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        listener = Told(server)
        await server.stop()
        stage.fake.tools = (OTHER,)
        with pytest.raises(McpError, match="otherwise than before"):
            await call(server)
        assert stage.fake.calling.reached == 0
        assert (server.status, server.tools) == ("ready", (OTHER,))
        assert listener.statuses == ["stopped", "starting", "ready"]
        # Whoever has seen the new one may call it.
        assert (await call(server, pinned=OTHER)).text
        with pytest.raises(McpError, match="otherwise than before"):
            await call(server, pinned=ECHO)


@in_virtual_time
async def test_a_tool_that_is_the_same_after_a_restart_is_called() -> None:
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        await server.stop()
        stage.fake.tools = (fake_tool("echo", "Says it again."),)
        assert (await call(server, pinned=ECHO)).text


@in_virtual_time
async def test_a_tool_that_is_gone_after_a_restart_is_not_called() -> None:
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        await server.stop()
        stage.fake.tools = (NEW,)
        with pytest.raises(McpError, match="has no tool 'echo'"):
            await call(server)


@in_virtual_time
async def test_a_listener_that_fails_is_not_hidden() -> None:
    async with pool_stage() as stage:
        server = await stage.ready()

        def listener() -> None:
            raise ZeroDivisionError

        unwatch = server.monitor.watch(listener)
        with pytest.raises(ZeroDivisionError):
            server.halt()
        unwatch()


# ---- lazy


@in_virtual_time
async def test_a_lazy_server_of_which_nothing_is_known_starts_once_to_be_known(tmp_path: Path) -> None:
    async with pool_stage(home=tmp_path) as stage:
        server = await stage.ready(start="lazy")
        assert server.tools == (ECHO,)
        await asyncio.sleep(1_000)
        assert server.status == "ready"
    async with pool_stage(home=tmp_path) as stage:
        server = stage.lease(start="lazy").server
        await server.monitor.wait_until_known()
        assert (server.status, server.tool_cache.was_listed, server.tools, server.tool_cache.revision) == (
            "stopped",
            True,
            (ECHO,),
            0,
        )
        await asyncio.sleep(1_000)
        assert stage.fake.launches == []
        assert (await call(server)).text
        assert (server.status, len(stage.fake.launches)) == ("ready", 1)


@in_virtual_time
async def test_what_is_known_of_one_launch_says_nothing_of_another(tmp_path: Path) -> None:
    async with pool_stage(home=tmp_path) as stage:
        await stage.ready(start="lazy", number=1)
    async with pool_stage(home=tmp_path) as stage:
        server = stage.lease(start="lazy", number=2).server
        assert server.status == "starting"
        assert not server.tool_cache.was_listed


@in_virtual_time
async def test_a_lazy_server_that_turns_out_another_one_than_remembered_says_so(tmp_path: Path) -> None:
    """C1: changed between two runs."""
    async with pool_stage(home=tmp_path) as stage:
        await stage.ready(start="lazy")
    for known, runs in ((ECHO, OTHER), (OTHER, OTHER)):
        async with pool_stage(home=tmp_path) as stage:
            stage.fake.tools = (runs,)
            server = stage.lease(start="lazy").server
            listener = Told(server)
            assert server.tools == (known,)
            if known == runs:
                assert (await call(server)).text
                assert server.tool_cache.revision == 0
                continue
            with pytest.raises(McpError, match="otherwise than before"):
                await call(server)
            assert stage.fake.calling.reached == 0
            assert (listener.statuses, server.tool_cache.revision) == (["starting", "ready"], 1)


@in_virtual_time
async def test_a_change_while_it_runs_is_remembered_as_well(tmp_path: Path) -> None:
    async with pool_stage(home=tmp_path) as stage:
        server = await stage.ready(start="lazy")
        stage.fake.change(ECHO, NEW)
        await asyncio.sleep(1)
        await server.refresh()
    async with pool_stage(home=tmp_path) as stage:
        assert stage.lease(start="lazy").server.tools == (ECHO, NEW)


@in_virtual_time
async def test_an_eager_server_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    async with pool_stage(home=tmp_path) as stage:
        await stage.ready()
    assert list(tmp_path.iterdir()) == []


@in_virtual_time
async def test_an_eager_lease_starts_a_lazy_server_that_is_known(tmp_path: Path) -> None:
    async with pool_stage(home=tmp_path) as stage:
        await stage.ready(start="lazy")
    async with pool_stage(home=tmp_path) as stage:
        server = stage.lease(start="lazy").server
        assert server.status == "stopped"
        assert stage.lease(start="eager").server is server
        await server.monitor.wait_until_known()
        assert server.status == "ready"
