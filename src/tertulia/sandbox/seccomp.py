"""The system call filter (seccomp) as a BPF program, in pure Python: which system calls a command may not make.

A call is refused with EPERM, never by killing, so that a program can report what it could not do. Only a call in the
numbering of another architecture kills, because its numbers mean other calls. Where Landlock confines files, the filter
also closes what Landlock does not look at: control of files by `ioctl`, and truncating where its version is too old.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from tertulia.sandbox.seccomp_numbers import LAST_KNOWN, NUMBERS, Machine

ALLOW: Final = 0x7FFF0000
KILL_PROCESS: Final = 0x80000000
_ERRNO: Final = 0x00050000
REFUSE: Final = _ERRNO | errno.EPERM
UNKNOWN: Final = _ERRNO | errno.ENOSYS
"""As if the kernel were older: the C library then takes another way."""
UNSUPPORTED: Final = _ERRNO | errno.EOPNOTSUPP
"""As if the file system could not: programs then write what they would have reserved."""
NO_TERMINAL: Final = _ERRNO | errno.ENOTTY
"""As if the file had no such control."""

_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_JUMP_AT_LEAST, _JUMP = 0x35, 0x05
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
_EVERY_PROCESS = 0xFFFFFFFF
_ACCESS_MODE, _TRUNCATES = 0o3, 0o1000
_NOT_FOR_WRITING = (0, 3)
"""The access modes of an open file that cannot be written; the second is for controls alone."""

_TYPE_OF_CONTROL, _OF_TERMINALS, _OF_SOCKETS = 0xFF00, 0x5400, 0x8900
_HARMLESS_CONTROLS = (
    0x00000002,  # FIGETBSZ
    0x80086601,  # FS_IOC_GETFLAGS
    0x80087601,  # FS_IOC_GETVERSION
    0xC020660B,  # FS_IOC_FIEMAP
    0x801C581F,  # FS_IOC_FSGETXATTR
    0x40049409,  # FICLONE and FICLONERANGE: the file that they change must be open for writing
    0x4020940D,
    0x80045200,  # RNDGETENTCNT
)
"""Of files. Others change a file that is only open for reading, or its directory: no kernel has Landlock look at it."""
_LANDLOCK_TRUNCATES, _LANDLOCK_SIGNALS = 3, 6
"""The first versions of Landlock that hold these."""

_WITH_ARGUMENTS = {
    *("clone", "socket", "socketpair", "ioctl", "chmod", "fchmod", "fchmodat", "fchmodat2", "open", "openat"),
    *("creat", "fcntl", "mknod", "mknodat", "prlimit64", "fallocate", "truncate", "kill"),
}
_NOT_THERE = {"clone3", "openat2", "memfd_secret"}
"""Their arguments lie in memory, where a filter cannot look; or what they make does, where no watcher can."""
_SCHEDULING = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
_BY_PROCESS = {*_SCHEDULING, "setpriority", "ioprio_set"}
"""They name a process, or all of a user: fit for a namespace of the command's own."""
_BY_KEY: Final = (
    *("mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink"),
    *("msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop"),
    *("shmat", "shmctl", "shmdt", "shmget"),
)
"""They name what any process of the same user has made: likewise."""
REFUSED: Final = tuple(sorted(NUMBERS.keys() - _WITH_ARGUMENTS - _NOT_THERE - _BY_PROCESS - {*_BY_KEY}))

_OPENS: Final[Mapping[str, int]] = {"open": 1, "openat": 2}
"""Which argument has the flags."""
_TRIED_IN_TURN = 4

Code = list[tuple[int, int, int, int]]


