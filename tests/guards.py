"""What every test is watched for: a lock held over an await, and anything left behind by a session."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from time import monotonic
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tests.deadlines import HANG_S


class WatchedLock:
    """A lock that knows which thread holds it."""

    held: ClassVar[set[tuple[int, WatchedLock]]] = set()

    def __init__(self, made_by: str, real: Any) -> None:
        self.made_by = made_by
        self._real = real

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        taken = self._real.acquire(*args, **kwargs)
        if taken:
            WatchedLock.held.add((threading.get_ident(), self))
        return taken

    def release(self) -> None:
        self._real.release()
        WatchedLock.held.discard((threading.get_ident(), self))

    def locked(self) -> bool:
        return bool(self._real.locked())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *details: object) -> None:
        self.release()


@contextlib.contextmanager
def no_lock_over_an_await(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Watch every lock that our code makes: when a step of the loop ends, its thread must hold none of them."""
    broken: list[str] = []
    real_lock, real_run, real_init = threading.Lock, asyncio.Handle._run, asyncio.Lock.__init__

    def make_lock() -> Any:
        made_by = sys._getframe(1).f_globals.get("__name__", "")
        return WatchedLock(made_by, real_lock()) if made_by.startswith("tertulia") else real_lock()

    def run(self: asyncio.Handle) -> None:
        real_run(self)
        if not WatchedLock.held:
            return  # nearly always, and this is every step of every loop
        mine = [lock for thread, lock in tuple(WatchedLock.held) if thread == threading.get_ident()]
        broken.extend(f"a lock made in {lock.made_by} is held over an await" for lock in mine)

    def refuse(self: asyncio.Lock) -> None:
        made_by = sys._getframe(1).f_globals.get("__name__", "")
        if made_by.startswith("tertulia"):
            broken.append(f"{made_by} makes an asyncio.Lock, whose only use is to be held over an await")
        real_init(self)

    monkeypatch.setattr(threading, "Lock", make_lock)
    monkeypatch.setattr(asyncio.Handle, "_run", run)
    monkeypatch.setattr(asyncio.Lock, "__init__", refuse)
    try:
        yield broken
    finally:
        WatchedLock.held.clear()


class SessionWatch:
    """Sees every session that a test makes, and what is left of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, patience_s: float = HANG_S) -> None:
        """`patience_s`: how long what is left may take to go."""
        self._patience_s = patience_s
        module: ModuleType = import_module("tertulia.session.assembly")
        real = module.assemble_session
        self._parts: list[Any] = []

        def assemble(*args: Any, **kwargs: Any) -> Any:
            parts = real(*args, **kwargs)
            self._parts.append(parts)
            return parts

        monkeypatch.setattr(module, "assemble_session", assemble)
        self._fds = _open_fds()

    def check(self) -> None:
        conversations = [conversation for parts in self._parts for conversation in _check_empty(parts)]
        self._parts.clear()
        left = self._left_in_the_end(lambda: [made for made in conversations if made() is not None])
        assert not left, "a conversation outlived its session"
        more = self._left_in_the_end(lambda: max(_open_fds() - self._fds, 0))
        assert not more, f"{more} file descriptors were left open"

    def _left_in_the_end(self, left: Callable[[], Any]) -> Any:
        """What is left once threads that just ended are gone: they hold their tracebacks and files a little longer, on
        a busy machine for seconds.
        """
        deadline = monotonic() + self._patience_s
        while (found := left()) and monotonic() < deadline:
            gc.collect()
            threading.Event().wait(0.01)
        return found


def _check_empty(parts: Any) -> list[weakref.ref[Any]]:
    """Nothing of a session runs any more; its conversations, in a way that does not keep them."""
    assert len(parts.registry) == 0, "a task is left in the registry"
    assert not parts.scheduler.active, "the slot is still taken"
    assert len(parts.nursery) == 0, "a coroutine is left running"
    return [weakref.ref(conversation) for conversation in parts.conversations]


def _open_fds() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.fixture(autouse=True)
def watch_sessions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """S002-10: whatever a test does with sessions, nothing of them is left. Imported by the conftest of each stage."""
    if request.cls is not None:
        # A hypothesis machine: thousands of sessions, each of which it checks itself.
        yield
        return
    watch, failures = SessionWatch(monkeypatch), request.session.testsfailed
    log = request.getfixturevalue("caplog") if request.config.pluginmanager.hasplugin("logging") else None
    yield
    # Tracebacks keep everything alive: those that were logged go, and a failed test is failure enough.
    if log is not None:
        log.get_records("call").clear()
    if request.session.testsfailed == failures:
        watch.check()
