"""What is JSON, what is not, and what is but cannot be used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import ParseError
from tertulia.protocol import json_steps
from tertulia.protocol.json_scan import MAX_DEPTH, MAX_PARTS
from tertulia.server.jsonrpc.strict_json import (
    AT_ONCE_BYTES,
    MAX_DIGITS,
    IncrementalDecoder,
    decode,
    decode_json,
    find_unencodable,
)
from tests.loop_steps import MOST_S, loop_steps
from tests.tables import each_row

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


@each_row("data", BROKEN.values(), ids=BROKEN.keys())
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


@each_row(
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


@each_row(
    "value",
    ["", "plain", "ünï€😀\0", 2**64 - 1, -(2**63), 1.5, math.pi, True, None, {}, [], {"a": [{"b": "😀"}]}],
)
def test_what_can_be_used_is_left_alone(value: Any) -> None:
    assert find_unencodable(value) is None


def test_escaped_surrogates_are_read_so_that_the_request_can_be_refused_by_its_id() -> None:
    assert decode(rb'"\ud83d\ude00"') == "😀"
    assert find_unencodable(decode(rb'"\ud83d\ude00"')) is None
    assert find_unencodable(decode(rb'"\ud83d"')) is not None


MB = 1_000_000


def built(data: bytes) -> Any:
    build = IncrementalDecoder(data)
    while not build.step():
        pass
    return build.value


def read_in_both_ways(data: bytes) -> None:
    """The same value, or a refusal by both."""
    try:
        expected = decode(data)
    except ParseError:
        with pytest.raises(ParseError):
            built(data)
    else:
        # By its text too: 1 is equal to True and to 1.0.
        assert repr(built(data)) == repr(expected)


@pytest.fixture(params=[json_steps._PIECE, 12])
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with pieces so small that every string is cut."""
    monkeypatch.setattr(json_steps, "_PIECE", request.param)


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.usefixtures("_pieces")
def test_what_a_short_text_is_refused_for_a_long_one_is_too(data: bytes) -> None:
    """L1, D9."""
    with pytest.raises(ParseError) as refused:
        built(data)
    assert 0 < len(refused.value.message) < 200
    read_in_both_ways(b" " * AT_ONCE_BYTES + data)


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_every_value_is_read_as_it_was_written(value: Any, ascii: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    assert repr(built(data)) == repr(decode(data))


escapes = [
    rb"\"",
    rb"\\",
    rb"\n",
    rb"\u00e9",
    rb"\ud83d\ude00",
    rb"\ud83d",
    rb"\ude00",
    b"\xc3\xa9",
    b"\xf0\x9f\x98\x80",
    b"a",
]
marks = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"1",
    b"-0.5e3",
    b"true",
    b"NaN",
    b" ",
    b"\n",
    b'"k":',
    b"\xff",
    b"\x01",
]


@given(st.lists(st.sampled_from(escapes), max_size=60))
def test_no_escape_and_no_character_is_cut_apart(pieces: list[bytes]) -> None:
    """L1: strings are read in pieces, and a pair of surrogates in two of them would be two halves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_steps, "_PIECE", 12)
        read_in_both_ways(b'["' + b"".join(pieces) + b'", 1]')


@given(st.lists(st.sampled_from([*escapes, *marks]), max_size=20))
def test_any_text_is_read_like_a_short_one(pieces: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_steps, "_PIECE", 12)
        read_in_both_ways(b"".join(pieces))


LONG: dict[str, Callable[[], bytes]] = {
    "a plain text": lambda: b'{"a":"' + b"a" * (16 * MB) + b'"}',
    "escaped line ends": lambda: b'{"a":"' + rb"\n" * (8 * MB) + b'"}',
    "escaped letters": lambda: b'{"a":"' + rb"\u0041" * (4 * MB) + b'"}',
    "escaped quotes": lambda: b'{"a":"' + rb"\"" * (4 * MB) + b'"}',
    "characters of four bytes": lambda: b'{"a":"' + "😀".encode() * (2 * MB) + b'"}',
    "as many entries as there may be": lambda: b"[" + b'"entry",' * (MAX_PARTS - 2) + b"1]",
    "many strings of some length": lambda: b"[" + b'"%b",' % (b"x" * 6_000) * 1_000 + b"1]",
    "blanks": lambda: b" " * (8 * MB) + b"1",
}


@each_row("make", LONG.values(), ids=LONG.keys())
async def test_a_long_text_is_read_whole_and_no_step_of_the_loop_is_long(make: Callable[[], bytes]) -> None:
    """L1, S002: texts up to 16 MB, however they are escaped."""
    data = make()
    async with loop_steps() as steps:
        value = await decode_json(data)
    assert value == json.loads(data)
    assert steps.longest_s < MOST_S


TOO_MUCH: dict[str, Callable[[], bytes]] = {
    "tiny objects": lambda: b"[" + b"{}," * (2 * MB) + b"{}]",
    "tiny lists": lambda: b"[" + b"[]," * (2 * MB) + b"[]]",
    "numbers": lambda: b"[" + b"1," * (3 * MB) + b"1]",
    "members": lambda: b"{" + b",".join(b'"%d":1' % number for number in range(MAX_PARTS)) + b"}",
    "levels": lambda: b'{"a":' * MB + b"1" + b"}" * MB,
}


@each_row("make", TOO_MUCH.values(), ids=TOO_MUCH.keys())
async def test_a_text_of_too_many_parts_is_refused_before_anything_is_built(make: Callable[[], bytes]) -> None:
    """L1: 31 MB of `[{},{},…]` stopped everything for 13 s, with 980 MB."""
    data = make()
    before = thread_time()
    async with loop_steps() as steps:
        with pytest.raises(ParseError, match=r"more than 200,000 parts|deeper than 128"):
            await decode_json(data)
    assert steps.longest_s < MOST_S
    assert thread_time() - before < 1, "most of it was not even looked at"


async def test_a_text_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1: bounded by time, too."""
    monkeypatch.setattr(json_steps, "MAX_CPU_S", 0.01)
    with pytest.raises(ParseError, match="it takes more than"):
        await decode_json(b"[" + b"1," * 150_000 + b"1]")


async def test_a_string_longer_than_any_text_is_refused_before_it_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1: one sign outside of ASCII makes it four times as long, in one step."""
    monkeypatch.setattr(json_steps, "MAX_CHARACTERS", 1_000_000)
    assert len(await decode_json(b'"' + b"x" * 1_000_000 + b'"')) == 1_000_000
    with pytest.raises(ParseError, match="a string of more than 1,000,000 characters"):
        await decode_json(b'["' + b"x" * 1_000_001 + b'"]')
