"""Who goes on each journey."""

from pathlib import Path

import pytest

from tests.journeys.person import Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)
