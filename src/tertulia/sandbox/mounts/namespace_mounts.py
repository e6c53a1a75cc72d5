"""Having everything mounted inside one sandbox: planned while bubblewrap starts, asked for when its namespace is there.

Where another command has moved a place between the plan and the mount, both are done again; not for ever.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts.helper_client import MountAnswer, PendingMount, shared_helper
from tertulia.sandbox.mounts.mount_plan import MountPlan

_ATTEMPTS = 20

OnMounted = Callable[[str | None], None]
"""Called once, with the reason for which the command must not begin, if there is one."""


class NamespaceMounts:
    """Of one command. Begins to plan at once."""

    def __init__(self, mounts: MountPlan, on_mounted: OnMounted) -> None:
        self._mounts, self._on_mounted = mounts, on_mounted
        self._loop = asyncio.get_running_loop()
        self._process: tuple[int, int] | None = None
        self._plan: bytes | None = None
        self._pending: PendingMount | None = None
        self._attempts = 0
        self._make_plan()

    def enter(self, pid: int, process: int) -> None:
        """The namespace of this process, which `process` is a descriptor of, is ready to be mounted in."""
        self._process = pid, process
        self._request()

    def close(self) -> None:
        """The command is gone. Again is nothing."""
        self._process = None
        if self._pending is not None:
            self._pending.close()

    def _make_plan(self) -> None:
        # To look at a root can take longer than anybody on the loop would wait.
        self._attempts += 1
        planned = self._loop.run_in_executor(None, self._mounts.plan)
        planned.add_done_callback(self._planned)

    def _planned(self, planned: asyncio.Future[bytes]) -> None:
        try:
            self._plan = planned.result()
        except SandboxError as error:
            self._on_mounted(error.message)
        else:
            self._request()

    def _request(self) -> None:
        if self._plan is None or self._process is None:
            return
        pid, process = self._process
        with ExitStack() as passing:
            try:
                # Of the process that is held: as long as that lives, its number is nobody else's.
                namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
                passing.callback(os.close, namespace)
                signal.pidfd_send_signal(process, 0)
                plan = memory_fd(self._plan)
                passing.callback(os.close, plan)
                self._pending = shared_helper.request(plan, namespace, self._answered)
            except (ProcessLookupError, FileNotFoundError):
                # It is gone already; then its end says why.
                return
            except OSError as error:
                self._on_mounted(f"the mount helper cannot be reached: {error.strerror}")

    def _answered(self, answer: MountAnswer) -> None:
        self._pending, self._plan = None, None
        if answer.moved is None:
            self._on_mounted(answer.failure)
        elif self._attempts < _ATTEMPTS:
            self._make_plan()
        else:
            self._on_mounted(f"{answer.moved} is moved all the time by another command")


def memory_fd(data: bytes) -> int:
    """A descriptor from which this can be read, once."""
    fd = os.memfd_create("tertulia")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
