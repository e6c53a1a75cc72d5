"""What a server offers, as it last said."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.errors import McpError
from tertulia.mcp.offer import LEAST_TTL_S, Offer
from tertulia.mcp.toolset import Toolset
from tertulia.mcp.twin import TwinConnection, TwinServer, twin_tool
from tertulia.testing import FakeClock

ONE, TWO = twin_tool("one"), twin_tool("two")


def connection(server: TwinServer) -> TwinConnection:
    return TwinConnection(server, lambda: None)


async def test_the_first_listing_makes_it_known() -> None:
    clock = FakeClock()
    offer = Offer(clock, None, None)
    assert (offer.known, offer.toolset.tools, offer.revision, offer.latency_ms) == (False, (), 0, None)
    clock.advance(2.5)
    assert await offer.take(connection(TwinServer([TWO, ONE])), 0.0)
    assert (offer.known, offer.toolset.tools, offer.revision, offer.latency_ms) == (True, (ONE, TWO), 1, 2500)
    assert (offer.find("one"), offer.find("three")) == (ONE, None)


async def test_a_server_without_tools_is_known_too() -> None:
    offer = Offer(FakeClock(), None, None)
    assert not await offer.take(connection(TwinServer()), 0.0)
    assert offer.known


async def test_the_same_list_again_changes_nothing_at_all() -> None:
    server, offer = TwinServer([ONE]), Offer(FakeClock(), None, None)
    await offer.take(connection(server), 0.0)
    before = offer.toolset
    server.tools = (twin_tool("one"),)
    assert not await offer.take(connection(server), 0.0)
    assert offer.toolset is before
    assert offer.revision == 1


async def test_a_listing_that_fails_keeps_what_was_known() -> None:
    """X-23."""
    server, offer = TwinServer([ONE]), Offer(FakeClock(), None, None)
    await offer.take(connection(server), 0.0)
    server.tools = (TWO,)
    server.list_errors.append("no")
    with pytest.raises(McpError):
        await offer.take(connection(server), 0.0)
    assert (offer.toolset.tools, offer.revision) == ((ONE,), 1)


async def test_what_was_known_from_an_earlier_run_is_offered_until_the_server_says_otherwise() -> None:
    known = Toolset.of([ONE])
    offer = Offer(FakeClock(), known, None)
    assert (offer.known, offer.toolset, offer.find("one")) == (True, known, ONE)
    assert not await offer.take(connection(TwinServer([ONE])), 0.0)
    assert await offer.take(connection(TwinServer([TWO])), 0.0)
    assert offer.revision == 1


async def test_only_warnings_that_change_make_no_new_revision() -> None:
    server, offer = TwinServer([ONE]), Offer(FakeClock(), None, None)
    await offer.take(connection(server), 0.0)
    server.tools = (ONE, ONE)
    assert await offer.take(connection(server), 0.0)
    assert offer.toolset.warnings
    assert offer.revision == 1


async def test_it_is_stale_when_the_time_is_over_that_the_server_gave() -> None:
    """X-23: ttlMs."""
    clock = FakeClock()
    offer = Offer(clock, None, None)
    assert not offer.stale(clock.monotonic())
    await offer.take(connection(TwinServer([ONE], ttl_s=60)), 0.0)
    clock.advance(59)
    assert not offer.stale(clock.monotonic())
    clock.advance(1)
    assert offer.stale(clock.monotonic())


async def test_a_failed_listing_puts_off_the_next_one_as_well() -> None:
    clock, server = FakeClock(), TwinServer([ONE], ttl_s=60)
    offer = Offer(clock, None, None)
    await offer.take(connection(server), 0.0)
    clock.advance(60)
    server.list_errors.append("no")
    with pytest.raises(McpError):
        await offer.take(connection(server), 0.0)
    assert not offer.stale(clock.monotonic())


async def test_a_list_that_holds_for_no_time_is_not_asked_for_all_the_time() -> None:
    clock = FakeClock()
    offer = Offer(clock, None, None)
    await offer.take(connection(TwinServer([ONE], ttl_s=0)), 0.0)
    assert not offer.stale(clock.monotonic())
    clock.advance(LEAST_TTL_S)
    assert offer.stale(clock.monotonic())


async def test_a_list_without_a_time_holds_until_the_server_says_otherwise() -> None:
    clock = FakeClock()
    offer = Offer(clock, None, None)
    await offer.take(connection(TwinServer([ONE])), 0.0)
    clock.advance(1e9)
    assert not offer.stale(clock.monotonic())


async def test_what_is_new_is_written_down_once() -> None:
    written: list[Toolset] = []
    server, offer = TwinServer([ONE]), Offer(FakeClock(), Toolset.of([ONE]), written.append)
    await offer.take(connection(server), 0.0)
    await offer.write_down()
    assert written == []
    server.tools = (TWO,)
    await offer.take(connection(server), 0.0)
    await asyncio.gather(offer.write_down(), offer.write_down())
    assert written == [Toolset.of([TWO])]


async def test_without_a_place_nothing_is_written_down() -> None:
    offer = Offer(FakeClock(), None, None)
    await offer.take(connection(TwinServer([ONE])), 0.0)
    await offer.write_down()
