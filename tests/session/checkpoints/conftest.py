"""Every scene of a test is closed with it, as a session closes its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.session.checkpoints.scene import Scene


@pytest.fixture(autouse=True)
def close_scenes() -> Iterator[None]:
    """Close what the test has opened."""
    yield
    while Scene.made:
        Scene.made.pop().place.close()
