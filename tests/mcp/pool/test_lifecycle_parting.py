"""The end of a connection."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.mcp.pool.lifecycle import CLOSE_TRIES_S, close_connection
from tertulia.testing.fake_mcp_server import FakeMcpConnection, FakeMcpServer
from tests.mcp.virtual_time import in_virtual_time


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
