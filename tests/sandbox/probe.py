"""Runs inside a sandbox and tries to get out, in every way that HARDENING A lists. Standard library only.

Called with a JSON object of places and numbers. Each attempt runs in a process of its own, so that none can spoil
another, and prints nothing; the answer is one JSON object: for each attempt whether it succeeded.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
ATTEMPTS: dict[str, Callable[[Any], object]] = {}
ATTEMPT_TIMEOUT_S = 5
IS_X86 = os.uname().machine == "x86_64"
KNOWN = {  # name: (x86_64, aarch64)
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "clone": (56, 220),
    "clone3": (435, 435),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "move_mount": (429, 429),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "seccomp": (317, 277),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "ioprio_get": (252, 31),
    "mq_open": (240, 180),
    "sched_setattr": (314, 274),
    "sched_getattr": (315, 275),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}


def attempt(name: str) -> Callable[[Callable[[Any], object]], Callable[[Any], object]]:
    """Register; an attempt succeeds when it does not raise and does not return False."""

    def register(act: Callable[[Any], object]) -> Callable[[Any], object]:
        ATTEMPTS[name] = act
        return act

    return register


def syscall(name: str | int, *arguments: object) -> int:
    number = KNOWN[name][0 if IS_X86 else 1] if isinstance(name, str) else name
    result = LIBC.syscall(number, *arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return int(result)


# ---- A1..A3: files outside


def _exchange(path: str) -> None:
    Path("mine").write_text("x")
    if LIBC.renameat2(-100, b"mine", -100, path.encode(), 2) != 0:
        raise OSError(ctypes.get_errno(), "refused")


def _file(name: str, act: Callable[[str], object]) -> None:
    ATTEMPTS[name] = lambda at: act(at["outside"])


_file("A1 create", lambda out: Path(out, "new").write_text("x"))
_file("A1 overwrite", lambda out: Path(out, "file").write_text("x"))
_file("A1 append", lambda out: os.write(os.open(f"{out}/file", os.O_WRONLY | os.O_APPEND), b"x"))
_file("A1 truncate", lambda out: os.truncate(f"{out}/file", 0))
_file("A1 truncate by opening to read", lambda out: os.open(f"{out}/file", os.O_RDONLY | os.O_TRUNC))
_file("A1 truncate by opening for controls", lambda out: os.open(f"{out}/file", os.O_ACCMODE | os.O_TRUNC))
_file("A1 rename beside it", lambda out: os.rename(f"{out}/file", f"{out}/renamed"))
_file("A1 exchange with a file of one's own", lambda out: _exchange(f"{out}/file"))
_file(
    "A1 flags by a control", lambda out: fcntl.ioctl(os.open(f"{out}/quiet", os.O_RDONLY), 0x40086602, b"@" + bytes(7))
)
_file("A1 unlink", lambda out: os.unlink(f"{out}/file"))
_file("A1 mkdir", lambda out: os.mkdir(f"{out}/directory"))
_file("A1 symlink", lambda out: os.symlink("/etc", f"{out}/link"))
_file("A3 chmod", lambda out: os.chmod(f"{out}/file", 0o777))
_file("A3 chown", lambda out: os.chown(f"{out}/file", os.getuid(), os.getgid()))
_file("A3 utime", lambda out: os.utime(f"{out}/file", (1, 1)))
_file("A3 setxattr", lambda out: os.setxattr(f"{out}/file", "user.x", b"x"))


@attempt("A1 create beside the source")
def _(at: Any) -> None:
    Path(at["far"]).write_text("x")


@attempt("A1 rename to outside")
def _(at: Any) -> None:
    Path(at["workspace"], "mine").write_text("x")
    os.rename(f"{at['workspace']}/mine", f"{at['outside']}/mine")


@attempt("A1 rename from outside")
def _(at: Any) -> None:
    os.rename(f"{at['outside']}/file", f"{at['workspace']}/taken")


@attempt("A1 hard link of a file outside")
def _(at: Any) -> None:
    os.link(f"{at['outside']}/file", f"{at['workspace']}/linked")


@attempt("A1 hard link to outside")
def _(at: Any) -> None:
    Path(at["workspace"], "mine").write_text("x")
    os.link(f"{at['workspace']}/mine", f"{at['outside']}/linked")


@attempt("A2 through a link to a file")
def _(at: Any) -> None:
    os.symlink(f"{at['outside']}/file", f"{at['workspace']}/file-link")
    Path(at["workspace"], "file-link").write_text("x")


@attempt("A2 through a link to a directory")
def _(at: Any) -> None:
    os.symlink(at["outside"], f"{at['workspace']}/directory-link")
    Path(at["workspace"], "directory-link", "new").write_text("x")


@attempt("a program that takes on the owner's rights")
def _(at: Any) -> None:
    Path(at["workspace"], "suid").write_text("x")
    os.chmod(f"{at['workspace']}/suid", 0o4755)


# ---- A4..A6: protected names


def _inside(name: str, act: Callable[[Path], object]) -> None:
    ATTEMPTS[name] = lambda at: act(Path(at["workspace"]))


_inside("A4 git hook", lambda root: (root / ".git/hooks/pre-commit").write_text("x"))
_inside("A4 git config", lambda root: (root / ".git/config").write_text("x"))
_inside("A4 agent's settings", lambda root: (root / ".claude/settings.json").write_text("x"))
_inside("A4 server list", lambda root: (root / ".mcp.json").write_text("x"))
_inside("A4 server list away", lambda root: (root / ".mcp.json").unlink())
_inside("A4 editor", lambda root: (root / ".vscode/tasks.json").write_text("x"))
_inside("A4 git away", lambda root: (root / ".git").rename(root / "git"))
_inside("A4 git hook deeper down", lambda root: (root / "deep/er/.git/hooks/pre-commit").write_text("x"))
_inside("A4 git config deeper down", lambda root: (root / "deep/er/.git/config").write_text("x"))
_inside("A4 git away deeper down", lambda root: (root / "deep/er/.git").rename(root / "deep/er/git"))
_inside("A5 make a directory", lambda root: (root / ".idea").mkdir())
_inside("A5 make a file", lambda root: (root / ".codex").write_text("x"))
_inside("A5 make a link", lambda root: (root / ".tertulia").symlink_to("/etc"))
_inside("A5 put something in", lambda root: (root / ".idea/x").write_text("x"))


@attempt("A5 move something there")
def _(at: Any) -> None:
    root = Path(at["workspace"])
    (root / "made").mkdir(exist_ok=True)
    (root / "made").rename(root / ".idea")


@attempt("A5 take the placeholder away")
def _(at: Any) -> None:
    os.rmdir(f"{at['workspace']}/.idea")


@attempt("A6 rename the parent")
def _(at: Any) -> None:
    os.rename(at["workspace"], f"{at['workspace']}-moved")


# ---- A9, A10: sockets


def _connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as line:
        line.settimeout(2)
        line.connect(address)
        line.sendall(b"x")


@attempt("A9 TCP")
def _(at: Any) -> None:
    _connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", at["tcp"]))


@attempt("A9 TCP by IPv6")
def _(at: Any) -> None:
    _connect(socket.AF_INET6, socket.SOCK_STREAM, ("::1", at["tcp"]))


@attempt("A9 UDP")
def _(at: Any) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(1)
        line.sendto(b"x", ("127.0.0.1", at["udp"]))
        return line.recv(1) == b"y"


@attempt("A9 name resolution")
def _(at: Any) -> None:
    socket.getaddrinfo("tertulia-test.example.com", 80)


@attempt("A9 bash dev-tcp")
def _(at: Any) -> None:
    subprocess.run(
        ["bash", "-c", f"echo x > /dev/tcp/127.0.0.1/{at['tcp']}"], check=True, timeout=3, stderr=subprocess.DEVNULL
    )


for _name, _arguments in {
    "A9 raw socket": (socket.AF_INET, socket.SOCK_RAW, 1),
    "A9 packet socket": (17, socket.SOCK_RAW, 0x300),
    "A9 netlink": (16, socket.SOCK_RAW, 0),
    "A9 vsock": (40, socket.SOCK_STREAM, 0),
    "A9 kernel crypto": (38, 5, 0),
}.items():
    ATTEMPTS[_name] = lambda at, arguments=_arguments: socket.socket(*arguments)

ATTEMPTS["A9 io_uring"] = lambda at: syscall("io_uring_setup", 4, ctypes.create_string_buffer(120))
ATTEMPTS["A10 UNIX socket by path"] = lambda at: _connect(socket.AF_UNIX, socket.SOCK_STREAM, at["unix"])
ATTEMPTS["A10 UNIX socket in the workspace"] = lambda at: _connect(socket.AF_UNIX, socket.SOCK_STREAM, at["near"])
ATTEMPTS["A10 abstract socket"] = lambda at: _connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + at["abstract"])


def _through_a_pair(kind: int, at: Any, name: str, *, rights: bool = False) -> bool:
    """S5: whether a socket of a pair sends to somebody else by name. Sent to its own other end is no success."""
    mine, other = socket.socketpair(socket.AF_UNIX, kind)
    other.setblocking(False)
    carried = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", other.fileno()))] if rights else []
    mine.sendmsg([b"x"], carried, 0, name)
    try:
        return other.recv(1) != b"x"
    except BlockingIOError:
        return True


for _kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
    ATTEMPTS[f"A10 {_kind.name} pair to a path"] = lambda at, kind=_kind: _through_a_pair(kind, at, at["datagrams"])
    ATTEMPTS[f"A10 {_kind.name} pair to an abstract name"] = lambda at, kind=_kind: _through_a_pair(
        kind, at, "\0" + at["abstract_datagrams"]
    )
    ATTEMPTS[f"A10 {_kind.name} pair carries a descriptor"] = lambda at, kind=_kind: _through_a_pair(
        kind, at, at["datagrams"], rights=True
    )
    ATTEMPTS[f"A10 {_kind.name} pair connects to a path"] = lambda at, kind=_kind: socket.socketpair(
        socket.AF_UNIX, kind
    )[0].connect(at["datagrams"])


# ---- S6: other processes of the same user, and what they made. Each attempt sets what is so already.


def _limit_of(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))


def _attributes_of(pid: int) -> None:
    attributes = ctypes.create_string_buffer(struct.pack("I", 48), 48)
    syscall("sched_getattr", pid, attributes, 48, 0)
    syscall("sched_setattr", pid, attributes, 0)


ATTEMPTS["S6 limits of the parent"] = lambda at: _limit_of(at["parent"])
ATTEMPTS["S6 nice of the parent"] = lambda at: os.setpriority(
    os.PRIO_PROCESS, at["parent"], os.getpriority(os.PRIO_PROCESS, at["parent"])
)
ATTEMPTS["S6 affinity of the parent"] = lambda at: os.sched_setaffinity(
    at["parent"], os.sched_getaffinity(at["parent"])
)
ATTEMPTS["S6 scheduler of the parent"] = lambda at: os.sched_setscheduler(
    at["parent"], os.sched_getscheduler(at["parent"]), os.sched_param(0)
)
ATTEMPTS["S6 scheduling parameter of the parent"] = lambda at: os.sched_setparam(at["parent"], os.sched_param(0))
ATTEMPTS["S6 scheduling attributes of the parent"] = lambda at: _attributes_of(at["parent"])
ATTEMPTS["S6 disk priority of the parent"] = lambda at: syscall(
    "ioprio_set", 1, at["parent"], syscall("ioprio_get", 1, at["parent"])
)
ATTEMPTS["S6 a lease that keeps writers out"] = lambda at: fcntl.fcntl(
    os.open(f"{at['outside']}/quiet", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK
)
ATTEMPTS["S6 shared memory of the host"] = lambda at: _function("shmat")(at["shared_memory"], None, 0)
ATTEMPTS["S6 take away the host's shared memory"] = lambda at: _function("shmctl")(at["shared_memory"], 0, None)
ATTEMPTS["S6 message queue of the host"] = lambda at: _function("msgsnd")(
    at["messages"], struct.pack("l", 1) + b"x", 1, 0o4000
)
ATTEMPTS["S6 semaphore of the host"] = lambda at: _function("semctl")(at["semaphores"], 0, 16, 7)
ATTEMPTS["S6 POSIX message queue of the host"] = lambda at: syscall(
    "mq_open", at["mqueue"].encode(), os.O_WRONLY, 0, None
)


def _function(name: str) -> Callable[..., int]:
    def call(*arguments: object) -> int:
        function = getattr(LIBC, name)
        function.restype = ctypes.c_long if name == "shmat" else ctypes.c_int
        result = function(*arguments)
        if result == -1:
            raise OSError(ctypes.get_errno(), "refused")
        return int(result)

    return call


# ---- A11: other processes


def _environments() -> list[bytes]:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


ATTEMPTS["A11 environ of the parent"] = lambda at: any(at["canary"].encode() in text for text in _environments())
ATTEMPTS["A11 memory of the parent"] = lambda at: open(f"/proc/{at['parent']}/mem", "rb").close()
ATTEMPTS["A11 signal the parent"] = lambda at: os.kill(at["parent"], 0)
# SEIZE, not ATTACH: it stops nobody.
ATTEMPTS["A11 ptrace"] = lambda at: syscall("ptrace", 0x4206, at["parent"], 0, 0)


@attempt("A11 ptrace a child of one's own")
def _(at: Any) -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        syscall("ptrace", 0x4206, child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)


@attempt("A11 process_vm_readv")
def _(at: Any) -> None:
    place = ctypes.create_string_buffer(8)
    vector = struct.pack("PN", ctypes.addressof(place), 8)
    syscall("process_vm_readv", os.getppid(), vector, 1, vector, 1, 0)


@attempt("A11 pidfd_getfd")
def _(at: Any) -> None:
    syscall("pidfd_getfd", syscall("pidfd_open", os.getppid(), 0), 0, 0)


# ---- A12, A13: the kernel


def _refused_by_policy(name: str, *arguments: object, called: str | None = None) -> None:
    """Whether it was the filter: what is refused for other reasons would prove nothing."""

    def act(at: Any) -> bool:
        try:
            syscall(name, *arguments)
        except OSError as error:
            return error.errno not in (errno.EPERM, errno.ENOSYS)
        return True

    ATTEMPTS[called or f"A12 {name}"] = act


_refused_by_policy("mount", b"none", b"/", b"tmpfs", 0, None)
_refused_by_policy("umount2", b"/proc", 2)
_refused_by_policy("pivot_root", b"/", b"/")
_refused_by_policy("chroot", b"/")
_refused_by_policy("unshare", 0x10000000)
_refused_by_policy("setns", 0, 0)
_refused_by_policy("bpf", 0, None, 0)
_refused_by_policy("keyctl", 0, -3, 0)
_refused_by_policy("add_key", b"user", b"x", b"x", 1, -3)
_refused_by_policy("perf_event_open", None, 0, -1, -1, 0)
_refused_by_policy("open_by_handle_at", -100, None, 0)
_refused_by_policy("userfaultfd", 0)
_refused_by_policy("clone3", None, 0)
_refused_by_policy("open_tree", -100, b"/", 1)
_refused_by_policy("fsopen", b"tmpfs", 0)
_refused_by_policy("move_mount", -1, b"", -1, b"", 0)
_refused_by_policy("kexec_load", 0, 0, None, 0)
_refused_by_policy("init_module", None, 0, b"")
_refused_by_policy("process_madvise", 0, None, 0, 0, 0)
_refused_by_policy("process_mrelease", 0, 0)
_refused_by_policy("kcmp", 1, 1, 0, 0, 0)
_refused_by_policy("migrate_pages", 0, 0, None, None)
_refused_by_policy("move_pages", 0, 0, None, None, None, 0)


# S6: of a group and of a user that nobody is in. Of real ones, each would get the priority of the first.
_refused_by_policy("setpriority", 1, 0x3FFFFFF0, 19, called="A12 nice of a group")
_refused_by_policy("setpriority", 2, 0x3FFFFFF0, 19, called="A12 nice of a user")
_refused_by_policy("ioprio_set", 2, 0x3FFFFFF0, 3 << 13, called="A12 disk priority of a group")
_refused_by_policy("ioprio_set", 3, 0x3FFFFFF0, 3 << 13, called="A12 disk priority of a user")


@attempt("A12 clone into a user namespace")
def _(at: Any) -> None:
    if syscall("clone", 0x10000000 | signal.SIGCHLD, None, None, None, None) == 0:
        os._exit(0)


if IS_X86:
    ATTEMPTS["A12 x32"] = lambda at: syscall(0x40000000 | 39)

    @attempt("A12 foreign architecture")
    def _(at: Any) -> bool:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid of i386); int 0x80; ret
        function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        return function() == os.getpid()


def _opens_for_writing(path: str) -> Callable[[Any], object]:
    return lambda at: os.close(os.open(path, os.O_WRONLY))


for _path in (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
):
    if os.path.exists(_path):
        ATTEMPTS[f"A13 {_path}"] = _opens_for_writing(_path)


# ---- A14: secrets


@attempt("A14 secrets")
def _(at: Any) -> bool:
    for path in at["secrets"]:
        try:
            if at["canary"] in Path(path).read_text():
                return True
        except OSError:
            continue
    return False


@attempt("A14 a secret place that is not there yet")
def _(at: Any) -> None:
    Path(at["missing_secret"]).mkdir()


# ---- running them


def _try(act: Callable[[Any], object], at: Any) -> bool:
    child = os.fork()
    if child == 0:
        signal.alarm(ATTEMPT_TIMEOUT_S)
        try:
            os._exit(1 if act(at) is False else 0)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return status == 0


def main() -> None:
    at = json.loads(sys.argv[1])
    chosen = {name: act for name, act in ATTEMPTS.items() if name.startswith(tuple(at.get("only", [""])))}
    # Nobody writes to the terminal or dumps core for what was to be expected.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.stdout.write(json.dumps({name: _try(act, at) for name, act in chosen.items()}))


if __name__ == "__main__":
    main()
