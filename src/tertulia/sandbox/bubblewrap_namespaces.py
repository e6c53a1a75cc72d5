"""Bubblewrap, started, and the namespaces that it makes: held before its program begins, until its gate is opened.

Three processes matter: bubblewrap itself, which waits outside; the first process of the new namespace, with whose end
the kernel ends all others; and the program. They are bound to our life late, so the filter is the gate: bubblewrap
reads it last, from a pipe, and gets its rest only when everything is ready. If we die before, what it has read is no
filter, and it gives up.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Protocol

import msgspec

from tertulia.sandbox.limits.kernel_limits import Cgroup, set_rlimits
from tertulia.sandbox.mounts.helper_client import memory_fd
from tertulia.sandbox.runner import CommandLimits
from tertulia.sandbox.tier import Streams

_STATUS_BYTES = 4096
_HALF_AN_INSTRUCTION = 4
_CLOSE_TIMEOUT_S = 5.0


class _Status(msgspec.Struct, rename="kebab"):
    """A line of what bubblewrap reports; two come, each with one of these."""

    child_pid: int | None = None
    exit_code: int | None = None


class BubblewrapStart(msgspec.Struct, frozen=True):
    """The program, arguments and descriptors of a start of bubblewrap."""

    program: str
    arguments: Sequence[str]
    """For bubblewrap; they go through a descriptor."""
    argv: Sequence[str]
    """What runs inside the namespace."""
    filter: bytes
    limits: CommandLimits
    streams: Streams
    fds: Sequence[int]
    """That the arguments name, and what the program inherits."""
    new_session: bool = True


class NamespacesOwner(Protocol):
    """Is called when namespaces are ready, refused or gone; another owner may take its place."""

    def held(self) -> None:
        """Limits are set, bubblewrap has made its mounts, and it waits at its gate."""
        ...

    def refused(self, reason: str) -> None:
        """The program does not begin, and this is why."""
        ...

    def reported(self) -> None:
        """Bubblewrap has said how the program ended; its first process is there for another moment."""
        ...

    def gone(self) -> None:
        """Nothing of it runs any more."""
        ...


class BubblewrapNamespaces:
    """One start of bubblewrap. Belongs to the loop, and the thread, that it was made on."""

    def __init__(self, start: BubblewrapStart, cgroup: Cgroup | None, owner: NamespacesOwner) -> None:
        """OSError where it cannot be started."""
        self.owner = owner
        self.loop = asyncio.get_running_loop()
        self.exit_code: int | None = None
        self.first: int | None = None
        """A descriptor of the first process, while that lives."""
        self.first_pid = 0
        self.cgroup = cgroup
        self.at_end = ExitStack()
        """Closed when nothing of it runs any more."""
        self._limits, self._filter = start.limits, start.filter
        self._reports = bytearray()
        self._killed = False
        self._missing = {"limits", "namespace"}
        """Without which nothing can be mounted inside, for which the program waits."""
        self._begin(start)

    def _begin(self, start: BubblewrapStart) -> None:
        ours: list[int] = []
        theirs: list[int] = []
        try:
            self._status, status = _both_ways(ours, theirs)
            stage, self._stage = _pipe(ours, theirs)
            gate, self._gate = _pipe(ours, theirs)
            os.write(self._stage, b"1")
            os.write(self._gate, self._filter[:_HALF_AN_INSTRUCTION])
            pipes = ("--json-status-fd", status, "--block-fd", stage, "--seccomp", gate)
            arguments = (*start.arguments, *map(str, pipes))
            listed = memory_fd(b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
            theirs.append(listed)
            line = [start.program, "--args", str(listed), "--", *start.argv]
            self.outer = _start(line, [*theirs, *start.fds], start)
            outer = _watch(self.outer, self._status)
        except BaseException:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._outer_fd: int | None = outer
        os.set_blocking(self._status, False)
        self.loop.add_reader(self._status, self._hear)
        self.loop.add_reader(outer, self._outer_gone)
        # Readable when no process can read from it any more: bubblewrap lets go of it when the mounts are made.
        self.loop.add_reader(self._stage, self._mounted)

    @property
    def waits(self) -> bool:
        """Whether its gate is still closed."""
        return self._gate >= 0

    @property
    def is_known(self) -> bool:
        """Whether its first process is there, with its limits set."""
        return self.first is not None and not self._missing

    @property
    def processes(self) -> list[int]:
        """Descriptors of bubblewrap and of the first process, each readable when that has ended."""
        return [fd for fd in (self._outer_fd, self.first) if fd is not None]

    def open_gate(self) -> None:
        """Let the program begin that waits behind it."""
        # It is gone already where it could not begin; then its end says why.
        with suppress(BrokenPipeError):
            os.write(self._gate, self._filter[_HALF_AN_INSTRUCTION:])
        self._close_gate()

    def kill(self) -> None:
        """The namespace dies with its first process. Before that is known, nothing of the program runs."""
        self._killed = True
        if self.first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.first, signal.SIGKILL)
            self.outer.kill()

    def close(self) -> None:
        """End it and wait for that, without the loop; bounded. Not for one that runs a command."""
        # Killed before it has said, bit by bit, which process it holds, it would leave that one waiting for ever.
        while not self.first_pid and _events(self._status) & select.POLLIN:
            self._hear()
        self.kill()
        for fd, over in ((self.first, self._first_gone), (self._outer_fd, self._outer_gone)):
            if fd is not None and _events(fd):
                over()

    # ---- the beginning

    def _hear(self) -> None:
        try:
            data = os.read(self._status, _STATUS_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.loop.remove_reader(self._status)
        self._reports += data
        while b"\n" in self._reports:
            line, _, self._reports = self._reports.partition(b"\n")
            report = msgspec.json.decode(line, type=_Status)
            if report.child_pid is not None:
                self._know_first(report.child_pid)
            if report.exit_code is not None:
                self.exit_code = report.exit_code
                self.owner.reported()

    def _know_first(self, pid: int) -> None:
        try:
            self.first = os.pidfd_open(pid)
            self.loop.add_reader(self.first, self._first_gone)
            self.first_pid = pid
            set_rlimits(pid, self._limits)
            if self.cgroup is not None:
                self.cgroup.add(pid)
        except ProcessLookupError:
            return
        except OSError as error:
            self.owner.refused(f"its limits cannot be set: {error.strerror}")
            os.kill(pid, signal.SIGKILL)
            self.outer.kill()
        if self._killed:
            self.kill()
        else:
            self._have("limits")

    def _mounted(self) -> None:
        self.loop.remove_reader(self._stage)
        self._have("namespace")

    def _have(self, part: str) -> None:
        self._missing.discard(part)
        # It is gone already where it could not begin; then its end says why.
        if not self._killed and self.is_known:
            self.owner.held()

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    # ---- the end

    def _outer_gone(self) -> None:
        _unwatch(self.loop, self._outer_fd)
        self._outer_fd = None
        self.outer.wait()
        self._hear()
        self._finish()

    def _first_gone(self) -> None:
        _unwatch(self.loop, self.first)
        self.first = None
        self._finish()

    def _finish(self) -> None:
        if self._outer_fd is not None or self.first is not None:
            return
        self.loop.remove_reader(self._status)
        self.loop.remove_reader(self._stage)
        self._close_gate()
        os.close(self._status)
        os.close(self._stage)
        if self.first_pid:
            # It has no parent any more; where this is the machine's first process, it must be reaped here.
            with suppress(ChildProcessError):
                os.waitpid(self.first_pid, os.WNOHANG)
        self.owner.gone()
        self.at_end.close()


def _events(fd: int) -> int:
    """Whether there is something to read, or it has ended, waiting for that; 0 where there is nothing in time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return next((events for _, events in poll.poll(_CLOSE_TIMEOUT_S * 1000)), 0)


