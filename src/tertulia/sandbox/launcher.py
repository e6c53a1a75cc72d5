"""The program between us and a command that bubblewrap does not hold: small, of one thread, and there to clean up.

It is started once, as a process of its own. For each command it forks a keeper, and the keeper forks the command. The
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

from tertulia.sandbox.landlock import restrict
from tertulia.sandbox.process_tree import count_tasks, descendants

_SET_CHILD_SUBREAPER = 36
_FDS = 5
_WATCH_PERIOD_MS = 100
_NOT_BEGUN = 125
_OURS_TO_IGNORE = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""Sent by a terminal to everybody in front of it, and meant for the command."""
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *_OURS_TO_IGNORE)

_libc = ctypes.CDLL(None, use_errno=True)


def serve(line: int) -> None:
    """Have a keeper ready for the next request until the other side is gone.

    A request is five descriptors: itself, 0, 1, 2, and a control. The keeper takes it from the line by itself, and has
    forked its command before, so that neither fork is waited for.
    """
    for number in _OURS_TO_IGNORE:
        signal.signal(number, signal.SIG_IGN)
    # Keepers are buried by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    requests = socket.socket(fileno=line)
    taken = b"1"
    while taken:
        hears, tells = os.pipe()
        if os.fork() == 0:
            os.close(hears)
            _keep(requests, tells)
        os.close(tells)
        taken = os.read(hears, 1)
        os.close(hears)


def _keep(requests: socket.socket, tells: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    failure, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(requests.detach())
        os.close(ours.detach())
        _become(theirs, told)
    data, fds, _, _ = socket.recv_fds(requests, 1, _FDS)
    if not data:
        os.kill(child, signal.SIGKILL)
        os._exit(0)
    os.write(tells, data)
    socket.send_fds(ours, [data], fds)
    written, *streams, control = fds
    _let_go([told, tells, requests.detach(), ours.detach(), theirs.detach(), *streams])
    with open(written, "rb"):
        # From its beginning, wherever the command is with it: both have the same open file.
        processes = json.loads(os.pread(written, os.fstat(written).st_size, 0))["processes"]
    limit = _wait(child, control, processes)
    code = os.waitstatus_to_exitcode(_end_all(child))
    report = {
        "exit_code": 128 - code if code < 0 else code,
        "limit": limit,
        "failure": os.read(failure, 4096).decode("utf-8", "replace"),
    }
    with suppress(OSError):
        os.write(control, json.dumps(report).encode())
    os._exit(0)


def _let_go(fds: list[int]) -> None:
    """Of the command's ends, and of the standard streams that we have ourselves."""
    for fd in fds:
        os.close(fd)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)


# ---- the command


def _become(line: socket.socket, told: int) -> NoReturn:
    step = "confine"
    try:
        data, fds, _, _ = socket.recv_fds(line, 1, _FDS)
        if not data:
            os._exit(_NOT_BEGUN)
        written, *streams, control = fds
        os.close(control)
        with open(written, "rb"):
            request = json.loads(os.pread(written, os.fstat(written).st_size, 0))
        _prepare(request, streams)
        step = "exec"
        os.execvpe(request["argv"][0], request["argv"], request["environment"])
    except OSError as error:
        os.write(told, f"{step}:{error.errno}:{error.strerror}".encode())
    finally:
        os._exit(_NOT_BEGUN)


def _prepare(request: dict[str, Any], streams: list[int]) -> None:
    for number in _CHANGED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    if request["session"]:
        os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    for kind, value in request["rlimits"]:
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or value < hard:
            resource.setrlimit(kind, (value, value))
    rules = request["restrict"]
    if rules is not None:
        program = bytes.fromhex(rules["program"])
        restrict(
            rules["writable"], rules["masked"], network=rules["network"], program=program, machine=rules["machine"]
        )


# ---- the end


def _wait(child: int, control: int, processes: int | None) -> str | None:
    """Until the command has ended, or shall. The limit for which it shall."""
    poll, ended = select.poll(), os.pidfd_open(child)
    poll.register(control, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while not poll.poll(None if processes is None else _WATCH_PERIOD_MS):
        if processes is not None and count_tasks(os.getpid(), processes) > processes:
            return "processes"
    return None


def _end_all(child: int) -> int:
    """Kill and bury everybody who is left; how the command itself ended."""
    ended = 0
    while True:
        for pid, _ in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return ended
        if pid == child:
            ended = status
