"""What a server offers, as it last said."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.errors import McpError
from tertulia.mcp.pool.tool_cache import MIN_TTL_S, ToolCache
from tertulia.mcp.toolset import Toolset
from tertulia.testing import FakeClock
from tertulia.testing.fake_mcp_server import FakeMcpConnection, FakeMcpServer, fake_tool

ONE, TWO = fake_tool("one"), fake_tool("two")


def connection(server: FakeMcpServer) -> FakeMcpConnection:
    return FakeMcpConnection(server, lambda: None)


async def test_the_first_listing_makes_it_known() -> None:
    clock = FakeClock()
    offer = ToolCache(clock, None, None)
    assert (offer.known, offer.toolset.tools, offer.revision, offer.latency_ms) == (False, (), 0, None)
    clock.advance(2.5)
    assert await offer.take(connection(FakeMcpServer([TWO, ONE])), 0.0)
    assert (offer.known, offer.toolset.tools, offer.revision, offer.latency_ms) == (True, (ONE, TWO), 1, 2500)
    assert (offer.find("one"), offer.find("three")) == (ONE, None)


async def test_a_server_without_tools_is_known_too() -> None:
    offer = ToolCache(FakeClock(), None, None)
    assert not await offer.take(connection(FakeMcpServer()), 0.0)
    assert offer.known


async def test_the_same_list_again_changes_nothing_at_all() -> None:
    server, offer = FakeMcpServer([ONE]), ToolCache(FakeClock(), None, None)
    await offer.take(connection(server), 0.0)
    before = offer.toolset
    server.tools = (fake_tool("one"),)
    assert not await offer.take(connection(server), 0.0)
    assert offer.toolset is before
    assert offer.revision == 1


async def test_a_listing_that_fails_keeps_what_was_known() -> None:
    """X-23."""
    server, offer = FakeMcpServer([ONE]), ToolCache(FakeClock(), None, None)
    await offer.take(connection(server), 0.0)
    server.tools = (TWO,)
    server.list_errors.append("no")
    with pytest.raises(McpError):
        await offer.take(connection(server), 0.0)
    assert (offer.toolset.tools, offer.revision) == ((ONE,), 1)


async def test_what_was_known_from_an_earlier_run_is_offered_until_the_server_says_otherwise() -> None:
    known = Toolset.of([ONE])
    offer = ToolCache(FakeClock(), known, None)
    assert (offer.known, offer.toolset, offer.find("one")) == (True, known, ONE)
    assert not await offer.take(connection(FakeMcpServer([ONE])), 0.0)
    assert await offer.take(connection(FakeMcpServer([TWO])), 0.0)
    assert offer.revision == 1


async def test_only_warnings_that_change_make_no_new_revision() -> None:
    server, offer = FakeMcpServer([ONE]), ToolCache(FakeClock(), None, None)
    await offer.take(connection(server), 0.0)
    server.tools = (ONE, ONE)
    assert await offer.take(connection(server), 0.0)
    assert offer.toolset.warnings
    assert offer.revision == 1


async def test_it_is_stale_when_the_time_is_over_that_the_server_gave() -> None:
    """X-23: ttlMs."""
    clock = FakeClock()
    offer = ToolCache(clock, None, None)
    assert not offer.stale(clock.monotonic())
    await offer.take(connection(FakeMcpServer([ONE], ttl_s=60)), 0.0)
    clock.advance(59)
    assert not offer.stale(clock.monotonic())
    clock.advance(1)
    assert offer.stale(clock.monotonic())


async def test_a_failed_listing_puts_off_the_next_one_as_well() -> None:
    clock, server = FakeClock(), FakeMcpServer([ONE], ttl_s=60)
    offer = ToolCache(clock, None, None)
    await offer.take(connection(server), 0.0)
    clock.advance(60)
    server.list_errors.append("no")
    with pytest.raises(McpError):
        await offer.take(connection(server), 0.0)
    assert not offer.stale(clock.monotonic())


async def test_a_list_that_holds_for_no_time_is_not_asked_for_all_the_time() -> None:
    clock = FakeClock()
    offer = ToolCache(clock, None, None)
    await offer.take(connection(FakeMcpServer([ONE], ttl_s=0)), 0.0)
    assert not offer.stale(clock.monotonic())
    clock.advance(MIN_TTL_S)
    assert offer.stale(clock.monotonic())


async def test_a_list_without_a_time_holds_until_the_server_says_otherwise() -> None:
    clock = FakeClock()
    offer = ToolCache(clock, None, None)
    await offer.take(connection(FakeMcpServer([ONE])), 0.0)
    clock.advance(1e9)
    assert not offer.stale(clock.monotonic())


async def test_what_is_new_is_written_down_once() -> None:
    written: list[Toolset] = []
    server, offer = FakeMcpServer([ONE]), ToolCache(FakeClock(), Toolset.of([ONE]), written.append)
    await offer.take(connection(server), 0.0)
    await offer.write_down()
    assert written == []
    server.tools = (TWO,)
    await offer.take(connection(server), 0.0)
    await asyncio.gather(offer.write_down(), offer.write_down())
    assert written == [Toolset.of([TWO])]


async def test_without_a_place_nothing_is_written_down() -> None:
    offer = ToolCache(FakeClock(), None, None)
    await offer.take(connection(FakeMcpServer([ONE])), 0.0)
    await offer.write_down()
