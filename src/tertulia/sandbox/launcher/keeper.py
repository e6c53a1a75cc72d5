"""The keeper of one command: it forks the process that becomes the command, and ends all of its processes.

A keeper adopts whatever its descendants orphan, so that it can end them all: when the command ends, when the product
asks for it, and when its line to the product or to the guardian breaks because they were killed. The process that
becomes the command is forked before there is a request, and does before whatever does not depend on one: in the
Landlock tier it already stands in a pid namespace of its own, without capabilities. It serves one request, and its
namespace ends with it. Standard library only.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import socket
import termios
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from tertulia.sandbox.directory_removal import remove_tree
from tertulia.sandbox.launcher.landlock import drop_capabilities, rehearse, restrict
from tertulia.sandbox.launcher.process_namespace import NamespaceSupport, hold, split
from tertulia.sandbox.limits.usage import UsageMeter
from tertulia.sandbox.process_tree import descendants

TAKEN, READY = b"t", b"r"
"""What a keeper tells the launcher: it has a command now; it waits for the next."""
TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""Sent by a terminal to every process in front of it, and meant for the command."""

_FDS = 5
_NOT_BEGUN = 125
_TERMINATE = b"T"
_GO = b"g"
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *TERMINAL_SIGNALS)

_SAMPLE_REQUEST = '{"argv": ["true"], "environment": {"A": "b"}, "rlimits": [[1, 2, 3]], "restrict": null}'
"""Parsed before there is a request, so that a fork has its own copy of the parser's memory before it is needed."""


class KeeperTerms(NamedTuple):
    """What holds for all commands of a launcher."""

    confines: bool
    """Each command is restricted by Landlock, and has no capabilities."""
    namespace: NamespaceSupport
    early: bool
    """Every request wants a pid namespace with a `/proc` of its own: it is made before the request comes."""


class KeeperLines:
    """The descriptors of a keeper, besides those of its command."""

    def __init__(self, requests: socket.socket, alive: int, launcher: int) -> None:
        self.requests, self.alive, self.launcher = requests, alive, launcher
        # Readable after any child has ended, also an adopted one.
        self.ended, writing = os.pipe()
        os.set_blocking(self.ended, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)


def keep(lines: KeeperLines, terms: KeeperTerms) -> None:
    """Start the next command and stay until the last of its processes has ended; exits where no request will come."""
    command = _ForkedCommand(lines, terms)
    request, control = command.wait_for_request()
    os.write(lines.launcher, TAKEN)
    if not request["session"]:
        os.write(control, json.dumps({"leader": command.pid}).encode() + b"\n")
    roots = request["restrict"]["writable"] if request["restrict"] else ()
    limits = request["limits"]
    meter = UsageMeter(os.getpid(), **limits, roots=roots, ours=command.first) if any(limits.values()) else None
    command.go()
    watch = _CommandWatch(command.pid, control, lines, meter)
    limit = watch.run()
    alone = watch.status is not None and command.is_all_gone()
    status = watch.status if alone else _end_all(command.pid, watch.status)
    code = os.waitstatus_to_exitcode(status or 0)
    _remove(request["temporary"])
    if meter is not None:
        meter.conclude()
    report = {
        "exit_code": 128 - code if code < 0 else code,
        "limit": limit,
        "written": 0 if meter is None else meter.written,
        "failure": command.failure(),
        "namespace": terms.namespace._asdict(),
    }
    with suppress(OSError):
        os.write(control, json.dumps(report).encode())
    os.close(control)
    command.close()
    _end_all(command.pid, status)


