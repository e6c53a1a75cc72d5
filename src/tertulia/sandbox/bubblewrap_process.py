"""One command below bubblewrap: held until its limits are set, and not over before the last of its processes is.

Three processes matter: bubblewrap itself, which waits outside; the first process of the new namespace, with whose end
the kernel ends all others; and the command. They are bound to our life late, so the filter is the gate: bubblewrap
reads it last, from a pipe, and gets its rest only when everything is ready: limits set, and the mount helper done with
the namespace that bubblewrap has made. If we die before, what it has read is no filter, and it gives up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec
from msgspec.structs import replace

from tertulia.sandbox.limits.kernel_limits import Cgroup, set_rlimits
from tertulia.sandbox.limits.usage import UsageMeter
from tertulia.sandbox.mounts.helper_client import NamespaceMounts, memory_fd
from tertulia.sandbox.mounts.mount_plan import HIDDEN, MountPlan
from tertulia.sandbox.process_tree import children
from tertulia.sandbox.runner import Command, LimitName
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, Streams


class LimitWatch:
    """Calls back once, with the limit that was exceeded."""

    __slots__ = ("_exceeded", "_loop", "_meter", "_stopped", "_timer")

    def __init__(self, meter: UsageMeter, exceeded: Callable[[LimitName], None]) -> None:
        self._meter = meter
        self._exceeded = exceeded
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._timer = self._loop.call_later(meter.pause_s, self._look)

    def stop(self) -> None:
        """Stop looking. Calling it twice has no effect."""
        self._stopped = True
        self._timer.cancel()

    def _look(self) -> None:
        # In a thread: of a command with thousands of processes one look takes longer than others should wait.
        self._loop.run_in_executor(None, self._meter.look).add_done_callback(self._looked)

    def _looked(self, look: asyncio.Future[str | None]) -> None:
        if self._stopped or look.cancelled():
            return
        limit = look.result()
        if limit is not None:
            self._exceeded(cast(LimitName, limit))
        else:
            self._timer = self._loop.call_later(self._meter.pause_s, self._look)


_STATUS_BYTES = 4096
_HALF_AN_INSTRUCTION = 4


class _Status(msgspec.Struct, rename="kebab"):
    """A line of what bubblewrap reports; two come, each with one of these."""

    child_pid: int | None = None
    exit_code: int | None = None


class BubblewrapStart(msgspec.Struct, frozen=True):
    """What is to be started."""

    program: str
    arguments: Sequence[str]
    """For bubblewrap; they go through a descriptor."""
    argv: Sequence[str]
    """What runs inside the namespace."""
    filter: bytes
    command: Command
    streams: Streams


class BubblewrapProcess:
    """The running command; implements `SpawnedProcess`."""

    def __init__(self, start: BubblewrapStart, mounts: MountPlan, cgroup: Cgroup | None, ended: OnProcessEnd) -> None:
        confinement = start.command.confinement
        self._limits = confinement.limits
        self._writable = confinement.writable_roots if confinement.mode == "workspace_write" else ()
        self._filter = start.filter
        self._mounts, self._cgroup, self._ended = mounts, cgroup, ended
        self._loop = asyncio.get_running_loop()
        self._reports = bytearray()
        self._exit_code: int | None = None
        self._reason: str | None = None
        self._limit: LimitName | None = None
        self._killed = False
        self._first: int | None = None
        self._first_pid = 0
        self._meter: UsageMeter | None = None
        self._watch: LimitWatch | None = None
        self._missing = {"limits", "namespace"}
        """Without which nothing can be mounted inside, for which the command waits."""
        self._begin(start)
        self._inside = NamespaceMounts(mounts, self._all_mounted)

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
            self._outer = _start(line, [*theirs, *self._mounts.fds], start.command, start.streams)
            outer = _watch(self._outer, self._status)
        except BaseException:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
            self._mounts.close_fds()
        self._outer_fd: int | None = outer
        os.set_blocking(self._status, False)
        self._loop.add_reader(self._status, self._hear)
        self._loop.add_reader(outer, self._outer_gone)
        # Readable when no process can read from it any more: bubblewrap lets go of it when the mounts are made.
        self._loop.add_reader(self._stage, self._mounted)

    def kill(self) -> None:
        """The namespace dies with its first process. Before that is known, nothing of the command runs."""
        self._killed = True
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            self._outer.kill()

    def terminate(self) -> None:
        """Does nothing: from outside, the command cannot be told from the processes around it."""

    def leader(self) -> int | None:
        """The first that the first process of the namespace has started."""
        if self._first is None or self._missing:
            return None
        return next(iter(children(self._first_pid)), None)

    # ---- the beginning

    def _hear(self) -> None:
        try:
            data = os.read(self._status, _STATUS_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._status)
        self._reports += data
        while b"\n" in self._reports:
            line, _, self._reports = self._reports.partition(b"\n")
            report = msgspec.json.decode(line, type=_Status)
            if report.child_pid is not None:
                self._know_first(report.child_pid)
            if report.exit_code is not None:
                self._exit_code = report.exit_code
                # Soon its first process is gone, and with it the count of all that it buried.
                if self._meter is not None:
                    self._meter.count_written()

    def _know_first(self, pid: int) -> None:
        try:
            self._first = os.pidfd_open(pid)
            self._loop.add_reader(self._first, self._first_gone)
            self._first_pid = pid
            self._limit_all(pid)
        except ProcessLookupError:
            return
        except OSError as error:
            self._refuse(f"its limits cannot be set: {error.strerror}")
            os.kill(pid, signal.SIGKILL)
            self._outer.kill()
        if self._killed:
            self.kill()
        else:
            self._have("limits")

    def _mounted(self) -> None:
        self._loop.remove_reader(self._stage)
        self._have("namespace")

    def _have(self, part: str) -> None:
        self._missing.discard(part)
        # It is gone already where it could not begin; then its end says why.
        if not self._missing and not self._killed and self._first is not None:
            self._inside.enter(self._first_pid, self._first)

    def _all_mounted(self, refused: str | None) -> None:
        if refused is not None:
            self._refuse(refused)
        elif not self._killed:
            self._open_gate()

    def _open_gate(self) -> None:
        # It is gone already where it could not begin; then its end says why.
        with suppress(BrokenPipeError):
            os.write(self._gate, self._filter[_HALF_AN_INSTRUCTION:])
        self._close_gate()

    def _refuse(self, reason: str) -> None:
        """The command does not begin, and this is why."""
        self._reason = self._reason or reason
        self.kill()

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    def _limit_all(self, pid: int) -> None:
        set_rlimits(pid, self._limits)
        if self._cgroup is not None:
            self._cgroup.add(pid)
        grouped = self._cgroup is not None
        self._meter = UsageMeter(
            pid,
            # For root the kernel does not count.
            processes=None if grouped or os.geteuid() != 0 else self._limits.processes,
            memory=None if grouped else self._limits.memory_bytes,
            written=self._limits.written_bytes,
            # One that is a link here was not mounted there.
            places=[f"/proc/{pid}/root{place}" for place in HIDDEN if os.path.realpath(place) == place],
            roots=self._writable,
        )
        self._watch = LimitWatch(self._meter, self._exceeds)

    def _exceeds(self, limit: LimitName) -> None:
        self._limit = limit
        self.kill()

    # ---- the end

    def _outer_gone(self) -> None:
        _unwatch(self._loop, self._outer_fd)
        self._outer_fd = None
        self._outer.wait()
        self._hear()
        self._finish()

    def _first_gone(self) -> None:
        _unwatch(self._loop, self._first)
        self._first = None
        self._finish()

    def _finish(self) -> None:
        if self._outer_fd is not None or self._first is not None:
            return
        self._loop.remove_reader(self._status)
        self._loop.remove_reader(self._stage)
        self._inside.close()
        self._close_gate()
        os.close(self._status)
        os.close(self._stage)
        if self._watch is not None:
            self._watch.stop()
        if self._first_pid:
            # An orphan by now, and ours to bury where we are the machine's first process.
            with suppress(ChildProcessError):
                os.waitpid(self._first_pid, os.WNOHANG)
        limit = self._limit
        if self._cgroup is not None:
            limit = self._cgroup.limit_met() or limit
            self._cgroup.remove()
        # Removing directories can wait for a disk, and the loop must not.
        ending = replace(self._ending(limit), sampled=self._limit is not None)
        concluded = self._loop.run_in_executor(None, self._conclude)
        concluded.add_done_callback(
            lambda written: self._ended(replace(ending, written=written.result(), changes=self._mounts.changes))
        )

    def _conclude(self) -> int:
        """What it wrote in all."""
        self._mounts.close()
        if self._meter is None:
            return 0
        self._meter.conclude()
        return self._meter.written

    def _ending(self, limit: LimitName | None) -> ProcessEnd:
        code = self._outer.returncode
        if self._exit_code is not None:
            return ProcessEnd(self._exit_code, limit=limit)
        if code < 0:
            # bubblewrap was killed: by us, by a limit, or by a Ctrl-C that was meant for the command as well.
            return ProcessEnd(128 - code, began=self._reason is None, limit=limit, reason=self._reason)
        return ProcessEnd(code, began=self._killed and self._reason is None, reason=self._reason)


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


def _start(line: list[str], fds: list[int], command: Command, streams: Streams) -> subprocess.Popen[bytes]:
    _heed_interrupts()
    # From this very thread, which must live on: bubblewrap dies with the thread that started it, not the process.
    return subprocess.Popen(
        line,
        env={},
        cwd="/",
        stdin=streams.stdin,
        stdout=streams.stdout,
        stderr=streams.stderr,
        pass_fds=fds,
        start_new_session=not command.inherit_stdio,
    )


def _heed_interrupts() -> None:
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
