"""What every test starts from."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.guards import no_lock_over_an_await

# A slow machine is not a failing test: the deadline is pytest-timeout's, for the whole test.
settings.register_profile("tertulia", deadline=None, print_blob=True)
settings.load_profile("tertulia")


@pytest.fixture(autouse=True)
def _watch_locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """S002-33: no lock is ever held over an await, in any test."""
    with no_lock_over_an_await(monkeypatch) as broken:
        yield
    assert not broken, broken[0]
