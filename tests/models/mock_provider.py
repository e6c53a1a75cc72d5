"""A provider of our own on the loopback: it says what it is told to, byte by byte, and remembers what it was asked.

Plain asyncio and not a web framework: it must be able to break every rule of HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

_TICKS = 20
"""Rounds of the loop between two steps: time for the client to see the one before the other is done."""
_ESTABLISHED = 1

Step = bytes | Literal["cut", "stall"]
"""Bytes to be written at once; or break the connection off; or fall silent for good."""


class Seen(msgspec.Struct, frozen=True):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply(msgspec.Struct, frozen=True):
    """What is answered."""

    steps: tuple[Step, ...]
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/event-stream; charset=utf-8"),)
    raw: bool = False
    """The steps are all there is: no status line, no headers, no chunks."""


Answering = Callable[[Seen], Reply]


def streamed(*steps: Step) -> Reply:
    """A stream of events."""
    return Reply(steps)


class Endless(tuple[bytes, ...]):
    """Steps of which the last one is repeated for ever."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        yield from super().__iter__()
        yield from repeat(self[-1])

    def __len__(self) -> int:
        return sys.maxsize


def refused(status: str, error: object, *headers: tuple[str, str]) -> Reply:
    """An error with a JSON body."""
    return Reply((json.dumps(error).encode(),), status, (("Content-Type", "application/json"), *headers))


def in_turn(*replies: Reply) -> Answering:
    """One after another, then the first again."""
    count = -1

    def answer(seen: Seen) -> Reply:
        nonlocal count
        count += 1
        return replies[count % len(replies)]

    return answer


class MockProvider:
    """Serves while it is entered. `seen` has the requests, `open_streams` what is being answered."""

    def __init__(self, answer: Answering | Reply, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.answer = answer if callable(answer) else in_turn(answer)
        self.seen: list[Seen] = []
        self.connections = 0
        self.reads = True
        """False: takes connections and never reads from them."""
        self._answering: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    @property
    def open_streams(self) -> int:
        """Requests that are not yet answered and whose asker has not hung up, as the kernel sees it."""
        return sum(map(_is_open, self._answering))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    if not self.reads:
                        self._answering.add(writer)
                        await asyncio.Event().wait()
                    await self._exchange(reader, writer)
        finally:
            self._answering.discard(writer)
            writer.transport.abort()
            await asyncio.sleep(0)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = await _read(reader)
        self.seen.append(seen)
        self._answering.add(writer)
        reply = self.answer(seen)
        if not reply.raw:
            head = [f"HTTP/1.1 {reply.status}", *(f"{name}: {value}" for name, value in reply.headers)]
            writer.write("\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode())
        for number, step in enumerate(reply.steps, 1):
            if step == "cut":
                raise ConnectionError
            if step == "stall":
                await reader.read()
                raise ConnectionError
            last = number == len(reply.steps)
            if last:
                # Before the asker can see the end: whoever has it must find nothing open.
                self._answering.discard(writer)
            writer.write(step if reply.raw else _chunk(step) + (_chunk(b"") if last else b""))
            await pause(writer)
        if reply.raw:
            raise ConnectionError
        if not reply.steps:
            self._answering.discard(writer)
            writer.write(_chunk(b""))


async def pause(writer: asyncio.StreamWriter) -> None:
    """Between one step and the next."""
    await writer.drain()
    for _ in range(_TICKS):
        await asyncio.sleep(0)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Seen(head[0].split(" ")[1], headers, body)


def _is_open(writer: asyncio.StreamWriter) -> bool:
    peer = writer.get_extra_info("socket")
    return peer.fileno() >= 0 and peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED


# ---- what the three APIs stream


class Told(msgspec.Struct, frozen=True):
    """An answer, whatever the API."""

    thought: str = ""
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    """Call id, name, arguments."""
    seal: str = "sealed"
    """What the provider wants to have back with its thoughts."""


def event(data: object, name: str | None = None) -> bytes:
    """One server-sent event."""
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def words(text: str) -> list[str]:
    """The text in pieces of about a word."""
    return [f"{word} " for word in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []


def responses_events(reply: Told) -> list[bytes]:
    """As the Responses API streams it."""
    made: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}]
    output: list[dict[str, Any]] = []

    def item(whole: dict[str, Any], begun: dict[str, Any], deltas: Iterable[dict[str, Any]]) -> None:
        place = {"output_index": len(output)}
        made.append({"type": "response.output_item.added", **place, "item": begun})
        made.extend({**delta, "item_id": whole["id"], **place} for delta in deltas)
        made.append({"type": "response.output_item.done", **place, "item": whole})
        output.append(whole)

    if reply.thought:
        begun = {"type": "reasoning", "id": "rs_1", "summary": []}
        whole = {
            **begun,
            "summary": [{"type": "summary_text", "text": reply.thought}],
            "encrypted_content": reply.seal,
        }
        delta = {"type": "response.reasoning_summary_text.delta", "summary_index": 0}
        part = {"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": whole["summary"][0]}
        item(whole, begun, [part, *({**delta, "delta": word} for word in words(reply.thought))])
    if reply.text:
        content = {"type": "output_text", "text": reply.text, "annotations": []}
        whole = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}
        delta = {"type": "response.output_text.delta", "content_index": 0, "logprobs": []}
        item(whole, {**whole, "content": []}, ({**delta, "delta": word} for word in words(reply.text)))
    for number, (call_id, name, arguments) in enumerate(reply.calls, 1):
        whole = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
        delta = {"type": "response.function_call_arguments.delta", "delta": arguments}
        item(whole, {**whole, "arguments": ""}, [delta])
    made.append({"type": "response.completed", "response": _response(output)})
    return [event({**data, "sequence_number": n}, data["type"]) for n, data in enumerate(made)]


