"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import copy
import re

import pytest

from tertulia.lazy_pattern import lazy_pattern


def test_a_lazy_pattern_does_what_the_compiled_one_does() -> None:
    made, compiled = lazy_pattern(r"(\w)=(\d+)", re.ASCII), re.compile(r"(\w)=(\d+)", re.ASCII)
    text = "a=1, b=22"
    assert made.sub(r"\2", text) == compiled.sub(r"\2", text) == "1, 22"
    assert made.findall(text) == compiled.findall(text)
    assert [match.span() for match in made.finditer(text)] == [match.span() for match in compiled.finditer(text)]
    assert (made.pattern, made.flags, made.groups) == (compiled.pattern, compiled.flags, compiled.groups)
    assert lazy_pattern(rb"\xff+").match(b"\xff\xff") is not None


def test_nothing_is_compiled_before_it_is_used() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("x")


def test_a_name_that_a_pattern_has_not_is_an_attribute_error() -> None:
    made = lazy_pattern("x")
    assert not hasattr(made, "no_such_method")
    assert copy.copy(made).match("x") is not None
