"""Long values are encoded piece by piece, to the same bytes; what has to be escaped is counted."""

from __future__ import annotations

import json
import sys

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ItemId
from tertulia.protocol.inputs import MAX_TEXT_BYTES, check_text
from tertulia.protocol.items import TextPart, UserMessage
from tertulia.protocol.json_steps import encode_json, encode_long, encoded_pieces
from tertulia.protocol.records import (
    LONG_CHARACTERS,
    MAX_CONTROLS,
    MAX_ESCAPES,
    escape_cost,
    has_long_text,
    has_too_many_escapes,
)
from tests.loop_steps import MOST_S, longest_step
from tests.tables import Large, each_row

LONG = LONG_CHARACTERS + 1
VALUES = {
    "one text": Large(lambda: "x" * LONG),
    "escapes": Large(lambda: '"\\\x1b\n' * LONG),
    "characters of four bytes": Large(lambda: "é😀字" * LONG),
    "among others": Large(lambda: {"a": [1, "b", "y" * LONG, None], "c": ("z" * LONG, {"d": 2.5})}),
    "many": Large(lambda: [f"{number}" * LONG for number in range(12)]),
    "items": Large(lambda: (UserMessage(ItemId("i1"), (TextPart("\n" * LONG), TextPart("short"))),)),
    "short": {"a": "b"},
}


@each_row("value", VALUES.values(), ids=VALUES.keys())
def test_a_long_value_is_encoded_with_or_without_its_brackets(value: object) -> None:
    whole = msgspec.json.encode(value)
    assert encode_long(value) == whole
    assert encode_long(value, b"<", b">") == b"<" + whole + b">"
    assert encode_long(value, bare=True) == whole[1:-1]
    assert encode_long(value, b"<", b"] end", bare=True) == b"<" + whole[1:-1] + b"] end"


def test_the_utf8_of_a_text_is_not_kept_with_it() -> None:
    """L1: msgspec would, as long as the text itself is kept."""
    text = "😀" * LONG
    before = sys.getsizeof(text)
    encode_long({"text": text})
    assert sys.getsizeof(text) == before


@each_row("value", VALUES.values(), ids=VALUES.keys())
async def test_the_pieces_are_what_is_encoded_at_once(value: object) -> None:
    whole = msgspec.json.encode(value)
    assert b"".join(encoded_pieces(value)) == whole
    assert await encode_json(value, b"<", b">") == b"<" + whole + b">"
    assert has_long_text(value) == (len(whole) > LONG)


async def test_a_long_text_is_encoded_in_short_steps() -> None:
    """L1: 16 MB of controls take a third of a second."""
    text = "\x1b" * MAX_TEXT_BYTES
    assert await longest_step(lambda: encode_json(text)) < MOST_S


def test_a_text_that_cannot_be_encoded_is_refused_as_ever() -> None:
    with pytest.raises(UnicodeEncodeError):
        list(encoded_pieces("x" * LONG + "\ud800"))


@each_row("character, cost", [("a", 0), ("é", 0), ("\x7f", 0), ('"', 5), ("\\", 5), ("\n", 5), ("\x1b", 8), ("\0", 8)])
def test_what_has_to_be_escaped_costs(character: str, cost: int) -> None:
    assert escape_cost(character * 40_000) == cost * 40_000
    assert (len(json.dumps(character, ensure_ascii=False)) > 3) == (cost > 0)


@each_row("character, most", [('"', MAX_ESCAPES), ("\n", MAX_ESCAPES), ("\x1b", MAX_CONTROLS)])
def test_a_text_of_more_escapes_than_there_may_be_is_refused(character: str, most: int) -> None:
    """L1: an encoder takes all of them in one step."""
    longest = character * most
    assert check_text(longest, "text") is longest
    assert not has_too_many_escapes(longest[: most // 2], longest[: most // 2], "x" * most)
    with pytest.raises(InvalidParamsError, match=r"^text has more characters that JSON has to escape"):
        check_text(longest + character, "text")
    assert has_too_many_escapes(longest, character)
