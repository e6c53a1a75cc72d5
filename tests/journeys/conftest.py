"""Who goes on each journey."""

from pathlib import Path

import pytest

from tests.journeys.person import Person


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them take seconds."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)
