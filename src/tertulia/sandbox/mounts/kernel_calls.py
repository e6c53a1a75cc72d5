"""The kernel's calls for files and mounts by descriptor, which Python does not have.

A path that is resolved twice can lead to two places when a process renames directories meanwhile. Here a place is
opened once, compared with what is expected, and mounted on by its descriptor. Standard library only, as the mount
helper is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final, NamedTuple

from tertulia.sandbox.libc import check, libc, system_call

OLDEST_KERNEL: Final = "5.12"
"""The first that has all of these calls."""

# From number 424 on all architectures have the same numbers; the two older calls differ.
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT = 428, 429, 430, 431, 432
_OPENAT2, _MOUNT_SETATTR = 437, 442
_NEEDED: Final = (_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _OPENAT2, _MOUNT_SETATTR)

_EMPTY_PATH, _RECURSIVE, _CLOEXEC = 0x1000, 0x8000, os.O_CLOEXEC
_CLONE = 1
_FROM_EMPTY_PATH, _TO_EMPTY_PATH = 0x4, 0x40
_NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXECUTE = 1, 2, 4, 8
_PRIVATE = 1 << 18
_SET_STRING, _CREATE = 1, 6
_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK = 0x10000000, 0x00020000, 0x40000000
_SYMLINK_NOFOLLOW = 0x100
_BASIC_STATS, _BIRTH = 0x7FF, 0x800
_STATX_BYTES = 256
_IS_MOUNT_ROOT = 0x2000
GET_OWNER: Final = 0xB701
"""ioctl of a namespace: a descriptor of the user namespace that it belongs to."""


class FileFacts(NamedTuple):
    """What the kernel says of a file that `os.stat` does not."""

    device: int
    inode: int
    born_ns: int
    """When it was made; 0 where the file system does not keep it. With it no inode is taken for an earlier one."""
    is_mount_root: bool


def missing_calls() -> bool:
    """Whether this kernel is too old."""
    return any(_number_of(number) == errno.ENOSYS for number in _NEEDED)


def _number_of(call: int) -> int:
    """The error of a call whose arguments make no sense."""
    libc.syscall(ctypes.c_long(call), -1, None, -1, None, -1)
    return ctypes.get_errno()


_PATH_ALONE: Final[int] = getattr(os, "O_PATH", 0)
"""Of Linux; elsewhere nothing here is called."""


def open_beneath(parent: int, path: str, flags: int = _PATH_ALONE) -> int:
    """Open it below the directory `parent`: never through a symbolic link, never out of it. A link itself is opened."""
    how = struct.pack("=QQQ", flags | os.O_NOFOLLOW | _CLOEXEC, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGIC_LINKS)
    return system_call(_OPENAT2, parent, os.fsencode(path), how, ctypes.c_size_t(len(how)))


def clone_tree(fd: int) -> int:
    """A copy of what is mounted there, with all below, that is not mounted anywhere yet."""
    return system_call(_OPEN_TREE, fd, b"", ctypes.c_uint(_CLONE | _CLOEXEC | _EMPTY_PATH | _RECURSIVE))


def make_read_only(fd: int, *, recursive: bool = True) -> None:
    """The mount whose root this is, and those below it."""
    attributes = struct.pack("=QQQQ", _READ_ONLY, 0, 0, 0)
    flags = _EMPTY_PATH | (_RECURSIVE if recursive else 0)
    system_call(_MOUNT_SETATTR, fd, b"", ctypes.c_uint(flags), attributes, ctypes.c_size_t(len(attributes)))


def make_private(fd: int) -> None:
    """The mount whose root this is, and those below it: what is mounted elsewhere from now on does not come here."""
    attributes = struct.pack("=QQQQ", 0, 0, _PRIVATE, 0)
    flags = _EMPTY_PATH | _RECURSIVE
    system_call(_MOUNT_SETATTR, fd, b"", ctypes.c_uint(flags), attributes, ctypes.c_size_t(len(attributes)))


def move_tree(fd: int, destination: int) -> None:
    """Mount it on exactly the file or directory that `destination` is open on, wherever that lies by now."""
    system_call(_MOVE_MOUNT, fd, b"", destination, b"", ctypes.c_uint(_FROM_EMPTY_PATH | _TO_EMPTY_PATH))


def new_tmpfs(mode: str) -> int:
    """An empty file system in memory that is not mounted anywhere yet."""
    context = system_call(_FSOPEN, b"tmpfs", ctypes.c_uint(1))
    try:
        system_call(_FSCONFIG, context, ctypes.c_uint(_SET_STRING), b"mode", mode.encode(), 0)
        system_call(_FSCONFIG, context, ctypes.c_uint(_SET_STRING), b"size", b"64k", 0)
        system_call(_FSCONFIG, context, ctypes.c_uint(_CREATE), None, None, 0)
        return system_call(_FSMOUNT, context, ctypes.c_uint(1), ctypes.c_uint(_NO_SUID | _NO_DEVICES | _NO_EXECUTE))
    finally:
        os.close(context)


def enter(user: int, mounts: int) -> None:
    """Become a process of this user namespace and this mount namespace. For good, and only without threads."""
    for fd, kind in ((user, _NEW_USER), (mounts, _NEW_MOUNTS)):
        check(libc.setns(fd, kind))


def enter_network(network: int) -> None:
    """Become a process of this network namespace, whose user namespace was entered before."""
    check(libc.setns(network, _NEW_NETWORK))


def file_facts(path: str, *, parent: int | None = None) -> FileFacts:
    """Of what stands there, links not followed; of `parent` itself where the path is empty."""
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    at = -100 if parent is None else parent
    flags = _SYMLINK_NOFOLLOW | (0 if path else _EMPTY_PATH)
    check(libc.statx(at, os.fsencode(path), flags, ctypes.c_uint(_BASIC_STATS | _BIRTH), buffer))
    mask, _, attributes = struct.unpack_from("=IIQ", buffer, 0)
    (inode,) = struct.unpack_from("=Q", buffer, 32)
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, 80)
    major, minor = struct.unpack_from("=II", buffer, 136)
    born = seconds * 1_000_000_000 + nanoseconds if mask & _BIRTH else 0
    return FileFacts(os.makedev(major, minor), inode, born, bool(attributes & _IS_MOUNT_ROOT))