@cache
def filter_program(
    machine: Machine, *, internet: bool, routes: bool = False, namespaces: bool = False, landlock: int = 6
) -> bytes:
    """The filter as the kernel reads it.

    `internet` lets sockets of IPv4 and IPv6 be made: where the network is allowed, and where it is a namespace of the
    command's own, in which it reaches only itself. `routes` lets it ask which addresses there are. UNIX sockets by
    name are never made: a mount does not stop a connection to one. Pairs of streams are, which reach nothing but each
    other: a datagram socket of a pair sends to any name. `namespaces` says that processes, mounts, System V IPC and
    message queues are the command's own; without them it may change only itself, and share memory only by inheritance.
    Then `landlock` is the version that confines its files.
    """
    blocks = _blocks(internet, routes)
    blocks |= _in_namespaces() if namespaces else {**_beside_others_of_the_user(), **_beside_landlock(landlock)}
    numbered = [(number, block) for name, block in blocks.items() if (number := machine.number(name)) is not None]
    code: Code = [*_load(_ARCH_AT), (_JUMP_EQUAL, 1, 0, machine.audit_arch), *_answer(KILL_PROCESS)]
    code += _load(_NUMBER_AT)
    if machine.x32:
        code += [(_JUMP_ANY_BIT, 0, 1, _X32_BIT), *_answer(REFUSE)]
    code += [(_JUMP_ABOVE, 0, 1, LAST_KNOWN), *_answer(UNKNOWN)]
    code += _search(sorted(numbered))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _blocks(internet: bool, routes: bool) -> dict[str, Code]:
    """What is asked of each call by name, in both tiers."""
    blocks = {name: _answer(REFUSE) for name in REFUSED} | {name: _answer(UNKNOWN) for name in _NOT_THERE}
    blocks |= {"socket": _socket(internet, routes), "socketpair": _pair(), "fallocate": _freeing_blocks()}
    blocks["ioctl"] = _one_of(1, _TERMINAL_INJECTION, REFUSE, ALLOW)
    # A lease on a file that is only read keeps all other processes from writing it, for most of a minute each time.
    blocks["fcntl"] = _one_of(1, [_SET_LEASE], REFUSE, ALLOW)
    blocks["clone"] = _bits(0, _NEW_NAMESPACES)
    for name, argument in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        blocks[name] = _bits(argument, _TAKES_ON_RIGHTS)
    for name, argument in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        blocks[name] = _bits(argument, _TAKES_ON_RIGHTS)
    return blocks | {name: _opening(argument) for name, argument in _OPENS.items()}


def _beside_landlock(version: int) -> dict[str, Code]:
    """What Landlock does not look at, at all or in this version, though it could change files outside the roots."""
    blocks = {"ioctl": _controls()}
    if version < _LANDLOCK_TRUNCATES:
        blocks["truncate"] = _answer(REFUSE)
        blocks |= {name: _truncating(argument, _opening(argument)) for name, argument in _OPENS.items()}
    if version < _LANDLOCK_SIGNALS:
        # Without a namespace of processes that would be all of the user's.
        blocks["kill"] = _one_of(0, [_EVERY_PROCESS], REFUSE, ALLOW)
    return blocks


def _search(numbered: Sequence[tuple[int, Code]]) -> Code:
    """Find the block of a call by halving: the kernel tries the program with every number when it is installed."""
    if len(numbered) <= _TRIED_IN_TURN:
        tried = [instruction for number, block in numbered for instruction in _on(number, block)]
        return tried + _answer(ALLOW)
    middle = len(numbered) // 2
    lower, upper = _search(numbered[:middle]), _search(numbered[middle:])
    # A jump that depends on something reaches 255 instructions, one that does not any number.
    return [(_JUMP_AT_LEAST, 0, 1, numbered[middle][0]), (_JUMP, 0, 0, len(lower)), *lower, *upper]


# Only the lower half of an argument is looked at: where we look, the kernel takes an int and drops the rest.


def _load(offset: int) -> Code:
    return [(_LOAD, 0, 0, offset)]


def _argument(index: int) -> Code:
    return _load(_ARGUMENTS_AT + 8 * index)


def _answer(verdict: int) -> Code:
    return [(_RETURN, 0, 0, verdict)]


def _on(number: int, block: Code) -> Code:
    """Run the block for this call; each block ends with an answer, so that the number stays loaded for the others."""
    return [(_JUMP_EQUAL, 0, len(block), number), *block]


