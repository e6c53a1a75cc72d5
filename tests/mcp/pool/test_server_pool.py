"""Servers that are shared: one for a key, leases, idle ones, and the end of all."""

from __future__ import annotations

import asyncio
import os

import pytest

from tertulia.errors import ClosedError, McpError
from tertulia.mcp.server_connection import CallResult
from tests.mcp.pool_stage import call, pool_stage
from tests.mcp.virtual_time import in_virtual_time, steps
from tests.tables import each_row


def now() -> float:
    return asyncio.get_running_loop().time()


# ---- who shares what


@in_virtual_time
async def test_a_thousand_leases_are_one_process() -> None:
    """S002-37, S002-41: reuse."""
    async with pool_stage() as stage:
        leases = [stage.lease() for _ in range(1_000)]
        assert len({id(lease.server) for lease in leases}) == 1
        await leases[0].server.monitor.wait_until_known()
        assert (len(stage.fake.launches), stage.pool.leases()) == (1, 1_000)
        await asyncio.gather(*(call(lease.server) for lease in leases))
        assert len(stage.fake.launches) == 1


@in_virtual_time
async def test_another_launch_or_another_scope_is_another_process() -> None:
    async with pool_stage() as stage:
        servers = {stage.lease(scope, number).server for scope in ("", "one", "two") for number in (1, 2)}
        assert len(servers) == 6
        await asyncio.gather(*(server.monitor.wait_until_known() for server in servers))
        assert len(stage.fake.launches) == 6


@in_virtual_time
async def test_what_may_ask_back_is_not_shared_with_what_may_not() -> None:
    """The connection itself offers the server what its definition allows."""
    async with pool_stage() as stage:
        one = stage.lease(sampling=False, elicitation=True).server
        assert stage.lease(sampling=True, elicitation=True).server is not one
        assert stage.lease(sampling=False, elicitation=False).server is not one
        assert stage.lease(sampling=False, elicitation=True).server is one


@in_virtual_time
async def test_two_names_for_one_launch_share_it_and_each_keeps_its_definition() -> None:
    async with pool_stage() as stage:
        one, other = stage.lease(name="one"), stage.lease(name="other", disabled_tools=("echo",))
        assert one.server is other.server
        assert [leased.name for leased in one.server.leases] == ["one", "other"]


@in_virtual_time
async def test_a_lease_never_waits_and_one_that_hangs_delays_no_other() -> None:
    async with pool_stage() as stage:
        stage.fake.starting.shut()
        slow = stage.lease(number=1).server
        await stage.fake.starting.until_reached()
        began = now()
        stage.pool._connect, hanging = stage.fake.connect, stage.fake.starting
        stage.fake.starting = type(hanging)()
        quick = stage.lease(number=2).server
        assert (await call(quick)).text
        assert now() == began
        assert slow.status == "starting"


# ---- giving back


@in_virtual_time
async def test_the_last_one_out_starts_the_timer_and_the_next_one_in_stops_it() -> None:
    """S002-40: reclaimed by idle policy."""
    async with pool_stage() as stage:
        first, second = stage.lease(idle_timeout_s=60.0), stage.lease(idle_timeout_s=60.0)
        server = first.server
        await server.monitor.wait_until_known()
        first.release()
        await asyncio.sleep(1_000)
        assert server.status == "ready"
        second.release()
        await asyncio.sleep(59)
        assert (server.status, stage.pool.leases()) == ("ready", 0)
        third = stage.lease(idle_timeout_s=60.0)
        assert third.server is server
        await asyncio.sleep(1_000)
        assert server.status == "ready"
        third.release()
        await asyncio.sleep(60.1)
        assert (server.status, stage.fake.open, stage.pool.servers) == ("stopped", 0, ())
        assert len(stage.nursery) == 0


@in_virtual_time
async def test_releasing_twice_gives_back_once() -> None:
    async with pool_stage() as stage:
        first, second = stage.lease(), stage.lease()
        first.release()
        first.release()
        assert stage.pool.leases() == 1
        second.release()
        assert stage.pool.leases() == 0


@in_virtual_time
async def test_without_an_idle_timeout_it_stays() -> None:
    async with pool_stage() as stage:
        lease = stage.lease(idle_timeout_s=None)
        await lease.server.monitor.wait_until_known()
        lease.release()
        await asyncio.sleep(1e6)
        assert lease.server.status == "ready"


