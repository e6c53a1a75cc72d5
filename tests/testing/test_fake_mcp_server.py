"""The fake server keeps the contract of a connection."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.errors import InvalidParamsError, McpError
from tertulia.mcp.server_connection import CallResult, ServerConnection, ToolListing
from tertulia.testing.fake_mcp_server import FakeGate, FakeMcpConnection, FakeMcpServer, fake_tool
from tests.mcp.pool_stage import ECHO, caller
from tests.mcp.virtual_time import in_virtual_time, steps


def connection(server: FakeMcpServer) -> FakeMcpConnection:
    made = FakeMcpConnection(server, lambda: None)
    server.connections.append(made)
    contract: ServerConnection = made
    assert contract is made
    return made


async def call(link: FakeMcpConnection, tool: str = "echo", timeout_s: float = 30.0) -> CallResult:
    return await link.call(tool, {"x": 1}, caller("alice"), timeout_s=timeout_s, on_progress=lambda *_: None)


@in_virtual_time
async def test_a_tool_without_a_script_says_who_called_and_with_what() -> None:
    server = FakeMcpServer([ECHO], ttl_s=3.0)
    link = connection(server)
    assert await link.list_tools() == ToolListing((ECHO,), 3.0)
    assert await call(link) == CallResult("alice: {'x': 1}")


@in_virtual_time
async def test_an_error_of_a_script_comes_as_it_is() -> None:
    async def refuse(*_: object) -> CallResult:
        raise InvalidParamsError("no")

    server = FakeMcpServer()
    server.handlers["echo"] = refuse
    with pytest.raises(InvalidParamsError, match="no"):
        await call(connection(server))


@in_virtual_time
async def test_the_end_of_a_connection_reaches_calls_under_way_and_later_ones() -> None:
    server = FakeMcpServer()
    link = connection(server)
    server.calling.shut()
    pending = asyncio.create_task(call(link))
    await server.calling.until_reached()
    assert (server.open, link.under_way) == (1, 1)
    server.die("it exited with 1")
    with pytest.raises(McpError, match="it exited with 1"):
        await pending
    server.calling.open()
    with pytest.raises(McpError, match="it exited with 1"):
        await call(link)
    with pytest.raises(McpError):
        await link.list_tools()
    assert (server.open, link.under_way) == (0, 0)


@in_virtual_time
async def test_a_closed_connection_did_not_end_by_itself() -> None:
    server = FakeMcpServer()
    link = connection(server)
    await link.close()
    await link.close()
    assert (link.gone.is_set(), link.why) == (True, None)
    server.die("too late")
    assert link.why is None


@in_virtual_time
async def test_a_call_that_takes_too_long_is_given_up() -> None:
    server = FakeMcpServer()
    link = connection(server)
    server.calling.shut()
    with pytest.raises(McpError, match="within 2 s"):
        await call(link, timeout_s=2.0)
    assert link.under_way == 0


@in_virtual_time
async def test_a_cancelled_call_leaves_nothing_behind() -> None:
    server = FakeMcpServer()
    link = connection(server)
    server.calling.shut()
    pending = asyncio.create_task(call(link))
    await server.calling.until_reached()
    pending.cancel()
    await asyncio.wait({pending})
    assert pending.cancelled()
    await steps()
    assert (link.under_way, asyncio.all_tasks()) == (0, {asyncio.current_task()})


@in_virtual_time
async def test_a_change_is_told_to_open_connections_only() -> None:
    server = FakeMcpServer([ECHO])
    names: list[str] = []
    server.connections = [FakeMcpConnection(server, lambda name=name: names.append(name)) for name in ("a", "b")]
    server.connections[0].end(None)
    server.change(fake_tool("new"))
    assert names == ["b"]
    assert server.tools == (fake_tool("new"),)


@in_virtual_time
async def test_a_gate_lets_through_whoever_waited_and_counts_them() -> None:
    gate = FakeGate()
    await gate.passed()
    gate.shut()
    waiting = [asyncio.create_task(gate.passed()) for _ in range(3)]
    await gate.until_reached(4)
    assert not any(task.done() for task in waiting)
    gate.open()
    await asyncio.gather(*waiting)
    assert gate.reached == 4
