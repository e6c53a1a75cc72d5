"""The processes of a parallel run, forked from one that has imported every test.

Imports are four fifths of what a process takes before its first test (12 of 15 seconds), and most of its memory. Here
they are made once, and the workers share them. The first worker is started as ever, meanwhile: of the lines that run
when a module is imported, coverage sees those that it imports.

Run as a program, this is the process that forks (`fork`), or what xdist starts for a worker (`join`): it hands over
its streams, and ends when the worker does.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FEWEST = 3
"""Of fewer workers each imports for itself: it would take as long."""
_END_WITH_PARENT = 1


def fork_workers(specs: list[Any], paths: list[str], folder: Path) -> None:
    """Have all workers but the first forked. The tests are those in `paths`, as seen from `folder`."""
    if len(specs) < FEWEST:
        return
    place = tempfile.mkdtemp(prefix="workers-")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(f"{place}/socket")
        listening.listen(len(specs))
        numbers = map(str, (listening.fileno(), os.getpid()))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.workers", "fork", *numbers, *paths],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
        )
    atexit.register(_end, process, place)
    for spec in specs[1:]:
        spec.python = shlex.join([sys.executable, "-S", "-E", __file__, "join", place])


def _end(process: subprocess.Popen[bytes], place: str) -> None:
    """The workers end with it: also one that hangs, of which xdist kills only what it started."""
    process.kill()
    process.wait()
    os.unlink(f"{place}/socket")
    os.rmdir(place)


def _join(place: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(f"{place}/socket")
        socket.send_fds(connection, [b"1"], [0, 1, 2])
        os.closerange(0, 2)
        connection.recv(1)


def _serve(listening: socket.socket, owner: int, paths: list[str]) -> None:
    """Import the tests and fork workers until the owner ends. In a worker it returns when that has done its work."""
    # What interrupts a run interrupts its workers; this process ends after them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_tests(paths)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while os.getppid() == owner:
        if not select.select([listening], [], [], 5)[0]:
            continue
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _work(connection)
            return
        connection.close()


def _import_tests(paths: list[str]) -> None:
    """As the collection does it; what is wrong with a test is reported by the workers."""
    import pytest

    class Imports:
        """Leaves the collection of a module at its import. A worker collects for itself: pytest notes generated ids
        with the marks of a test, and would escape them a second time.
        """

        @pytest.hookimpl(tryfirst=True)
        def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
            return []

    # With the real streams (`-s`): a module that notes them when it is imported finds them open in every worker.
    output = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        pytest.main(["--collect-only", "-qq", "-s", "-p", "no:cacheprovider", *paths], plugins=[Imports()])
    os.dup2(output, 1)
    os.close(output)
    gc.collect()
    gc.freeze()


def _work(connection: socket.socket) -> None:
    """Be the worker whose streams come over the connection; that stays open as long as this process lives."""
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), os.fdopen(1, "w", closefd=False)
    sys.argv = ["-c"]
    # The first line is the program that execnet sends to any Python.
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})  # noqa: S102, S307
    connection.close()


if __name__ == "__main__":
    act, *words = sys.argv[1:]
    if act == "join":
        _join(words[0])
    else:
        _serve(socket.socket(fileno=int(words[0])), int(words[1]), words[2:])
