"""How much a test tries: a sample in `make test`, everything in `make torture`, which sets TERTULIA_TORTURE."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

THOROUGH = bool(os.environ.get("TERTULIA_TORTURE"))

_Case = TypeVar("_Case")


def examples(number: int) -> int:
    """`number` of them in `make torture`; in `make test` one of ten, but at least 50 where there are so many."""
    return times(number, max(number // 10, 50))


def times(number: int, short: int) -> int:
    """`number` in `make torture`, `short` in `make test`."""
    return number if THOROUGH else min(number, short)


def sample(cases: Sequence[_Case], short: int) -> list[_Case]:
    """All cases in `make torture`; in `make test` `short` of them, always the same, the first and the last included."""
    if THOROUGH or len(cases) <= short:
        return list(cases)
    between = random.Random(len(cases)).sample(range(1, len(cases) - 1), short - 2)
    return [cases[number] for number in (0, *sorted(between), len(cases) - 1)]


def grows(item: pytest.Item) -> bool:
    """Whether it belongs to `make torture`: a storm, a law with examples, or a test of a file that asks this one."""
    if item.get_closest_marker("torture") or item.get_closest_marker("hypothesis"):
        return True
    module = getattr(item, "module", None)
    return any(getattr(thing, "__module__", None) == __name__ for thing in vars(module).values()) if module else False
