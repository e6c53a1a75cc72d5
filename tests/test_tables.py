"""A table is one test, and its failure says which rows failed."""

from __future__ import annotations

import inspect

import pytest

from tests.tables import each_row


def test_every_row_is_tried_and_a_failure_names_those_that_failed() -> None:
    tried = list[int]()

    @each_row("number, square", [(1, 1), pytest.param(2, 5, id="two"), (3, 9), (4, 17)])
    def squares(number: int, square: int) -> None:
        tried.append(number)
        assert number * number == square

    with pytest.raises(AssertionError) as failure:
        squares()
    assert tried == [1, 2, 3, 4]
    assert failure.value.__notes__ == ["failed in 2 of 4 rows: 1 (two); 3 (4, 17)"]


async def test_a_test_that_awaits_is_a_table_too() -> None:
    @each_row("number", [1, 2], ids=str)
    async def positive(number: int) -> None:
        if number == 2:
            pytest.fail("two")

    assert inspect.iscoroutinefunction(positive)
    with pytest.raises(AssertionError, match="two"):
        await positive()


def test_what_a_row_does_not_give_is_asked_of_pytest() -> None:
    @each_row("number", [1])
    def uses_a_folder(number: int, tmp_path: object) -> None: ...

    assert list(inspect.signature(uses_a_folder).parameters) == ["tmp_path"]


@pytest.mark.parametrize("outer", ["a", "b"])
@each_row("inner", [1, 2])
def test_it_stands_below_parametrize(outer: str, inner: int) -> None:
    assert (outer, inner) in {("a", 1), ("a", 2), ("b", 1), ("b", 2)}


def test_a_row_with_a_mark_is_refused() -> None:
    with pytest.raises(AssertionError, match="use parametrize"):
        each_row("number", [pytest.param(1, marks=pytest.mark.slow)])
