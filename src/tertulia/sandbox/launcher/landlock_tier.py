"""Tier 2: Landlock, the system call filter and no capabilities, where bubblewrap does not work.

Chosen by the user's setting, or where bubblewrap fails its self-test, because it holds less. What it does not hold is
listed in `NOT_COVERED` and told. A command that may write begins after the protected files have been read, and ends
after they have been compared; both are done off the loop.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Protocol

from msgspec.structs import replace

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.availability import landlock_problem
from tertulia.sandbox.launcher import landlock
from tertulia.sandbox.launcher.launched_process import LauncherClient
from tertulia.sandbox.limits.kernel_limits import exceeded_limit, rlimits
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.sandbox.mounts.entries import HIDDEN
from tertulia.sandbox.mounts.mount_plan import VISIBLE_BELOW_RUN, check_root, own_places
from tertulia.sandbox.mounts.nested_protected import NestedProtectedPaths
from tertulia.sandbox.protected.change_watch import ChangeWatch
from tertulia.sandbox.runner import Change, Command, Output, TierName, Watch
from tertulia.sandbox.seccomp import filter_program
from tertulia.sandbox.seccomp_numbers import current_machine
from tertulia.sandbox.tier import (
    PROTECTED_ATTEMPT,
    SIGNAL_ATTEMPT,
    OnProcessEnd,
    ProcessEnd,
    SpawnedProcess,
    Streams,
    may_remain,
)

_PREFIX = "tertulia-"
NOT_COVERED = (
    "protected names (`.git`, `.mcp.json`) can be changed in a root; what starts programs is put back after a command",
    "what an MCP server or an executor changes among them is not put back",
    "our own Python can be changed inside a writable root",
    "metadata: mode, owner, times and attributes of the user's own files outside can be changed",
    "the names of masked files can be listed",
    "where a masked or protected path lies in a writable root (your home), nothing new can be made beside it",
    "startup files of others deeper in a root (`dotfiles/.bashrc`) can be changed, and are put back likewise",
    "other processes can be seen, without a namespace of processes, though neither signalled, read nor limited",
    "/tmp and /dev/shm are neither writable nor readable, TMPDIR is instead; so named semaphores do not work",
    "System V IPC and POSIX message queues are refused, and so are affinity and priority of a thread named by number",
    "what a process that switches core dumps off writes to disks is counted only when it has ended",
    "the network, where it is off, is off altogether: not even a loopback of the command's own",
    "controls of files (`ioctl`) are refused, but for a few that change nothing: `chattr`, subvolumes of btrfs",
)
_NOT_BEFORE = (
    (2, "this kernel's Landlock (before Linux 5.19): nothing moves or is linked to another directory, `mv` copies"),
    (3, "this kernel's Landlock (before Linux 6.2): a file is not truncated by its path, only when it is open"),
    (5, "this kernel's Landlock (before Linux 6.10): no devices can be opened but null, zero, full, random, tty, ptmx"),
)
"""What is refused altogether because an older Landlock could not tell where it would happen."""
_KEEPS_SIGNALS = 6
SIGNALS = (
    "signals: a command can end your other processes, Tertulia's own too; this kernel's Landlock (before Linux 6.12) "
    "does not keep signals in, and there is no namespace of processes"
)


class LandlockTier:
    """The tier that confines by Landlock, seccomp and dropped capabilities."""

    name: TierName = "landlock"

    def __init__(self) -> None:
        self._launcher = LauncherClient(confines=True)
        self._nested = NestedProtectedPaths()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """The list; what this kernel is too old for; and that a tree may remain, where the kernel does not end it."""
        version, namespace = landlock.abi(), self._launcher.namespace
        older = (sentence for since, sentence in _NOT_BEFORE if 0 < version < since)
        signals = (SIGNALS,) if SIGNAL_ATTEMPT in self._listed(version) else ()
        return (*NOT_COVERED, *older, *signals, *may_remain(namespace))

    @property
    def listed_attempts(self) -> frozenset[str]:
        """Protected names; and signals where neither Landlock nor a namespace confines them."""
        return self._listed(landlock.abi())

    def _listed(self, version: int) -> frozenset[str]:
        namespace = self._launcher.namespace
        alone = namespace is not None and bool(namespace.kind)
        signals = () if alone or version >= _KEEPS_SIGNALS else (SIGNAL_ATTEMPT,)
        return frozenset({PROTECTED_ATTEMPT, *signals})

    def identity(self) -> tuple[object, ...]:
        """The kernel stays the same as long as we live."""
        return ()

    def find(self) -> str:
        """The version of Landlock. What an older one does not hold the system call filter closes, or it is listed."""
        why_not = landlock_problem()
        if why_not is not None:
            raise SandboxUnavailableError(why_not)
        return f"Landlock {landlock.abi()}, {current_machine().name}"

    def spawn(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """Give the command its own temporary directory, which is removed when it ends."""
        confinement = command.confinement
        if isinstance(confinement.network, HostRules):
            raise SandboxError(
                "hosts by name need bubblewrap: the Landlock tier knows ports, and a port names no host; install "
                "bubblewrap, or set network = false or true; nothing was run"
            )
        roots = confinement.writable_roots if confinement.mode == "workspace_write" else ()
        for root in roots:
            check_root(root)
            if os.path.realpath(root) != root or not os.path.isdir(root):
                raise SandboxError(f"the writable root {root} is no longer the directory that it was; nothing was run")
        if command.watch is None or not roots:
            return self._launch(command, roots, (), streams, ended)
        watched = _Watched(command, command.watch, roots, self._nested)

        def start(streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
            return self._launch(command, roots, watched.unkept, streams, ended)

        return DeferredStart(watched, start, streams, ended)

    def _launch(
        self, command: Command, roots: Sequence[str], unkept: Sequence[str], streams: Streams, ended: OnProcessEnd
    ) -> SpawnedProcess:
        """`unkept`: what must not be changed in the roots because it could not be put back."""
        confinement, machine = command.confinement, current_machine()
        folder = _temporary_folder()
        temporary = os.path.join(folder, _PREFIX + secrets.token_hex(8))
        os.mkdir(temporary, 0o700)
        version, online = landlock.abi(), confinement.network is True
        program = filter_program(machine, internet=online, routes=online, landlock=version)
        rules = {
            "temporary": temporary,
            "removes": [temporary],
            # So the launcher knows before there is a request; only one in front of a terminal has none.
            "pid_namespace": not command.inherit_stdio,
            "environment": {**command.environment, "TMPDIR": temporary},
            "rlimits": list(rlimits(confinement.limits)),
            "limits": {
                # For root the kernel does not count.
                "processes": confinement.limits.processes if os.geteuid() == 0 else None,
                "memory": confinement.limits.memory_bytes,
                "written": confinement.limits.written_bytes,
            },
            "restrict": {
                "rules": {
                    "version": version,
                    "writable": roots,
                    "masked": confinement.masked,
                    "protected": [*confinement.protected_paths, *unkept],
                    "names": confinement.protected,
                    "hidden": [*HIDDEN, folder],
                    "shown": sorted(_shown(command, os.path.join(folder, _PREFIX))),
                    "uncovered": sorted({os.path.realpath(path) for path in confinement.shown}),
                    "network": online,
                },
                "filter": {"program": program.hex(), "machine": machine.name},
            },
        }

        try:
            return self._launcher.spawn(command, streams, rules, ended)
        except BaseException:
            os.rmdir(temporary)
            raise

    def conclude(self, ending: ProcessEnd, output: Output) -> ProcessEnd:
        """With the limit that may have been met."""
        if ending.limit is not None or not ending.began:
            return ending
        return replace(ending, limit=exceeded_limit(ending.exit_code, output))

    def close(self) -> None:
        """End the launcher, with all that it has started."""
        self._nested.close()
        self._launcher.close()


class _Watched:
    """Implements `StartHooks`: reads what no rule can protect before the command, and restores it after it."""

    def __init__(self, command: Command, watch: Watch, roots: Sequence[str], nested: NestedProtectedPaths) -> None:
        self.unkept: list[str] = []
        self._command, self._watch, self._roots, self._nested = command, watch, roots, nested
        self._change_watch: ChangeWatch | None = None

    def before(self) -> None:
        """Look for what is the user's, everywhere in the roots."""
        found = [entry.path for root in self._roots for entry in self._nested.before(root)]
        self._change_watch = ChangeWatch(self._watch, self._roots, self._command.confinement, found)
        self._nested.began(self._roots)
        self.unkept = self._change_watch.unkept

    def after(self) -> tuple[Change, ...]:
        """What has changed among protected files."""
        if self._change_watch is None:
            return ()
        self._nested.ended(self._roots)
        return self._change_watch.end(held=False)


