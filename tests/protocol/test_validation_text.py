"""Why a value does not fit a type, in our words: the place, what is expected, the values that are allowed."""

from __future__ import annotations

import datetime
import enum
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest

from tertulia.protocol.validation_text import explain_decoding, explain_validation
from tests.tables import each_row


class Text(msgspec.Struct, tag="text"):
    text: str


class Picture(msgspec.Struct, tag="image"):
    url: str


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    mode: Literal["fast", "slow"] = "fast"
    count: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1


class Form(enum.Enum):
    ROUND = "round"
    SQUARE = "square"


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    inner: Inner | None = None
    items: list[Text | Picture] = []
    env: dict[str, str] = {}
    limit: int | str | None = None
    rounds: int | Literal["none", "all"] | None = None
    word: Annotated[str, msgspec.Meta(description="one or two")] | None = None
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    step: Annotated[int, msgspec.Meta(multiple_of=5)] = 5
    short: Annotated[str, msgspec.Meta(max_length=3, pattern="^a")] = "a"
    few: Annotated[list[int], msgspec.Meta(max_length=1)] = []
    table: Annotated[dict[str, int], msgspec.Meta(max_length=1)] = {}
    numbers: dict[int, int] = {}
    pair: tuple[int, str] = (1, "")
    when: datetime.datetime | None = None
    key: uuid.UUID | None = None
    form: Form = Form.ROUND


@each_row(
    ("value", "sentence"),
    [
        ({"name": 1}, "name: expected a text, got a whole number"),
        ({"name": b""}, "name: expected a text, got bytes"),
        ({}, "it lacks the key `name`"),
        ([], "expected an object, got a list"),
        ({1: 2}, "a key of it: expected a text"),
        ({"limit": 1.5}, "limit: expected a whole number or a text or nothing, got a number"),
        ({"inner": {"mode": "s3cret"}}, "inner.mode: expected one of fast, slow"),
        ({"inner": {"mode": 5}}, "inner.mode: expected one of fast, slow"),
        ({"inner": {"mode": "x - at `$.name`"}}, "inner.mode: expected one of fast, slow"),
        ({"rounds": 1.5}, "rounds: expected one of all, none, or a whole number or nothing"),
        ({"rounds": "some"}, "rounds: expected one of all, none"),
        ({"form": "oval"}, "form: expected one of round, square"),
        ({"form": 5}, "form: expected one of round, square"),
        ({"word": 5}, "word: expected a text or nothing, got a whole number (one or two)"),
        ({"inner": {"count": 0}}, "inner.count: expected a whole number of at least 1"),
        ({"inner": {"count": 10}}, "inner.count: expected a whole number of at most 9"),
        ({"inner": {"count": 1 << 70}}, "inner.count: expected a whole number of at most 9"),
        ({"share": 0}, "share: expected a number greater than 0.0"),
        ({"share": 1}, "share: expected a number less than 1.0"),
        ({"step": 4}, "step: expected a whole number that is a multiple of 5"),
        ({"short": "abcd"}, "short: expected a text of at most 3 characters"),
        ({"short": "b"}, "short: expected a text that matches '^a'"),
        ({"few": [1, 2]}, "few: expected a list of at most 1 entries"),
        ({"table": {"a": 1, "b": 2}}, "table: expected an object of at most 1 keys"),
        ({"numbers": {"a": 1}}, "a key of numbers: expected a whole number, got a text"),
        ({"pair": [1]}, "pair: expected a list of exactly 2 entries, got 1"),
        ({"when": "noon"}, "when: expected a date and time such as 2026-01-31T12:00:00Z"),
        ({"key": "x"}, "key: expected a UUID"),
        ({"inner": {"modus": 1}}, "inner: there is an unknown field `modus`; did you mean mode?"),
        ({"inner": {"zzz": 1}}, "inner: there is an unknown field `zzz`; there are mode, count"),
        ({"inner": {"a\nb": 1}}, "inner: there is an unknown field `'a\\nb'`; there are mode, count"),
        ({"items": [{"type": "sound"}]}, "items[0].type: expected one of text, image"),
        ({"items": [{"type": 7}]}, "items[0].type: expected one of text, image"),
        ({"items": [{"type": "text"}]}, "items[0]: it lacks the key `text`"),
        ({"env": {"A": 1}}, "a value of env: expected a text, got a whole number"),
    ],
)
def test_the_sentence_has_no_word_of_the_library_and_no_value(value: Any, sentence: str) -> None:
    if isinstance(value, dict) and value and 1 not in value:
        value = {"name": "a", **value}
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert(value, Outer)
    assert explain_validation(refusal.value, Outer) == sentence


@each_row(
    ("text", "sentence"),
    [
        ("Invalid enum value 'x' - at `$.a`", "a: it is not one of the values that are allowed"),
        ("Number out of range", "the number is out of range"),
        ("our own sentence", "our own sentence"),
    ],
)
def test_a_type_that_cannot_be_looked_into_gives_a_sentence_all_the_same(text: str, sentence: str) -> None:
    assert explain_validation(msgspec.ValidationError(text), object()) == sentence


@each_row(
    ("data", "sentence"),
    [
        (b"{", "it breaks off"),
        (b"", "it breaks off"),
        (b"{]", "it goes wrong at byte 1"),
        (b"{} x", "it goes wrong at byte 4"),
        (b'{"name": "\xff"}', "it is not UTF-8"),
        ('{"name": "\ud800"}', "it has a lone surrogate; send valid Unicode"),
        (b'{"name": 5}', "name: expected a text, got a whole number"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_no_json_is_said_without_a_word_of_the_library(data: bytes | str, sentence: str) -> None:
    kind: Any = Outer if b"name" in (data if isinstance(data, bytes) else b"") else Any
    with pytest.raises((msgspec.DecodeError, UnicodeError, RecursionError)) as refusal:
        msgspec.json.decode(data, type=kind)
    assert explain_decoding(refusal.value, kind) == sentence