@in_virtual_time
async def test_a_server_of_the_host_outlives_the_session_that_started_it() -> None:
    async with pool_stage() as stage:
        one = stage.lease("", share="host")
        await one.server.monitor.wait_until_known()
        await stage.pool.end("session")
        one.release()
        other = stage.lease("", share="host")
        assert other.server is one.server
        assert (await call(other.server)).text
        assert len(stage.fake.launches) == 1


@in_virtual_time
async def test_a_lease_while_an_idle_server_stops_gets_the_same_one_again() -> None:
    async with pool_stage() as stage:
        lease = stage.lease(idle_timeout_s=1.0)
        await lease.server.monitor.wait_until_known()
        stage.fake.closing.shut()
        lease.release()
        await stage.fake.closing.until_reached()
        assert lease.server.status == "stopped"
        again = stage.lease(idle_timeout_s=1.0)
        assert again.server is lease.server
        await steps()
        assert len(stage.fake.launches) == 1
        stage.fake.closing.open()
        await again.server.monitor.wait_until_known()
        assert (again.server.status, stage.fake.open, len(stage.fake.launches)) == ("ready", 1, 2)
        await asyncio.sleep(100)
        assert again.server.status == "ready"


@in_virtual_time
async def test_a_server_that_was_reclaimed_cannot_be_called_back_to_life() -> None:
    """Nobody would ever stop it."""
    async with pool_stage() as stage:
        lease = stage.lease(idle_timeout_s=1.0)
        await lease.server.monitor.wait_until_known()
        lease.release()
        await asyncio.sleep(2)
        with pytest.raises(McpError, match="was closed"):
            await call(lease.server)
        assert len(stage.fake.launches) == 1
        assert stage.lease().server is not lease.server


@in_virtual_time
async def test_an_idle_server_that_will_not_stop_is_warned_of_and_let_go(caplog: pytest.LogCaptureFixture) -> None:
    """S002-41: release failure, retried and warned of."""
    async with pool_stage() as stage:
        lease = stage.lease(idle_timeout_s=1.0)
        await lease.server.monitor.wait_until_known()
        stage.fake.close_errors.extend(["no", "never"])
        lease.release()
        await asyncio.sleep(2)
        assert stage.fake.closing.reached == 2
        assert "MCP server fs could not be stopped: never" in caplog.text
        assert (stage.pool.servers, len(stage.nursery)) == ((), 0)
        stage.fake.die()


# ---- the end


@in_virtual_time
async def test_the_end_of_a_scope_stops_its_servers_and_no_others() -> None:
    async with pool_stage() as stage:
        mine, theirs = stage.lease("mine"), stage.lease("theirs")
        await asyncio.gather(mine.server.monitor.wait_until_known(), theirs.server.monitor.wait_until_known())
        await stage.pool.end("mine")
        assert (mine.server.status, theirs.server.status, stage.fake.open) == ("stopped", "ready", 1)
        assert stage.pool.servers == (theirs.server,)
        with pytest.raises(McpError, match="was closed"):
            await call(mine.server)
        mine.release()
        await asyncio.sleep(1_000)
        assert stage.pool.leases() == 1


@in_virtual_time
async def test_a_lease_given_back_after_the_end_starts_no_timer() -> None:
    async with pool_stage() as stage:
        lease = stage.lease("mine", idle_timeout_s=1.0)
        await stage.pool.end("mine")
        before = list(stage.spawned)
        lease.release()
        await asyncio.sleep(10)
        assert stage.spawned == before


@in_virtual_time
async def test_a_lease_in_a_scope_that_is_ending_starts_nothing() -> None:
    async with pool_stage() as stage:
        await stage.ready(scope="mine")
        stage.fake.closing.shut()
        ending = asyncio.create_task(stage.pool.end("mine"))
        await stage.fake.closing.until_reached()
        late = stage.lease("mine")
        stage.fake.closing.open()
        await ending
        await steps()
        assert (late.server.status, len(stage.fake.launches), stage.pool.servers) == ("stopped", 1, ())


@in_virtual_time
async def test_all_servers_are_stopped_side_by_side_and_leases_are_refused_then() -> None:
    async with pool_stage() as stage:
        servers = [stage.lease(number=number).server for number in range(10)]
        await asyncio.gather(*(server.monitor.wait_until_known() for server in servers))
        stage.fake.closing.shut()
        closing = asyncio.create_task(stage.pool.close())
        await stage.fake.closing.until_reached(10)
        with pytest.raises(ClosedError):
            stage.lease()
        with pytest.raises(McpError, match="was closed"):
            await call(servers[0])
        stage.fake.closing.open()
        await closing
        assert {server.status for server in servers} == {"stopped"}
        assert (stage.pool.servers, len(stage.nursery)) == ((), 0)


