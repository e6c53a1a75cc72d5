"""What a message costs in CPU over JSON-RPC beyond the turn itself, and what a small request costs altogether.

The turn is measured in the same run, from Python and with nobody listening: what comes on top is reading the line,
encoding and writing each of its events, and the answer. The wire is a sink that drops everything, as a pipe's price is
the system's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from statistics import median
from typing import Any

from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.line_framing import LineSplitter, OversizedLine
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings

MESSAGES = 300
REQUESTS = 10_000
LARGE = 4 * 1024 * 1024
ROUNDS = 15
REPLY = "A tertulia is one table where many conversations are held in turn."

Work = Callable[[], Coroutine[Any, Any, float]]


class _Drop:
    """A client that reads everything at once, counts, and knows an answer when it sees one."""

    def __init__(self) -> None:
        self.messages = 0
        self.answered = asyncio.Event()

    def send(self, messages: Sequence[bytes]) -> None:
        self.messages += len(messages)
        if messages and messages[-1].startswith(b'{"jsonrpc":"2.0","id":'):
            self.answered.set()

    async def drain(self) -> None:
        pass


def run() -> list[tuple[Any, ...]]:
    """Measure; each result is (name, value, unit, target).

    Turns and messages in short rounds that take turns, and of their difference the median: what else this machine does
    meets both alike. Of the rest the best of three, so that a hiccup is not a result.
    """
    pairs = [(asyncio.run(_turns()), asyncio.run(_messages())) for _ in range(ROUNDS)]
    return [
        ("a turn, from Python, nobody listening", median(turn for turn, _ in pairs), "us"),
        ("a message over JSON-RPC with its events", median(message for _, message in pairs), "us"),
        ("JSON-RPC on top of a turn", median(message - turn for turn, message in pairs), "us", "<= 300"),
        ("a small request and its answer", _best(_requests), "us"),
        ("a line of 4 MB, cut and parsed", _best(_large_line), "ms"),
    ]


def _best(work: Work) -> float:
    return min(asyncio.run(work()) for _ in range(3))


def _host() -> Host:
    return Host(Settings(model=ScriptedModel([REPLY], repeat=True)))


async def _turns() -> float:
    host = _host()
    session = await host.start()
    begin = time.process_time()
    for _ in range(MESSAGES):
        await session.root.message("hello")
    spent = time.process_time() - begin
    await host.close()
    return spent / MESSAGES * 1e6


async def _connect() -> tuple[Host, RpcConnection, _Drop]:
    host, sink = _host(), _Drop()
    connection = RpcConnection(host, sink)
    await connection.receive(_line("initialize", 0))
    return host, connection, sink


def _line(method: str, id: int, **params: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


async def _messages() -> float:
    host, connection, sink = await _connect()
    lines = [_line("conversation/message", id, conversation_id="root", text="hello") for id in range(MESSAGES)]
    framing = LineSplitter()
    begin = time.process_time()
    sink.answered.clear()
    for line in lines:
        for whole in framing.feed(line + b"\n"):
            assert not isinstance(whole, OversizedLine)
            await connection.receive(whole)
        await sink.answered.wait()
        sink.answered.clear()
    spent = time.process_time() - begin
    if sink.messages < MESSAGES * 5:
        raise AssertionError(f"events are missing: {sink.messages} messages")
    await connection.close(1)
    await host.close()
    return spent / MESSAGES * 1e6


async def _requests() -> float:
    host, connection, sink = await _connect()
    lines = [_line("conversation/list", id) for id in range(REQUESTS)]
    begin = time.process_time()
    for line in lines:
        await connection.receive(line)
    spent = time.process_time() - begin
    if sink.messages < REQUESTS:
        raise AssertionError(f"answers are missing: {sink.messages} messages")
    await connection.close(1)
    await host.close()
    return spent / REQUESTS * 1e6


async def _large_line() -> float:
    host, connection, _ = await _connect()
    data = _line("conversation/message", 1, conversation_id="nobody", text="word " * (LARGE // 5)) + b"\n"
    framing = LineSplitter()
    begin = time.process_time()
    for start in range(0, len(data), 65_536):
        for whole in framing.feed(data[start : start + 65_536]):
            assert not isinstance(whole, OversizedLine)
            await connection.receive(whole)
    spent = time.process_time() - begin
    await connection.close(1)
    await host.close()
    return spent * 1e3


if __name__ == "__main__":
    for name, value, unit, *_ in run():
        print(f"{name:40} {value:14,.2f} {unit}")
