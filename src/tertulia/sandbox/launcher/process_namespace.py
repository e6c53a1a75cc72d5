"""A namespace of processes for a program that no sandbox holds: the kernel ends all of it, whatever of ours is killed.

Its first process is ours, does nothing but reap, and ends with the keeper: by the kernel's signal for the death of a
parent, which needs no process of ours. When the first process of such a namespace ends, the kernel kills all others,
daemons too. The namespace mostly has a `/proc` of its own, so that `ps` and libraries meet the numbers that they can
use. Root needs nothing more. An ordinary user gets it only inside a namespace of users, with no other user in it:
programs that run as another user (`sudo`) do not work there. Standard library only: the launcher needs it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, NoReturn

from tertulia.sandbox.libc import check, libc

Kind = Literal["processes", "users", ""]
"""Empty: it cannot be had."""

_NEW_MOUNTS, _NEW_USERS, _NEW_PROCESSES = 0x00020000, 0x10000000, 0x20000000
_FLAGS: dict[Kind, int] = {
    "processes": _NEW_PROCESSES | _NEW_MOUNTS,
    "users": _NEW_USERS | _NEW_PROCESSES | _NEW_MOUNTS,
}
_SLAVE_ALL_BELOW = 0x80000 | 0x4000
_NO_SUID_DEVICES_PROGRAMS = 2 | 4 | 8
_READ_ONLY, _BIND = 1, 0x1000
_SET_SIGNAL_OF_PARENTS_DEATH = 1
_GO = b"g"
_SSH_SETTINGS = "/etc/ssh/ssh_config.d"


class NamespaceSupport(NamedTuple):
    """The outcome of the test for process namespaces."""

    kind: Kind
    why_not: str = ""


def find_namespace_support(*, confines: bool) -> NamespaceSupport:
    """Whether it can be had here, in children that are gone afterwards; `confines`: for commands in a sandbox."""
    why_not = _attempt("processes")
    if not why_not:
        return NamespaceSupport("processes")
    if os.geteuid() == 0:
        # Root in a namespace with no other user could not even give a file to another.
        return NamespaceSupport("", why_not)
    if not confines and _ssh_would_refuse():
        return NamespaceSupport(
            "", f"ssh would refuse the settings in {_SSH_SETTINGS}, which are root's, in a namespace of users"
        )
    why_not = _attempt("users")
    return NamespaceSupport("", why_not) if why_not else NamespaceSupport("users")


def _ssh_would_refuse() -> bool:
    """It reads an included file only if root or the user owns it, and there no user is root."""
    with suppress(OSError), os.scandir(_SSH_SETTINGS) as entries:
        return any(entry.name.endswith(".conf") and entry.stat().st_uid != os.geteuid() for entry in entries)
    return False


def _attempt(kind: Kind) -> str:
    """Why it cannot be had; empty where it can."""
    reading, writing = os.pipe()
    trying = os.fork()
    if trying == 0:
        try:
            held, holds = os.pipe()
            _leave(kind)
            first = _start_first(held)
            os.close(holds)
            os.waitpid(first, 0)
        except OSError as error:
            os.write(writing, (error.strerror or "refused").encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(trying, 0)
    why_not = os.read(reading, 1024).decode("utf-8", "replace")
    os.close(reading)
    return why_not


def split(kind: Kind, held: int) -> tuple[int, int]:
    """(the first process, the program), as numbered here; the second is 0 in the program, which goes on from here too.

    Both are 0 where the kernel has none left to give: nothing has changed then. OSError where it gave only half.
    The caller ends next, so that both become children of a process above, which is to `hold` the other end.
    """
    try:
        _leave(kind)
    except _Refused:
        return 0, 0
    first = _start_first(held)
    return first, os.fork()


def hold(holds: int) -> None:
    """Called by the parent of a first process: from now on the two end together."""
    with suppress(BrokenPipeError):
        os.write(holds, _GO)


class _Refused(OSError):
    """The kernel refused before anything was changed."""


def _leave(kind: Kind) -> None:
    """What this process forks from now on is in a namespace of its own; itself it is not."""
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_FLAGS[kind]) != 0:
        raise _Refused(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if kind == "users":
        _write("setgroups", "deny")
        _write("uid_map", f"{user} {user} 1")
        _write("gid_map", f"{group} {group} 1")
    # Mounts that the user makes are seen; no other process sees ours.
    check(libc.mount(None, b"/", None, _SLAVE_ALL_BELOW, None))


def _start_first(held: int) -> int:
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        _be_first(held, writing)
    os.close(writing)
    answer = os.read(reading, 16)
    os.close(reading)
    if answer != _GO:
        number = int(answer or errno.ESRCH)
        raise OSError(number, os.strerror(number))
    return first


def _be_first(held: int, writing: int) -> NoReturn:
    """Ends when the other end of `held` is closed, and once that is held by its parent, with it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        os.setsid()
        check(libc.mount(b"proc", b"/proc", b"proc", _NO_SUID_DEVICES_PROGRAMS, None))
    except OSError as error:
        os.write(writing, str(error.errno).encode())
        os._exit(0)
    os.write(writing, _GO)
    # With the program's streams, which would not end before we do.
    os.closerange(3, held)
    os.closerange(held + 1, os.sysconf("SC_OPEN_MAX"))
    if os.read(held, 1) == _GO:
        libc.prctl(_SET_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)
        parent = select.poll()
        parent.register(held, 0)
        # It may have died before we said that.
        while not parent.poll(0):
            signal.sigwait([signal.SIGCHLD])
            with suppress(ChildProcessError):
                # Not left to the kernel: what they have written is counted with the process that reaps them.
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    os._exit(0)


def hide(paths: Sequence[str]) -> None:
    """Put nothing over these directories and files, in a namespace that was made; what is not there is left out.

    A program without the rights of root cannot take it away again: the kernel locks mounts that come from above.
    """
    for path in paths:
        if os.path.isdir(path):
            check(
                libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", _READ_ONLY | _NO_SUID_DEVICES_PROGRAMS, b"mode=0555")
            )
        elif os.path.exists(path):
            check(libc.mount(os.fsencode(os.devnull), os.fsencode(path), None, _BIND, None))


def _write(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(text)