@in_virtual_time
async def test_servers_that_do_not_end_hold_up_the_close_no_longer_than_its_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pool_stage() as stage:
        servers = [stage.lease(number=number).server for number in range(10)]
        await asyncio.gather(*(server.monitor.wait_until_known() for server in servers))
        stage.fake.closing.shut()
        began = now()
        await stage.pool.close(timeout_s=2.0)
        assert now() - began == pytest.approx(2.0)
        assert "did not stop within 2 s: stop fs" in caplog.text
        stage.fake.closing.open()
        await steps()


@in_virtual_time
async def test_ten_servers_that_never_end_are_left_within_eight_seconds() -> None:
    async with pool_stage() as stage:
        for number in range(10):
            await stage.lease(number=number).server.monitor.wait_until_known()
        stage.fake.closing.shut()
        began = now()
        await stage.pool.close()
        assert now() - began <= 8.0
        stage.fake.die()


@in_virtual_time
async def test_closing_twice_and_at_once_is_closing() -> None:
    """H2."""
    async with pool_stage() as stage:
        lease = stage.lease()
        closing = [asyncio.create_task(stage.pool.close()) for _ in range(3)]
        await asyncio.gather(*closing)
        await stage.pool.close()
        assert lease.server.status == "stopped"
        lease.release()
        assert stage.pool.leases() == 0


@in_virtual_time
async def test_a_close_that_is_cancelled_has_stopped_them_all_the_same() -> None:
    async with pool_stage() as stage:
        lease = stage.lease()
        await lease.server.monitor.wait_until_known()
        stage.fake.closing.shut()
        closing = asyncio.create_task(stage.pool.close())
        await stage.fake.closing.until_reached()
        closing.cancel()
        await asyncio.wait({closing})
        stage.fake.closing.open()
        await steps()
        assert (lease.server.status, stage.fake.open) == ("stopped", 0)


@each_row("step", range(40))
def test_it_may_be_closed_at_any_step(step: int) -> None:
    """H1, H2: close during start and call."""

    @in_virtual_time
    async def scene() -> None:
        async with pool_stage() as stage:
            server = stage.lease().server
            calling = asyncio.create_task(call(server))
            await steps(step)
            await stage.pool.close()
            [outcome] = await asyncio.gather(calling, return_exceptions=True)
            assert isinstance(outcome, CallResult | McpError)
            assert (server.status, stage.fake.open, len(stage.nursery)) == ("stopped", 0, 0)

    scene()


# ---- nothing is left behind


@in_virtual_time
async def test_a_thousand_leases_and_refreshes_leave_nothing_behind() -> None:
    """C12, S000-44: counts return to what they were."""
    async with pool_stage() as stage:
        server = await stage.ready()
        await steps()
        tasks, files = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
        for _ in range(1_000):
            lease = stage.lease()
            await lease.server.refresh()
            lease.release()
        await steps()
        assert stage.pool.leases() == 1
        assert (len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))) == (tasks, files)
        assert (len(stage.fake.launches), stage.fake.open, len(stage.pool.servers)) == (1, 1, 1)
        assert server.status == "ready"


@in_virtual_time
async def test_a_thousand_restarts_leave_nothing_behind() -> None:
    """C12: reconnects."""
    async with pool_stage() as stage:
        server = await stage.ready(start="lazy")
        await steps()
        tasks = len(asyncio.all_tasks())
        for _ in range(1_000):
            stage.fake.die()
            await asyncio.sleep(61)
            await call(server)
        await steps()
        assert (len(asyncio.all_tasks()), stage.fake.open) == (tasks, 1)


@in_virtual_time
async def test_a_thousand_scopes_that_came_and_went_leave_nothing_behind() -> None:
    """S000-44, S002-40."""
    async with pool_stage() as stage:
        for number in range(1_000):
            lease = stage.lease(f"conversation {number}", idle_timeout_s=0.0)
            await lease.server.monitor.wait_until_known()
            lease.release()
        await asyncio.sleep(1)
        assert (stage.pool.servers, stage.pool.leases(), stage.fake.open, len(stage.nursery)) == ((), 0, 0, 0)
