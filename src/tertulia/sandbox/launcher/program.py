"""The program between us and a command that bubblewrap does not hold: small, of one thread, and there to clean up.

It is started once, below a guardian. Each command has a keeper, forked here, and the keeper forks the command. A keeper
adopts whatever its descendants orphan, so that it can end them all: when the command ends, when it is told to, and when
its line to the product or to the guardian breaks because they were killed. What a killed keeper leaves behind the
launcher ends. Forking here is safe and cheap where in a large process with many threads it is neither. Standard library
only.
"""

from __future__ import annotations

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

from tertulia.sandbox.directory_removal import remove_tree
from tertulia.sandbox.launcher.guardian import adopt_orphans, end_strays, run_guardian
from tertulia.sandbox.launcher.landlock import drop_capabilities, rehearse, restrict
from tertulia.sandbox.launcher.process_namespace import NamespaceSupport, find_namespace_support, hold, split
from tertulia.sandbox.limits.usage import UsageMeter
from tertulia.sandbox.process_tree import descendants

_FDS = 5
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


def serve(line: int, gone: int, *, confines: bool, open_files: int = 0) -> NoReturn:
    """Have a command ready for the next request until the other side of `line` is gone; `gone` ends when all has.

    A request is five descriptors: itself, 0, 1, 2, and a control. The process that will be the command takes it from
    the line by itself: it was forked before, and has done before whatever does not depend on the request. Where the
    program that started us raised its soft limit of open files, `open_files` is what it was, and what commands get.
    """
    if open_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    run_guardian(line, gone, lambda line, alive: _launch(line, alive, confines))


def _launch(line: int, alive: int, confines: bool) -> None:
    adopt_orphans()
    found = find_namespace_support(confines=confines)
    for number in _OURS_TO_IGNORE:
        signal.signal(number, signal.SIG_IGN)
    # Keepers are buried by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _let_go_of_streams()
    gc.freeze()
    _KeeperPool(socket.socket(fileno=line), alive, confines, found).run()


class _KeeperPool:
    """Keepers: some that stay, and as many more as there are commands at once."""

    def __init__(self, requests: socket.socket, alive: int, confines: bool, found: NamespaceSupport) -> None:
        self._requests = requests
        self._alive = alive
        self._confines, self._found = confines, found
        self._poll = select.poll()
        # Without events: only that the other side has hung up.
        self._poll.register(requests, 0)
        self._poll.register(alive, 0)
        self._ready: dict[int, bool] = {}
        self._keepers: dict[int, int] = {}

    def run(self) -> None:
        """Until the product or the guardian has hung up."""
        for _ in range(_STAY):
            self._hire(stays=True)
        while True:
            for fd, _ in self._poll.poll():
                if fd in (self._requests.fileno(), self._alive):
                    self._end()
                    return
                self._hear(fd)
            if not any(self._ready.values()):
                self._hire(stays=len(self._ready) < _STAY)

    def _hire(self, *, stays: bool) -> None:
        hears, tells = os.pipe()
        keeper = os.fork()
        if keeper == 0:
            for fd in (hears, *self._ready):
                os.close(fd)
            adopt_orphans()
            lines = _Lines(self._requests, self._alive, tells)
            _keep(lines, self._confines, self._found)
            while stays:
                os.write(tells, _READY)
                _keep(lines, self._confines, self._found)
            os._exit(0)
        os.close(tells)
        self._ready[hears], self._keepers[hears] = True, keeper
        self._poll.register(hears, select.POLLIN)

    def _hear(self, fd: int) -> None:
        said = os.read(fd, 1)
        self._ready[fd] = said == _READY
        if not said:
            self._poll.unregister(fd)
            os.close(fd)
            del self._ready[fd], self._keepers[fd]
            # A keeper that was killed leaves its command to us.
            end_strays({*self._keepers.values()})

    def _end(self) -> None:
        """Keepers that live end by themselves, with their commands; those that were killed have left us theirs."""
        for fd in [*self._ready]:
            while os.read(fd, 1):
                pass
        end_strays(())


class _Lines:
    """What a keeper hears and tells by, besides each command's control."""

    def __init__(self, requests: socket.socket, alive: int, tells: int) -> None:
        self.requests, self.alive, self.tells = requests, alive, tells
        # Told of every child that ends: also of those whom it has adopted.
        self.ended, writing = os.pipe()
        os.set_blocking(self.ended, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)


