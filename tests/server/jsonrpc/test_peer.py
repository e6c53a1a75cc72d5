"""JSON-RPC both ways with a client that may be slow, wrong or gone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tertulia.errors import (
    BusyError,
    ClosedError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    ModelError,
    NotFoundError,
    NotInitializedError,
    TertuliaError,
)
from tertulia.server.acp.agent import ACP_DIALECT
from tertulia.server.jsonrpc import request_runner
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult, RpcDialect
from tests.server.client import MemorySink
from tests.tables import each_row


def line(method: str, id: Any = None, **params: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    ).encode()


async def nothing(method: str, params: dict[str, Any]) -> MethodResult:
    return MethodResult()


@each_row(
    ("error", "number"),
    [
        (InvalidRequestError("x"), -32600),
        (NotInitializedError("x"), -32600),
        (MethodNotFoundError("x"), -32601),
        (InvalidParamsError("x"), -32602),
        (BusyError("x"), -32001),
        (NotFoundError("x"), -32002),
        (ClosedError("x"), -32002),
        (ModelError("x"), -32603),
    ],
)
async def test_each_refusal_has_its_number_and_its_code(error: TertuliaError, number: int) -> None:
    """Issue 10 (4): errors as JSON-RPC errors with data.code, numbered as ACP does it."""

    async def serve(method: str, params: dict[str, Any]) -> MethodResult:
        raise error

    sink = MemorySink()
    peer = Peer(sink, serve, ACP_DIALECT)
    await peer.receive(line("x", "an id"))
    await peer.receive(line("x"))  # a notification is answered by nobody
    await peer.idle()
    (message,) = sink.messages
    assert message == {
        "jsonrpc": "2.0",
        "id": "an id",
        "error": {"code": number, "message": "x", "data": {"code": error.code}},
    }


async def test_a_message_that_is_no_request_is_refused_with_the_same_numbers() -> None:
    """Issue 10 (5): with Codex whatever a client did wrong has one number, its parameters' form too."""
    sink = MemorySink()
    peer = Peer(sink, nothing, RpcDialect(numbers={InvalidParamsError: -32600, InvalidRequestError: -32600}, bare=True))
    for params in (b"[]", b'{"x":"\\ud800"}'):
        await peer.receive(b'{"id":1,"method":"x","params":%b}' % params)
        await peer.receive(b'{"method":"x","params":%b}' % params)
    assert [(message["id"], message["error"]["code"]) for message in sink.messages] == [(1, -32600)] * 2


async def test_what_nobody_can_be_told_is_logged_with_its_count(caplog: pytest.LogCaptureFixture) -> None:
    """L7: of a client of Codex, which knows no answer without an id."""
    peer = Peer(MemorySink(), nothing, RpcDialect(bare=True))
    for _ in range(1_000):
        await peer.receive(b"no message")
    assert [message.partition(" (")[2] for message in caplog.messages] == [
        "",
        *(f"{n} times so far)" for n in ("10", "100", "1,000")),
    ]


async def test_a_fault_of_ours_is_answered_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """Issue 10 (4): the log says why, the wire does not."""

    async def serve(method: str, params: dict[str, Any]) -> MethodResult:
        raise ZeroDivisionError("hunter2")

    sink = MemorySink()
    peer = Peer(sink, serve, ACP_DIALECT)
    await peer.receive(line("x", 1))
    await peer.idle()
    (message,) = sink.messages
    assert (message["error"]["code"], message["error"]["data"]["code"]) == (-32603, "internal")
    assert "hunter2" not in json.dumps(message)
    assert "ZeroDivisionError" in caplog.text


async def test_what_follows_an_answer_comes_after_it() -> None:
    """Issue 10 (4): a client hears nothing of a session before it knows the session."""

    async def serve(method: str, params: dict[str, Any]) -> MethodResult:
        return MethodResult({"done": True}, lambda: peer.notify("news", {}))

    sink = MemorySink()
    peer = Peer(sink, serve, ACP_DIALECT)
    await peer.receive(line("x", 1))
    await peer.idle()
    assert [message.get("method", message.get("id")) for message in sink.messages] == [1, "news"]


