"""What may be a message of MCP, and what happens to what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from tertulia.errors import ParseError
from tertulia.mcp.serve.long_texts import LONG_TEXTS
from tertulia.protocol.records import LONG_CHARACTERS
from tertulia.server.http.guard import DECODED_BODY, replay_body
from tertulia.server.jsonrpc.messages import RequestRefusal
from tertulia.server.jsonrpc.strict_json import decode
from tertulia.server.mcp.transport import check_message, refuse_non_messages
from tests.server.mcp.test_http_route import NO_MESSAGES
from tests.tables import each_row

RPC = {"jsonrpc": "2.0"}
MESSAGES: list[dict[str, Any]] = [
    {**RPC, "id": 1, "method": "ping"},
    {**RPC, "id": "one", "method": "ping", "params": None},
    {**RPC, "id": 10**40, "method": "ping", "params": {"a": 1}},
    {**RPC, "method": "notifications/initialized"},
    {**RPC, "id": 1, "result": {}},
    {**RPC, "id": "x", "error": {"code": -1, "message": "no", "data": [1]}},
    {**RPC, "id": None, "error": {"code": -32700, "message": "unreadable"}},
]


@each_row("message", MESSAGES)
def test_every_kind_of_message_is_one(message: dict[str, Any]) -> None:
    check_message(message)


def test_answers_may_be_left_to_others() -> None:
    """On standard input an answer that is none is dropped: nothing that we would answer could be meant."""
    check_message({"id": 1, "result": 5}, answers=False)
    with pytest.raises(RequestRefusal, match="an answer has"):
        check_message({"id": 1, "result": 5})


@each_row("expected", [None, [], [RPC], 5, "x", {}, {**RPC, "method": "x", "id": 1.0}])
async def test_what_is_none_is_answered_here_and_seen_by_nobody(expected: Any) -> None:
    """D10."""
    reached: list[Any] = []
    answered: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(dict(scope))

    async def send(message: Any) -> None:
        answered.append(message)

    async def receive() -> Any:
        raise AssertionError("nobody reads")

    scope: dict[str, Any] = {"type": "http", "headers": []}
    await refuse_non_messages(app)({**scope, DECODED_BODY: expected}, receive, send)
    assert not reached
    assert answered[0]["status"] == 400
    await refuse_non_messages(app)({**scope}, receive, send)
    await refuse_non_messages(app)({**scope, DECODED_BODY: MESSAGES[0]}, receive, send)
    assert reached == [scope, scope], "what was said is not kept"


LONG = "x" * (LONG_CHARACTERS + 1)


async def test_the_long_texts_of_a_call_go_around_the_sdk() -> None:
    """L1: it would hold the body until the call ends. Everything else, and every other method, it gets as it came."""
    arguments = {"a": LONG, "b": ["c", {"d": f"{LONG}y"}], "e": 5}
    call = {**RPC, "id": 1 << 70, "method": "tools/call", "params": {"name": "n", "arguments": arguments}}
    other = {**RPC, "id": 2, "method": "resources/read", "params": {"uri": LONG}}
    bodies: list[Any] = []
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        bodies.append(json.loads((await receive())["body"]))
        scopes.append(scope)

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nobody reads or writes")

    for message in (
        call,
        other,
        {**call, "params": {"name": "n", "arguments": {"a": "short"}}},
        {**call, "params": {}},
    ):
        scope: dict[str, Any] = {"type": "http", "headers": [], DECODED_BODY: message}
        await refuse_non_messages(app)(scope, replay_body(json.dumps(message).encode(), nothing), nothing)
        if message is call:
            marked = bodies[0]["params"]["arguments"]
            assert len(json.dumps(bodies[0])) < 500
            assert {**bodies[0], "params": call["params"]} == call
            assert scopes[0][LONG_TEXTS].put_back(marked) == arguments
            assert scopes[0][LONG_TEXTS].put_back(marked)["a"] is LONG
        else:
            assert bodies[-1] == message
            assert LONG_TEXTS not in scopes[-1]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
nearly = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | plain},
    optional={
        "id": st.integers() | st.text(max_size=3) | plain,
        "method": st.just("ping") | plain,
        "params": st.dictionaries(st.text(max_size=3), plain, max_size=2) | plain,
        "result": st.dictionaries(st.text(max_size=3), plain, max_size=2) | plain,
        "error": st.fixed_dictionaries({"code": st.integers() | plain, "message": st.text(max_size=3) | plain}) | plain,
        "more": plain,
    },
)


@given(message=nearly | plain)
@settings(max_examples=400, deadline=None)
def test_what_is_let_through_is_a_message_to_the_sdk_too(message: Any) -> None:
    """D10, D17: else it would answer in its own words, with what was sent in them."""
    try:
        check_message(decode(json.dumps(message).encode()))
    except (RequestRefusal, ParseError):
        return
    jsonrpc_message_adapter.validate_json(json.dumps(message), by_name=False)


def test_the_table_has_every_kind() -> None:
    for body in NO_MESSAGES.values():
        with pytest.raises(RequestRefusal):
            check_message(json.loads(body))
