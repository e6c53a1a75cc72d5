"""One command below bubblewrap: it begins when everything is mounted, and ends with the last of its processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.bubblewrap_namespaces import BubblewrapNamespaces
from tertulia.sandbox.limits.limit_watch import LimitWatch
from tertulia.sandbox.limits.usage import UsageMeter
from tertulia.sandbox.mounts.entries import HIDDEN
from tertulia.sandbox.mounts.helper_client import NamespaceMounts
from tertulia.sandbox.mounts.mount_plan import MountPlan
from tertulia.sandbox.prepared.second_start import SecondStart
from tertulia.sandbox.process_tree import children
from tertulia.sandbox.runner import Command, LimitName
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd

if TYPE_CHECKING:
    from tertulia.sandbox.proxy.server import ProxyServer


class BubblewrapProcess:
    """The running command; implements `SpawnedProcess` and `NamespacesOwner`."""

    def __init__(self, command: Command, mounts: MountPlan, ended: OnProcessEnd) -> None:
        """It plans its mounts at once; `enter` says where they are made. Where it is not called, `abandon` is."""
        confinement = command.confinement
        self._limits = confinement.limits
        self._writable = confinement.writable_roots if confinement.mode == "workspace_write" else ()
        self._mounts, self._ended = mounts, ended
        self._reason: str | None = None
        self._limit: LimitName | None = None
        self._killed = self._began = False
        self._meter: UsageMeter | None = None
        self._watch: LimitWatch | None = None
        self._go: int | None = None
        self._lost: OnProcessEnd | None = None
        self._gate = command.gate if isinstance(confinement.network, HostRules) else None
        self._proxy: ProxyServer | None = None
        self._inside = NamespaceMounts(mounts, self._all_mounted, listens=self._gate is not None)

    def enter_prepared(
        self, namespaces: BubblewrapNamespaces, begin: Callable[[], None], go: int, second: SecondStart
    ) -> None:
        """The same with namespaces that wait for a command.

        `go`: where the mount helper says that it may begin. `second` hears how it ended, and whether the namespaces
        have ended before that, so that nothing of the command ran.
        """
        self._go, self._lost, self._ended = go, second.lost, second.over
        self.enter(namespaces, begin)

    def enter(self, namespaces: BubblewrapNamespaces, begin: Callable[[], None]) -> None:
        """It runs in these, which hear from now on whose they are; `begin` is called when all is mounted."""
        self._namespaces, self._begin = namespaces, begin
        namespaces.owner = self
        if namespaces.is_known:
            self.held()

    def abandon(self) -> None:
        """It was not started. Blocks until its plan is made, and removes what that has made."""
        self._inside.close()
        self._mounts.close()

    def kill(self) -> None:
        """The namespace dies with its first process. Before that is known, nothing of the command runs."""
        self._killed = True
        if not self._began:
            # The mount helper, which gets no plan then, would let it begin in the moment in which it dies.
            self._inside.close()
        self._namespaces.kill()

    def terminate(self) -> None:
        """Does nothing: from outside, the command cannot be told from the processes around it."""

    def leader(self) -> int | None:
        """The first that the first process of the namespace has started."""
        if not self._namespaces.is_known:
            return None
        return next(iter(children(self._namespaces.first_pid)), None)

    # ---- the beginning

    def held(self) -> None:
        """Count from now on what it uses, and have everything mounted."""
        process = self._namespaces.first
        if not self._killed and process is not None:
            self._measure()
            self._inside.enter(self._namespaces.first_pid, process, self._go)

    def _measure(self) -> None:
        pid, grouped = self._namespaces.first_pid, self._namespaces.cgroup is not None
        self._meter = UsageMeter(
            pid,
            # For root the kernel does not count.
            processes=None if grouped or os.geteuid() != 0 else self._limits.processes,
            memory=None if grouped else self._limits.memory_bytes,
            written=self._limits.written_bytes,
            places=[f"/proc/{pid}/root{place}" for place in _hidden()],
            roots=self._writable,
        )
        self._watch = LimitWatch(self._meter, self._exceeds)

    def refused(self, reason: str) -> None:
        """The command does not begin, and this is why."""
        self._reason = self._reason or reason
        self.kill()

    def _all_mounted(self, refused: str | None, listener: int | None) -> None:
        if listener is not None:
            self._serve(listener)
        if refused is not None:
            self.refused(refused)
        elif not self._killed:
            self._began = True
            self._begin()

    def _serve(self, listener: int) -> None:
        """Serve the hosts that the command may reach. It has no other way out."""
        # Here and not above: most commands have none.
        from tertulia.sandbox.proxy.server import ProxyServer

        assert self._gate is not None
        self._proxy = ProxyServer(socket.socket(fileno=listener), self._gate)

    def _exceeds(self, limit: LimitName) -> None:
        self._limit = limit
        self.kill()

    # ---- the end

    def reported(self) -> None:
        """Count what was written: soon its first process is gone, and with it the count of all that it has reaped."""
        if self._meter is not None:
            self._meter.count_written()

    def gone(self) -> None:
        """Conclude, and tell how it ended."""
        # It may have begun and ended before we hear of the beginning, which was told first.
        self._inside.hear()
        self._inside.close()
        if self._proxy is not None:
            self._proxy.close()
        if self._watch is not None:
            self._watch.stop()
        if self._began or self._killed or self._reason is not None:
            self._lost = None
        if self._lost is not None:
            self._reason = "the sandbox that was prepared for it has ended"
        limit, cgroup = self._limit, self._namespaces.cgroup
        if cgroup is not None:
            limit = cgroup.limit_met() or limit
            cgroup.remove()
        # Removing directories can wait for a disk, and the loop must not.
        ending = replace(self._ending(limit), sampled=self._limit is not None)
        concluded = self._namespaces.loop.run_in_executor(None, self._clear_away)
        concluded.add_done_callback(lambda written: self._conclude(ending, written.result()))

    def _conclude(self, ending: ProcessEnd, written: int) -> None:
        (self._lost or self._ended)(replace(ending, written=written, changes=self._mounts.changes))
        # The disk frees what was removed, for which no caller has to wait.
        self._namespaces.loop.run_in_executor(None, self._mounts.close)

    def _clear_away(self) -> int:
        """Blocks. What it wrote in all."""
        self._mounts.end()
        if self._meter is None:
            return 0
        self._meter.conclude()
        return self._meter.written

    def _ending(self, limit: LimitName | None) -> ProcessEnd:
        code = self._namespaces.outer.returncode
        # The program that waits in a prepared one ends with a code too, though no command has begun.
        if self._namespaces.exit_code is not None and self._reason is None:
            return ProcessEnd(self._namespaces.exit_code, limit=limit)
        if code < 0:
            # bubblewrap was killed: by us, by a limit, or by a Ctrl-C that was meant for the command as well.
            return ProcessEnd(128 - code, began=self._reason is None, limit=limit, reason=self._reason)
        return ProcessEnd(code, began=self._killed and self._reason is None, reason=self._reason)


@cache
def _hidden() -> tuple[str, ...]:
    """One that is a link here was not mounted there."""
    return tuple(place for place in HIDDEN if os.path.realpath(place) == place)
