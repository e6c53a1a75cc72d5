"""Tier 1: a command in namespaces of its own, made by bubblewrap, with the system call filter on top.

The program is taken from one absolute path and must be root's: not from PATH, not from a workspace. Its arguments go
through a descriptor, because a process list is no place for an environment, and its own environment is empty, because
LD_PRELOAD would be obeyed by bubblewrap itself, outside.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, SandboxUnavailableError
from tertulia.sandbox import availability
from tertulia.sandbox.bubblewrap_namespaces import BubblewrapNamespaces, BubblewrapStart
from tertulia.sandbox.bubblewrap_process import BubblewrapProcess
from tertulia.sandbox.foreground import ENTER_GROUP, has_terminal, may_lend
from tertulia.sandbox.limits.kernel_limits import Cgroup, exceeded_limit, find_delegated
from tertulia.sandbox.mounts.helper_client import shared_helper
from tertulia.sandbox.mounts.mount_plan import MountPlan, own_python
from tertulia.sandbox.mounts.nested_protected import NestedProtectedPaths
from tertulia.sandbox.prepared.preparation import SandboxPreparation
from tertulia.sandbox.prepared.prepared_sandbox import PreparedSandbox, Shape
from tertulia.sandbox.prepared.second_start import SecondStart
from tertulia.sandbox.runner import Command, Output, TierName
from tertulia.sandbox.seccomp import filter_program
from tertulia.sandbox.seccomp_numbers import current_machine
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, SpawnedProcess, Streams

_SETSID = "/usr/bin/setsid"
_INSIDE_ID = 1000
_NOT_EXECUTED = re.compile(rb"bwrap: execvp [^\n]*: ([^:\n]*)\n")
NO_SUCH_PROGRAM, NOT_EXECUTABLE = 127, 126


class BubblewrapTier:
    """The tier that runs commands below bubblewrap."""

    name: TierName = "bubblewrap"
    not_covered: tuple[str, ...] = ()
    listed_attempts: frozenset[str] = frozenset()

    def __init__(self, program: str | None = None) -> None:
        self._program = program or availability.BWRAP
        self._cgroups: Path | None = None
        self._nested = NestedProtectedPaths(own_python())
        self._preparation = SandboxPreparation(self._prepare)
        self._uses_helper = False

    def identity(self) -> tuple[object, ...]:
        """Which file the program is; nothing where there is none."""
        return availability.program_identity(self._program)

    def find(self) -> str:
        """Its version, having looked whose program it is and whether it can make namespaces."""
        machine, version = current_machine(), availability.bubblewrap_version(self._program)
        membership = Path("/proc/self/cgroup")
        self._cgroups = find_delegated(membership.read_text(), Path("/sys/fs/cgroup")) if membership.exists() else None
        return f"{version}, {machine.name}"

    def spawn(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """Start it in its own namespaces."""
        if not self._uses_helper:
            self._uses_helper = True
            shared_helper.acquire()
        ended = self._preparation.around(command, ended)
        mounts = MountPlan(command, self._nested)
        process = BubblewrapProcess(command, mounts, ended)
        with _refused(process):
            entered = self._enter_prepared(process, command, mounts, streams, ended)
            if entered is None:
                self._start(process, command, mounts, streams)
        return entered or process

    def _enter_prepared(
        self, process: BubblewrapProcess, command: Command, mounts: MountPlan, streams: Streams, ended: OnProcessEnd
    ) -> SecondStart | None:
        """Run the command in the prepared sandbox, if there is one that fits."""
        prepared = self._preparation.find(command, self._shape(command, mounts))
        if prepared is None:
            return None
        second = SecondStart(process, streams, lambda again: self._start_without(command, again, ended), ended)
        try:
            namespaces, go, line = prepared.take(command, streams)
        except OSError:
            # It has just ended.
            second.begun()
            return None
        mounts.close_fds()

        def begin() -> None:
            second.begun()
            go()

        process.enter_prepared(namespaces, begin, line, second)
        return second

    def _start_without(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """The same for a command that a prepared sandbox has failed."""
        mounts = MountPlan(command, self._nested)
        process = BubblewrapProcess(command, mounts, ended)
        with _refused(process):
            self._start(process, command, mounts, streams)
        return process

    def _start(self, process: BubblewrapProcess, command: Command, mounts: MountPlan, streams: Streams) -> None:
        """Start bubblewrap with a new sandbox for the command."""
        with self._cgroup(command) as cgroup:
            start = BubblewrapStart(
                self._program,
                [*_namespaces(command), *mounts.arguments, *_surroundings(command)],
                _program(command),
                _filter(command),
                command.confinement.limits,
                streams,
                mounts.fds,
                new_session=not command.inherit_stdio,
            )
            namespaces = BubblewrapNamespaces(start, cgroup, process)
        mounts.close_fds()
        process.enter(namespaces, namespaces.open_gate)

    def _prepare(self, command: Command, over: Callable[[], None]) -> PreparedSandbox:
        mounts = MountPlan(command, self._nested)
        try:
            with self._cgroup(command) as cgroup:
                arguments = [*_namespaces(command), *mounts.arguments, "--clearenv"]
                bubblewrap = self._program, arguments, mounts.fds
                return PreparedSandbox(command, self._shape(command, mounts), bubblewrap, cgroup, over)
        finally:
            mounts.close()

    def _shape(self, command: Command, mounts: MountPlan) -> Shape:
        limits = replace(command.confinement.limits, written_bytes=None)
        return Shape(
            self.identity(), tuple(_namespaces(command)), mounts.places, mounts.staged, _filter(command), limits
        )

    @contextmanager
    def _cgroup(self, command: Command) -> Generator[Cgroup | None]:
        """A control group, where one can be had; removed where what it is for cannot be started."""
        cgroup = None if self._cgroups is None else Cgroup(self._cgroups, command.confinement.limits)
        try:
            yield cgroup
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise

    def conclude(self, ending: ProcessEnd, output: Output) -> ProcessEnd:
        """What a shell would say where there was no such program; and which limit may have been met."""
        if ending.began:
            return replace(ending, limit=ending.limit or exceeded_limit(ending.exit_code, output))
        text = output.head + output.tail
        if found := _NOT_EXECUTED.fullmatch(text):
            return ProcessEnd(
                NO_SUCH_PROGRAM if b"No such file" in found[1] else NOT_EXECUTABLE, changes=ending.changes
            )
        reason = ending.reason or text[-500:].decode("utf-8", "replace").strip() or f"bwrap ended ({ending.exit_code})"
        return ProcessEnd(ending.exit_code, began=False, reason=reason, changes=ending.changes)

    def close(self) -> None:
        """Nothing is held any longer."""
        self._preparation.close()
        self._nested.close()
        if self._uses_helper:
            self._uses_helper = False
            shared_helper.release()


@contextmanager
def _refused(process: BubblewrapProcess) -> Generator[None]:
    """A process that is started here; where it cannot be, nothing of it is left, and the reason is raised."""
    try:
        yield
    except OSError as error:
        process.abandon()
        if error.errno == errno.E2BIG:
            raise InvalidParamsError("the arguments of the command are too long altogether; use a file") from None
        raise SandboxUnavailableError(f"the sandbox cannot be started: {error.strerror}") from None


def _namespaces(command: Command) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent")
    if command.confinement.network is True:
        yield "--share-net"
    if command.terminal is None and not (command.inherit_stdio and has_terminal()):
        yield "--new-session"
    # Never as root, also not by name. Its own files keep belonging to the user.
    yield from ("--uid", str(os.getuid() or _INSIDE_ID), "--gid", str(os.getgid() or _INSIDE_ID))


def _surroundings(command: Command) -> Iterator[str]:
    yield "--clearenv"
    for name, value in command.environment.items():
        yield from ("--setenv", name, value)
    if "TMPDIR" in command.environment:
        yield from ("--setenv", "TMPDIR", "/tmp")
    yield from ("--chdir", command.cwd)


def _program(command: Command) -> tuple[str, ...]:
    # A program must make the terminal the command's own, or Ctrl-C means nothing to it. Runs inside like the rest.
    if command.terminal is not None and os.path.exists(_SETSID):
        return (_SETSID, "--ctty", "--", *command.argv)
    if command.inherit_stdio and has_terminal():
        return (sys.executable, "-I", "-S", "-c", ENTER_GROUP, "lent" if may_lend() else "kept", *command.argv)
    return command.argv


def _filter(command: Command) -> bytes:
    return filter_program(current_machine(), internet=True, routes=command.confinement.network is True, namespaces=True)
