"""What a streamed turn costs over a real wire: CPU of the client, against the minimum and against the usual SDK.

The minimum is a bare aiohttp POST of the same bytes that reads the same stream and parses none of it. The provider is a
process of its own on the loopback, whose CPU is not counted. It sends 300 deltas one by one, as providers do; or all at
once, which no model does, but then waking up for each of them hides nothing, and that is where the SDK is met.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import statistics
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
import msgspec

from bench.turn_provider import served_by
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.models.catalog import ModelProvider, WireName
from tertulia.models.http.chat import ChatWire
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.messages import MessagesWire
from tertulia.models.http.responses import ResponsesWire
from tertulia.models.provider_keys import ProviderKeys
from tertulia.models.wire import AnswerEnd, AnswerPiece, ModelRequest
from tertulia.protocol.ids import CallId, new_conversation_id, new_item_id
from tertulia.protocol.items import ToolCall, ToolOutput, UserMessage, text_parts
from tests.models.mock_provider import Told, chat_events, messages_events, responses_events

Row = tuple[str, float, str, str]
Turn = Callable[[], Awaitable[object]]

DELTAS = 300
SIZES = (10, 100, 1_000)
TURNS = 21
SDK_TURNS = 3
PAUSE_S = 0.0001
AT_ONCE = b"/at-once"
TEXT = "A tertulia is one table where many conversations are held in turn. " * 10
WIRES: dict[WireName, type[HttpWire]] = {"responses": ResponsesWire, "chat": ChatWire, "messages": MessagesWire}


def run() -> list[Row]:
    """All rows: name, value, unit, target."""
    with served_by(serve) as address:
        return asyncio.run(_measure(address))


async def _measure(url: str) -> list[Row]:
    rows: list[Row] = []
    at_once: dict[WireName, float] = {}
    for name, kind in WIRES.items():
        for size in SIZES:
            of = f"{name}, {size:,} items"
            minimum, ours = await _compare(kind("bench", "gpt-5.2", _provider(url, name), ProviderKeys({})), size)
            rows.append((of, ours, "ms CPU", ""))
            rows.append((f"{of} : the minimum", ours / minimum, "x", "<= 1.5"))
        minimum, ours = await _compare(
            kind("bench", "gpt-5.2", _provider(f"{url}/at-once", name), ProviderKeys({})), size
        )
        at_once[name] = ours
        rows.append((f"{of}, all at once", ours, "ms CPU", ""))
        rows.append((f"{of}, all at once : the minimum", ours / minimum, "x", ""))
    return rows + await _against_sdk(f"{url}/at-once", at_once)


def _provider(url: str, name: WireName) -> ModelProvider:
    return ModelProvider(base_url=url, wire=name)


async def _compare(wire: HttpWire, size: int) -> tuple[float, float]:
    """CPU of the minimum and of the wire; taken in turns, so that a busy moment meets both."""
    request = _request(wire, size)
    body, url = b"".join(wire.body_of(request)), wire.provider.base_url + wire.path
    minimums: list[float] = []
    ours: list[float] = []
    async with aiohttp.ClientSession() as session:
        for _ in range(TURNS):
            minimums.append(await _cpu_ms(lambda: _post(session, url, body)))
            ours.append(await _cpu_ms(lambda: _stream(wire, request)))
    await wire.close()
    return statistics.median(minimums), statistics.median(ours)


async def _cpu_ms(turn: Turn) -> float:
    begun = time.process_time_ns()
    await turn()
    return (time.process_time_ns() - begun) / 1e6


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> None:
    async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
        while await response.content.readany():
            pass


async def _stream(wire: HttpWire, request: ModelRequest) -> None:
    pieces: list[AnswerPiece] = []
    async with aclosing(wire.stream(request)) as stream:
        async for piece in stream:
            pieces.append(piece)  # noqa: PERF401  as a conversation reads it
    assert len(pieces) > DELTAS
    assert isinstance(pieces[-1], AnswerEnd)


async def _against_sdk(url: str, ours: dict[WireName, float]) -> list[Row]:
    if importlib.util.find_spec("openai") is None:
        return [("the openai SDK is not installed: not compared", 0.0, "", "")]
    import openai

    async def whole(stream: Awaitable[AsyncIterator[object]]) -> None:
        async for _ in await stream:
            pass

    rows: list[Row] = []
    async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:
        fields: dict[WireName, tuple[str, Callable[[Any], Turn]]] = {
            "responses": (
                "input",
                lambda text: lambda: whole(client.responses.create(model="gpt-5.2", input=text, stream=True)),
            ),
            "chat": (
                "messages",
                lambda text: lambda: whole(client.chat.completions.create(model="gpt-5.2", messages=text, stream=True)),
            ),
        }
        for name, (field, ask) in fields.items():
            wire = WIRES[name]("bench", "gpt-5.2", _provider(url, name), ProviderKeys({}))
            messages = msgspec.json.decode(b"".join(wire.body_of(_request(wire, SIZES[-1]))))[field]
            theirs = min([await _cpu_ms(ask(messages)) for _ in range(SDK_TURNS)])
            rows.append((f"{name}, {SIZES[-1]:,} items, openai SDK", theirs, "ms CPU", ""))
            rows.append((f"openai SDK : {name}, {SIZES[-1]:,} items", theirs / ours[name], "x", ">= 50"))
    return rows


# ---- what is asked


def _request(wire: HttpWire, count: int) -> ModelRequest:
    """As a conversation makes it: its history was encoded turn by turn."""
    store = HistoryStore(HistoryLimits())
    for number in range((count - 1) // 3):
        call_id = CallId(f"call_{number}")
        store.append([UserMessage(new_item_id(), text_parts(TEXT))])
        store.append([ToolCall(new_item_id(), call_id, "shell", '{"command":["ls"]}')])
        store.append([ToolOutput(new_item_id(), call_id, text_parts(TEXT))])
    store.append([UserMessage(new_item_id(), text_parts(TEXT))])
    return ModelRequest(
        conversation_id=new_conversation_id(),
        model=wire.name,
        instructions=TEXT,
        items=store.snapshot(),
        chunks=store.encoded(wire.dialect),
        tools=(),
        tools_json=b"[]",
        cache_key="key",
        store=False,
    )


# ---- who answers


def serve(connection: Connection, deltas: int = DELTAS) -> None:
    """A provider that blocks, thread by thread, and measures nothing; says its port first."""
    answer = Told(text=" ".join(["word"] * deltas))
    events = {
        b"/responses": responses_events(answer),
        b"/chat/completions": chat_events(answer),
        b"/v1/messages": messages_events(answer),
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection.send(server.getsockname()[1])
        while True:
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_answer, args=(peer, events), daemon=True).start()


def _answer(peer: socket.socket, events: dict[bytes, list[bytes]]) -> None:
    with peer, peer.makefile("rb") as stream:
        while line := stream.readline():
            length = 0
            while (header := stream.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            stream.read(length)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            path = line.split()[1]
            chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in (*events[path.removeprefix(AT_ONCE)], b"")]
            for chunk in [b"".join(chunks)] if path.startswith(AT_ONCE) else chunks:
                peer.sendall(chunk)
                time.sleep(PAUSE_S)
