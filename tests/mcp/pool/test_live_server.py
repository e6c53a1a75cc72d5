"""One shared server, as others see it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tertulia.errors import McpError
from tertulia.mcp.pool.live_server import LiveServer
from tertulia.mcp.server_connection import CallResult, ToolListing
from tertulia.testing.fake_mcp_server import fake_tool
from tests.mcp.house import ECHO, Told, call, house
from tests.mcp.virtual_time import in_virtual_time, steps

OTHER = fake_tool("echo", "Sends it to a stranger.")
NEW = fake_tool("new")


# ---- what it offers


@in_virtual_time
async def test_a_server_that_runs_says_what_it_offers_and_how_fast() -> None:
    async with house() as home:
        home.twin.listing.shut()
        server = home.lease().server
        assert (server.known, server.tools, server.protocol_version, server.latency_ms) == (False, (), None, None)
        await home.twin.listing.until_reached()
        await asyncio.sleep(1.5)
        home.twin.listing.open()
        await server.settled()
        assert (server.known, server.tools, server.warnings) == (True, (ECHO,), ())
        assert (server.protocol_version, server.latency_ms, server.offer.revision) == ("twin", 1500, 1)


@in_virtual_time
async def test_a_change_that_the_server_tells_of_is_listed_and_told() -> None:
    """X-23."""
    async with house() as home:
        server = await home.ready()
        told, before = Told(server), server.digest
        home.twin.change(ECHO, NEW)
        await asyncio.sleep(1)
        assert server.tools == (ECHO, NEW)
        assert server.digest != before
        assert (told.statuses, server.offer.revision) == (["ready"], 2)


@in_virtual_time
async def test_a_change_told_during_the_start_is_listed_after_it() -> None:
    async with house() as home:
        home.twin.listing.shut()
        server = home.lease().server
        await home.twin.listing.until_reached()
        home.twin.connections[0].tools_changed()
        home.twin.listing.open()
        await server.settled()
        home.twin.tools = (NEW,)
        await asyncio.sleep(1)
        assert server.tools == (NEW,)


@in_virtual_time
async def test_a_storm_of_changes_makes_a_few_listings_and_hinders_no_call() -> None:
    async with house() as home:
        server = await home.ready()
        for number in range(10_000):
            home.twin.change(ECHO, fake_tool(f"t{number}"))
        began = asyncio.get_running_loop().time()
        assert (await call(server)).text
        assert asyncio.get_running_loop().time() == began
        await asyncio.sleep(5)
        assert home.twin.listing.reached == 2
        assert [tool.name for tool in server.tools] == ["echo", "t9999"]


@in_virtual_time
async def test_a_listing_that_fails_keeps_the_tools_and_says_why_until_the_next_goes_well() -> None:
    """X-23: a failed listing keeps the old view."""
    async with house() as home:
        server = await home.ready()
        told = Told(server)
        home.twin.list_errors.append("fs: no list today")
        home.twin.change(NEW)
        await asyncio.sleep(1)
        assert (server.status, server.error, server.tools) == ("ready", "no list today", (ECHO,))
        assert (await call(server)).text
        await server.refresh()
        assert (server.status, server.error, server.tools) == ("ready", None, (NEW,))
        assert told.errors == ["no list today", None]


@in_virtual_time
async def test_a_listing_that_hangs_is_given_up() -> None:
    async with house() as home:
        server = await home.ready(startup_timeout_s=4.0)
        home.twin.listing.shut()
        with pytest.raises(McpError, match="did not list its tools within 4 s"):
            await server.refresh()
        assert (server.status, server.tools) == ("ready", (ECHO,))
        assert server.error is not None


@in_virtual_time
async def test_a_connection_that_ends_during_a_listing_fails_both() -> None:
    async with house() as home:
        server = await home.ready(start="lazy")
        told = Told(server)
        home.twin.listing.shut()
        refreshing = asyncio.create_task(server.refresh())
        await home.twin.listing.until_reached(2)
        home.twin.die("it exited with 9")
        with pytest.raises(McpError):
            await refreshing
        await steps()
        assert (server.status, server.error, server.tools) == ("failed", "it exited with 9", (ECHO,))
        assert told.statuses == ["failed"]


@in_virtual_time
async def test_a_listing_that_takes_no_notice_of_the_end_does_not_bring_the_server_back() -> None:
    async with house() as home:
        server = await home.ready(start="lazy")
        listing, connection = asyncio.Event(), home.twin.connections[0]

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
    async with house() as home:
        server = await home.ready(start="lazy")
        await server.stop()
        home.twin.tools = (NEW,)
        await server.refresh()
        assert (server.status, server.tools) == ("ready", (NEW,))


@in_virtual_time
async def test_it_is_stale_only_while_it_runs() -> None:
    """X-23: ttlMs."""
    async with house() as home:
        loop = asyncio.get_running_loop()
        home.twin.ttl_s = 30.0
        server = await home.ready(start="lazy")
        assert not server.stale(loop.time())
        await asyncio.sleep(30)
        assert server.stale(loop.time())
        await server.refresh()
        assert not server.stale(loop.time())
        await asyncio.sleep(30)
        await server.stop()
        assert not server.stale(loop.time())


@in_virtual_time
async def test_a_restart_gives_the_same_digest_for_the_same_tools() -> None:
    """C18: across restarts."""
    async with house() as home:
        home.twin.tools = (NEW, ECHO)
        server = await home.ready()
        before, told = server.digest, Told(server)
        await server.stop()
        home.twin.tools = (fake_tool("echo", "Says it again."), fake_tool("new"))
        await server.refresh()
        assert (server.digest, server.offer.revision) == (before, 1)
        assert told.statuses == ["stopped", "starting", "ready"]


# ---- calls


@in_virtual_time
async def test_a_call_goes_to_the_tool_with_its_arguments_and_its_caller() -> None:
    async with house() as home:
        heard: list[tuple[float, float | None, str | None]] = []

        async def work(arguments: dict[str, object], who: object, on_progress: object) -> CallResult:
            on_progress(1, 2, "half")  # type: ignore[operator]
            return CallResult("done", is_error=True, total_bytes=4)

        home.twin.handlers["echo"] = work
        server = await home.ready()
        answer = await call(server, on_progress=lambda *news: heard.append(news))
        assert answer == CallResult("done", is_error=True, total_bytes=4)
        assert heard == [(1, 2, "half")]


@in_virtual_time
async def test_calls_of_many_run_side_by_side_on_one_connection() -> None:
    """S002-37, S002-41: reuse."""
    async with house() as home:
        home.twin.calling.shut()
        server = await home.ready()
        calls = [asyncio.create_task(call(server)) for _ in range(500)]
        await home.twin.calling.until_reached(500)
        assert home.twin.connections[0].under_way == 500
        home.twin.calling.open()
        await asyncio.gather(*calls)
        assert len(home.twin.connections) == 1


@in_virtual_time
async def test_a_tool_that_it_does_not_offer_is_not_called() -> None:
    async with house() as home:
        server = await home.ready()
        with pytest.raises(McpError, match="fs: the server has no tool 'rm'"):
            await call(server, "rm")
        assert home.twin.calling.reached == 0


@in_virtual_time
async def test_a_tool_that_is_another_one_after_a_restart_is_not_called() -> None:
    """C1: the definition changed while it did not run, and the call itself started it."""
    async with house() as home:
        server = await home.ready(start="lazy")
        told = Told(server)
        await server.stop()
        home.twin.tools = (OTHER,)
        with pytest.raises(McpError, match="otherwise than before"):
            await call(server)
        assert home.twin.calling.reached == 0
        assert (server.status, server.tools) == ("ready", (OTHER,))
        assert told.statuses == ["stopped", "starting", "ready"]
        # Whoever has seen the new one may call it.
        assert (await call(server, pinned=OTHER)).text
        with pytest.raises(McpError, match="otherwise than before"):
            await call(server, pinned=ECHO)


@in_virtual_time
async def test_a_tool_that_is_the_same_after_a_restart_is_called() -> None:
    async with house() as home:
        server = await home.ready(start="lazy")
        await server.stop()
        home.twin.tools = (fake_tool("echo", "Says it again."),)
        assert (await call(server, pinned=ECHO)).text


@in_virtual_time
async def test_a_tool_that_is_gone_after_a_restart_is_not_called() -> None:
    async with house() as home:
        server = await home.ready(start="lazy")
        await server.stop()
        home.twin.tools = (NEW,)
        with pytest.raises(McpError, match="has no tool 'echo'"):
            await call(server)


@in_virtual_time
async def test_a_listener_that_fails_is_not_hidden() -> None:
    async with house() as home:
        server = await home.ready()

        def listener(_: LiveServer) -> None:
            raise ZeroDivisionError

        unwatch = server.watch(listener)
        with pytest.raises(ZeroDivisionError):
            server.halt()
        unwatch()


# ---- lazy


@in_virtual_time
async def test_a_lazy_server_of_which_nothing_is_known_starts_once_to_be_known(tmp_path: Path) -> None:
    async with house(home=tmp_path) as home:
        server = await home.ready(start="lazy")
        assert server.tools == (ECHO,)
        await asyncio.sleep(1_000)
        assert server.status == "ready"
    async with house(home=tmp_path) as home:
        server = home.lease(start="lazy").server
        await server.settled()
        assert (server.status, server.known, server.tools, server.offer.revision) == ("stopped", True, (ECHO,), 0)
        await asyncio.sleep(1_000)
        assert home.twin.launches == []
        assert (await call(server)).text
        assert (server.status, len(home.twin.launches)) == ("ready", 1)


@in_virtual_time
async def test_what_is_known_of_one_launch_says_nothing_of_another(tmp_path: Path) -> None:
    async with house(home=tmp_path) as home:
        await home.ready(start="lazy", number=1)
    async with house(home=tmp_path) as home:
        server = home.lease(start="lazy", number=2).server
        assert server.status == "starting"
        assert not server.known


@in_virtual_time
async def test_a_lazy_server_that_turns_out_another_one_than_remembered_says_so(tmp_path: Path) -> None:
    """C1: changed between two runs."""
    async with house(home=tmp_path) as home:
        await home.ready(start="lazy")
    for known, runs in ((ECHO, OTHER), (OTHER, OTHER)):
        async with house(home=tmp_path) as home:
            home.twin.tools = (runs,)
            server = home.lease(start="lazy").server
            told = Told(server)
            assert server.tools == (known,)
            if known == runs:
                assert (await call(server)).text
                assert server.offer.revision == 0
                continue
            with pytest.raises(McpError, match="otherwise than before"):
                await call(server)
            assert home.twin.calling.reached == 0
            assert (told.statuses, server.offer.revision) == (["starting", "ready"], 1)


@in_virtual_time
async def test_a_change_while_it_runs_is_remembered_as_well(tmp_path: Path) -> None:
    async with house(home=tmp_path) as home:
        server = await home.ready(start="lazy")
        home.twin.change(ECHO, NEW)
        await asyncio.sleep(1)
        await server.refresh()
    async with house(home=tmp_path) as home:
        assert home.lease(start="lazy").server.tools == (ECHO, NEW)


@in_virtual_time
async def test_an_eager_server_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    async with house(home=tmp_path) as home:
        await home.ready()
    assert list(tmp_path.iterdir()) == []


@in_virtual_time
async def test_an_eager_lease_starts_a_lazy_server_that_is_known(tmp_path: Path) -> None:
    async with house(home=tmp_path) as home:
        await home.ready(start="lazy")
    async with house(home=tmp_path) as home:
        server = home.lease(start="lazy").server
        assert server.status == "stopped"
        assert home.lease(start="eager").server is server
        await server.settled()
        assert server.status == "ready"
