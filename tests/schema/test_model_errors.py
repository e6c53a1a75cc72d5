"""What pydantic finds wrong, in our words."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import pydantic
import pytest

from tertulia.schema.model_errors import (
    NOT_ALLOWED,
    explain_model_error,
    explain_problem,
    model_problems,
    problem_place,
)
from tests.tables import each_row


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Model(pydantic.BaseModel, extra="forbid"):
    name: str = ""
    mode: Literal["fast", "slow"] = "fast"
    count: Annotated[int, pydantic.Field(ge=1, lt=9)] = 1
    share: Annotated[float, pydantic.Field(gt=0, le=1)] = 1
    short: Annotated[str, pydantic.Field(min_length=1, max_length=3, pattern="^[a']")] = "a"
    few: Annotated[list[int], pydantic.Field(min_length=1, max_length=2)] = [1]
    on: bool = True
    table: dict[str, int] = {}
    when: datetime.datetime | None = None
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")] | None = None
    even: int = 2

    @pydantic.field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even, and is odd")
        return value


@each_row(
    ("value", "sentence"),
    [
        ({"name": 5}, "name: expected a text"),
        ({"mode": "s3cret"}, "mode: expected one of fast, slow"),
        ({"count": 0}, "count: expected at least 1"),
        ({"count": 9}, "count: expected less than 9"),
        ({"count": "many"}, "count: expected a whole number"),
        ({"share": 0}, "share: expected more than 0.0"),
        ({"share": 2}, "share: expected at most 1.0"),
        ({"short": ""}, "short: expected at least 1 characters"),
        ({"short": "abcd"}, "short: expected at most 3 characters"),
        ({"short": "b"}, "short: expected a text that matches ^[a']"),
        ({"few": []}, "few: expected at least 1 entries"),
        ({"few": [1, 2, 3]}, "few: expected at most 2 entries"),
        ({"few": [1, "x"]}, "few[1]: expected a whole number"),
        ({"on": "perhaps"}, "on: expected true or false"),
        ({"table": 5}, "table: expected an object"),
        ({"when": "soon"}, "when: expected a date and time"),
        ({"pet": {"kind": "cow"}}, "pet: expected one of cat, dog"),
        ({"pet": {}}, f"pet: {NOT_ALLOWED}"),
        ({"nmae": 5}, "nmae: there is no such field"),
        ({"even": 3}, "even: must be even, and is odd"),
        (5, "expected an object"),
        ({"name": 5, "on": "perhaps"}, "name: expected a text; on: expected true or false"),
    ],
)
def test_a_problem_is_said_without_a_word_of_the_library_and_without_the_value(value: Any, sentence: str) -> None:
    with pytest.raises(pydantic.ValidationError) as refusal:
        Model.model_validate(value)
    assert explain_model_error(refusal.value) == sentence


def test_what_has_no_words_here_gets_those_of_the_caller() -> None:
    assert explain_problem({"type": "unheard_of", "loc": ()}, "it is wrong") == "it is wrong"
    assert explain_problem({"type": "literal_error", "loc": ()}) == NOT_ALLOWED


def test_an_error_of_another_kind_is_its_own_sentence() -> None:
    assert explain_model_error(ValueError("our own")) == "our own"


def test_a_place_is_written_as_in_python() -> None:
    assert problem_place(("items", 0, "text")) == "items[0].text"
    assert problem_place((0, "a")) == "[0].a"
    assert problem_place(()) == ""


def test_a_problem_repeats_no_value() -> None:
    with pytest.raises(pydantic.ValidationError) as refusal:
        Model.model_validate({"name": ["s3cret"]})
    assert "s3cret" not in str(model_problems(refusal.value))
