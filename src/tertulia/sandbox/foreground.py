"""A command on the terminal of the person who started it: in a process group of its own, with job control.

The group is its own, so that a signal that it sends to its group reaches no process of ours. The terminal is lent to
that group, so that Ctrl-C and Ctrl-Z go there, and is taken back when the command stops or ends. In a pipeline the
terminal stays where it is, because the next program may read from it (`… | less`), until the command itself asks for
it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import threading
from collections.abc import Callable
from contextlib import suppress

_PERIOD_S = 0.1
_CHUNK_BYTES = 64 * 1024
_LAST_WORDS_S = 5.0
_STOPPED = b"T"

ENTER_GROUP = """
import os, signal, sys
os.setpgid(0, 0)
if sys.argv[1] == "lent":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    os.tcsetpgrp(0, os.getpgrp())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.stderr.write(f"{sys.argv[2]}: {error.strerror}\\n")
    os._exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
"""For a Python inside a sandbox that cannot do this itself: `lent` or `kept`, then the command."""


def has_terminal() -> bool:
    """Whether this process has a controlling terminal at all."""
    terminal = open_terminal()
    if terminal is None:
        return False
    os.close(terminal)
    return True


def may_lend() -> bool:
    """Whether the terminal is ours to lend at once: we are in front of it, and no neighbour of a pipeline is."""
    try:
        return os.isatty(0) and os.isatty(1) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


class ForegroundJob:
    """One command's use of the terminal. Made before the command is started, on its loop."""

    __slots__ = ("_leader", "_lent", "_loop", "_terminal", "_timer")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._terminal = open_terminal()
        self._lent = may_lend()
        self._leader: Callable[[], int | None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, leader: Callable[[], int | None]) -> None:
        """Begin to watch; `leader` is the command itself. No signal tells that it was stopped, so it is polled."""
        self._leader = leader
        if self._terminal is not None:
            self._timer = self._loop.call_later(_PERIOD_S, self._look)

    def close(self) -> None:
        """The command has ended, or never began. Calling it twice has no effect."""
        if self._timer is not None:
            self._timer.cancel()
        if self._terminal is not None:
            self._take_back()
            os.close(self._terminal)
            self._terminal = None

    def _look(self) -> None:
        leader = self._leader()
        if leader is not None and _is_stopped(leader):
            with suppress(ProcessLookupError):
                self._stop_with(os.getpgid(leader))
        self._timer = self._loop.call_later(_PERIOD_S, self._look)

    def _stop_with(self, group: int) -> None:
        if self._lent or not self._in_front():
            self._take_back()
            # The whole job, as if it had been typed for us; a job that no shell can continue is not stopped at all.
            os.kill(0, signal.SIGTSTP)
        if self._in_front():
            self._put_in_front(group)
            self._lent = True
        os.killpg(group, signal.SIGCONT)

    def _in_front(self) -> bool:
        assert self._terminal is not None
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            # The terminal has hung up.
            return False

    def _take_back(self) -> None:
        if self._lent:
            self._put_in_front(os.getpgrp())
            self._lent = False

    def _put_in_front(self, group: int) -> None:
        assert self._terminal is not None
        # From behind, the kernel would stop us for this.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        with suppress(OSError):
            os.tcsetpgrp(self._terminal, group)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class FileRelay:
    """Pipes in place of those of our standard streams that are files or directories; all others are passed on.

    A program opens an inherited file once more through `/proc`, for writing too, and beside one of a directory
    any other: not by the mounts of its sandbox, but by the one that the file was opened by.
    """

    def __init__(self) -> None:
        self.theirs: list[int] = []
        """The ends for the command, to be closed when it has them."""
        self._copying: list[threading.Thread] = []
        self._outputs: dict[tuple[int, int], int] = {}

    def input(self) -> int:
        """What the command reads from."""
        if not _is_in_file_system(0):
            return 0
        theirs, ours = os.pipe()
        self._copy(0, ours, closed=ours)
        self.theirs.append(theirs)
        return theirs

    def output(self, number: int) -> int:
        """Where its standard output or its errors go; both through one pipe if they go to the same file."""
        if not _is_in_file_system(number):
            return number
        status = os.fstat(number)
        place = status.st_dev, status.st_ino
        if place not in self._outputs:
            ours, theirs = os.pipe()
            self._copy(ours, number, closed=ours)
            self.theirs.append(theirs)
            self._outputs[place] = theirs
        return self._outputs[place]

    def finish(self) -> None:
        """The command has ended, or was not started: return when all that it wrote has arrived."""
        while self.theirs:
            os.close(self.theirs.pop())
        for thread in self._copying:
            thread.join(_LAST_WORDS_S)

    def _copy(self, source: int, target: int, *, closed: int) -> None:
        thread = threading.Thread(target=_copy, args=(source, target, closed), daemon=True)
        self._copying.append(thread)
        thread.start()


def _copy(source: int, target: int, closed: int) -> None:
    try:
        while left := memoryview(os.read(source, _CHUNK_BYTES)):
            while left:
                left = left[os.write(target, left) :]
    except OSError:
        # The command reads no more, a directory has nothing to read, or the disk is full: it sees the pipe's end.
        pass
    finally:
        os.close(closed)


def _is_in_file_system(number: int) -> bool:
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)


def open_terminal() -> int | None:
    """Open the terminal that controls this process; None where there is none."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] == _STOPPED
    except OSError:
        return False