def _temporary_folder() -> str:
    """Where the temporary directories of all commands lie, of every session of this user: none reads another's."""
    folder = os.path.realpath(tempfile.gettempdir())
    if any(folder == place or folder.startswith(f"{place}/") for place in HIDDEN):
        # All of that is hidden.
        return folder
    own = os.path.join(folder, f"tertulia-{os.geteuid()}")
    with suppress(FileExistsError):
        os.mkdir(own, 0o700)
    status = os.lstat(own)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise SandboxError(f"{own} is not this user's own directory, closed to others; remove it. Nothing was run")
    return own


def _shown(command: Command, temporary: str) -> set[str]:
    """What is seen although it lies where everything is hidden, as in the other tier.

    Beginning in another command's temporary directory shows nothing of it. The home is shown too: to git and others a
    file of settings that is not there is fine, and one that may not be read is the end.
    """
    places = {
        *_always_shown(),
        *_when_hidden(
            [
                *command.confinement.writable_roots,
                *command.confinement.readable,
                command.environment.get("HOME", "/"),
            ]
        ),
    }
    if not any(is_inside(command.cwd, place) for place in places) and not command.cwd.startswith(temporary):
        places |= {*_when_hidden([command.cwd])}
    return places


@cache
def _always_shown() -> tuple[str, ...]:
    """Found once: our own places do not move, and the others come with the system."""
    return tuple(_when_hidden([*own_places(), *VISIBLE_BELOW_RUN]))


