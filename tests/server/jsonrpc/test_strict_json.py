"""What is JSON, what is not, and what is but cannot be used."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import ParseError
from tertulia.protocol.json_scan import MAX_DEPTH
from tertulia.server.jsonrpc.strict_json import MAX_DIGITS, decode, find_unencodable

BROKEN = {
    "nothing": b"",
    "blanks": b"  \t ",
    "a word": b"hello",
    "a lone bracket": b"]",
    "an open object": b'{"a": 1',
    "two values": b"{} {}",
    "single quotes": b"{'a': 1}",
    "a trailing comma": b"[1,]",
    "a comment": b"{} // no",
    "a bare control character": b'"a\x01b"',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": Infinity}',
    "minus Infinity": b"[-Infinity]",
    "a number beyond a double": b"[1e400]",
    "a leading zero": b"[01]",
    "an integer of 10,000 digits": b"9" * 10_000,
    "a negative integer of 10,000 digits": b"-" + b"9" * 10_000,
    "a duplicate key": b'{"a": 1, "b": 2, "a": 3}',
    "a duplicate key further in": b'{"x": [{"a": 1, "a": 1}]}',
    "a duplicate key in another spelling": rb'{"a": 1, "\u0061": 2}',
    "a duplicate key with a lone surrogate": rb'{"\ud800": 1, "\ud800": 2}',
    "arrays 100,000 deep": b"[" * 100_000,
    "closed arrays 100,000 deep": b"[" * 100_000 + b"]" * 100_000,
    "objects 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "UTF-32": '{"a": 1}'.encode("utf-32-le"),
    "bad UTF-8": b'{"a": "\xff"}',
    "an overlong encoding": b'{"a": "\xc0\xaf"}',
    "a raw surrogate": b'{"a": "\xed\xa0\x80"}',
    "cut UTF-8": b'"\xe2\x82',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_not_json_or_ambiguous_is_a_parse_error_that_can_be_sent(data: bytes) -> None:
    """D9."""
    with pytest.raises(ParseError) as refused:
        decode(data)
    message = refused.value.message
    message.encode()
    assert 0 < len(message) < 200


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def test_the_deepest_allowed_nesting_is_read_and_one_more_is_refused() -> None:
    assert decode(nested(MAX_DEPTH)) is not None
    with pytest.raises(ParseError, match=f"deeper than {MAX_DEPTH}"):
        decode(nested(MAX_DEPTH + 1))
    with pytest.raises(ParseError, match=f"deeper than {MAX_DEPTH}"):
        decode(b'{"a":' * MAX_DEPTH + b"[]" + b"}" * MAX_DEPTH)


def test_many_brackets_that_are_not_deep_are_fine() -> None:
    wide = b"[" + b",".join([b'{"a":[1]}'] * 1_000) + b"]"
    assert decode(wide) == [{"a": [1]}] * 1_000
    assert decode(b'"' + b"[" * 1_000 + b'"') == "[" * 1_000
    assert decode(b"1") == 1


def test_the_longest_allowed_integer_is_read_and_one_digit_more_is_refused() -> None:
    assert decode(b"9" * MAX_DIGITS) == 10**MAX_DIGITS - 1
    with pytest.raises(ParseError, match="digits"):
        decode(b"9" * (MAX_DIGITS + 1))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(json_values, st.booleans())
def test_every_ordinary_value_is_read_as_it_was_written(value: Any, ascii: bool) -> None:
    assert decode(json.dumps(value, ensure_ascii=ascii).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_parse_error(data: bytes) -> None:
    """D9."""
    try:
        value = decode(data)
    except ParseError:
        return
    assert json.loads(data.decode()) == value


@pytest.mark.parametrize(
    "value",
    [
        "\ud800",
        "a\udfffb",
        {"a": {"b": ["ok", "\ud800"]}},
        {"\ud800": 1},
        2**64,
        -(2**63) - 1,
        {"a": [1, {"b": 10**30}]},
    ],
)
def test_what_cannot_be_stored_or_sent_on_is_found_wherever_it_stands(value: Any) -> None:
    assert find_unencodable(value) is not None


@pytest.mark.parametrize(
    "value",
    ["", "plain", "ünï€😀\0", 2**64 - 1, -(2**63), 1.5, math.pi, True, None, {}, [], {"a": [{"b": "😀"}]}],
)
def test_what_can_be_used_is_left_alone(value: Any) -> None:
    assert find_unencodable(value) is None


def test_escaped_surrogates_are_read_so_that_the_request_can_be_refused_by_its_id() -> None:
    assert decode(rb'"\ud83d\ude00"') == "😀"
    assert find_unencodable(decode(rb'"\ud83d\ude00"')) is None
    assert find_unencodable(decode(rb'"\ud83d"')) is not None
