"""MCP in lines: whatever a client sends or does not read, it harms itself alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tertulia.mcp.serve import message_pump
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.serve.sources import ServedCall
from tertulia.mcp.server_connection import CallResult
from tertulia.scheduler.nursery import Nursery
from tertulia.server.mcp import transport
from tertulia.server.mcp.transport import serve_lines
from tests.deadlines import HANG_S
from tests.mcp.connected import until
from tests.mcp.shop import Shop

HELLO = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


class Wire:
    """A client by hand."""

    def __init__(self, *, strict: bool = False) -> None:
        load_sdk()
        self.shop, self.nursery = Shop(), Nursery()
        self.broker = McpEndpoint(self.shop, name="shop", spawn=self.nursery.start)
        self.answers: list[dict[str, Any]] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.taken = 0
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self.serving = self.nursery.start(serve_lines(self.broker, self._incoming(), self, strict=strict), "serve")

    async def _incoming(self) -> AsyncIterator[bytes]:
        while chunk := await self._chunks.get():
            self.taken += 1
            yield chunk

    async def send(self, line: bytes) -> None:
        await self.reads.wait()
        self.answers.append(json.loads(line))

    def say(self, *lines: bytes | dict[str, Any]) -> None:
        for line in lines:
            text = line if isinstance(line, bytes) else json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n"
            self._chunks.put_nowait(text)

    def end(self) -> None:
        self._chunks.put_nowait(b"")

    def answered(self, number: Any) -> bool:
        return any(answer.get("id") == number for answer in self.answers)


@pytest.fixture
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    made = Wire(strict=getattr(request, "param", False))
    yield made
    made.serving.cancel()
    made.broker.close()
    await until(lambda: not len(made.nursery))
    assert made.broker.running == 0


def call(number: int) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": "b", "arguments": {}}}


async def test_what_is_no_message_is_dropped_and_the_rest_is_served(wire: Wire) -> None:
    """C7, from the other side."""
    garbage = [
        *(b"\n", b"  \n", b"GET / HTTP/1.1\n", b"{\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"null\n", b"[]\n"),
        *(b'{"jsonrpc":"2.0","id":5,"result":{}}\n', b'{"jsonrpc":"1.0","id":1,"method":"x"}\n', b'{"id":null}\n'),
    ]
    wire.say(
        *garbage, {"id": 0, **HELLO}, *garbage, {"method": "notifications/initialized"}, call(1), *garbage, call(2)
    )
    await until(lambda: wire.answered(2))
    assert [answer["id"] for answer in wire.answers] == [0, 1, 2]
    wire.end()
    await wire.serving


async def test_messages_may_come_in_any_pieces(wire: Wire) -> None:
    whole = b"".join(
        json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\r\n" for fields in ({"id": 0, **HELLO}, call(1))
    )
    wire.say(*(whole[at : at + 7] for at in range(0, len(whole), 7)))
    await until(lambda: wire.answered(1))


async def test_a_line_that_is_too_long_ends_the_client(wire: Wire) -> None:
    """C10."""
    wire.say({"id": 0, **HELLO})
    await until(lambda: wire.answered(0))
    wire.say(*[b"x" * (1 << 20)] * 33)
    await wire.serving


@pytest.mark.parametrize("wire", [True], indirect=True)
async def test_who_is_served_strictly_hears_what_was_wrong_and_is_served_on(wire: Wire) -> None:
    """D9, D10: nothing that could be read in two ways is carried out, and a line that is too long ends nothing."""
    wrong = [
        (b"GET / HTTP/1.1\n", None, -32700),
        (b"\xff\xfe\n", None, -32700),
        (b"\xef\xbb\xbf{}\n", None, -32700),
        (b"[" * 100_000 + b"\n", None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}\n', None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":NaN}}\n', None, -32700),
        (b"null\n", None, -32600),
        (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]\n', None, -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}\n', None, -32600),
        (b'{"jsonrpc":"2.0","id":"m","method":5}\n', "m", -32600),
        (b'{"jsonrpc":"2.0","id":"s","method":"ping","params":{"x":"\\ud800"}}\n', "s", -32602),
        (b'{"jsonrpc":"2.0","id":"i","method":"ping","params":{"x":' + b"9" * 30 + b"}}\n", "i", -32602),
    ]
    wire.say({"id": 0, **HELLO}, {"method": "notifications/initialized"})
    await until(lambda: wire.answered(0))
    wire.say(*(line for line, _, _ in wrong), b'{"jsonrpc":"2.0","method":"x","params":[]}\n')
    wire.say(*[b"x" * (1 << 20)] * 33, b"\n", b'{"jsonrpc":"2.0","id":5,"result":{}}\n', call(1))
    await until(lambda: wire.answered(1))
    assert len(wire.shop.calls) == 1
    refused = [(answer["id"], answer["error"]["code"]) for answer in wire.answers if "error" in answer]
    assert refused == [*((id, number) for _, id, number in wrong), (None, -32600)]
    assert not wire.answered(7)


async def test_who_reads_no_answers_is_read_no_further(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing piles up for it; and when it reads again, every request is answered once."""
    monkeypatch.setattr(message_pump, "MAX_UNANSWERED", 8)
    wire.say({"id": 0, **HELLO}, {"method": "notifications/initialized"})
    await until(lambda: wire.answered(0))
    wire.reads.clear()
    wire.say(*(call(number) for number in range(1, 101)))
    await until(lambda: wire.taken == 11)
    assert len(wire.shop.calls) <= 9
    wire.reads.set()
    await until(lambda: len(wire.answers) == 101)
    assert sorted(answer["id"] for answer in wire.answers) == list(range(101))


async def test_calls_that_were_given_up_take_no_room(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_pump, "MAX_UNANSWERED", 4)

    async def act(call: ServedCall) -> CallResult:
        await asyncio.Event().wait()
        raise AssertionError

    wire.say({"id": 0, **HELLO}, {"method": "notifications/initialized"})
    wire.shop.act = act
    for number in range(1, 50):
        wire.say(call(number), {"method": "notifications/cancelled", "params": {"requestId": number}})
    wire.say({"id": 99, "method": "tools/list"})
    await until(lambda: wire.answered(99))


async def test_who_goes_without_reading_is_not_waited_for(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FLUSH_S", 0.01)
    wire.say({"id": 0, **HELLO}, {"method": "notifications/initialized"})
    await until(lambda: wire.answered(0))
    wire.reads.clear()
    wire.say(call(1), {"id": 2, "method": "tools/list"})
    await until(lambda: wire.taken == 4)
    wire.end()
    await asyncio.wait_for(wire.serving, HANG_S)


async def test_being_stopped_does_not_wait_for_a_client_that_does_not_read(wire: Wire) -> None:
    wire.say({"id": 0, **HELLO}, {"method": "notifications/initialized"})
    await until(lambda: wire.answered(0))
    wire.reads.clear()
    wire.say({"id": 2, "method": "tools/list"})
    await until(lambda: wire.taken == 3)
    wire.serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(wire.serving, HANG_S)
