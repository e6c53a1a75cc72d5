"""The system call filter as a BPF program, in pure Python: what a command may not ask of the kernel, whatever the tier.

A call is refused with EPERM, never by killing, so that a program can say what it could not do. Killed is only what
speaks for another architecture, because its numbers mean other calls.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from tertulia.errors import SandboxUnavailableError
from tertulia.sandbox.syscalls import LAST_KNOWN, MACHINES, NUMBERS, Machine

ALLOW: Final = 0x7FFF0000
KILL_PROCESS: Final = 0x80000000
_ERRNO: Final = 0x00050000
REFUSE: Final = _ERRNO | errno.EPERM
UNKNOWN: Final = _ERRNO | errno.ENOSYS
"""As if the kernel were older: the C library then takes another way."""
UNSUPPORTED: Final = _ERRNO | errno.EOPNOTSUPP
"""As if the file system could not: programs then write what they would have reserved."""

_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_BIT = 0x40000000

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_TYPE_MASK = 1, 2, 0xF
_NEW_NAMESPACES = 0x7E020000
_CREATES = 0o100 | 0o20000000
_TAKES_ON_RIGHTS = 0o6000
_TERMINAL_INJECTION = (0x5412, 0x541C)
_FREES_BLOCKS = 0x02 | 0x08
_SET_LEASE = 1024
_LARGEST_SEGMENT = 64 << 10
"""Of System V shared memory: it outlives its process, so that no watcher of processes sees it. 4,096 are 256 MiB."""
_FIRST_PROCESS = 1

_WITH_ARGUMENTS = {
    *("clone", "socket", "socketpair", "ioctl", "chmod", "fchmod", "fchmodat", "fchmodat2", "open", "openat"),
    *("creat", "fcntl", "mknod", "mknodat", "prlimit64", "fallocate"),
}
_NOT_THERE = {"clone3", "openat2", "memfd_secret"}
"""Their arguments lie in memory, where a filter cannot look; or what they make does, where no watcher can."""
_BY_PROCESS = {
    *("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "setpriority", "ioprio_set"),
}
"""They name a process, or all of a user: fit for a namespace of the command's own."""
_BY_KEY: Final = (
    *("mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink"),
    *("msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop"),
    *("shmat", "shmctl", "shmdt", "shmget"),
)
"""They name what any process of the same user has made: likewise."""
REFUSED: Final = tuple(sorted(NUMBERS.keys() - _WITH_ARGUMENTS - _NOT_THERE - _BY_PROCESS - {*_BY_KEY}))

Code = list[tuple[int, int, int, int]]


def current_machine() -> Machine:
    """SandboxUnavailable where there is no filter for it."""
    if platform.system() != "Linux":
        raise SandboxUnavailableError(f"commands are confined on Linux only, and this is {platform.system()}")
    name = os.uname().machine
    if name not in MACHINES:
        raise SandboxUnavailableError(f"there is no system call filter for {name}, only for {', '.join(MACHINES)}")
    return MACHINES[name]


@cache
def filter_program(machine: Machine, *, internet: bool, routes: bool = False, namespaces: bool = False) -> bytes:
    """The filter as the kernel reads it.

    `internet` lets sockets of IPv4 and IPv6 be made: where the network is allowed, and where it is a namespace of the
    command's own, in which it reaches only itself. `routes` lets it ask which addresses there are. UNIX sockets by
    name are never made: a mount does not stop a connection to one. Pairs of streams are, which reach nobody but each
    other: a datagram socket of a pair sends to any name. `namespaces` says that processes, System V IPC and message
    queues are the command's own; without them it may change only itself, and share memory only by inheritance.
    """
    code: Code = [*_load(_ARCH_AT), (_JUMP_EQUAL, 1, 0, machine.audit_arch), *_answer(KILL_PROCESS)]
    code += _load(_NUMBER_AT)
    if machine.x32:
        code += [(_JUMP_ANY_BIT, 0, 1, _X32_BIT), *_answer(REFUSE)]
    code += [(_JUMP_ABOVE, 0, 1, LAST_KNOWN), *_answer(UNKNOWN)]
    for name in REFUSED:
        code += _on(machine, name, _answer(REFUSE))
    for name in sorted(_NOT_THERE):
        code += _on(machine, name, _answer(UNKNOWN))
    code += _on(machine, "socket", _socket(internet, routes))
    code += _on(machine, "socketpair", _pair())
    code += _on(machine, "fallocate", _freeing_blocks())
    for name, block in _others_of_the_user(namespaces):
        code += _on(machine, name, block)
    code += _on(machine, "ioctl", _one_of(1, _TERMINAL_INJECTION, REFUSE, ALLOW))
    # A lease on a file that is only read keeps everybody else from writing it, for most of a minute each time.
    code += _on(machine, "fcntl", _one_of(1, [_SET_LEASE], REFUSE, ALLOW))
    code += _on(machine, "clone", _bits(0, _NEW_NAMESPACES))
    for name, argument in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        code += _on(machine, name, _bits(argument, _TAKES_ON_RIGHTS))
    for name, argument in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        code += _on(machine, name, _bits(argument, _TAKES_ON_RIGHTS))
    for name, argument in (("open", 1), ("openat", 2)):
        code += _on(machine, name, _opening(argument))
    code += _answer(ALLOW)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


