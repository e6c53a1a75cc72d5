"""What Landlock, the system call filter and the dropping of capabilities do to the process that calls them.

Runs in a child that is about to become the command: nothing here is undone, and everything it starts inherits it.
Standard library only, because the launcher that forks such children is meant to be small.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tertulia.sandbox.libc import check, libc, system_call

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ASK_VERSION = 1
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVS, _CAPBSET_DROP, _CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL = 38, 24, 47, 4
_SET_MODE_FILTER = 1
_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = "/proc/sys/kernel/cap_last_cap"

# Bits of the file system, as the kernel numbers them. Executing and listing are left alone.
_WRITE_FILE, _READ_FILE, _TRUNCATE, _IOCTL_DEV = 1 << 1, 1 << 2, 1 << 14, 1 << 15
_REMOVE_DIR, _REMOVE_FILE, _REFER = 1 << 4, 1 << 5, 1 << 13
_MAKE = sum(1 << bit for bit in range(6, 13))
_ON_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_WRITING = _WRITE_FILE | _TRUNCATE | _REMOVE_DIR | _REMOVE_FILE | _REFER | _MAKE
_ALL = _WRITING | _READ_FILE | _IOCTL_DEV
_RIGHTS_SINCE = {_REFER: 2, _TRUNCATE: 3, _IOCTL_DEV: 5}
"""The version of Landlock that brought these; the others are as old as Landlock."""
_NETWORK_SINCE, DEVICES_SINCE, _SCOPES_SINCE = 4, 5, 6
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_MAX_LINKS = 40
"""The rule for one path, in the layout of the kernel."""
_SETTLED_NS = 3_000_000_000
"""How old the last change of a directory must be to be told from a later one: some file systems count in 2 seconds."""
_MOUNTS = "/proc/self/mountinfo"

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")


def abi() -> int:
    """The version of Landlock that the kernel speaks; 0 where it has none, or it is switched off."""
    return max(0, int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)))


class FileRules(NamedTuple):
    """What a command may touch, before it is known which files there are."""

    version: int
    """Of Landlock: the kernel's, or an older one."""
    writable: Sequence[str]
    """Directories that may be written."""
    masked: Sequence[str] = ()
    protected: Sequence[str] = ()
    """Paths that can be read and not changed."""
    names: Sequence[str] = ()
    """At the top of a directory that may be written they stay as they are too, where that is taken apart anyway."""
    hidden: Sequence[str] = ()
    """Nothing in them can be read but what is `shown` there."""
    shown: Sequence[str] = ()
    uncovered: Sequence[str] = ()
    """Directories that can be read wherever they lie, in what is masked too."""
    network: bool = False


class Ruleset:
    """The rules of one command as the kernel has them; it may be made before the command is known, if foreseen.

    A rule is bound to the file that it was made for, not to a path. So a ruleset serves as long as every path still
    leads where it did: `is_current` compares the directories in which names were looked up, which are few.
    """

    def __init__(self, rules: FileRules) -> None:
        """OSError where the kernel refuses it, or a directory that may be written is no longer what it was."""
        self.rules = rules
        self._rights = _ALL & ~sum(right for right, since in _RIGHTS_SINCE.items() if rules.version < since)
        self._made_at = time.clock_gettime_ns(time.CLOCK_REALTIME)
        self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._ends = {path: _identity(path) for path in (*rules.writable, *rules.shown, *rules.uncovered)}
        self._fd = self._create()
        walk = PathWalk()
        for path in walk.readable_places(rules.masked, self._hidden(), rules.shown):
            self._allow(path, _READ_FILE)
        for path in rules.uncovered:
            self._allow(path, _READ_FILE, exactly=True)
        for path in walk.writable_places(rules.writable, [*rules.masked, *rules.protected], rules.names):
            self._allow(path, _ALL, exactly=True)
        for path in DEVICES:
            self._allow(path, _READ_FILE | _WRITE_FILE | _IOCTL_DEV)
        self._seen = walk.seen

    def is_current(self) -> bool:
        """Whether the same rules would come out now; False also where that cannot be told."""
        mounts = select.poll()
        mounts.register(self._mounts, select.POLLPRI)
        settled = self._made_at - _SETTLED_NS
        return (
            not mounts.poll(0)
            and all(seen[-1] < settled and _status(path) == seen for path, seen in self._seen.items())
            and all(_identity(path) == identity for path, identity in self._ends.items())
        )

    def restrict(self, temporary: str) -> None:
        """Confine this process for good, with one more directory that may be written."""
        self._allow(temporary, _ALL, exactly=True)
        system_call(_RESTRICT_SELF, self._fd, 0)
        self.close()

    def close(self) -> None:
        """The process that it has confined stays so."""
        os.close(self._fd)
        os.close(self._mounts)

    def _create(self) -> int:
        version = self.rules.version
        attributes = struct.pack("=Q", self._rights)
        if version >= _NETWORK_SINCE:
            attributes += struct.pack("=Q", 0 if self.rules.network else _BIND_TCP | _CONNECT_TCP)
        if version >= _SCOPES_SINCE:
            attributes += struct.pack("=Q", _ABSTRACT_SOCKETS | _SIGNALS)
        return system_call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)

    def _hidden(self) -> Sequence[str]:
        """Devices too, where the controls of one that was opened could not be refused."""
        return (*self.rules.hidden, "/dev") if self.rules.version < DEVICES_SINCE else self.rules.hidden

    def _allow(self, path: str, access: int, *, exactly: bool = False) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            # Not there, or not ours to see: nothing to allow.
            return
        try:
            if exactly and os.readlink(f"/proc/self/fd/{fd}") != path:
                raise OSError(errno.ESTALE, f"{path} was swapped for something else")
            if access & ~_ON_FILES and not stat.S_ISDIR(os.fstat(fd).st_mode):
                access &= _ON_FILES
            system_call(_ADD_RULE, self._fd, _PATH_BENEATH, struct.pack("=Qi", access & self._rights, fd), 0)
        except OSError as error:
            # Pseudo file systems refuse rules on some of their files, which then stay closed.
            if error.errno != errno.EBADFD:
                raise
        finally:
            os.close(fd)


