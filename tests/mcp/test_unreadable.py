"""Which request an answer belongs to that cannot be read."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.mcp.unreadable import answered_id, is_asking

DEEP = b"[" * 50_000 + b"]" * 50_000
CUT = b'{"a": "broken'


@pytest.mark.parametrize("content", [b"{}", DEEP, b"\xff", b'"' + b"x" * 100_000 + b'"'])
@pytest.mark.parametrize(
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
def test_the_id_is_found_at_the_beginning_or_at_the_end(message: bytes, content: bytes, id: int | str | None) -> None:
    """L4."""
    assert answered_id(message % content) == id
    assert not is_asking(message % content)


@pytest.mark.parametrize("content", [b"{}", DEEP])
@pytest.mark.parametrize(
    "message",
    [b'{"id":7,"method":"m","params":%b}', b'{"method":"m","params":%b,"id":7}', b'{"params":%b,"method":"m"}'],
)
def test_who_asks_answers_nothing(message: bytes, content: bytes) -> None:
    """L4."""
    assert is_asking(message % content)
    assert answered_id(message % content) is None


def test_a_message_that_is_cut_off_has_its_id_at_the_beginning() -> None:
    assert answered_id(b'{"jsonrpc":"2.0","id":7,"result":' + CUT) == 7


@given(st.binary(max_size=200))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    answered_id(data)
    is_asking(data)


@given(
    st.dictionaries(
        st.sampled_from(["id", "result", "jsonrpc", "x"]), st.integers(-(2**63), 2**64 - 1) | st.text(max_size=300)
    )
)
def test_of_json_it_is_the_id_that_a_decoder_finds(message: dict[str, Any]) -> None:
    found = answered_id(json.dumps(message).encode())
    assert found == message.get("id")


def test_of_a_long_message_only_the_ends_are_looked_at() -> None:
    """L1: to read all of 32 MB for an id would hold the loop."""
    content = b"[" + b"{}," * 5_000_000 + b"{}]"
    first = b'{"jsonrpc":"2.0","id":7,"result":' + content + b"}"
    last = b'{"jsonrpc":"2.0","result":' + content + b',"id":8}'
    before = time.thread_time()
    assert (answered_id(first), answered_id(last)) == (7, 8)
    assert time.thread_time() - before < 0.02
