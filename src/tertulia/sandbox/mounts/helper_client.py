"""Our side of the mount helper: one for all sandboxes of this process, started when it is first needed.

`NamespaceMounts` has everything mounted inside one sandbox: planned while bubblewrap starts, requested when its
namespace is there. Where another command has moved a place between the plan and the mount, both are done again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

import msgspec

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts.helper_program import LISTENS, PLAIN
from tertulia.sandbox.mounts.mount_plan import MountPlan

_CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from tertulia.sandbox.mounts.helper_program import serve
serve(int(sys.argv[2]))
"""
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
_ANSWER_BYTES = 65_536


class MountAnswer(msgspec.Struct):
    """The answer of the mount helper: success where no field is set."""

    moved: str | None = None
    """A place that is not what was expected; nothing has been mounted, and another request may be made."""
    failure: str | None = None
    """Why the command must not begin."""
    done: str | None = None
    listener: int | None = None
    """A descriptor of the listener inside, where one was asked for; the caller's to close."""


OnAnswer = Callable[[MountAnswer], None]


def end_helper(line: socket.socket | None, process: subprocess.Popen[bytes] | None) -> None:
    """Close the line to a process that ends with it, and wait for that."""
    if line is not None:
        line.close()
    if process is not None:
        process.wait()


class MountHelper:
    """A process that mounts inside sandboxes. Kept as long as a sandbox uses it; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def acquire(self) -> None:
        """A tier will use it until it calls `release`."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """A tier does not need it any more; with the last one it ends."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._stop()

    def request(
        self, namespace: int, on_answer: OnAnswer, go: int | None = None, network: int | None = None
    ) -> PendingMount:
        """Have it enter the mount namespace; the answer comes on this loop. A helper that died is started again.

        It mounts when it gets the plan. `go`: where it writes a byte when all is mounted, so that what waits for it
        does not wait for us. `network`: a network namespace of the same sandbox, to listen in. OSError where no helper
        can be had.
        """
        with ExitStack() as passing, ExitStack() as failing:
            ours, theirs = socket.socketpair()
            passing.callback(theirs.close)
            failing.callback(ours.close)
            with self._lock:
                fds = [namespace, theirs.fileno(), *(fd for fd in (go, network) if fd is not None)]
                self._send(PLAIN if network is None else LISTENS, fds)
            failing.pop_all()
        return PendingMount(ours, on_answer)

    def _send(self, kind: bytes, fds: list[int]) -> None:
        if self._line is not None:
            with suppress(OSError):
                socket.send_fds(self._line, [kind], fds)
                return
        self._stop()
        self._line = self._start()
        socket.send_fds(self._line, [kind], fds)

    def _stop(self) -> None:
        end_helper(self._line, self._process)
        self._line = self._process = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _CODE, _SOURCE, str(theirs.fileno())],
                    env={},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        return ours


class PendingMount:
    """A request that is not answered yet."""

    def __init__(self, line: socket.socket, on_answer: OnAnswer) -> None:
        self._line: socket.socket | None = line
        self._on_answer = on_answer
        self._loop = asyncio.get_running_loop()
        line.setblocking(False)
        self._loop.add_reader(line, self.hear)

    def send_plan(self, plan: bytes) -> None:
        """What is to be mounted, as of `encode_entries`. Where the helper has given up, its answer says why."""
        if self._line is None:
            return
        text = memory_fd(plan)
        try:
            socket.send_fds(self._line, [b"1"], [text])
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            os.close(text)

    def close(self) -> None:
        """Forget the request. Calling it twice has no effect."""
        if self._line is not None:
            self._loop.remove_reader(self._line)
            self._line.close()
            self._line = None

    def hear(self) -> None:
        """Take the answer, if there is one."""
        assert self._line is not None
        listeners: list[int] = []
        try:
            data, listeners, _, _ = socket.recv_fds(self._line, _ANSWER_BYTES, 1)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.close()
        self._on_answer(_read(data, listeners))


