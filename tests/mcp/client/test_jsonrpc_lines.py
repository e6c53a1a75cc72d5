"""JSON-RPC in lines: what is a message, and what is dropped."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from tertulia.errors import ParseError
from tertulia.mcp.client.error_text import UNREADABLE
from tertulia.mcp.client.jsonrpc_lines import AT_ONCE, SHORT, Envelope, JsonRpcLines, read_long, why_not
from tertulia.mcp.server_connection import MODERN
from tertulia.protocol.json_scan import MAX_PARTS
from tests.loop_steps import MOST_S, loop_steps
from tests.tables import Large, each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def asking(*ids: int | str) -> JsonRpcLines:
    """One that waits for these."""
    lines = JsonRpcLines("s")
    for id in ids:
        lines.encode(JSONRPCRequest(jsonrpc="2.0", id=id, method="m"))
    return lines


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


@each_row(
    ("fields", "kind"),
    [
        ({"id": 1, "result": {"a": [1, None, {"b": "c"}]}}, JSONRPCResponse),
        ({"id": "x", "result": {}}, JSONRPCResponse),
        ({"id": 1, "error": {"code": -32000, "message": "no", "data": {"a": 1}}}, JSONRPCError),
        ({"id": "back-1", "method": "m", "params": {"_meta": {"a": 1}}}, JSONRPCRequest),
        ({"id": 7, "method": "m"}, JSONRPCRequest),
        ({"method": "n", "params": {"x": 1}}, JSONRPCNotification),
        ({"method": "n"}, JSONRPCNotification),
    ],
)
def test_a_message_is_what_the_sdk_would_have_read(fields: dict[str, Any], kind: type) -> None:
    message = asking(1, "x").read(line(**fields))
    assert type(message) is kind
    assert message.model_dump() == jsonrpc_message_adapter.validate_json(line(**fields)).model_dump()  # type: ignore[union-attr]


@each_row(
    "data",
    [
        b"<html>",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":true,"result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
        b'{"jsonrpc":"2.0","id":[1],"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"y"}}',
        b'{"jsonrpc":"2.0","id":null,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","method":"m","params":[1]}',
        b'{"jsonrpc":"2.0","id":"1","result":{}}',
        b'{"jsonrpc":"2.0","id":2,"result":{}}',
    ],
)
def test_c7_what_is_no_message_or_no_answer_of_ours_is_dropped_and_counted(data: bytes) -> None:
    lines = asking(1)
    assert lines.read(data) is None
    assert lines.dropped.total() == 1
    assert isinstance(lines.read(line(id=1, result={})), JSONRPCResponse)


DEEP = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
WIDE = b'{"a":[' + b"[]," * MAX_PARTS + b"1]}"


@each_row(
    ("data", "why"),
    [
        (b'{"jsonrpc":"1.0","id":1,"result":{}}', "it is not what JSON-RPC calls an answer"),
        (b'{"id":1,"result":{}}', "it is not what JSON-RPC calls an answer"),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', "it is not what JSON-RPC calls an answer"),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', "it is not what JSON-RPC calls an answer"),
        (b'{"jsonrpc":"2.0","id":1}', "it has neither a result nor an error"),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"y"}}', "it is not what JSON-RPC calls an answer"),
        (b'{"jsonrpc":"2.0","id":1,"error":{}}', "it is not what JSON-RPC calls an answer"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}', "it is not UTF-8"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":' + b"[" * 100_000, "it has nested deeper than 500 levels"),
        (b'{"jsonrpc":"2.0","id":1,"result":' + DEEP + b"}", "it has nested deeper than 500 levels"),
        (b'{"result":' + DEEP + b',"jsonrpc":"2.0","id":1}', "it has nested deeper than 500 levels"),
        (b'{"jsonrpc":"2.0","result":' + DEEP + b',"id": 1 , "x":null}\r', "it has nested deeper than 500 levels"),
        (b'{"jsonrpc":"2.0","id":1,"result":' + WIDE + b"}", "it has more than 200,000 parts"),
        (b'{"jsonrpc":"2.0","result":' + WIDE + b',"id":1}', "it has more than 200,000 parts"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"cut', "it is not JSON"),
        (
            Large(lambda: b'{"jsonrpc":"2.0","id":1,"result":{"text":"\xff' + rb"\n" * (1 << 20) + b'"}}'),
            "it is not UTF-8",
        ),
    ],
)
async def test_an_answer_that_cannot_be_read_is_an_error_for_who_waits_for_it(data: bytes, why: str) -> None:
    """L4: it was dropped, and the call waited out its time limit. L1: nothing of it is built."""
    for lines in (asking(1), asking(1)):
        async with loop_steps() as steps:
            message = await lines.read_in_steps(data)
        assert isinstance(message, JSONRPCError)
        assert (message.id, message.error.code, message.error.message) == (1, UNREADABLE, f"Unreadable: {why}")
        assert not lines.dropped
        assert steps.longest_s < MOST_S
        assert lines.read(data) is None, "an answer counts once"


@each_row(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + DEEP + b"}",
        b'{"jsonrpc":"2.0","method":"m","params":' + DEEP + b',"id":1}',
        b'{"jsonrpc":"2.0","method":"n","params":' + WIDE + b"}",
        b'{"jsonrpc":"2.0","id":2,"result":' + DEEP + b"}",
        b'{"jsonrpc":"2.0","result":' + DEEP + b"}",
        WIDE + WIDE,
        b'a log line that says "id":1}',
    ],
)
def test_what_answers_nothing_fails_no_call_however_unreadable_it_is(data: bytes) -> None:
    """L4: where no id of ours is found the line is dropped, and every call goes on within its own time limit."""
    lines = asking(1)
    assert lines.read(data) is None
    assert lines.dropped.total() == 1
    assert isinstance(lines.read(line(id=1, result={})), JSONRPCResponse)


def test_c7_an_answer_counts_once() -> None:
    lines = asking(1)
    assert lines.read(line(id=1, result={})) is not None
    assert lines.read(line(id=1, result={})) is None
    assert lines.dropped == {"a response to no request": 1}


def test_an_answer_to_what_was_cancelled_is_dropped_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """The two crossed on their way; a server that ends would otherwise be blamed for its last answers."""
    lines = asking(1)
    lines.encode(
        JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1, "reason": "x"})
    )
    assert lines.read(line(id=1, result={})) is None
    assert (lines.dropped, caplog.records) == ({}, [])
    assert lines.read(line(id=2, result={})) is None
    assert lines.dropped == {"a response to no request": 1}


def test_what_is_dropped_is_logged_once_a_kind_and_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lines = asking(1)
    for _ in range(5):
        lines.read(b"a private word")
        lines.read(line(id=9, result={"private": 1}))
    assert len(caplog.records) == 2
    assert "private" not in caplog.text


@given(params=st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_what_is_written_is_one_line_and_reads_the_same(params: dict[str, Any]) -> None:
    lines = JsonRpcLines("s")
    written = lines.encode(JSONRPCRequest(jsonrpc="2.0", id=1, method="m", params=params))
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    assert json.loads(written) == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}


def test_answers_of_ours_are_written_too() -> None:
    from mcp_types import ErrorData

    lines = JsonRpcLines("s")
    error = ErrorData(code=-1, message="no")
    assert json.loads(lines.encode(JSONRPCError(jsonrpc="2.0", id="b", error=error)))["error"]["message"] == "no"
    assert json.loads(lines.encode(JSONRPCResponse(jsonrpc="2.0", id="b", result={"x": 1})))["result"] == {"x": 1}
    assert "params" not in json.loads(lines.encode(JSONRPCNotification(jsonrpc="2.0", method="n")))


def test_in_the_modern_era_an_answer_that_does_not_say_whether_it_is_complete_is() -> None:
    lines = asking(1, 2)
    old = lines.read(line(id=1, result={}))
    lines.version = MODERN
    new = lines.read(line(id=2, result={}))
    assert isinstance(old, JSONRPCResponse)
    assert isinstance(new, JSONRPCResponse)
    assert (old.result, new.result) == ({}, {"resultType": "complete"})


@each_row(
    ("raw", "text"),
    [
        (rb"a\ud83d!", "a\ufffd!"),
        (rb"a\uDE00!", "a\ufffd!"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (rb"\"\n\ud83d", '"\n\ufffd'),
    ],
)
def test_half_a_character_does_not_cost_the_answer(raw: bytes, text: str) -> None:
    """Texts are cut in the middle of a character every day, and who waits for the answer would wait for its timeout."""
    lines = asking(1)
    heard = lines.read(b'{"jsonrpc": "2.0", "id": 1, "result": {"text": "' + raw + b'"}}')
    assert isinstance(heard, JSONRPCResponse)
    assert heard.result == {"text": text}
    assert not lines.dropped


def test_a_number_that_is_none_does_not_cost_the_answer_either() -> None:
    """Python's own json writes such numbers."""
    lines = asking(1)
    heard = lines.read(b'{"jsonrpc":"2.0","id":1,"result":{"a":[NaN,-Infinity,1e999,' + b"9" * 5000 + b",1]}}")
    assert isinstance(heard, JSONRPCResponse)
    assert heard.result == {"a": [None, None, None, None, 1]}
    assert not lines.dropped


