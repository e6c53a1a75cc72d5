"""What every test starts from."""

import contextlib
import gc
import os
import pkgutil
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.distribution import FileScheduling, longest_first
from tests.guards import no_lock_over_an_await
from tests.tables import made
from tests.thorough import THOROUGH, grows, times
from tests.workers import fork_workers

# A slow machine is not a failing test: the deadline is pytest-timeout's, for the whole test.
# `make test` always tries the same examples; `make torture` throws dice, and more often.
settings.register_profile(
    "tertulia", deadline=None, print_blob=True, max_examples=times(1_000, 50), derandomize=not THOROUGH
)
settings.load_profile("tertulia")

TESTS = Path(__file__).parent
COUNTED = ("policy", "scheduler", "history", "rollout")
"""Stages whose every branch is taken by their own tests."""
EVERYTHING_COUNTS = bool(os.environ.get("TERTULIA_COVERAGE"))
"""`make coverage` sets it: what all tests together take, of all stages."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, the longest files begin first, so that none of them is waited for at the end."""
    if THOROUGH:
        left_out = [item for item in items if not grows(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if grows(item)]
    if hasattr(config, "workerinput"):
        longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    """`--dist loadfile` knows groups of files, and an order."""
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Workers share what they import."""
    fork_workers(specs, config.args, config.invocation_params.dir)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What counts is imported while it is measured; all the rest, which takes much longer, is not.

    Modules and items stay: to look for garbage among them again and again took a fifth of the time.
    """
    gc.disable()
    for stage in COUNTED:
        for module in pkgutil.walk_packages(import_module(f"tertulia.{stage}").__path__, f"tertulia.{stage}."):
            import_module(module.name)
    try:
        with unmeasured():
            return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Only the tests of a stage that is held to full coverage are measured, and of these neither chance nor long loops:
    what they take today may not be taken tomorrow. Being measured doubles what a test costs.
    (pytest-cov's own `no_cover` has no effect in a process of a parallel run.)
    """
    by_chance = item.get_closest_marker("hypothesis") or item.get_closest_marker("slow")
    if EVERYTHING_COUNTS or (item.path.relative_to(TESTS).parts[0] in COUNTED and not by_chance):
        return (yield)
    with unmeasured():
        return (yield)


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Without coverage's tracer, in this thread and in those that are started meanwhile."""
    tracer = sys.gettrace()
    if EVERYTHING_COUNTS or not type(tracer).__module__.startswith("coverage"):
        yield
        return
    of_threads = threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        yield
    finally:
        threading.settrace(of_threads)
        sys.settrace(tracer)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What is there before a test stays out of its collections of garbage.

    Many tests collect, to see that nothing is left, and would walk all that hundreds of tests before them imported and
    cached: it was half of the time of a whole run.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Large values of a `parametrize` are made for their test alone."""
    pyfuncitem.funcargs.update(made(pyfuncitem.funcargs))


_homes = count()
_places = count()


@pytest.fixture(autouse=True)
def _a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A test starts in an empty directory. In that of the project every session would compare 2,500 files with the
    index of git, to tell its conversation whether something is changed: a third of the time of a whole run.
    """
    place = tmp_path_factory.getbasetemp() / f"place-{next(_places)}"
    place.mkdir()
    monkeypatch.chdir(place)


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
