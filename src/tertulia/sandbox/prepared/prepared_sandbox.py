"""A sandbox that was made before its command is known, and serves one: the next with the same confinement.

Bubblewrap takes the program when it starts. So in a prepared one a small program of ours waits, confined as any command
is, takes the request and executes it. All that depends on files is done when the command comes, as in any other: roots
are opened and compared, all directories looked at, everything mounted and verified by the mount helper. A prepared
sandbox is used only where bubblewrap would be started with the very same arguments, on the same directories, and
nothing has been mounted or unmounted on this machine since. It waits for a short time, and is gone when that is over.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from tertulia.sandbox.bubblewrap_namespaces import BubblewrapNamespaces, BubblewrapStart
from tertulia.sandbox.limits.kernel_limits import Cgroup
from tertulia.sandbox.mounts.entries import MountEntry
from tertulia.sandbox.mounts.helper_client import memory_fd
from tertulia.sandbox.mounts.helper_program import GO
from tertulia.sandbox.prepared.waiting_program import READY, WAIT, encode_request
from tertulia.sandbox.runner import Command, CommandLimits
from tertulia.sandbox.tier import Streams

WAITS_S = 30
"""How long it waits for a command."""
_SAFELY_S = WAITS_S - 5
"""After so long it is not used any more: it may end at any moment."""
_MOUNTS = "/proc/self/mountinfo"


class Shape(NamedTuple):
    """Everything that a start of bubblewrap depends on, except the program."""

    program: tuple[object, ...]
    """Which file bubblewrap is on the disk."""
    namespaces: tuple[str, ...]
    places: tuple[str, ...]
    """The arguments for mounts, without the numbers of descriptors."""
    staged: tuple[MountEntry, ...]
    """Which directories those descriptors are of."""
    filter: bytes
    limits: CommandLimits


class PreparedSandbox:
    """One that waits; implements `NamespacesOwner` until it is used."""

    def __init__(
        self,
        command: Command,
        shape: Shape,
        bubblewrap: tuple[str, Sequence[str], Sequence[int]],
        cgroup: Cgroup | None,
        over: Callable[[], None],
    ) -> None:
        """For another command like this one. `bubblewrap`: the program, its arguments, the descriptors they name.

        `over` is called when it waits no longer: it is used, or gone. OSError where it cannot be started.
        """
        self.shape = shape
        self._command = command
        self._over, self._cgroup = over, cgroup
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._ready = self._waits_no_longer = False
        streams = Streams(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
        with ExitStack() as failing:
            self._line, theirs = socket.socketpair()
            failing.callback(self._line.close)
            with theirs:
                # Before bubblewrap looks at what is mounted.
                self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
                failing.callback(os.close, self._mounts)
                # Not the link to it in an environment, which may lie below the temporary directory: that is mounted
                # when the command comes.
                python = os.path.realpath(sys.executable)
                argv = (python, "-I", "-S", "-c", WAIT, str(theirs.fileno()), str(WAITS_S))
                program, arguments, fds = bubblewrap
                start = BubblewrapStart(
                    program, arguments, argv, shape.filter, shape.limits, streams, [*fds, theirs.fileno()]
                )
                self._namespaces = BubblewrapNamespaces(start, cgroup, self)
            failing.pop_all()
        self._namespaces.at_end.callback(self._line.close)
        self._line.setblocking(False)
        self._loop.add_reader(self._line, self._hear)

    @property
    def is_ready(self) -> bool:
        """Whether its program waits for a request."""
        return self._ready

    def is_for(self, command: Command) -> bool:
        """Whether a command is like the one that it was made for."""
        return (self._command.confinement, self._command.cwd) == (command.confinement, command.cwd)

    def is_stale(self) -> bool:
        """Whether it must not be used any more: it is too old, has ended, or something was mounted or unmounted."""
        events = select.poll()
        events.register(self._mounts, select.POLLPRI)
        for process in self._namespaces.processes:
            events.register(process, select.POLLIN)
        is_old = self._loop.time() - self._since > _SAFELY_S
        return is_old or self._is_elsewhere() or bool(events.poll(0))

    def take(self, command: Command, streams: Streams) -> tuple[BubblewrapNamespaces, Callable[[], None], int]:
        """Hand it the command, which begins with the second of these, or a byte to the third.

        OSError where it cannot be reached.
        """
        request = memory_fd(encode_request(command))
        try:
            fds = [request, streams.stdin, streams.stdout, streams.stderr]
            socket.send_fds(self._line, [b"1"], fds)
        finally:
            os.close(request)
        self._forget()
        self._over()
        return self._namespaces, self._go, self._line.fileno()

    def dismiss(self) -> None:
        """End it, unused, without waiting if it is of this loop."""
        if self._is_elsewhere():
            self.close()
        else:
            self._namespaces.kill()

    def close(self) -> None:
        """End it, unused, and wait for that; bounded. Calling it twice has no effect."""
        if not self._waits_no_longer:
            self._namespaces.close()

    def _is_elsewhere(self) -> bool:
        return self._loop is not asyncio.get_running_loop()

    def _go(self) -> None:
        with suppress(OSError):
            self._line.send(GO)

    def _hear(self) -> None:
        try:
            self._ready = self._line.recv(1) == READY
        except BlockingIOError:
            return
        self._loop.remove_reader(self._line)

    def _forget(self) -> None:
        self._loop.remove_reader(self._line)
        os.close(self._mounts)
        self._waits_no_longer = True

    # ---- what becomes of its namespaces while it waits

    def held(self) -> None:
        """Let the program begin that waits inside."""
        self._namespaces.open_gate()

    def refused(self, reason: str) -> None:
        """It ends, and no command knows of it."""
        self._namespaces.kill()

    def reported(self) -> None:
        """Its time is over, or it could not begin."""

    def gone(self) -> None:
        """Nothing of it is left."""
        self._forget()
        if self._cgroup is not None:
            self._cgroup.remove()
        self._over()
