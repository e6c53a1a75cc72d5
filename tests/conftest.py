"""What every test starts from."""

import gc
import sys
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import settings

from tests.guards import no_lock_over_an_await

# A slow machine is not a failing test: the deadline is pytest-timeout's, for the whole test.
settings.register_profile("tertulia", deadline=None, print_blob=True)
settings.load_profile("tertulia")


_FROM_OUTSIDE = frozenset(("agents", "brokered", "conformance", "contract", "docs", "durability", "privacy"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, the longest begin first, so that none of them is waited for at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=_patience, reverse=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Chance, long loops and the whole seen from outside count for no coverage: what they take today may not be taken
    tomorrow, and it doubles what they cost. (pytest-cov's own `no_cover` has no effect in a process of a parallel run.)
    """
    tracer = sys.gettrace()
    aside = (
        item.get_closest_marker("hypothesis")
        or item.get_closest_marker("slow")
        or item.path.parent.name in _FROM_OUTSIDE
    )
    if not aside or not type(tracer).__module__.startswith("coverage"):
        return (yield)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


def pytest_collection_finish() -> None:
    """What was imported stays: whoever collects garbage in a test, or is collected for, need not walk it again."""
    gc.collect()
    gc.freeze()


def _patience(item: pytest.Item) -> float:
    """How long a test says that it may take; all that say nothing are alike."""
    said = item.get_closest_marker("timeout")
    return said.args[0] if said is not None and said.args else 0


_homes = count()


@pytest.fixture(autouse=True)
def _a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test writes where the user's sessions lie, and none finds another one's. Made only if it is used."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path_factory.getbasetemp() / f"tertulia-home-{next(_homes)}"))


@pytest.fixture(autouse=True)
def _watch_locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """S002-33: no lock is ever held over an await, in any test."""
    with no_lock_over_an_await(monkeypatch) as broken:
        yield
    assert not broken, broken[0]