def _when_hidden(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        real = os.path.realpath(place)
        if any(real.startswith(f"{above}/") for above in HIDDEN):
            yield real


_BY_SIGKILL = 128 + 9


class StartHooks(Protocol):
    """What is done before a command and after it."""

    def before(self) -> None:
        """Blocks. SandboxError where it must not begin; then `after` is called all the same."""
        ...

    def after(self) -> tuple[Change, ...]:
        """Blocks. Nothing of the command runs any more."""
        ...


class DeferredStart:
    """A process that is started late; implements `SpawnedProcess`."""

    def __init__(
        self,
        around: StartHooks,
        start: Callable[[Streams, OnProcessEnd], SpawnedProcess],
        streams: Streams,
        ended: OnProcessEnd,
    ) -> None:
        """`start` raises before anything runs, as `Tier.spawn` does."""
        self._around, self._start, self._ended = around, start, ended
        self._loop = asyncio.get_running_loop()
        self._spawned: SpawnedProcess | None = None
        self._killed = False
        # The caller closes its own as soon as this returns.
        self._streams = Streams(*(os.dup(fd) for fd in (streams.stdin, streams.stdout, streams.stderr)))
        self._loop.run_in_executor(None, around.before).add_done_callback(self._ready)

    def kill(self) -> None:
        """End all of it; what has not begun does not."""
        self._killed = True
        if self._spawned is not None:
            self._spawned.kill()

    def terminate(self) -> None:
        """To the command, if it has begun."""
        if self._spawned is not None:
            self._spawned.terminate()

    def leader(self) -> int | None:
        """The process of the command, once it has begun."""
        return None if self._spawned is None else self._spawned.leader()

    def _ready(self, done: asyncio.Future[None]) -> None:
        try:
            done.result()
            if self._killed:
                self._over(ProcessEnd(_BY_SIGKILL))
            else:
                self._spawned = self._start(self._streams, self._over)
        except (SandboxError, SandboxUnavailableError) as error:
            self._over(ProcessEnd(1, began=False, reason=error.message))
        except OSError as error:
            self._over(ProcessEnd(1, began=False, reason=error.strerror or str(error)))
        finally:
            for fd in (self._streams.stdin, self._streams.stdout, self._streams.stderr):
                os.close(fd)

    def _over(self, ending: ProcessEnd) -> None:
        looked = self._loop.run_in_executor(None, self._around.after)
        looked.add_done_callback(lambda done: self._ended(replace(ending, changes=done.result())))
