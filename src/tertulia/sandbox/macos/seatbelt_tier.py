"""Confines commands on macOS by `sandbox-exec`, and runs those that are not confined there.

Used only where the self-test has held on that very machine. Imports nothing of Linux.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping

from tertulia.errors import InvalidParamsError, SandboxError, SandboxUnavailableError
from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.macos.process_group import ProcessGroup
from tertulia.sandbox.macos.profile import seatbelt_profile
from tertulia.sandbox.runner import Command, CommandLimits, Output, TierName
from tertulia.sandbox.tier import Namespace, OnProcessEnd, ProcessEnd, SpawnedProcess, Streams

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_SHELL = "/bin/sh"
_BLOCK_BYTES = 512
_OUTLIVES = "a process that has left its group and whose starter has ended outlives its command"
NOT_COVERED = (
    "never run on a real Mac by its makers: what holds it is the self-test on yours (docs/platforms.md)",
    "protected names deeper in a root (sub/.git) can be written; those at its top cannot",
    _OUTLIVES,
    "limits: processes, memory and bytes written are not held; CPU time and the size of a file are",
    "/tmp and /var/folders are not private and not writable; TMPDIR is a directory of the command's own",
    "masked files are refused instead of reading as empty",
    "other processes can be seen, though not signalled; hard links are refused",
    "hosts by name: a list is refused",
)


class SeatbeltTier:
    """Implements `Tier` by a profile for each command."""

    name: TierName = "seatbelt"
    not_covered: tuple[str, ...] = NOT_COVERED
    listed_attempts: frozenset[str] = frozenset()

    def __init__(self, program: str = SANDBOX_EXEC) -> None:
        self._program = program

    def identity(self) -> tuple[object, ...]:
        """Which file the program is; nothing where there is none."""
        try:
            status = os.lstat(self._program)
        except OSError:
            return ()
        return self._program, status.st_ino, status.st_mtime_ns

    def find(self) -> str:
        """The version of the system, having looked whose program it is."""
        problem = seatbelt_problem(self._program)
        if problem is not None:
            raise SandboxUnavailableError(problem)
        return f"Seatbelt of macOS {platform.mac_ver()[0]}, {platform.machine()}"

    def spawn(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """Start it under a profile of its own."""
        if isinstance(command.confinement.network, HostRules):
            raise SandboxError(
                "hosts by name need bubblewrap, which there is on Linux only; set network = false or true; nothing was "
                "run"
            )
        _check_program(command)
        temporary = os.path.realpath(tempfile.mkdtemp(prefix="tertulia-command-"))
        profile = seatbelt_profile(command.confinement, temporary, (sys.prefix, sys.base_prefix))
        limits = _limits(command.confinement.limits)
        line = (self._program, "-p", profile, _SHELL, "-c", f'{limits}exec "$@"', _SHELL, *command.argv)
        environment = {**command.environment, "TMPDIR": temporary}
        return _started(line, command, environment, streams, ended, (temporary,))

    def conclude(self, ending: ProcessEnd, output: Output) -> ProcessEnd:
        """The ending, as it was."""
        return ending

    def close(self) -> None:
        """There is nothing to release."""


class GroupTier(SeatbeltTier):
    """Confines nothing, for what the user lets out of the sandbox."""

    name: TierName = "none"
    not_covered: tuple[str, ...] = ("anything: the command may do whatever the user may", _OUTLIVES)
    namespace = Namespace("", "macOS has no namespaces of processes")
    hidden: tuple[str, ...] = ()

    def find(self) -> str:
        """There is nothing to find."""
        return ""

    def spawn(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """Start the command as it is."""
        _check_program(command)
        line = (_SHELL, "-c", 'exec "$@"', _SHELL, *command.argv)
        return _started(line, command, command.environment, streams, ended, command.temporary)


def seatbelt_problem(program: str = SANDBOX_EXEC) -> str | None:
    """Why there is no Seatbelt here; None where there is."""
    if sys.platform != "darwin":
        return "seatbelt is the sandbox of macOS; here it is bubblewrap or landlock (sandbox_tier)"
    try:
        status = os.lstat(program)
    except OSError:
        return f"{program} is missing, which is a part of macOS"
    if status.st_uid != 0 or status.st_mode & 0o022 or not stat.S_ISREG(status.st_mode):
        return f"{program} is not root's alone, so it is not trusted"
    return None


def _check_program(command: Command) -> None:
    """Before anything is made for it."""
    if command.argv[0].startswith("-"):
        raise InvalidParamsError(
            f"{command.argv[0]!r:.80} is no program: the shell that starts it takes an option there"
        )


def _started(
    line: tuple[str, ...],
    command: Command,
    environment: Mapping[str, str],
    streams: Streams,
    ended: OnProcessEnd,
    removes: tuple[str, ...],
) -> ProcessGroup:
    try:
        return ProcessGroup(
            line,
            command.cwd,
            environment,
            streams,
            ended,
            terminal=command.terminal is not None,
            new_session=not command.inherit_stdio,
            removes=removes,
        )
    except OSError as error:
        for folder in removes:
            shutil.rmtree(folder, ignore_errors=True)
        raise SandboxUnavailableError(f"{line[0]} cannot be started: {error.strerror}") from None


def _limits(limits: CommandLimits) -> str:
    words = ["ulimit -c 0"]
    if limits.cpu_s is not None:
        words.append(f"ulimit -t {limits.cpu_s}")
    if limits.file_bytes is not None:
        words.append(f"ulimit -f {limits.file_bytes // _BLOCK_BYTES}")
    # A tighter limit stays.
    return "".join(f"{word} 2>/dev/null; " for word in words)