def drop_capabilities() -> None:
    """For good: nothing that this process becomes or starts gets any of them back."""
    _control(_SET_NO_NEW_PRIVS, 1)
    _control(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    with open(_LAST_CAPABILITY, encoding="ascii") as file:
        last = int(file.read())
    if os.geteuid() == 0:
        # Out of the bounding set too, or root would get them back with the next program.
        for capability in range(last + 1):
            _control(_CAPBSET_DROP, capability)
    header, nothing = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    check(libc.capset(header, nothing))


def rehearse() -> None:
    """Go through it once without consequences, so that a fork has its own copy of what it needs before it is needed."""
    Ruleset(FileRules(abi(), ["/"], ["/etc"])).close()


class PathWalk:
    """Follows links and lists directories, and remembers in which directories it has looked."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, ...]] = {}
        """Directories, with what they were before anything was looked up in them."""
        self._absent: set[str] = set()
        self._links: dict[str, str | None] = {}

    def readable_places(
        self, masked: Iterable[str], hidden: Iterable[str] = (), shown: Iterable[str] = ()
    ) -> Iterator[str]:
        """The fewest places that together are everything but these: a rule allows, with all below, and takes nothing.

        `shown` lies in what is hidden and is seen all the same, unless it is masked.
        """
        closed = {self._target(path) for path in masked}
        yield from self._places_without(["/"], closed | {self._target(path) for path in hidden})
        yield from self._places_without((place for place in shown if not closed & {place, *_parents(place)}), closed)

    def writable_places(self, roots: Iterable[str], closed: Iterable[str], names: Iterable[str] = ()) -> Iterator[str]:
        """The roots; in place of one that a closed path lies in, what exists beside it and beside what leads to it.

        There nothing new can be made, nothing that leads to a closed path renamed, and no link on the way replaced.
        Where a root is taken apart anyway, these names at its top are left out too.
        """
        places = list(roots)
        stops = {stop for path in closed for stop in self._stops(path)}
        apart = {stop for stop in stops if any(stop.startswith(f"{root}/") for root in places)}
        parted = [root for root in places if any(stop.startswith(f"{root}/") for stop in apart)]
        yield from self._places_without(places, apart | {f"{root}/{name}" for root in parted for name in names})

    def _target(self, path: str) -> str:
        """Where the path leads in the end."""
        *_, target = (path, *self._stops(path))
        return target

    def _stops(self, path: str) -> Iterator[str]:
        """Where each symbolic link on the way lies, and where the path leads."""
        walked, left, links = "/", [part for part in reversed(path.split("/")) if part], 0
        while left:
            part = left.pop()
            if part in (".", ".."):
                walked = os.path.dirname(walked) if part == ".." else walked
                continue
            here = f"{walked.rstrip('/')}/{part}"
            if here not in self._links:
                self._links[here] = self._link(walked, here)
            target = self._links[here]
            if target is None:
                walked = here
                continue
            yield here
            links += 1
            if links > _MAX_LINKS:
                return
            left.extend(step for step in reversed(target.split("/")) if step)
            walked = "/" if target.startswith("/") else walked
        yield walked

    def _link(self, folder: str, path: str) -> str | None:
        if not self._look_at(folder):
            return None
        try:
            return os.readlink(path)
        except FileNotFoundError:
            self._absent.add(path)
        except OSError:
            # No link, or not ours to read.
            pass
        return None

    def _look_at(self, folder: str) -> bool:
        """Remember it; whether it is there."""
        if folder in self._absent:
            return False
        if folder not in self.seen:
            status = _status(folder)
            if status is None:
                self._absent.add(folder)
                return False
            self.seen[folder] = status
        return True

    def _places_without(self, roots: Iterable[str], apart: set[str]) -> Iterator[str]:
        above = {parent for path in apart for parent in _parents(path)}
        waiting = list(roots)
        while waiting:
            place = waiting.pop()
            if place in apart:
                continue
            if place not in above:
                yield place
                continue
            self._look_at(place)
            try:
                with os.scandir(place) as entries:
                    waiting.extend(entry.path for entry in entries if not entry.is_symlink())
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                # Gone meanwhile, or not ours to look into: nothing to allow.
                continue


def _status(path: str) -> tuple[int, ...] | None:
    """Which directory it is and when it was last changed, which no program can set; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _identity(path: str) -> tuple[int, ...] | None:
    found = _status(path)
    return None if found is None else found[:2]


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def install_filter(program: bytes, machine: str) -> None:
    """Have the system call filter hold from now on, for good."""
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    system_call(_SECCOMP[machine], _SET_MODE_FILTER, 0, header)


def _control(option: int, value: int) -> None:
    check(libc.prctl(option, value, 0, 0, 0))
