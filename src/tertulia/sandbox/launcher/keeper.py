"""The keeper of one command: it forks the process that becomes the command, and ends all of its processes.

A keeper adopts whatever its descendants orphan, so that it can end them all: when the command ends, when the product
asks for it, and when its line to the product or to the guardian breaks because they were killed. What that process
does before it is the command is told in `next_command.py`. Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from tertulia.sandbox.directory_removal import remove_tree
from tertulia.sandbox.launcher.next_command import (
    GO,
    REQUEST_FDS,
    Confinement,
    KeeperLines,
    KeeperTerms,
    NextCommand,
    read_request,
)
from tertulia.sandbox.launcher.process_namespace import hold
from tertulia.sandbox.limits.usage import SOONEST_S, UsageBefore, UsageMeter, written_by
from tertulia.sandbox.process_tree import descendants

TAKEN, READY = b"t", b"r"
"""What a keeper tells the launcher: it has a command now; it waits for the next."""
_TERMINATE = b"T"
_MESSAGE_BYTES = 65_536


def keep(lines: KeeperLines, terms: KeeperTerms, expected: Confinement | None = None) -> Confinement | None:
    """Start the next command and stay until the last of its processes has ended; exits where no request will come.

    Returns how it was confined, which is what is `expected` of the next one.
    """
    command = _wait_for_command(lines, terms, expected)
    os.write(lines.launcher, TAKEN)
    if not command.request["session"]:
        os.write(command.control, json.dumps({"leader": command.pid}).encode() + b"\n")
    watch = _CommandWatch(command, lines)
    limit = watch.run()
    alone = watch.status is not None and command.is_all_gone()
    status = watch.status if alone else _end_all(command.pid, watch.status)
    code = os.waitstatus_to_exitcode(status or 0)
    for directory in command.request["removes"]:
        _remove(directory)
    if command.meter is not None:
        command.meter.conclude()
    report = {
        "exit_code": 128 - code if code < 0 else code,
        "limit": limit,
        "written": 0 if command.meter is None else command.meter.written,
        "failure": command.failure(),
        "namespace": terms.namespace._asdict(),
    }
    with suppress(OSError):
        os.write(command.control, json.dumps(report).encode())
    confinement = command.close()
    _end_all(command.pid, status)
    return confinement


def _wait_for_command(lines: KeeperLines, terms: KeeperTerms, expected: Confinement | None) -> _ForkedCommand:
    """A process that has taken a request and becomes the command; exits where there will be none."""
    command = _ForkedCommand(lines, terms, expected)
    fds = command.wait_for_request()
    if fds:
        # It has another filter already, which cannot be undone, and hands on all that it was given.
        _end_all(command.pid, None)
        command.close()
        command = _ForkedCommand(lines, terms, None, fds)
        for fd in fds:
            os.close(fd)
        command.wait_for_request()
    return command


class _ForkedCommand:
    """The keeper's side of the process that becomes the command."""

    def __init__(
        self, lines: KeeperLines, terms: KeeperTerms, expected: Confinement | None, taken: Sequence[int] = ()
    ) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._failure, failing = os.pipe()
        held, self._holds = os.pipe()
        self._written = self.control = self._mounts = -1
        self.request: dict[str, Any] = {}
        """What a keeper needs of it; see `next_command`."""
        self.first = 0
        """The first process of its namespace, where it has one."""
        self._disk_before = written_by([os.getpid()])
        self.pid = os.fork()
        if self.pid == 0:
            for fd in (lines.launcher, self._socket.detach(), self._failure, self._holds):
                os.close(fd)
            NextCommand(lines, theirs, held, terms, expected).become(failing, list(taken))
        theirs.close()
        os.close(failing)
        os.close(held)

    def wait_for_request(self) -> list[int]:
        """Until it has taken one; all descriptors of that where it cannot serve it. Exits where there will be none."""
        while True:
            data, fds, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, REQUEST_FDS)
            if not data:
                os._exit(0)
            if len(fds) == REQUEST_FDS:
                return fds
            if fds:
                self._written, self.control = fds
                self.request = json.loads(data)
                return []
            self._adopt(*map(int, data.split()))

    def _adopt(self, first: int, program: int) -> None:
        """The process that was forked has made a namespace and two processes in it, and ends."""
        os.waitpid(self.pid, 0)
        hold(self._holds)
        self.first, self.pid = first, program
        with suppress(OSError):
            # Taking down its mounts takes the kernel a millisecond, for which a command's end need not wait.
            self._mounts = os.open(f"/proc/{first}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        with suppress(OSError):
            self._socket.send(GO)

    @cached_property
    def meter(self) -> UsageMeter | None:
        """Measures what the command uses since it began; None where nothing is limited. Not made before it is asked."""
        if self.request["before"] is None:
            return None
        before = UsageBefore(*self.request["before"])._replace(written=self._disk_before)
        roots, limits = self.request["roots"], self.request["limits"]
        return UsageMeter(os.getpid(), **limits, roots=roots, ours=self.first, before=before)

    def failure(self) -> str:
        """Why it did not become the command: the step, the number and the text of the error; empty where it did."""
        return os.read(self._failure, 4096).decode("utf-8", "replace")

    def is_all_gone(self) -> bool:
        """Whether nothing is left in its namespace but the first process, when the command itself has been reaped.

        Whatever it left would be a child of that, or below one: the kernel hands orphans over in one step.
        """
        if not self.first:
            return False
        try:
            with open(f"/proc/{self.first}/task/{self.first}/children", "rb") as file:
                return not file.read(1)
        except OSError:
            return False

    def close(self) -> Confinement | None:
        """Called when all processes of the command have ended. Returns how it was confined, where it was."""
        confinement = None if self._written < 0 else read_request(self._written)["restrict"]
        self._socket.close()
        for fd in (self._failure, self._holds, self._mounts, self._written, self.control):
            if fd >= 0:
                os.close(fd)
        return confinement


def _remove(directory: str) -> None:
    """Remove a directory that was only the command's. Here, because a keeper outlives a product that was killed."""
    try:
        # Mostly it is empty, and this is quicker.
        os.rmdir(directory)
    except OSError:
        remove_tree(directory)


class _CommandWatch:
    """Waits until the command has ended by itself, or has to be ended."""

    def __init__(self, command: _ForkedCommand, lines: KeeperLines) -> None:
        self.status: int | None = None
        """How it ended by itself."""
        self._command, self._lines = command, lines
        self._poll = select.poll()
        self._poll.register(command.control, select.POLLIN)
        self._poll.register(lines.ended, select.POLLIN)
        self._poll.register(lines.alive, 0)

    def run(self) -> str | None:
        """The limit for which it has to be ended, if that is why."""
        # While the command begins, nothing is measured: it would take the processor from it.
        pause_s: float | None = SOONEST_S
        while True:
            ready = {fd for fd, _ in self._poll.poll(None if pause_s is None else pause_s * 1000)}
            self._reap()
            if self.status is not None or self._lines.alive in ready:
                return None
            meter = self._command.meter
            if self._command.control in ready:
                if _read_control(self._command.control) != _TERMINATE:
                    return None
                os.kill(self._command.pid, signal.SIGTERM)
            elif not ready and meter is not None and (limit := meter.look()) is not None:
                return limit
            pause_s = None if meter is None else meter.pause_s

    def _reap(self) -> None:
        """At once, because an adopted zombie counts as a process of its user."""
        with suppress(BlockingIOError):
            os.read(self._lines.ended, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._command.pid:
                    self.status = ended[1]


def _read_control(control: int) -> bytes:
    """The requests of the product; empty where it has ended."""
    try:
        return os.read(control, 1)
    except OSError:
        return b""


def _end_all(child: int, status: int | None) -> int:
    """Kill and reap all that is left; the status of the command itself, where that is not known already."""
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
