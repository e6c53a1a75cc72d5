"""Why a value does not fit a type, in our words: the place, what is expected, the values that are allowed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from tertulia.protocol.validation_text import explain_validation
from tests.tables import each_row


class Text(msgspec.Struct, tag="text"):
    text: str


class Picture(msgspec.Struct, tag="image"):
    url: str


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    mode: Literal["fast", "slow"] = "fast"
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    inner: Inner | None = None
    items: list[Text | Picture] = []
    env: dict[str, str] = {}
    limit: int | str | None = None


@each_row(
    ("value", "sentence"),
    [
        ({"name": 1}, "name: expected a text, got a whole number"),
        ({}, "it lacks the key `name`"),
        ([], "expected an object, got a list"),
        ({"name": "a", "limit": 1.5}, "limit: expected a whole number or a text or nothing, got a number"),
        ({"name": "a", "inner": {"mode": "s3cret"}}, "inner.mode: expected one of fast, slow"),
        ({"name": "a", "inner": {"count": 0}}, "inner.count: expected a whole number >= 1"),
        ({"name": "a", "inner": {"modus": 1}}, "inner: there is an unknown field `modus`; there are mode, count"),
        ({"name": "a", "items": [{"type": "sound"}]}, "items[0].type: expected one of text, image"),
        ({"name": "a", "items": [{"type": "text"}]}, "items[0]: it lacks the key `text`"),
        ({"name": "a", "env": {"A": 1}}, "env[...]: expected a text, got a whole number"),
    ],
)
def test_the_sentence_has_no_word_of_the_library_and_no_value(value: Any, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert(value, Outer)
    assert explain_validation(refusal.value, Outer) == sentence


def test_a_type_that_cannot_be_looked_into_gives_a_sentence_all_the_same() -> None:
    error = msgspec.ValidationError("Invalid enum value 'x' - at `$.a`")
    assert explain_validation(error, object()) == "a: it is not one of the values that are allowed"
