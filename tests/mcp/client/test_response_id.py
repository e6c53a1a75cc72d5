"""Which request an answer belongs to that cannot be read."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.mcp.client import json_repair as response_id
from tertulia.mcp.client.json_repair import answered_id_in_steps, find_response_id, looks_like_request
from tests.loop_steps import MOST_S, loop_steps
from tests.tables import each_row

DEEP = b"[" * 50_000 + b"]" * 50_000
CUT = b'{"a": "broken'


@each_row("content", [b"{}", DEEP, b"\xff", b'"' + b"x" * 100_000 + b'"'])
@each_row(
    ("message", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":%b}', 7),
        (b'{ "id" : "a\\"b" , "jsonrpc" : "2.0" , "result" : %b }', 'a"b'),
        (b'{"jsonrpc":"2.0","result":%b,"id":7}', 7),
        (b'{"result":%b,"id":-1,"jsonrpc":"2.0"}\r', -1),
        (b'{"jsonrpc":"2.0","id":null,"error":%b}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"error":%b}', None),
        (b'{"jsonrpc":"2.0","id":true,"error":%b}', None),
        (b'{"jsonrpc":"2.0","result":%b}', None),
        (b'{"jsonrpc":"2.0","result":{"x":%b,"id":7}}', None),
    ],
)
async def test_the_id_is_found_at_the_beginning_or_at_the_end(
    message: bytes, content: bytes, id: int | str | None
) -> None:
    """L4."""
    assert find_response_id(message % content) == id
    assert not await looks_like_request(message % content)


@pytest.mark.parametrize("content", [b"{}", DEEP])
@pytest.mark.parametrize(
    "message",
    [b'{"id":7,"method":"m","params":%b}', b'{"method":"m","params":%b,"id":7}', b'{"params":%b,"method":"m"}'],
)
async def test_who_asks_answers_nothing(message: bytes, content: bytes) -> None:
    """L4."""
    assert await looks_like_request(message % content)
    assert find_response_id(message % content) is None


def test_a_message_that_is_cut_off_has_its_id_at_the_beginning() -> None:
    assert find_response_id(b'{"jsonrpc":"2.0","id":7,"result":' + CUT) == 7


@given(st.binary(max_size=200))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    find_response_id(data)


@given(
    st.dictionaries(
        st.sampled_from(["id", "result", "jsonrpc", "x"]), st.integers(-(2**63), 2**64 - 1) | st.text(max_size=300)
    )
)
def test_of_json_it_is_the_id_that_a_decoder_finds(message: dict[str, Any]) -> None:
    found = find_response_id(json.dumps(message).encode())
    assert found == message.get("id")


def test_of_a_long_message_only_the_ends_are_looked_at() -> None:
    """L1: to read all of 32 MB for an id would hold the loop."""
    content = b"[" + b"{}," * 5_000_000 + b"{}]"
    first = b'{"jsonrpc":"2.0","id":7,"result":' + content + b"}"
    last = b'{"jsonrpc":"2.0","result":' + content + b',"id":8}'
    before = time.thread_time()
    assert (find_response_id(first), find_response_id(last)) == (7, 8)
    assert time.thread_time() - before < 0.02


TEXT = b'"' + b'a\\"b\\\\{},[]' * 20_000 + b'"'
MANY = b'[{"id":1,"a":"}"}' + b',{"id":1}' * 100_000 + b"]"


@each_row("before", [DEEP, TEXT, MANY, b"[1, 2]", b"{}"], ids=["deep", "text", "many", "list", "object"])
@each_row("after", [DEEP, TEXT, MANY, b"\xff", CUT], ids=["deep", "text", "many", "bytes", "cut"])
async def test_the_id_is_found_in_the_middle_of_a_long_message(before: bytes, after: bytes) -> None:
    """L4: such a call waited for its time limit."""
    message = b'{"jsonrpc":"2.0","a\\"b":%b , "id" : 7,"result":%b}' % (before, after)
    async with loop_steps() as steps:
        assert await answered_id_in_steps(message) == 7
        assert not await looks_like_request(message)
        assert await looks_like_request(b'{"params":%b,"method":"m","x":%b}' % (before, after))
    assert steps.longest_s < MOST_S


async def test_looking_for_an_id_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1: what is made for it could be followed for seconds."""
    monkeypatch.setattr(response_id, "MAX_CPU_S", 0.05)
    before = time.thread_time()
    for hostile in (b'"a":[],', b'"a":1,', b'"a":[[],[]],', b'"a":"\\\\",'):
        assert await answered_id_in_steps(b"{" + hostile * (4_000_000 // len(hostile)) + b'"id":7,"x":[1]}') is None
    assert time.thread_time() - before < 1


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
@given(
    value=st.recursive(
        st.integers(0, 9) | st.text('a"\\{}[],:', max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\{', max_size=3), inner, max_size=3),
    )
)
def test_however_a_value_is_cut_its_end_is_found(size: int, value: Any) -> None:
    text = b'{"x":%b,"id":7,"y":[]}' % json.dumps([value]).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response_id, "_PIECE", size + 1)
        assert find_response_id(text) == 7
