"""What a turn costs over a real wire: CPU of all threads, against a floor that sends the same bytes.

The floor is a bare aiohttp POST that joins its history, reads the stream and parses none of it. The floor and three
sessions (no record, the default record, `durability = "full"`) take turns in one process, so that a busy moment meets
all of them. The provider is a process of its own on the loopback, whose CPU is not counted.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Literal

import aiohttp
import msgspec

import tertulia
from bench.wire import serve
from tertulia.events.journal import NoJournal
from tertulia.models.catalog import ModelProvider

Row = tuple[str, float, str, str]
Turn = Callable[[], Awaitable[object]]

QUESTION = "What is said at this table? " * 8
DEPTHS = (10, 100, 200)
"""Turns before those that are measured."""
MEASURED = 40
BARS = {"without a record": 2.0, "default storage": 3.0, "durability full": 4.0}
_DURABILITY: dict[str, Literal["normal", "full"]] = {"default storage": "normal", "durability full": "full"}


def run() -> list[Row]:
    """Measure; each row is (name, value, unit, target)."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    provider = context.Process(target=serve, args=(theirs, 4), daemon=True)
    provider.start()
    try:
        with tempfile.TemporaryDirectory() as home:
            os.environ["TERTULIA_HOME"] = home
            return asyncio.run(_measure(f"http://127.0.0.1:{ours.recv()}/at-once"))
    finally:
        provider.terminate()
        provider.join()


async def _measure(url: str) -> list[Row]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiohttp.ClientSession())
        bare = _BareClient(client, f"{url}/chat/completions", await _first_request())
        sessions = {name: await stack.enter_async_context(_session(url, name)) for name in BARS}
        turns: dict[str, Turn] = {"floor": bare.turn}
        for name, session in sessions.items():
            turns[name] = partial(_ask, session.root)
        rows: list[Row] = []
        done = 0
        for depth in DEPTHS:
            for _ in range(depth - done):
                await _round(turns)
            taken = [await _round(turns) for _ in range(MEASURED)]
            done = depth + MEASURED
            rows += _rows(depth, {name: statistics.median(one[name] for one in taken) for name in turns})
        return rows


def _rows(depth: int, spent: dict[str, float]) -> list[Row]:
    rows: list[Row] = [(f"turn {depth}: the floor", spent["floor"], "ms CPU", "")]
    for name, bar in BARS.items():
        rows.append((f"turn {depth}: {name}", spent[name], "ms CPU", ""))
        rows.append((f"turn {depth}: {name} : the floor", spent[name] / spent["floor"], "x", f"<= {bar:g}"))
    return rows


async def _ask(root: tertulia.Conversation) -> None:
    (await root.message(QUESTION)).raise_for_status()


async def _first_request() -> bytes:
    """What a session sends with its first message; the answer is an error."""
    taken: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split()[0])
        taken.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with _session(f"http://127.0.0.1:{port}", "without a record") as session:
            await session.root.message(QUESTION)
    return taken[0]


async def _round(turns: dict[str, Turn]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for name, turn in turns.items():
        begun = time.process_time_ns()
        await turn()
        spent[name] = (time.process_time_ns() - begun) / 1e6
    return spent


def _session(url: str, name: str) -> tertulia.Session:
    settings = tertulia.Settings(
        model="bench/gpt-5.2",
        model_providers={"bench": ModelProvider(base_url=url, wire="chat")},
        limits={"max_history_items": None, "max_history_tokens": None},
        durability=_DURABILITY.get(name, "normal"),
    )
    return tertulia.Session.start(settings, journal=None if name in _DURABILITY else NoJournal())


class _BareClient:
    """The least that a client can do: join what was said so far, post it, read the answer."""

    def __init__(self, client: aiohttp.ClientSession, url: str, first: bytes) -> None:
        """`first` is the body of a first request: instructions, tools and all that precedes the question."""
        self._client, self._url = client, url
        fields = msgspec.json.decode(first)
        *before, _ = fields.pop("messages")
        said = b"".join(msgspec.json.encode(message) + b"," for message in before)
        self._said: list[bytes] = [msgspec.json.encode(fields)[:-1] + b',"messages":[' + said]

    async def turn(self) -> None:
        self._said.append(msgspec.json.encode({"role": "user", "content": QUESTION}) + b",")
        body = b"".join(self._said)[:-1] + b"]}"
        pieces: list[bytes] = []
        headers = {"Content-Type": "application/json"}
        async with self._client.post(self._url, data=body, headers=headers) as response:
            while piece := await response.content.readany():
                pieces.append(piece)
        assert pieces
        self._said.append(b'{"role":"assistant","content":"word word word word"},')


if __name__ == "__main__":
    for name, value, unit, *_ in run():
        print(f"{name:44} {value:12,.2f} {unit}")
