"""The program between us and a command that bubblewrap does not hold: small, of one thread, and there to clean up.

It is started once, as a process of its own. Each command has a keeper, forked here, and the keeper forks the command. A
keeper adopts whatever its descendants orphan, so that it can end them all: when the command ends, when it is told to,
and when its line to us breaks because we were killed. Forking here is safe and cheap where in a large process with
many threads it is neither. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import termios
from contextlib import suppress
from typing import Any, NoReturn

from tertulia.sandbox.landlock import drop_capabilities, rehearse, restrict
from tertulia.sandbox.process_tree import count_tasks, descendants
from tertulia.sandbox.removal import remove_tree

_SET_CHILD_SUBREAPER = 36
_FDS = 5
_WATCH_PERIOD_MS = 100
_NOT_BEGUN = 125
_STAY = 2
"""One at work and one that waits: commands that come one after the other make nobody fork a keeper."""
_TAKEN, _READY = b"t", b"r"
_TERMINATE = b"T"
_OURS_TO_IGNORE = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""Sent by a terminal to everybody in front of it, and meant for the command."""
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *_OURS_TO_IGNORE)

_REHEARSED = '{"argv": ["true"], "environment": {"A": "b"}, "rlimits": [[1, 2, 3]], "restrict": null}'
"""Read while nothing is asked, so that a fork has its own copy of what reads before it is needed."""

_libc = ctypes.CDLL(None, use_errno=True)


def serve(line: int, *, confines: bool) -> None:
    """Have a command ready for the next request until the other side is gone.

    A request is five descriptors: itself, 0, 1, 2, and a control. The process that will be the command takes it from
    the line by itself: it was forked before, and has done before whatever does not depend on the request.
    """
    for number in _OURS_TO_IGNORE:
        signal.signal(number, signal.SIG_IGN)
    # Keepers are buried by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _let_go_of_streams()
    gc.freeze()
    _Pool(socket.socket(fileno=line), confines).run()


class _Pool:
    """Keepers: some that stay, and as many more as there are commands at once."""

    def __init__(self, requests: socket.socket, confines: bool) -> None:
        self._requests = requests
        self._confines = confines
        self._poll = select.poll()
        # Without events: only that the other side has hung up.
        self._poll.register(requests, 0)
        self._ready: dict[int, bool] = {}

    def run(self) -> None:
        """Until the other side has hung up; the keepers hear of it themselves."""
        for _ in range(_STAY):
            self._hire(stays=True)
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._requests.fileno():
                    return
                self._hear(fd)
            if not any(self._ready.values()):
                self._hire(stays=len(self._ready) < _STAY)

    def _hire(self, *, stays: bool) -> None:
        hears, tells = os.pipe()
        if os.fork() == 0:
            for fd in (hears, *self._ready):
                os.close(fd)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            _keep(self._requests, tells, self._confines)
            while stays:
                os.write(tells, _READY)
                _keep(self._requests, tells, self._confines)
            os._exit(0)
        os.close(tells)
        self._ready[hears] = True
        self._poll.register(hears, select.POLLIN)

    def _hear(self, fd: int) -> None:
        said = os.read(fd, 1)
        self._ready[fd] = said == _READY
        if not said:
            self._poll.unregister(fd)
            os.close(fd)
            del self._ready[fd]


def _keep(requests: socket.socket, tells: int, confines: bool) -> None:
    """See one command through, from before it is known to the last of its descendants."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    failure, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tells)
        os.close(ours.detach())
        _become(requests, theirs, told, confines)
    theirs.close()
    os.close(told)
    with ours:
        data, fds, _, _ = socket.recv_fds(ours, 1, 2)
    if not data:
        os._exit(0)
    os.write(tells, _TAKEN)
    written, control = fds
    request = _read(written)
    if not request["session"]:
        os.write(control, json.dumps({"leader": child}).encode() + b"\n")
    limit = _wait(child, control, request["processes"])
    code = os.waitstatus_to_exitcode(_end_all(child))
    _remove(request["temporary"])
    report = {
        "exit_code": 128 - code if code < 0 else code,
        "limit": limit,
        "failure": os.read(failure, 4096).decode("utf-8", "replace"),
    }
    with suppress(OSError):
        os.write(control, json.dumps(report).encode())
    os.close(control)
    os.close(failure)


def _read(written: int) -> dict[str, Any]:
    """The request, from its beginning: the keeper and the command have the same open file."""
    text = os.pread(written, os.fstat(written).st_size, 0)
    os.close(written)
    return json.loads(text)


def _let_go_of_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)


# ---- the command


def _become(requests: socket.socket, keeper: socket.socket, told: int, confines: bool) -> NoReturn:
    step = "confine"
    try:
        _forget_python()
        if confines:
            drop_capabilities()
            rehearse()
        json.loads(_REHEARSED)
        data, fds, _, _ = socket.recv_fds(requests, 1, _FDS)
        if not data:
            os._exit(_NOT_BEGUN)
        written, *streams, control = fds
        socket.send_fds(keeper, [data], [written, control])
        for fd in (control, requests.detach(), keeper.detach()):
            os.close(fd)
        request = _read(written)
        _prepare(request, streams)
        step = "exec"
        os.execvpe(request["argv"][0], request["argv"], request["environment"])
    except OSError as error:
        os.write(told, f"{step}:{error.errno}:{error.strerror}".encode())
    finally:
        os._exit(_NOT_BEGUN)


def _forget_python() -> None:
    for number in _CHANGED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)


def _prepare(request: dict[str, Any], streams: list[int]) -> None:
    if request["session"]:
        os.setsid()
    else:
        os.setpgid(0, 0)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if request["lent"]:
        # From behind, the kernel would stop us for this.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        os.tcsetpgrp(0, os.getpgrp())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])
    os.chdir(request["cwd"])
    for kind, soft, hard in request["rlimits"]:
        _, now = resource.getrlimit(kind)
        if now == resource.RLIM_INFINITY or hard < now:
            resource.setrlimit(kind, (soft, hard))
    rules = request["restrict"]
    if rules is not None:
        program = bytes.fromhex(rules["program"])
        restrict(
            rules["writable"],
            rules["masked"],
            rules["protected"],
            rules["names"],
            network=rules["network"],
            program=program,
            machine=rules["machine"],
        )


# ---- the end


def _remove(temporary: str | None) -> None:
    """The directory that was only the command's. Here, because we are still there when the product is not."""
    if temporary is None:
        return
    try:
        # Mostly it is empty, and this is quicker.
        os.rmdir(temporary)
    except OSError:
        remove_tree(temporary)


def _wait(child: int, control: int, processes: int | None) -> str | None:
    """Until the command has ended, or shall. The limit for which it shall."""
    poll, ended = select.poll(), os.pidfd_open(child)
    poll.register(control, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(None if processes is None else _WATCH_PERIOD_MS)]
        if ready == [control] and _said(control) == _TERMINATE:
            os.kill(child, signal.SIGTERM)
        elif ready:
            os.close(ended)
            return None
        elif processes is not None and count_tasks(os.getpid(), processes) > processes:
            os.close(ended)
            return "processes"


def _said(control: int) -> bytes:
    try:
        return os.read(control, 1)
    except OSError:
        return b""


def _end_all(child: int) -> int:
    """Kill and bury everybody who is left; how the command itself ended."""
    ended = 0
    how = os.WNOHANG
    while True:
        try:
            # Where one is waited for, all go that are ready: to look again after each would take for ever.
            pid, status = os.waitpid(-1, how)
            while pid:
                ended = status if pid == child else ended
                pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        for pid, _ in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        how = 0