def _one_of(argument: int, values: Iterable[int], then: int, otherwise: int) -> Code:
    code = _argument(argument)
    for value in values:
        code += [(_JUMP_EQUAL, 0, 1, value), *_answer(then)]
    return code + _answer(otherwise)


def _bits(argument: int, mask: int) -> Code:
    """Refuse where any of these is set."""
    return [*_argument(argument), (_JUMP_ANY_BIT, 0, 1, mask), *_answer(REFUSE), *_answer(ALLOW)]


def _in_namespaces() -> dict[str, Code]:
    """The first process of the namespace is ours, and no command's to change: it ends the others."""
    not_the_first = _one_of(0, [_FIRST_PROCESS], REFUSE, ALLOW)
    small = [*_argument(1), (_JUMP_ABOVE, 0, 1, _LARGEST_SEGMENT), *_answer(REFUSE), *_answer(ALLOW)]
    return {
        "prlimit64": not_the_first,
        **dict.fromkeys(_SCHEDULING, not_the_first),
        **_priorities([_FIRST_PROCESS], REFUSE, ALLOW),
        "shmget": _upper_half_is_nothing(1, small),
    }


def _beside_others_of_the_user() -> dict[str, Code]:
    """What a process could do to others of the same user, by number or by key, it may only do to itself."""
    # A limit may be read: that of every process is in a file for all.
    only_reads = _upper_half_is_nothing(2, _one_of(2, [0], ALLOW, REFUSE))
    return {
        "prlimit64": [*_argument(0), (_JUMP_EQUAL, 0, 1, 0), *_answer(ALLOW), *only_reads],
        **{name: _one_of(0, [0], ALLOW, REFUSE) for name in _SCHEDULING},
        **_priorities([0], ALLOW, REFUSE),
        **{name: _answer(REFUSE) for name in _BY_KEY},
    }


def _priorities(processes: Iterable[int], then: int, otherwise: int) -> dict[str, Code]:
    """By the process that is named; never a group or all of a user, which may have one of ours in it."""
    named = _one_of(1, processes, then, otherwise)
    return {
        name: [*_argument(0), (_JUMP_EQUAL, 0, len(named), by_process), *named, *_answer(REFUSE)]
        for name, by_process in (("setpriority", 0), ("ioprio_set", 1))
    }


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
    """Reserved blocks count as written by no process, and would be counted nowhere."""
    return [*_argument(1), (_JUMP_ANY_BIT, 0, 1, _FREES_BLOCKS), *_answer(ALLOW), *_answer(UNSUPPORTED)]


def _opening(flags: int) -> Code:
    # Where nothing is created the mode is whatever was in the register.
    mode = _bits(flags + 1, _TAKES_ON_RIGHTS)
    return [*_argument(flags), (_JUMP_ANY_BIT, 0, len(mode), _CREATES), *mode, *_answer(ALLOW)]


def _truncating(flags: int, block: Code) -> Code:
    """Refuse to empty a file that is not opened for writing, which is what is asked about; else go on."""
    code: Code = [*_argument(flags), (_AND, 0, 0, _TRUNCATES | _ACCESS_MODE)]
    for mode in _NOT_FOR_WRITING:
        code += [(_JUMP_EQUAL, 0, 1, _TRUNCATES | mode), *_answer(REFUSE)]
    return code + block


def _controls() -> Code:
    """Those of terminals and sockets, and of files the few that are known to change nothing of a file only read."""
    code = _argument(1)
    for control in _TERMINAL_INJECTION:
        code += [(_JUMP_EQUAL, 0, 1, control), *_answer(REFUSE)]
    for control in _HARMLESS_CONTROLS:
        code += [(_JUMP_EQUAL, 0, 1, control), *_answer(ALLOW)]
    code += [(_AND, 0, 0, _TYPE_OF_CONTROL)]
    for kind in (_OF_TERMINALS, _OF_SOCKETS):
        code += [(_JUMP_EQUAL, 0, 1, kind), *_answer(ALLOW)]
    return code + _answer(NO_TERMINAL)


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