def _response(output: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.2",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": counts,
    }


def chat_events(reply: Told) -> list[bytes]:
    """As Chat Completions streams it."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": word} for word in words(reply.thought)]
    deltas += [{"content": word} for word in words(reply.text)]
    for index, (call_id, name, arguments) in enumerate(reply.calls):
        half = len(arguments) // 2
        begun = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in (arguments[:half], arguments[half:])
        ]
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.2"}
    made = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    reason = "tool_calls" if reply.calls else "stop"
    made.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    counts = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    made.append({**chunk, "choices": [], "usage": counts})
    return [*map(event, made), event("[DONE]")]


def messages_events(reply: Told) -> list[bytes]:
    """As the Messages API streams it."""
    counts = {
        "input_tokens": 30,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 60,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counts,
    }
    made: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    blocks = 0

    def block(begun: dict[str, Any], *deltas: dict[str, Any]) -> None:
        nonlocal blocks
        place = {"index": blocks}
        made.append({"type": "content_block_start", **place, "content_block": begun})
        made.append({"type": "ping"})
        made.extend({"type": "content_block_delta", **place, "delta": delta} for delta in deltas)
        made.append({"type": "content_block_stop", **place})
        blocks += 1

    if reply.thought:
        thoughts = [{"type": "thinking_delta", "thinking": word} for word in words(reply.thought)]
        signature = {"type": "signature_delta", "signature": reply.seal}
        block({"type": "thinking", "thinking": "", "signature": ""}, *thoughts, signature)
    if reply.text:
        block({"type": "text", "text": ""}, *({"type": "text_delta", "text": word} for word in words(reply.text)))
    for call_id, name, arguments in reply.calls:
        pieces = ({"type": "input_json_delta", "partial_json": piece} for piece in ("", arguments))
        block({"type": "tool_use", "id": call_id, "name": name, "input": {}}, *pieces)
    delta = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    details = {"thinking_tokens": 5}
    made.append(
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20, "output_tokens_details": details}}
    )
    made.append({"type": "message_stop"})
    return [event(data, data["type"]) for data in made]