def _read(data: bytes, listeners: list[int]) -> MountAnswer:
    if not data:
        return MountAnswer(failure="the mount helper ended without an answer")
    for fd in listeners:
        # The kernel hands it over so that programs that are started from here could inherit it.
        os.set_inheritable(fd, False)
    answer = msgspec.json.decode(data, type=MountAnswer)
    answer.listener = listeners[0] if listeners else None
    return answer


shared_helper = MountHelper()
"""One for the process: each session would need its own interpreter otherwise."""


_ATTEMPTS = 20

OnMounted = Callable[[str | None, int | None], None]
"""Called once, with the reason for which the command must not begin, if there is one, and the listener inside."""


class NamespaceMounts:
    """The mounts of one command. Begins to plan at once."""

    def __init__(self, mounts: MountPlan, on_mounted: OnMounted, *, listens: bool = False) -> None:
        """`listens`: a listener is to be made inside, before the command begins."""
        self._mounts, self._on_mounted, self._listens = mounts, on_mounted, listens
        self._loop = asyncio.get_running_loop()
        self._namespace: int | None = None
        self._network: int | None = None
        self._go: int | None = None
        self._plan: bytes | None = None
        self._pending: PendingMount | None = None
        self._attempts = 0
        self._closed = False
        self._make_plan()

    def enter(self, pid: int, process: int, go: int | None = None) -> None:
        """The namespace of this process, which `process` is a descriptor of, is ready to be mounted in.

        `go`: see `MountHelper.request`; it stays open until this is closed.
        """
        try:
            self._namespace, self._go = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC), go
            if self._listens:
                self._network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            # Of the process that is held: as long as that lives, its number is no other's.
            signal.pidfd_send_signal(process, 0)
        except (ProcessLookupError, FileNotFoundError):
            # It has ended already; its end says why.
            self.close()
        except OSError as error:
            self._on_mounted(f"the mounts of the sandbox cannot be reached: {error.strerror}", None)
        else:
            self._request()

    def hear(self) -> None:
        """Take the answer of the helper now, if it has given one."""
        if self._pending is not None and not self._closed:
            self._pending.hear()

    def close(self) -> None:
        """The command has ended, or will not begin. Calling it twice has no effect."""
        self._closed = True
        self._leave()
        if self._pending is not None:
            self._pending.close()

    def _leave(self) -> None:
        # Not held while the command runs, or its end would wait for us to let go of the mounts.
        for fd in (self._namespace, self._network):
            if fd is not None:
                os.close(fd)
        self._namespace = self._network = None

    def _make_plan(self) -> None:
        # To look at a root can take too long for a step of the loop.
        self._attempts += 1
        planned = self._loop.run_in_executor(None, self._mounts.plan)
        planned.add_done_callback(self._planned)

    def _planned(self, planned: asyncio.Future[bytes]) -> None:
        try:
            self._plan = planned.result()
        except SandboxError as error:
            if not self._closed:
                self._on_mounted(error.message, None)
        else:
            self._send_plan()

    def _request(self) -> None:
        """The helper enters while the plan is made."""
        if self._namespace is None:
            return
        try:
            self._pending = shared_helper.request(self._namespace, self._answered, self._go, self._network)
            self._send_plan()
        except OSError as error:
            self._on_mounted(f"the mount helper cannot be reached: {error.strerror}", None)

    def _send_plan(self) -> None:
        if self._plan is not None and self._pending is not None:
            self._pending.send_plan(self._plan)

    def _answered(self, answer: MountAnswer) -> None:
        self._pending, self._plan = None, None
        if answer.moved is None:
            self._leave()
            self._on_mounted(answer.failure, answer.listener)
        elif self._attempts < _ATTEMPTS:
            self._request()
            self._make_plan()
        else:
            self._on_mounted(f"{answer.moved} is moved all the time by another command", None)


def memory_fd(data: bytes) -> int:
    """A descriptor from which this can be read, once."""
    fd = os.memfd_create("tertulia")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
