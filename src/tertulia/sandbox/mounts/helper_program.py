"""The program that mounts inside a sandbox, by descriptor, before its command begins: small and of one thread.

It is started once. A worker, forked before it is needed, takes one request: it enters the namespaces of bubblewrap,
opens every place once and compares it with what was seen from outside, mounts, and looks at the result by the way
a command would take. A hostile command of another sandbox may rename what it likes meanwhile: a place that is not the
expected one is not mounted on, nothing is made outside the private directories, and an answer other than "done" means
that the command is not started. Standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from tertulia.sandbox.mounts.entries import (
    PROXY_PORT,
    STAGING,
    MountEntry,
    MountNode,
    build_tree,
    decode_entries,
    encode_entries,
)
from tertulia.sandbox.mounts.kernel_calls import (
    GET_OWNER,
    clone_tree,
    enter,
    enter_network,
    file_facts,
    make_read_only,
    move_tree,
    new_tmpfs,
    open_beneath,
)
from tertulia.sandbox.mounts.late_mounts import GONE, keep_mounts_out, writable_mounts

_TAKEN = b"t"
_FDS = 4
GO = b"g"
"""For a command that waits."""
PLAIN, LISTENS = b"1", b"l"
"""What a request says with its descriptors: the second, that a listener is wanted inside the sandbox as well."""
_BACKLOG = 128
_UNDISTURBED_MS = 20
"""How long most commands take to be mounted and begin."""


def serve(line: int) -> None:
    """A worker for each request, until the other side is gone.

    A request is two descriptors: the mount namespace, and a line on which the plan comes and the answer goes; where a
    command waits for all to be mounted, one to tell it that; and where a listener is wanted, the network namespace.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    # Workers are reaped by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()
    requests = socket.socket(fileno=line)
    while True:
        hears, tells = os.pipe()
        if os.fork() == 0:
            os.close(hears)
            _work(requests, tells)
        os.close(tells)
        taken = os.read(hears, 1)
        os.close(hears)
        if not taken:
            return
        # To fork the next worker takes a processor that this one and its command need. Another command does not wait.
        _is_readable(requests, _UNDISTURBED_MS)


def _is_readable(requests: socket.socket, timeout_ms: int = 0) -> bool:
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    return bool(poll.poll(timeout_ms))


def _work(requests: socket.socket, tells: int) -> NoReturn:
    try:
        if not _is_readable(requests):
            _rehearse()
        data, fds, _, _ = socket.recv_fds(requests, 1, _FDS)
        if not data:
            os._exit(0)
        os.write(tells, _TAKEN)
        os.close(tells)
        namespace, answers, *waits = fds
        network = waits.pop() if data == LISTENS else None
        line = socket.socket(fileno=answers)
        listeners: list[int] = []
        report = _answer(namespace, line, network, listeners)
        with suppress(OSError):
            socket.send_fds(line, [json.dumps(report).encode()], listeners)
            if "done" in report:
                for fd in waits:
                    os.write(fd, GO)
    finally:
        os._exit(0)


_REHEARSED = encode_entries([MountEntry(f"/{name}", "read_only", 0, 0) for name in "abcdefgh"], ())


def _rehearse() -> None:
    """Take all steps of a request once, on nothing, while none is there.

    What a process shares with the one that it was forked from is copied, page by page, when it is first touched. That
    takes longer than the mounts themselves, and no command waits for it here.
    """
    _, entries = decode_entries(_REHEARSED)
    top = os.open("/", os.O_PATH | os.O_DIRECTORY)
    processes = open_beneath(top, "proc")
    writable_mounts(processes)
    os.close(processes)
    for node in build_tree(entries).below:
        node.destination = open_beneath(top, "proc")
        file_facts("", parent=node.destination)
        _is_read_only(node.destination)
        _is_folder(node.destination)
        for step in (_expect_it, _clone_nothing, _move_nothing, _close_nothing):
            with suppress(_Moved, OSError):
                _explained(node, step)
        os.close(node.destination)
    os.close(top)
    json.dumps({"done": ""}).encode()


def _expect_it(node: MountNode) -> None:
    _expect(node.entry, node.destination)


def _clone_nothing(node: MountNode) -> None:
    node.inner = clone_tree(-1)


def _move_nothing(node: MountNode) -> None:
    move_tree(-1, -1)