def _keep(lines: _Lines, confines: bool, found: NamespaceSupport) -> None:
    """See one command through, from before it is known to the last of its descendants."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    failure, told = os.pipe()
    held, holds = os.pipe()
    child = os.fork()
    if child == 0:
        for fd in (lines.tells, ours.detach(), holds):
            os.close(fd)
        _become(lines, theirs, held, told, confines, found)
    theirs.close()
    os.close(told)
    os.close(held)
    with ours:
        data, fds, _, _ = socket.recv_fds(ours, 64, 2)
    if not data:
        os._exit(0)
    os.write(lines.tells, _TAKEN)
    written, control = fds
    request = _read(written)
    os.close(written)
    first, program = map(int, data.split())
    if first:
        # When the one between us is gone, both are children of ours.
        os.waitpid(child, 0)
        hold(holds)
        child = program
    if not request["session"]:
        os.write(control, json.dumps({"leader": child}).encode() + b"\n")
    roots = request["restrict"]["writable"] if request["restrict"] else ()
    limits = request["limits"]
    meter = UsageMeter(os.getpid(), **limits, roots=roots, ours=first) if any(limits.values()) else None
    watch = _Watch(child, control, lines, meter)
    limit = watch.run()
    code = os.waitstatus_to_exitcode(_end_all(child, watch.status))
    _remove(request["temporary"])
    if meter is not None:
        meter.conclude()
    report = {
        "exit_code": 128 - code if code < 0 else code,
        "limit": limit,
        "written": 0 if meter is None else meter.written,
        "failure": os.read(failure, 4096).decode("utf-8", "replace"),
        "namespace": found._asdict(),
    }
    with suppress(OSError):
        os.write(control, json.dumps(report).encode())
    for fd in (control, failure, holds):
        os.close(fd)


def _read(written: int) -> dict[str, Any]:
    """The request, from its beginning: the keeper and the command have the same open file."""
    return json.loads(os.pread(written, os.fstat(written).st_size, 0))


def _let_go_of_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)


# ---- the command


def _become(
    lines: _Lines, keeper: socket.socket, held: int, told: int, confines: bool, found: NamespaceSupport
) -> NoReturn:
    """The command itself; in a namespace of its own a child of this process, which is gone then."""
    step = "confine"
    try:
        _forget_python()
        if confines:
            rehearse()
        json.loads(_REHEARSED)
        written, *streams, control = _take(lines)
        request = _read(written)
        first = program = 0
        try:
            if found.kind and request["pid_namespace"]:
                first, program = split(found.kind, held, own_proc=not request["machines_proc"])
        finally:
            if program or not first:
                socket.send_fds(keeper, [b"%d %d" % (first, program)], [written, control])
        if program:
            os._exit(0)
        for fd in (written, control, held, lines.requests.detach(), keeper.detach()):
            os.close(fd)
        if confines:
            # Not sooner: making a namespace takes one, or gives some.
            drop_capabilities()
        _prepare(request, streams)
        step = "exec"
        os.execvpe(request["argv"][0], request["argv"], request["environment"])
    except OSError as error:
        os.write(told, f"{step}:{error.errno}:{error.strerror}".encode())
    finally:
        os._exit(_NOT_BEGUN)


def _take(lines: _Lines) -> list[int]:
    """The next request, which others wait for too; ends this process when there will be none."""
    poll = select.poll()
    poll.register(lines.requests, select.POLLIN)
    poll.register(lines.alive, 0)
    while True:
        if any(fd == lines.alive for fd, _ in poll.poll()):
            os._exit(_NOT_BEGUN)
        with suppress(BlockingIOError):
            data, fds, _, _ = socket.recv_fds(lines.requests, 1, _FDS, socket.MSG_DONTWAIT)
            if not data:
                os._exit(_NOT_BEGUN)
            return fds


def _forget_python() -> None:
    signal.set_wakeup_fd(-1)
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
            hidden=rules["hidden"],
            shown=rules["shown"],
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


class _Watch:
    """Until the command has ended, or shall."""

    def __init__(self, child: int, control: int, lines: _Lines, meter: UsageMeter | None) -> None:
        self.status: int | None = None
        """How it ended by itself."""
        self._child, self._control, self._lines, self._meter = child, control, lines, meter
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(lines.ended, select.POLLIN)
        self._poll.register(lines.alive, 0)

    def run(self) -> str | None:
        """The limit for which it shall end, if that is why."""
        while True:
            pause_ms = None if self._meter is None else self._meter.pause_s * 1000
            ready = {fd for fd, _ in self._poll.poll(pause_ms)}
            self._bury()
            if self.status is not None or self._lines.alive in ready:
                return None
            if self._control in ready:
                if _said(self._control) != _TERMINATE:
                    return None
                os.kill(self._child, signal.SIGTERM)
            elif not ready and self._meter is not None and (limit := self._meter.look()) is not None:
                return limit

    def _bury(self) -> None:
        """At once, because an adopted zombie counts as a process of its user."""
        with suppress(BlockingIOError):
            os.read(self._lines.ended, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child:
                    self.status = ended[1]


def _said(control: int) -> bytes:
    try:
        return os.read(control, 1)
    except OSError:
        return b""


def _end_all(child: int, status: int | None) -> int:
    """Kill and bury everybody who is left; how the command itself ended, where that is not known already."""
    ended = status or 0
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