@given(data=st.binary(max_size=40) | JSON.map(msgspec.json.encode))
def test_nothing_that_is_read_raises(data: bytes) -> None:
    asking(1).read(data)


# ---- messages of any length: the same is understood of a long one, and no step of the loop is long


decode = msgspec.json.Decoder(Envelope).decode
MB = 1_000_000


def answer(content: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":{"a":%b}}' % content


@pytest.mark.parametrize("size", [SHORT // 2, SHORT * 2, AT_ONCE + 1])
@each_row(
    ("raw", "value"),
    [
        (rb'"a\ud83d!"', "a\ufffd!"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (b"[NaN,-Infinity,1e999," + b"9" * 5000 + b",1]", [None, None, None, None, 1]),
        (b"[1,2.5,true,null,{}]", [1, 2.5, True, None, {}]),
        ("\u00e9".encode().join([b'"', b'"']), "\u00e9"),
    ],
)
async def test_what_is_mended_in_a_short_message_is_in_a_long_one(raw: bytes, value: Any, size: int) -> None:
    """L1: above 1 MB it was not, and the answer was lost."""
    line = answer(b'[%b,"%b"]' % (raw, b"x" * size))
    message = await asking(1).read_in_steps(line)
    assert message.result == {"a": [value, "x" * size]}  # type: ignore[union-attr]


LONG: dict[str, Callable[[int], bytes]] = {
    "escaped quotes": lambda size: b'"' + rb"\"" * (size // 2) + b'"',
    "escaped line ends": lambda size: b'"' + rb"\n" * (size // 2) + b'"',
    "digits": lambda size: b"[" + b"9" * 900 + (b"," + b"9" * 900) * (min(size, 3_900_000) // 901) + b"]",
    "blanks": lambda size: b" " * size + b"1",
    "as many parts as there may be": lambda size: b"[" + b'{"k":"%b"},' % (b"x" * (size // 60_000)) * 60_000 + b"1]",
}


@pytest.mark.parametrize("size", [AT_ONCE - 1000, 6 * MB, pytest.param(31 * MB, marks=pytest.mark.torture)])
@each_row("make", LONG.values(), ids=LONG.keys())
async def test_no_step_is_long_whatever_an_answer_is_made_of(make: Callable[[int], bytes], size: int) -> None:
    """L1: a line of 31 MB of escaped quotes was decoded in one step of 121 ms."""
    lines, line = asking(1), answer(make(size))
    async with loop_steps() as steps:
        message = await lines.read_in_steps(line)
    assert message is not None
    assert steps.longest_s < MOST_S


async def test_half_a_character_among_many_escapes_is_mended_in_steps() -> None:
    """L1: a megabyte of them took 150 ms in one step."""
    line = answer(b'"' + rb"\n" * 500_000 + rb'\ud83d"')
    async with loop_steps() as steps:
        message = await asking(1).read_in_steps(line)
    assert message.result == {"a": "\n" * 500_000 + "\ufffd"}  # type: ignore[union-attr]
    assert steps.longest_s < MOST_S / 2


@each_row(
    ("text", "why"),
    [
        (Large(lambda: b"\xff" * (SHORT + 1)), "it is not JSON"),
        (Large(lambda: answer(b'"\xff%b"' % (b"x" * AT_ONCE))), "it is not UTF-8"),
        (Large(lambda: answer(b'"%b' % (b"x" * AT_ONCE))), "it is not JSON"),
        (Large(lambda: b"[%b]" % (b" " * AT_ONCE)), "it is not what JSON-RPC calls an answer"),
        (Large(lambda: b"[%b]" % (b"{}," * 800_000)), "it has more than 200,000 parts"),
        (Large(lambda: b"[" * (SHORT + 1)), "it has nested deeper than 500 levels"),
    ],
)
async def test_why_a_long_message_is_none_is_told_in_the_same_words(text: bytes, why: str) -> None:
    with pytest.raises((ParseError, ValueError)) as refused:
        await read_long(text, decode)
    assert why_not(refused.value) == why


async def test_what_takes_too_long_says_so() -> None:
    assert why_not(ParseError("it takes more than 20 s to read")) == "it takes more than 20 s to read"


@each_row("also", [{}, {"id": 1}, {"id": "a"}, {"id": None}, {"result": []}])
def test_what_somebody_looked_at_already_is_not_read_twice(also: dict[str, Any]) -> None:
    """L1: a request to `mcp-server` was decoded a second time, and in one step."""
    fields = {"jsonrpc": "2.0", "method": "m", "params": {"a": 1}, **also}
    assert JsonRpcLines("s").convert(fields) == JsonRpcLines("s").read(json.dumps(fields).encode())


async def test_a_message_of_more_is_never_given_to_a_decoder_that_reads_it_in_one_step() -> None:
    """L1: 31 MB of escaped quotes took it 121 ms."""

    def never(_: bytes) -> Envelope:
        raise AssertionError("in one step")

    text = b"x" * AT_ONCE
    assert (await read_long(answer(b'"%b"' % text), never)).result == {"a": text.decode()}
    with pytest.raises(AssertionError, match="in one step"):
        await read_long(answer(b'"x"'), never)
