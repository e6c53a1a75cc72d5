"""What a turn costs over a real wire: CPU of all threads, against a floor that sends the same bytes.

The floor is a bare aiohttp POST that joins its history, reads the stream and parses none of it. The floor and three
sessions (no record, the default record, `durability = "full"`) take turns in one process, so that a busy moment meets
all of them. Three works: a question and a short answer, after 10, 100 and 1,000 turns; the same with one call of a
tool; an answer of 300 pieces. The provider is a process of its own on the loopback, whose CPU is not counted.
"""

from __future__ import annotations

import asyncio
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
from bench.turn_provider import CALL, DELTAS, TEXT, provider
from tertulia.events.journal import NoJournal
from tertulia.models.catalog import ModelProvider

Row = tuple[str, float, str, str]
Turn = Callable[[], Awaitable[object]]
Kind = Literal["short", "tool", "long"]

QUESTION = "What is said at this table? " * 8
DEPTHS = (10, 100, 1_000)
"""Turns before those that are measured."""
MEASURED = 40
_DURABILITY: dict[str, Literal["normal", "full"]] = {"default storage": "normal", "durability full": "full"}
_NAMES = ("without a record", *_DURABILITY)
BARS: dict[Kind, dict[str, float]] = {
    "short": {"without a record": 2.0, "default storage": 3.0, "durability full": 4.0},
    "tool": {"without a record": 2.0, "default storage": 3.0},
    "long": {"without a record": 1.1, "default storage": 1.3},
}
"""What each may cost, in costs of the floor."""


def run() -> list[Row]:
    """Measure; each row is (name, value, unit, target)."""
    with provider() as url, tempfile.TemporaryDirectory() as home:
        os.environ["TERTULIA_HOME"] = home
        return asyncio.run(_measure(url))


async def _measure(url: str) -> list[Row]:
    rows: list[Row] = []
    async with AsyncExitStack() as stack:
        turns = await _turns(stack, url, "short")
        done = 0
        for depth in DEPTHS:
            await _rounds(turns, depth - done)
            rows += _rows(f"turn {depth:,}", "short", await _rounds(turns, MEASURED))
            done = depth + MEASURED
    works: tuple[tuple[str, Kind], ...] = (("a tool call", "tool"), (f"{DELTAS} pieces", "long"))
    for work, kind in works:
        async with AsyncExitStack() as stack:
            turns = await _turns(stack, url, kind)
            await _rounds(turns, DEPTHS[0])
            rows += _rows(work, kind, await _rounds(turns, MEASURED))
    return rows


async def _turns(stack: AsyncExitStack, url: str, kind: Kind) -> dict[str, Turn]:
    """The floor and the sessions, each with what one turn of it is."""
    client = await stack.enter_async_context(aiohttp.ClientSession())
    turns: dict[str, Turn] = {"floor": _BareClient(client, f"{url}/{kind}", await _first_request(), kind).turn}
    for name in _NAMES:
        session = await stack.enter_async_context(_session(f"{url}/{kind}", name))
        turns[name] = partial(_ask, session.root)
    return turns


async def _rounds(turns: dict[str, Turn], count: int) -> dict[str, float]:
    """So many rounds, in each of which all have one turn: the median of each, in ms of CPU."""
    spent: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(count):
        for name, turn in turns.items():
            begun = time.process_time_ns()
            await turn()
            spent[name].append((time.process_time_ns() - begun) / 1e6)
    return {name: statistics.median(times) for name, times in spent.items()}


def _rows(work: str, kind: Kind, spent: dict[str, float]) -> list[Row]:
    rows: list[Row] = [(f"{work}: the floor", spent["floor"], "ms CPU", "")]
    for name in _NAMES:
        bar = BARS[kind].get(name)
        rows.append((f"{work}: {name}", spent[name], "ms CPU", ""))
        rows.append(
            (f"{work}: {name} : the floor", spent[name] / spent["floor"], "x", "" if bar is None else f"<= {bar:g}")
        )
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


@tertulia.tool
async def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word}: a table at which many conversations are held"


def _session(url: str, name: str) -> tertulia.Session:
    settings = tertulia.Settings(
        model="bench/gpt-5.2",
        model_providers={"bench": ModelProvider(base_url=url, wire="chat")},
        limits={"max_history_items": None, "max_history_tokens": None},
        durability=_DURABILITY.get(name, "normal"),
        tools=[lookup],
    )
    return tertulia.Session.start(settings, journal=None if name in _DURABILITY else NoJournal())


class _BareClient:
    """The least that a client can do: join what was said so far, post it, read the answer."""

    def __init__(self, client: aiohttp.ClientSession, url: str, first: bytes, kind: Kind) -> None:
        """`first` is the body of a first request: instructions, tools and all that precedes the question."""
        self._client, self._url, self._kind = client, f"{url}/chat/completions", kind
        fields = msgspec.json.decode(first)
        *before, _ = fields.pop("messages")
        self._sent = [msgspec.json.encode(fields)[:-1] + b',"messages":[', *(_message(entry) for entry in before)]

    async def turn(self) -> None:
        self._sent.append(_message({"role": "user", "content": QUESTION}))
        await self._post()
        if self._kind == "tool":
            call_id, name, arguments = CALL
            call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            self._sent.append(_message({"role": "assistant", "tool_calls": [call]}))
            output = await lookup(word="tertulia")
            self._sent.append(_message({"role": "tool", "tool_call_id": call_id, "content": output}))
            await self._post()
        self._sent.append(_message({"role": "assistant", "content": TEXT}))

    async def _post(self) -> None:
        body = b"".join(self._sent)[:-1] + b"]}"
        pieces: list[bytes] = []
        headers = {"Content-Type": "application/json"}
        async with self._client.post(self._url, data=body, headers=headers) as response:
            while piece := await response.content.readany():
                pieces.append(piece)
        assert pieces


def _message(fields: object) -> bytes:
    return msgspec.json.encode(fields) + b","


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:52} {value:12,.2f} {unit:8} {target}")
