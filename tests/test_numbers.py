"""Every requirement and hardening case that has a test keeps one."""

from __future__ import annotations

from tests.numbers import named, wanted


def test_every_number_that_had_a_test_is_named_by_one() -> None:
    assert wanted()
    assert set(wanted()) - set(named()) == set(), "name the test that holds the promise now in its docstring"
