"""Tickets for what the SDK need not see."""

from __future__ import annotations

import asyncio
import json

import pytest

from tertulia.mcp.client import content_tickets as module
from tertulia.mcp.client.content_tickets import Tickets
from tertulia.mcp.client.long_message import Envelope, MessageProblem


async def test_a_ticket_stands_for_its_content_once() -> None:
    """L1."""
    tickets, content = Tickets(), {"text": "x" * 100_000}
    said = tickets.written(Envelope(jsonrpc="2.0", id=1, result=content))
    assert len(said) < 200
    given = json.loads(said)["result"]
    assert tickets.content(given) is content
    assert tickets.content(given) is given, "there is nothing left"
    assert len(tickets) == 0


async def test_requests_and_notifications_of_a_server_keep_their_names() -> None:
    tickets = Tickets()
    request = json.loads(tickets.written(Envelope(jsonrpc="2.0", id="a", method="m", params={"x": 1})))
    news = json.loads(tickets.written(Envelope(jsonrpc="2.0", method="n")))
    assert (request["id"], request["method"], "id" in news) == ("a", "m", False)
    assert (tickets.content(request["params"]), tickets.content(news["params"])) == ({"x": 1}, {})


async def test_an_error_is_cut() -> None:
    said = Tickets().written(Envelope(jsonrpc="2.0", id=1, error=MessageProblem(-1, "y" * 100_000, data={"a": 1})))
    assert json.loads(said)["error"] == {"code": -1, "message": "y" * 10_000}


async def test_no_server_can_write_a_ticket() -> None:
    tickets = Tickets()
    tickets.written(Envelope(jsonrpc="2.0", id=1, result={"secret": 1}))
    for guess in ("", "0" * 32, 1, None, ["x"], {}):
        given = {"tertulia/ticket": guess}
        assert tickets.content(given) is given


async def test_what_nobody_asks_for_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_S", 0.0)
    tickets = Tickets()
    tickets.written(Envelope(jsonrpc="2.0", id=1, result={"a": 1}))
    gone = asyncio.Event()
    asyncio.get_running_loop().call_later(0.0, gone.set)
    async with asyncio.timeout(10):
        await gone.wait()
    assert len(tickets) == 0
    monkeypatch.setattr(module, "KEPT_S", 30.0)
    tickets.written(Envelope(jsonrpc="2.0", id=1, result={"a": 1}))
    tickets.clear()
    assert len(tickets) == 0