@each_row(
    ("answer", "heard"),
    [
        ({"result": {"a": 1}}, {"a": 1}),
        ({"result": 7}, None),
        ({"result": {"a": "\ud800"}}, None),
        ({"error": {"code": -1, "message": "no"}}, None),
    ],
)
async def test_a_question_gets_the_clients_answer_or_nothing(answer: dict[str, Any], heard: Any) -> None:
    """HARDENING B6: refusals and nonsense are no answer; one that nobody waits for is dropped."""
    sink = MemorySink()
    peer = Peer(sink, nothing, ACP_DIALECT)
    asking = asyncio.create_task(peer.ask("question", {"x": 1}))
    question = await sink.until(lambda message: message.get("method") == "question")
    for id in (99, "no", None, 1.5, question["id"], question["id"]):
        await peer.receive(json.dumps({"jsonrpc": "2.0", "id": id, **answer}).encode())
    assert await asking == heard
    assert len(sink.sent) == 1


async def test_a_question_is_answered_under_its_own_id_alone() -> None:
    """HARDENING B6: true is not 1, though Python says so."""
    sink = MemorySink()
    peer = Peer(sink, nothing, ACP_DIALECT)
    peer.new_id()
    asking = asyncio.create_task(peer.ask("question", {}))
    assert (await sink.until(lambda message: message.get("method") == "question"))["id"] == 1
    for id in ("true", "1.0", "1"):
        await peer.receive(b'{"jsonrpc":"2.0","id":%b,"result":{"as":"%b"}}' % (id.encode(), id.encode()))
    assert await asking == {"as": "1"}


async def test_a_message_that_asks_and_answers_nothing_is_refused_or_a_no_to_what_was_asked() -> None:
    """HARDENING D16, B6: with an id nobody waits for it is no request; with one, whoever waits does not wait on."""
    sink = MemorySink()
    peer = Peer(sink, nothing, ACP_DIALECT)
    await peer.receive(b'{"jsonrpc":"2.0","id":5}')
    (refused,) = sink.messages
    assert (refused["id"], refused["error"]["code"]) == (5, -32600)
    asking = asyncio.create_task(peer.ask("question", {}))
    question = await sink.until(lambda message: message.get("method") == "question")
    await peer.receive(b'{"jsonrpc":"2.0","id":%d}' % question["id"])
    assert await asking is None
    assert len(sink.sent) == 2


async def test_a_client_that_is_gone_answers_nothing_before_and_after() -> None:
    """HARDENING B9."""
    sink = MemorySink()
    peer = Peer(sink, nothing, ACP_DIALECT)
    asking = asyncio.create_task(peer.ask("question", {}))
    await sink.until(lambda message: True)
    peer.stop_asking()
    assert await asking is None
    assert await peer.ask("another", {}) is None
    assert len(sink.sent) == 1


async def test_what_runs_at_the_end_is_answered_as_cancelled_and_then_nothing_is_said() -> None:
    """HARDENING H7: each request has one answer, in every ending."""

    async def serve(method: str, params: dict[str, Any]) -> MethodResult:
        await asyncio.get_running_loop().create_future()
        return MethodResult()

    sink = MemorySink()
    peer = Peer(sink, serve, ACP_DIALECT)
    await peer.receive(line("x", 1))
    await peer.close(0)
    peer.notify("news", {})
    (message,) = sink.messages
    assert message["error"]["data"]["code"] == "cancelled"


async def test_requests_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """HARDENING D: the one too many is told when to try again."""
    gate = asyncio.Event()

    async def serve(method: str, params: dict[str, Any]) -> MethodResult:
        await gate.wait()
        return MethodResult()

    monkeypatch.setattr(request_runner, "MAX_REQUESTS", 2)
    sink = MemorySink()
    peer = Peer(sink, serve, ACP_DIALECT)
    for id in range(3):
        await peer.receive(line("x", id))
    (refused,) = sink.messages
    assert (refused["id"], refused["error"]["code"]) == (2, -32001)
    assert refused["error"]["data"]["retry_after_s"] == 1
    gate.set()
    await peer.idle()
    assert len(sink.sent) == 3
