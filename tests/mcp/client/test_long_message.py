"""Messages of any length: the same is understood of a long one, and no step of the loop is long."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tertulia.errors import ParseError
from tertulia.mcp.client.jsonrpc_lines import JsonRpcLines
from tertulia.mcp.client.long_message import AT_ONCE, SHORT, Envelope, read_long, why_not
from tests.loop_steps import MOST_S, loop_steps
from tests.mcp.client.test_jsonrpc_lines import asking

decode = msgspec.json.Decoder(Envelope).decode
MB = 1_000_000


def answer(content: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":{"a":%b}}' % content


@pytest.mark.parametrize("size", [SHORT // 2, SHORT * 2, AT_ONCE + 1])
@pytest.mark.parametrize(
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
@pytest.mark.parametrize("make", LONG.values(), ids=LONG.keys())
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\xff" * (SHORT + 1), "it is not JSON"),
        (answer(b'"\xff%b"' % (b"x" * AT_ONCE)), "it is not UTF-8"),
        (answer(b'"%b' % (b"x" * AT_ONCE)), "it is not JSON"),
        (b"[%b]" % (b" " * AT_ONCE), "it is not what JSON-RPC calls an answer"),
        (b"[%b]" % (b"{}," * 800_000), "it has more than 200,000 parts"),
        (b"[" * (SHORT + 1), "it has nested deeper than 500 levels"),
    ],
)
async def test_why_a_long_message_is_none_is_told_in_the_same_words(text: bytes, why: str) -> None:
    with pytest.raises((ParseError, ValueError)) as refused:
        await read_long(text, decode)
    assert why_not(refused.value) == why


async def test_what_takes_too_long_says_so() -> None:
    assert why_not(ParseError("it takes more than 20 s to read")) == "it takes more than 20 s to read"


@pytest.mark.parametrize("also", [{}, {"id": 1}, {"id": "a"}, {"id": None}, {"result": []}])
def test_what_somebody_looked_at_already_is_not_read_twice(also: dict[str, Any]) -> None:
    """L1: a request to `mcp-server` was decoded a second time, and in one step."""
    fields = {"jsonrpc": "2.0", "method": "m", "params": {"a": 1}, **also}
    assert JsonRpcLines("s").taken(fields) == JsonRpcLines("s").read(json.dumps(fields).encode())


async def test_a_message_of_more_is_never_given_to_a_decoder_that_reads_it_in_one_step() -> None:
    """L1: 31 MB of escaped quotes took it 121 ms."""

    def never(_: bytes) -> Envelope:
        raise AssertionError("in one step")

    text = b"x" * AT_ONCE
    assert (await read_long(answer(b'"%b"' % text), never)).result == {"a": text.decode()}
    with pytest.raises(AssertionError, match="in one step"):
        await read_long(answer(b'"x"'), never)
