"""What Landlock, the system call filter and the dropping of capabilities do to the process that calls them.

Runs in a child that is about to become the command: nothing here is undone, and everything it starts inherits it.
Standard library only, because the launcher that forks such children is meant to be small.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from typing import Final

OLDEST_ABI: Final = 6
"""The first that keeps signals and abstract sockets in."""

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
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_MAX_LINKS = 40
"""Of one path, as the kernel has it."""

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock that the kernel speaks; 0 where it has none, or it is switched off."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)))


def restrict(
    writable: Iterable[str],
    masked: Iterable[str],
    protected: Iterable[str],
    names: Iterable[str],
    *,
    hidden: Iterable[str] = (),
    shown: Iterable[str] = (),
    network: bool,
    program: bytes,
    machine: str,
) -> None:
    """Confine this process for good: files, TCP, signals, system calls. OSError where any of it is refused.

    `protected`: paths that can be read and not changed; `names`: those at the top of a root that stay as they are too,
    where it has to be taken apart anyway. Nothing in `hidden` can be read but what is `shown` there. Capabilities must
    have been dropped before.
    """
    readable = readable_places(masked, hidden, shown)
    ruleset = _rules(writable_places(writable, [*masked, *protected], names), readable, network)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    _install(program, machine)


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
    if _libc.capset(header, nothing) != 0:
        raise _refused()


def rehearse() -> None:
    """Go through it once without consequences, so that a fork has its own copy of what it needs before it is needed."""
    os.close(_rules(["/"], readable_places(["/etc"]), network=False))


def _rules(writable: Iterable[str], readable: Iterable[str], network: bool) -> int:
    attributes = struct.pack("=QQQ", _ALL, 0 if network else _BIND_TCP | _CONNECT_TCP, _ABSTRACT_SOCKETS | _SIGNALS)
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path in readable:
        _allow(ruleset, path, _READ_FILE)
    for path in writable:
        _allow(ruleset, path, _ALL, exactly=True)
    for path in DEVICES:
        _allow(ruleset, path, _READ_FILE | _WRITE_FILE | _IOCTL_DEV)
    return ruleset


def readable_places(masked: Iterable[str], hidden: Iterable[str] = (), shown: Iterable[str] = ()) -> Iterator[str]:
    """The fewest places that together are everything but these: a rule allows, with all below, and cannot take away.

    `shown` lies in what is hidden and is seen all the same, unless it is masked.
    """
    closed = {os.path.realpath(path) for path in masked}
    yield from _places_without(["/"], closed | {os.path.realpath(path) for path in hidden})
    yield from _places_without((place for place in shown if not closed & {place, *_parents(place)}), closed)


def writable_places(roots: Iterable[str], closed: Iterable[str], names: Iterable[str] = ()) -> Iterator[str]:
    """The roots; in place of one that a closed path lies in, what exists beside it and beside what leads to it.

    There nothing new can be made, nothing that leads to a closed path renamed, and no link on the way replaced. Where a
    root is taken apart anyway, these names at its top are left out too.
    """
    places, known = list(roots), dict[str, str | None]()
    stops = {stop for path in closed for stop in _stops(path, known)}
    apart = {stop for stop in stops if any(stop.startswith(f"{root}/") for root in places)}
    parted = [root for root in places if any(stop.startswith(f"{root}/") for stop in apart)]
    yield from _places_without(places, apart | {f"{root}/{name}" for root in parted for name in names})


def _stops(path: str, known: dict[str, str | None]) -> Iterator[str]:
    """Where a path leads, and where each symbolic link on the way to it lies. `known`: links that were read so far."""
    walked, left, links = "/", [part for part in reversed(path.split("/")) if part], 0
    while left:
        part = left.pop()
        if part in (".", ".."):
            walked = os.path.dirname(walked) if part == ".." else walked
            continue
        here = os.path.join(walked, part)
        if here not in known:
            known[here] = _link(here)
        target = known[here]
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


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        # No link, or nothing at all.
        return None


def _places_without(roots: Iterable[str], apart: set[str]) -> Iterator[str]:
    above = {parent for path in apart for parent in _parents(path)}
    waiting = list(roots)
    while waiting:
        place = waiting.pop()
        if place in apart:
            continue
        if place not in above:
            yield place
            continue
        try:
            with os.scandir(place) as entries:
                waiting.extend(entry.path for entry in entries if not entry.is_symlink())
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            # Gone meanwhile, or not ours to look into: nothing to allow.
            continue


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _allow(ruleset: int, path: str, access: int, *, exactly: bool = False) -> None:
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
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, fd), 0)
    except OSError as error:
        # Pseudo file systems refuse rules on some of their files, which then stay closed.
        if error.errno != errno.EBADFD:
            raise
    finally:
        os.close(fd)


def _install(program: bytes, machine: str) -> None:
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    _call(_SECCOMP[machine], _SET_MODE_FILTER, 0, header)


def _control(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise _refused()


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise _refused()
    return result


def _refused() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