def _close_nothing(node: MountNode) -> None:
    make_read_only(-1)


def _answer(namespace: int, line: socket.socket, network: int | None, listeners: list[int]) -> dict[str, str]:
    """Mount; and listen in the network namespace, if there is one, noting the listener."""
    try:
        # Ours, in which this process is: in the sandbox's own it is not.
        processes = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        enter(fcntl.ioctl(namespace, GET_OWNER), namespace)
        keep_mounts_out(processes)
        _, fds, _, _ = socket.recv_fds(line, 1, 1)
        if not fds:
            # The command will not begin.
            os._exit(0)
        private, entries = decode_entries(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))
        _Mounting(private).run(build_tree(entries))
        if network is not None:
            listeners.append(_listen(network))
    except _Moved as moved:
        return {"moved": str(moved)}
    except (OSError, RecursionError, ValueError) as error:
        return {"failure": str(error)}
    return {"done": ""}


def _listen(network: int) -> int:
    """A listener on the loopback in there. It is served from outside: nothing of ours stays in the namespace."""
    enter_network(network)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(_BACKLOG)
    return listener.detach()


class _Moved(Exception):
    """A place is not what it was. Nothing has been mounted."""


class _Mounting:
    """One sandbox whose mounts are made."""

    def __init__(self, private: frozenset[str]) -> None:
        self._private = private
        self._top = os.open("/", os.O_PATH | os.O_DIRECTORY)
        self._devices = open_beneath(self._top, "dev")
        with suppress(FileExistsError):
            os.mkdir(STAGING, 0o700, dir_fd=self._top)
        self._staging = open_beneath(self._top, STAGING)
        self._empty_folder = self._empty_file = -1

    def run(self, top: MountNode) -> None:
        """All of it, or an error."""
        for node in top.below:
            self._resolve(node, self._top, self._is_private(node))
        try:
            for node in top.below:
                _explained(node, self._mount)
            self._clear_away(top)
            for node in top.below:
                self._verify(node, self._top, covered=False)
        except _Moved as moved:
            # Too late to try again: something is mounted already.
            raise OSError(errno.ESTALE, f"{moved} was changed while it was mounted") from None

    # ---- every place is opened, and nothing is mounted yet

    def _resolve(self, node: MountNode, above: int, private: bool) -> None:
        """Open it, and what lies in it. `private`: it is seen in this sandbox alone, and is no real folder."""
        entry = node.entry
        node.destination = self._open(node, above, private)
        node.inner, node.is_private = node.destination, private and entry.staged is None
        if entry.staged is not None:
            node.inner = open_beneath(self._staging, str(entry.staged))
            _expect(entry, node.inner)
        elif not private:
            _expect(entry, node.destination)
        if entry.kind not in ("masked", "read_only"):
            for inner in node.below:
                self._resolve(inner, node.inner, private and entry.staged is None)

    def _is_private(self, node: MountNode) -> bool:
        """Whether it lies where only this sandbox sees anything, so that a mount point can be made."""
        return any(node.entry.path == place or node.entry.path.startswith(f"{place}/") for place in self._private)

    def _open(self, node: MountNode, above: int, private: bool) -> int:
        try:
            return open_beneath(above, node.name)
        except OSError as error:
            if error.errno not in GONE:
                raise OSError(error.errno, f"{node.entry.path} cannot be opened: {error.strerror}") from None
            if not private:
                raise _Moved(node.entry.path) from None
        return self._make_place(node, above)

    def _make_place(self, node: MountNode, above: int) -> int:
        *parents, last = node.name.split("/")
        for name in parents:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=above)
            above = open_beneath(above, name)
        if node.entry.staged is None or _is_folder(open_beneath(self._staging, str(node.entry.staged))):
            with suppress(FileExistsError):
                os.mkdir(last, 0o755, dir_fd=above)
        else:
            os.close(os.open(last, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=above))
        return open_beneath(above, last)

    # ---- then each is mounted on, by its descriptor

    def _mount(self, node: MountNode, *, covered: bool = False) -> None:
        kind = node.entry.kind
        if kind == "masked":
            self._mask(node)
        elif node.entry.staged is not None:
            move_tree(node.inner, node.destination)
            if kind == "read_only":
                make_read_only(node.inner)
            self._mount_below(node, covered=kind == "read_only", again=kind == "read_only")
        elif kind == "read_only":
            if not covered:
                node.inner = clone_tree(node.destination)
                make_read_only(node.inner)
                move_tree(node.inner, node.destination)
            self._mount_below(node, covered=True, again=True)
        else:
            self._mount_below(node, covered=covered, again=False)
            if kind == "pinned" and not (covered or node.is_private):
                # With what is mounted in it by now: the copy covers it.
                move_tree(clone_tree(node.destination), node.destination)

    def _mount_below(self, node: MountNode, *, covered: bool, again: bool) -> None:
        """What lies in it; where the mount above is new, its places are opened again, in that."""
        for inner in node.below:
            if again and not (inner.leads_to_staged or inner.entry.kind == "masked"):
                continue
            if again:
                self._resolve(inner, node.inner, private=False)
            _explained(inner, self._mount, covered=covered)

    def _mask(self, node: MountNode) -> None:
        if not _is_folder(node.destination):
            node.inner = clone_tree(self._nothing_to_read())
            make_read_only(node.inner)
            move_tree(node.inner, node.destination)
            return
        seen = [inner for inner in node.below if inner.leads_to_staged]
        if not seen:
            node.inner = self._nothing_to_list()
            move_tree(node.inner, node.destination)
            return
        node.inner = new_tmpfs("0755")
        move_tree(node.inner, node.destination)
        for inner in seen:
            self._resolve(inner, node.inner, private=True)
            _explained(inner, self._mount)
        make_read_only(node.inner, recursive=False)

    def _nothing_to_list(self) -> int:
        if self._empty_folder >= 0:
            return clone_tree(self._empty_folder)
        self._empty_folder = new_tmpfs("0555")
        make_read_only(self._empty_folder)
        return self._empty_folder

    def _nothing_to_read(self) -> int:
        if self._empty_file < 0:
            fd = os.open("empty", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444, dir_fd=self._staging)
            os.close(fd)
            self._empty_file = open_beneath(self._staging, "empty")
        return self._empty_file

    def _clear_away(self, top: MountNode) -> None:
        """Nothing is aside any more; and the devices were writable only for that."""
        if self._empty_file >= 0:
            os.unlink("empty", dir_fd=self._staging)
        for number in _staged(top):
            _remove(str(number), self._staging)
        _remove(STAGING, self._top)
        make_read_only(self._devices, recursive=False)

    # ---- and looked at, by the way that a command takes

    def _verify(self, node: MountNode, above: int, *, covered: bool) -> None:
        entry = node.entry
        try:
            fd = open_beneath(above, node.name)
        except OSError:
            raise _Moved(entry.path) from None
        try:
            covered = covered and entry.staged is None and entry.kind != "masked"
            if entry.kind == "masked" or not node.is_private:
                closed = covered or entry.kind in ("read_only", "masked")
                if not (covered or file_facts("", parent=fd).is_mount_root) or (closed and not _is_read_only(fd)):
                    raise OSError(errno.ESTALE, f"{entry.path} is not mounted as it should be")
                if entry.kind != "masked":
                    _expect(entry, fd)
            for inner in node.below:
                if entry.kind != "masked" or inner.leads_to_staged:
                    self._verify(inner, fd, covered=covered or entry.kind == "read_only")
        finally:
            os.close(fd)


def _staged(node: MountNode) -> list[int]:
    own = [] if node.entry.staged is None else [node.entry.staged]
    return own + [number for inner in node.below for number in _staged(inner)]


def _remove(name: str, parent: int) -> None:
    """The mount point that something lay aside on. It is empty, or the command would find there what it must not."""
    if _is_folder(open_beneath(parent, name)):
        os.rmdir(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


def _expect(entry: MountEntry, fd: int) -> None:
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) != (entry.device, entry.inode):
        raise _Moved(entry.path)


def _is_read_only(fd: int) -> bool:
    return bool(os.fstatvfs(fd).f_flag & os.ST_RDONLY)


def _is_folder(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


def _explained(node: MountNode, act: Callable[..., None], **options: bool) -> None:
    """With the place in the error, which the kernel does not name."""
    try:
        act(node, **options)
    except OSError as error:
        if error.errno is None or node.entry.path in str(error):
            raise
        raise OSError(error.errno, f"{node.entry.path} cannot be mounted: {error.strerror}") from None
