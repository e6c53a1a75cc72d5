"""The launcher: a small program of one thread between the product and commands that bubblewrap does not hold.

Nothing in the kernel ends a tree of processes with the one that started it, outside a pid namespace. So three processes
stand above each command, and any one that is left ends the tree: its keeper (`keeper.py`), the launcher, the guardian.
The launcher is started once and forks the keepers, because forking a large process with many threads is neither safe
nor cheap. What a killed keeper leaves behind the launcher ends. The guardian is no child of the product, is in a
session of its own and does nothing but wait: a kill of the product with all its children, its group or its session
does not reach it. It adopts what a killed launcher and killed keepers leave behind, and ends it. Standard library only.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Container
from contextlib import suppress
from typing import NoReturn

from tertulia.sandbox.launcher.keeper import READY, keep
from tertulia.sandbox.launcher.next_command import TERMINAL_SIGNALS, KeeperLines, KeeperTerms
from tertulia.sandbox.launcher.process_namespace import find_namespace_support
from tertulia.sandbox.libc import libc
from tertulia.sandbox.process_tree import children, descendants

_STAYING_KEEPERS = 2
"""One at work and one that waits: for commands that come one after the other no keeper is forked."""
_SET_CHILD_SUBREAPER = 36
_ROUND_S = 0.002
_ORDERLY_ROUNDS = 1000
"""How long keepers have to end by themselves: they also remove what their commands left."""
_ROUNDS_AFTER_A_KILL = 5
_IGNORED_BY_GUARDIAN = (*TERMINAL_SIGNALS, signal.SIGTERM, signal.SIGHUP)


def serve(line: int, gone: int, *, confines: bool, in_front: bool = False, open_files: int = 0) -> NoReturn:
    """Have a command ready for the next request until the other side of `line` is gone; `gone` ends when all has.

    A request is five descriptors: itself, 0, 1, 2, and a control. The process that will be the command takes it from
    the line by itself. `in_front`: of a user's terminal, where a command is in no pid namespace. Where the program that
    started us raised its soft limit of open files, `open_files` is what it was, and what commands get.
    """
    if open_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    _run_guardian(line, gone, lambda line, alive: _launch(line, alive, confines, in_front))


# ---- the launcher


def _launch(line: int, alive: int, confines: bool, in_front: bool) -> None:
    _adopt_orphans()
    support = find_namespace_support(confines=confines)
    for number in TERMINAL_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # Keepers are reaped by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _close_streams()
    gc.freeze()
    early = confines and bool(support.kind) and not in_front
    _KeeperPool(socket.socket(fileno=line), alive, KeeperTerms(confines, support, early)).run()


class _KeeperPool:
    """Keepers: some that stay, and as many more as there are commands at once."""

    def __init__(self, requests: socket.socket, alive: int, terms: KeeperTerms) -> None:
        self._requests, self._alive, self._terms = requests, alive, terms
        self._poll = select.poll()
        # Without events: only that the other side has hung up.
        self._poll.register(requests, 0)
        self._poll.register(alive, 0)
        self._ready: dict[int, bool] = {}
        self._keepers: dict[int, int] = {}

    def run(self) -> None:
        """Until the product or the guardian has hung up."""
        for _ in range(_STAYING_KEEPERS):
            self._fork_keeper(stays=True)
        while True:
            for fd, _ in self._poll.poll():
                if fd in (self._requests.fileno(), self._alive):
                    self._end()
                    return
                self._read_keeper(fd)
            if not any(self._ready.values()):
                self._fork_keeper(stays=len(self._ready) < _STAYING_KEEPERS)

    def _fork_keeper(self, *, stays: bool) -> None:
        reading, writing = os.pipe()
        keeper = os.fork()
        if keeper == 0:
            for fd in (reading, *self._ready):
                os.close(fd)
            _adopt_orphans()
            lines = KeeperLines(self._requests, self._alive, writing)
            confinement = keep(lines, self._terms)
            while stays:
                os.write(writing, READY)
                confinement = keep(lines, self._terms, confinement)
            os._exit(0)
        os.close(writing)
        self._ready[reading], self._keepers[reading] = True, keeper
        self._poll.register(reading, select.POLLIN)

    def _read_keeper(self, fd: int) -> None:
        state = os.read(fd, 1)
        self._ready[fd] = state == READY
        if not state:
            self._poll.unregister(fd)
            os.close(fd)
            del self._ready[fd], self._keepers[fd]
            # A keeper that was killed leaves its command to us.
            _end_strays({*self._keepers.values()})

    def _end(self) -> None:
        """Keepers that live end by themselves, with their commands; those that were killed have left us theirs."""
        for fd in [*self._ready]:
            while os.read(fd, 1):
                pass
        _end_strays(())


def _close_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)


# ---- the guardian


def _adopt_orphans() -> None:
    """From now on a process below this one that loses its parent becomes its child."""
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _run_guardian(line: int, gone: int, launch: Callable[[int, int], None]) -> NoReturn:
    """Have `launch(line, alive)` run in a child, and end all that is left below it when that child has ended.

    `alive` reads as ended when the guardian has. `gone` is told the two processes, and ends when nothing is left.
    """
    if os.fork():
        # Its parent is no longer the product.
        os._exit(0)
    _adopt_orphans()
    alive, living = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        os.close(living)
        os.close(gone)
        launch(line, alive)
        os._exit(0)
    os.setsid()
    os.close(line)
    os.close(alive)
    for number in _IGNORED_BY_GUARDIAN:
        signal.signal(number, signal.SIG_IGN)
    with suppress(BrokenPipeError):
        # The product may have been killed by now: then the launcher ends at once.
        os.write(gone, f"{os.getpid()} {launcher}\n".encode())
    while os.waitpid(-1, 0)[0] != launcher:
        pass
    os.close(living)
    _reap(_ORDERLY_ROUNDS)
    _end_strays(())
    os._exit(0)


def _end_strays(keep: Container[int]) -> None:
    """Kill the children of this process that are not to be kept, with all below them, until none is left.

    One that took on another user's rights cannot be killed by us, and is left.
    """
    beyond_us: set[int] = set()
    while strays := [pid for pid in children(os.getpid()) if pid not in keep and pid not in beyond_us]:
        for stray in strays:
            for pid in (stray, *(pid for pid, _ in descendants(stray))):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                except PermissionError:
                    beyond_us.add(pid)
        _reap(_ROUNDS_AFTER_A_KILL)


def _reap(rounds: int) -> None:
    """Wait for children that end meanwhile, unless the kernel does that; returns at once when none is left."""
    with suppress(ChildProcessError):
        for _ in range(rounds):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(_ROUND_S)