class _ForkedCommand:
    """The keeper's side of the process that becomes the command."""

    def __init__(self, lines: KeeperLines, terms: KeeperTerms) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._failure, failing = os.pipe()
        held, self._holds = os.pipe()
        self._mounts = -1
        self.first = 0
        """The first process of its namespace, where it has one."""
        self.pid = os.fork()
        if self.pid == 0:
            for fd in (lines.launcher, self._socket.detach(), self._failure, self._holds):
                os.close(fd)
            _NextCommand(lines, theirs, held, terms).become(failing)
        theirs.close()
        os.close(failing)
        os.close(held)

    def wait_for_request(self) -> tuple[dict[str, Any], int]:
        """The request that it has taken, and the command's control line; exits where there will be none."""
        while True:
            data, fds, _, _ = socket.recv_fds(self._socket, 64, 2)
            if not data:
                os._exit(0)
            if fds:
                written, control = fds
                request = _read(written)
                os.close(written)
                return request, control
            self._adopt(*map(int, data.split()))

    def _adopt(self, first: int, program: int) -> None:
        """The process that was forked has made a namespace and two processes in it, and ends."""
        os.waitpid(self.pid, 0)
        hold(self._holds)
        self.first, self.pid = first, program
        with suppress(OSError):
            # Taking down its mounts takes the kernel a millisecond, for which a command's end need not wait.
            self._mounts = os.open(f"/proc/{first}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self.go()

    def go(self) -> None:
        """Let it go on: it waits for this in its new namespace, and again before the command begins.

        What it uses is measured from then on, so the first measure must have been taken before.
        """
        with suppress(OSError):
            self._socket.send(_GO)

    def failure(self) -> str:
        """Why it did not become the command: the step, the number and the text of the error; empty where it did."""
        return os.read(self._failure, 4096).decode("utf-8", "replace")

    def is_all_gone(self) -> bool:
        """Whether nothing is left in its namespace but the first process, when the command itself has been buried.

        Whatever it left would be a child of that, or below one: the kernel hands orphans over in one step.
        """
        if not self.first:
            return False
        try:
            with open(f"/proc/{self.first}/task/{self.first}/children", "rb") as file:
                return not file.read(1)
        except OSError:
            return False

    def close(self) -> None:
        """Called when all processes of the command have ended."""
        self._socket.close()
        for fd in (self._failure, self._holds, self._mounts):
            if fd >= 0:
                os.close(fd)


def _read(written: int) -> dict[str, Any]:
    """The request, from its beginning: the keeper and the command have the same open file."""
    return json.loads(os.pread(written, os.fstat(written).st_size, 0))


# ---- the process that becomes the command


class _NextCommand:
    """Prepares what it can, takes a request, and becomes the command."""

    def __init__(self, lines: KeeperLines, keeper: socket.socket, held: int, terms: KeeperTerms) -> None:
        self._lines, self._keeper, self._held, self._terms = lines, keeper, held, terms
        self._is_inside = False
        self._error: OSError | None = None
        """Why it could not prepare: told to the client whose request it takes."""

    def become(self, failing: int) -> NoReturn:
        """Errors go to `failing`, and the keeper reports them."""
        step = "confine"
        try:
            _reset_signals()
            # A request that is there already is taken at once: the next process is forked meanwhile.
            fds = _receive(self._lines, wait=False)
            if not fds:
                self._prepare_early()
                fds = _receive(self._lines, wait=True)
            request, streams = self._read_request(*fds)
            if self._terms.confines and not self._is_inside:
                drop_capabilities()
            _prepare(request, streams)
            self._wait_for_keeper()
            step = "exec"
            os.execvpe(request["argv"][0], request["argv"], request["environment"])
        except OSError as error:
            os.write(failing, f"{step}:{error.errno}:{error.strerror}".encode())
        finally:
            os._exit(_NOT_BEGUN)

    def _prepare_early(self) -> None:
        if self._terms.early:
            try:
                self._is_inside = self._enter_namespace(own_proc=True)
                if self._is_inside:
                    # Not sooner: making a namespace takes one of them, or gives some.
                    drop_capabilities()
            except OSError as error:
                self._error = error
        if self._terms.confines:
            rehearse()
        json.loads(_SAMPLE_REQUEST)

    def _read_request(self, written: int, *others: int) -> tuple[dict[str, Any], list[int]]:
        """The request, and its streams. The keeper gets it too, and the line to the product."""
        *streams, control = others
        request = _read(written)
        wants_namespace = bool(self._terms.namespace.kind) and request["pid_namespace"]
        try:
            if self._error is not None:
                raise self._error
            if wants_namespace and not self._is_inside:
                self._enter_namespace(own_proc=not request["machines_proc"])
        finally:
            socket.send_fds(self._keeper, [b"r"], [written, control])
        for fd in (written, control, self._held, self._lines.requests.detach()):
            os.close(fd)
        return request, streams

    def _enter_namespace(self, *, own_proc: bool) -> bool:
        """Go on in a pid namespace, as a child of the keeper; False where the kernel has none left to give."""
        first, program = split(self._terms.namespace.kind, self._held, own_proc=own_proc)
        if program:
            self._keeper.send(b"%d %d" % (first, program))
            os._exit(0)
        if first:
            self._wait_for_keeper()
        return first != 0

    def _wait_for_keeper(self) -> None:
        if self._keeper.recv(1) != _GO:
            os._exit(_NOT_BEGUN)


def _receive(lines: KeeperLines, *, wait: bool) -> list[int]:
    """The descriptors of the next request, for which other processes wait too; exits when there will be none.

    None where there is none by now and it is not to wait.
    """
    poll = select.poll()
    poll.register(lines.requests, select.POLLIN)
    poll.register(lines.alive, 0)
    while ready := poll.poll(None if wait else 0):
        if any(fd == lines.alive for fd, _ in ready):
            os._exit(_NOT_BEGUN)
        with suppress(BlockingIOError):
            data, fds, _, _ = socket.recv_fds(lines.requests, 1, _FDS, socket.MSG_DONTWAIT)
            if not data:
                os._exit(_NOT_BEGUN)
            return fds
    return []


def _reset_signals() -> None:
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
    """Remove the directory that was only the command's. Here, because a keeper outlives a product that was killed."""
    if temporary is None:
        return
    try:
        # Mostly it is empty, and this is quicker.
        os.rmdir(temporary)
    except OSError:
        remove_tree(temporary)


class _CommandWatch:
    """Waits until the command has ended by itself, or has to be ended."""

    def __init__(self, child: int, control: int, lines: KeeperLines, meter: UsageMeter | None) -> None:
        self.status: int | None = None
        """How it ended by itself."""
        self._child, self._control, self._lines, self._meter = child, control, lines, meter
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(lines.ended, select.POLLIN)
        self._poll.register(lines.alive, 0)

    def run(self) -> str | None:
        """The limit for which it has to be ended, if that is why."""
        while True:
            pause_ms = None if self._meter is None else self._meter.pause_s * 1000
            ready = {fd for fd, _ in self._poll.poll(pause_ms)}
            self._bury()
            if self.status is not None or self._lines.alive in ready:
                return None
            if self._control in ready:
                if _read_control(self._control) != _TERMINATE:
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


def _read_control(control: int) -> bytes:
    """What the product asks for; nothing where it is gone."""
    try:
        return os.read(control, 1)
    except OSError:
        return b""


def _end_all(child: int, status: int | None) -> int:
    """Kill and bury all that is left; the status of the command itself, where that is not known already."""
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
