"""The system call filter (seccomp) as a BPF program, in pure Python: what a command may not ask of the kernel.

It is the same in both tiers. A call is refused with EPERM, never by killing, so that a program can report what it could
not do. Only a call in the numbering of another architecture kills, because its numbers mean other calls. The numbers of
all calls that the filter names stand here too, for each machine that there is a filter for.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import msgspec

from tertulia.errors import SandboxUnavailableError


class Machine(msgspec.Struct, frozen=True):
    """How one architecture calls its kernel."""

    name: str
    """The name that `os.uname()` gives it."""
    audit_arch: int
    """What the kernel puts in front of a filter."""
    column: int
    x32: bool = False
    """Whether the same kernel answers to a second numbering."""

    def number(self, name: str) -> int | None:
        """None where this machine never had the call."""
        return NUMBERS[name][self.column]


MACHINES: Final = {
    "x86_64": Machine("x86_64", 0xC000003E, 0, x32=True),
    "aarch64": Machine("aarch64", 0xC00000B7, 1),
}

LAST_KNOWN: Final = 462
"""mseal. Since 424 all machines count alike; whatever came later is answered as an older kernel would."""

NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    # name: (x86_64, aarch64)
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fallocate": (285, 47),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_getsetattr": (245, 185),
    "mq_notify": (244, 184),
    "mq_open": (240, 180),
    "mq_timedreceive": (243, 183),
    "mq_timedsend": (242, 182),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}


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
    name are never made: a mount does not stop a connection to one. Pairs of streams are, which reach nothing but each
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
    """Reserved blocks count as written by no process, and would be counted nowhere."""
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
