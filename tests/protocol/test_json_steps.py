"""Reading in steps, for whoever decides what is understood; held against the strict reader in test_long_json.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tertulia.errors import ParseError
from tertulia.protocol import json_steps
from tertulia.protocol.json_steps import StepwiseWork, read, run_to_end
from tests.loop_steps import MOST_S, loop_steps
from tests.tables import each_row

PLAIN = json.JSONDecoder()


async def built(data: bytes | bytearray, depth: int = 128) -> Any:
    return await run_to_end(StepwiseWork(read(data, PLAIN, depth)))


async def test_how_deep_a_text_may_be_is_for_the_caller_to_say_and_not_for_python() -> None:
    """L1: no level costs a level of ours."""
    deep = b"[" * 5_000 + b'{"a":[]}' + b"]" * 5_000
    value = await built(deep, 10_000)
    for _ in range(5_000):
        (value,) = value
    assert value == {"a": []}
    with pytest.raises(ParseError, match="nested deeper than 128 levels"):
        await built(deep)


@each_row("text", [b"[", b"[1", b"[1,", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b"{", b"[]]", b"[,]", b"{,}"])
async def test_what_has_no_end_or_two_is_refused(text: bytes) -> None:
    with pytest.raises(ParseError, match="not JSON"):
        await built(text)


async def test_a_line_that_was_not_copied_is_read_like_any_other() -> None:
    """L1: a copy of 119 MB alone held the loop for 85 ms."""
    text = bytearray(rb'{"a": ["\u00e9", 1.5, "' + b"x" * 5_000 + b'", {}, [] ]}')
    assert await built(text) == json.loads(text)


async def test_what_is_unescaped_may_be_mended_in_pieces_that_cut_no_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1: MCP servers cut texts in the middle of a character."""
    monkeypatch.setattr(json_steps, "_PIECE", 12)
    text = b'["' + rb"\ud83d\ude00" * 20 + b'"]'
    seen: list[str] = []
    await run_to_end(StepwiseWork(read(text, PLAIN, 8, lambda piece: seen.append(piece) or piece)))
    assert "".join(seen) == "😀" * 20


async def test_a_long_string_that_one_character_makes_four_times_as_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L1: 15 MB with one emoji took 60 MB, and the pieces and the message besides."""
    monkeypatch.setattr(json_steps, "MAX_WIDE_BYTES", 1_000_000)
    for text in ("x" * 400_000 + "”", "😀" * 400_000, "x" * 249_000 + "😀", "é" * 700_000):
        assert await built(json.dumps([text], ensure_ascii=False).encode()) == [text]
    for text in ("x" * 300_000 + "😀", "😀" + "x" * 300_000):
        with pytest.raises(ParseError, match="make all others take 4 bytes"):
            await built(json.dumps([text], ensure_ascii=False).encode())
        with pytest.raises(ParseError, match="make all others take 4 bytes"):
            await built(json.dumps([text]).encode())


async def test_a_string_outside_of_ascii_may_be_half_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1: 119 MB of characters of four bytes were joined in a step of 124 ms."""
    monkeypatch.setattr(json_steps, "MAX_CHARACTERS", 200_000)
    assert len(await built(b'"' + b"x" * 200_000 + b'"')) == 200_000
    assert len(await built(b'"' + "é".encode() * 100_000 + b'"')) == 100_000
    with pytest.raises(ParseError, match="a string of more than 100,000 characters"):
        await built(b'"' + "é".encode() * 100_001 + b'"')


@pytest.mark.torture
@pytest.mark.parametrize("sign", [rb"\"", rb"\u00e9", "😀".encode(), b"x"])
async def test_no_step_is_long_whatever_a_line_of_119_mb_is_made_of(sign: bytes) -> None:
    """L1, at its full size."""
    text = bytearray(b'["' + sign * (119_000_000 // len(sign)) + b'"]')
    async with loop_steps() as steps:
        with pytest.raises(ParseError, match="a string of more than"):
            await built(text)
    assert steps.longest_s < MOST_S