def _pipe(ours: list[int], theirs: list[int]) -> tuple[int, int]:
    """(their end to read from, our end to write to), each noted in its list."""
    reading, writing = os.pipe()
    theirs.append(reading)
    ours.append(writing)
    return reading, writing


def _both_ways(ours: list[int], theirs: list[int]) -> tuple[int, int]:
    """(our end to read from, their end to write to). Theirs reads as well, so that our death breaks no pipe of it.

    A bubblewrap that ends too early leaves the first process waiting for ever.
    """
    reading, writing = os.pipe()
    ours.append(reading)
    try:
        theirs.append(os.open(f"/proc/self/fd/{reading}", os.O_RDWR | os.O_CLOEXEC))
    finally:
        os.close(writing)
    return reading, theirs[-1]


def _watch(outer: subprocess.Popen[bytes], status: int) -> int:
    """A descriptor that tells of its end; where there is none to be had, its end at once."""
    try:
        return os.pidfd_open(outer.pid)
    except OSError:
        # Not before it has said which process it holds: killed earlier, it would leave that one waiting for ever.
        report = b""
        while not report.endswith(b"\n") and (more := os.read(status, _STATUS_BYTES)):
            report += more
        if report:
            os.kill(msgspec.json.decode(report, type=_Status).child_pid or outer.pid, signal.SIGKILL)
        outer.kill()
        outer.wait()
        raise


def _start(line: list[str], fds: list[int], start: BubblewrapStart) -> subprocess.Popen[bytes]:
    _restore_interrupts()
    # From this very thread, which must live on: bubblewrap dies with the thread that started it, not the process.
    return subprocess.Popen(
        line,
        env={},
        cwd="/",
        stdin=start.streams.stdin,
        stdout=start.streams.stdout,
        stderr=start.streams.stderr,
        pass_fds=fds,
        start_new_session=start.new_session,
    )


def _restore_interrupts() -> None:
    """Have commands begin with the usual answer to Ctrl-C, although we were started in the background or by `nohup`.

    What a program ignores its children ignore too, and a shell cannot even trap it. A handler that does nothing is as
    good for us, and no child inherits it.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGQUIT):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, lambda number, frame: None)


def _unwatch(loop: asyncio.AbstractEventLoop, fd: int | None) -> None:
    assert fd is not None
    loop.remove_reader(fd)
    os.close(fd)
