"""What tests of durability share."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from tests.durability.children import Children
from tests.rollout.conftest import room

__all__ = ["room"]


@pytest.fixture(scope="module")
def families() -> Iterator[SimpleQueue[Children]]:
    """One for each processor that we use."""
    free: SimpleQueue[Children] = SimpleQueue()
    both = [Children(), Children()]
    for children in both:
        free.put(children)
    yield free
    for children in both:
        children.close()