# Only the lower half of an argument is looked at: where we look, the kernel takes an int and drops the rest.


def _load(offset: int) -> Code:
    return [(_LOAD, 0, 0, offset)]


def _argument(index: int) -> Code:
    return _load(_ARGUMENTS_AT + 8 * index)


def _answer(verdict: int) -> Code:
    return [(_RETURN, 0, 0, verdict)]


def _on(machine: Machine, name: str, block: Code) -> Code:
    """Run the block for this call; each block ends with an answer, so that the number stays loaded for the others."""
    number = machine.number(name)
    return [] if number is None else [(_JUMP_EQUAL, 0, len(block), number), *block]


def _one_of(argument: int, values: Iterable[int], then: int, otherwise: int) -> Code:
    code = _argument(argument)
    for value in values:
        code += [(_JUMP_EQUAL, 0, 1, value), *_answer(then)]
    return code + _answer(otherwise)


def _bits(argument: int, mask: int) -> Code:
    """Refuse where any of these is set."""
    return [*_argument(argument), (_JUMP_ANY_BIT, 0, 1, mask), *_answer(REFUSE), *_answer(ALLOW)]


def _others_of_the_user(namespaces: bool) -> Iterator[tuple[str, Code]]:
    """What a process may do to others of the same user, by number or by key."""
    if namespaces:
        # The first process of the namespace is ours: it ends the others.
        for name in ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
            yield name, _one_of(0, [_FIRST_PROCESS], REFUSE, ALLOW)
        yield from _priorities([_FIRST_PROCESS], REFUSE, ALLOW)
        small = [*_argument(1), (_JUMP_ABOVE, 0, 1, _LARGEST_SEGMENT), *_answer(REFUSE), *_answer(ALLOW)]
        yield "shmget", _upper_half_is_nothing(1, small)
        return
    # A limit may be read: that of anybody is in a file for all.
    only_reads = _upper_half_is_nothing(2, _one_of(2, [0], ALLOW, REFUSE))
    yield "prlimit64", [*_argument(0), (_JUMP_EQUAL, 0, 1, 0), *_answer(ALLOW), *only_reads]
    for name in ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
        yield name, _one_of(0, [0], ALLOW, REFUSE)
    yield from _priorities([0], ALLOW, REFUSE)
    for name in _BY_KEY:
        yield name, _answer(REFUSE)


def _priorities(processes: Iterable[int], then: int, otherwise: int) -> Iterator[tuple[str, Code]]:
    """By the process that is named; never a group or all of a user, which may have one of ours in it."""
    for name, by_process in (("setpriority", 0), ("ioprio_set", 1)):
        named = _one_of(1, processes, then, otherwise)
        yield name, [*_argument(0), (_JUMP_EQUAL, 0, len(named), by_process), *named, *_answer(REFUSE)]


def _upper_half_is_nothing(argument: int, block: Code) -> Code:
    """Refuse where it is not; for the few arguments of which the kernel takes 64 bits."""
    return [*_load(_ARGUMENTS_AT + 8 * argument + 4), (_JUMP_EQUAL, 1, 0, 0), *_answer(REFUSE), *block]


def _pair() -> Code:
    kinds = [
        *_argument(1),
        (_AND, 0, 0, _SOCK_TYPE_MASK),
        (_JUMP_EQUAL, 0, 1, _SOCK_STREAM),
        *_answer(ALLOW),
        *_answer(REFUSE),
    ]
    return [*_argument(0), (_JUMP_EQUAL, 0, len(kinds), _AF_UNIX), *kinds, *_answer(REFUSE)]


def _freeing_blocks() -> Code:
    """Reserved blocks are nobody's writing, and would be counted nowhere."""
    return [*_argument(1), (_JUMP_ANY_BIT, 0, 1, _FREES_BLOCKS), *_answer(ALLOW), *_answer(UNSUPPORTED)]


def _opening(flags: int) -> Code:
    # Where nothing is created the mode is whatever was in the register.
    mode = _bits(flags + 1, _TAKES_ON_RIGHTS)
    return [*_argument(flags), (_JUMP_ANY_BIT, 0, len(mode), _CREATES), *mode, *_answer(ALLOW)]


def _socket(internet: bool, routes: bool) -> Code:
    code: Code = []
    kinds = [
        *_argument(1),
        (_AND, 0, 0, _SOCK_TYPE_MASK),
        (_JUMP_EQUAL, 1, 0, _SOCK_STREAM),
        (_JUMP_EQUAL, 0, 1, _SOCK_DGRAM),
        *_answer(ALLOW),
        *_answer(REFUSE),
    ]
    if internet:
        code += [*_argument(0), (_JUMP_EQUAL, 1, 0, _AF_INET), (_JUMP_EQUAL, 0, len(kinds), _AF_INET6), *kinds]
    if routes:
        protocol = _one_of(2, [0], ALLOW, REFUSE)
        code += [*_argument(0), (_JUMP_EQUAL, 0, len(protocol), _AF_NETLINK), *protocol]
    return code + _answer(REFUSE)
