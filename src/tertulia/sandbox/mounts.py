"""What a command sees of the file system, as arguments for bubblewrap: everything to read, little to write.

Parents come before what lies below them, whatever it is, so that a workspace may lie below a hidden directory and a
secret inside a workspace. Whatever may be written is opened here first, and bound by its descriptor: between the look
and the mount nobody can put something else in its place.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator

from tertulia.errors import SandboxError
from tertulia.sandbox.nested import Nested
from tertulia.sandbox.runner import Command, Confinement
from tertulia.sandbox.stubs import Stub, hold

HIDDEN = ("/tmp", "/var/tmp", "/run", "/dev/shm")
"""Empty and private: sockets, pipes and half-written files of others."""
_SEEN_OF_RUN = ("/run/current-system", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
"""Programs on one distribution, and how names are resolved on others."""
_NEVER_WRITABLE = ("/proc", "/sys", "/dev")
_TEMPORARY_BYTES = 2 << 30
_GITDIR = re.compile(rb"gitdir: *([^\r\n\0]+)")

_READABLE, _BOUND, _PROTECTED, _MASKED = range(4)
"""Of two wishes for one place the stricter comes last and counts."""


class Mounts:
    """Arguments, the descriptors that they name, and the stubs they rest on; to be closed when the command is gone."""

    def __init__(self, command: Command, nested: Nested) -> None:
        """`nested`: what is known of roots from command to command."""
        self.fds: list[int] = []
        self._nested = nested
        self._looked_into: list[str] = []
        self._stubs: list[Stub] = []
        self._parts: list[tuple[int, int, str, list[str]]] = []
        # Much of /proc is the whole machine's and can be written by root, to whom a sandboxed uid may map.
        self._remount: list[str] = ["/dev", "/proc"]
        try:
            self.arguments = [*_system(command.confinement), *self._workplace(command)]
        except OSError as error:
            self.close()
            raise SandboxError(f"{error.filename} changed while the command was started; nothing was run") from None
        except BaseException:
            self.close()
            raise

    def close_fds(self) -> None:
        """Those that only the start needed."""
        while self.fds:
            os.close(self.fds.pop())

    def close(self) -> None:
        """Everything, and the stubs are gone. Again is nothing."""
        self.close_fds()
        while self._looked_into:
            self._nested.after(self._looked_into.pop())
        while self._stubs:
            self._stubs.pop().release()

    # ---- parts

    def _workplace(self, command: Command) -> Iterator[str]:
        confinement = command.confinement
        writable = confinement.writable_roots if confinement.mode == "workspace_write" else ()
        hidden_again = [os.path.realpath(path) for path in confinement.masked]
        places = {*_own_places(), *_SEEN_OF_RUN, *confinement.writable_roots}
        if not any(_is_in(command.cwd, path) for path in hidden_again):
            places.add(command.cwd)
        for place in places:
            self._show(place, writable)
        for root in writable:
            self._bind_root(root, confinement)
            self._protect_nested(root, [*hidden_again, *(other for other in writable if _is_below(other, root))])
        for path in confinement.masked:
            self._mask(path, writable)
        for _, _, _, arguments in sorted(self._parts):
            yield from arguments
        for path in self._remount:
            yield from ("--remount-ro", path)

    def _add(self, path: str, rank: int, *arguments: str) -> None:
        self._parts.append((path.count("/"), rank, path, list(arguments)))

    def _show(self, place: str, writable: Iterable[str]) -> None:
        """Have it seen although it lies below a hidden directory; what lies in a writable root is seen anyway."""
        real = os.path.realpath(place)
        if any(_is_in(real, root) for root in writable):
            return
        if any(_is_below(real, hidden) for hidden in HIDDEN) and os.path.exists(real):
            self._add(real, _READABLE, "--ro-bind", real, real)

    def _bind_root(self, root: str, confinement: Confinement) -> None:
        system = any(_is_in(root, place) for place in _NEVER_WRITABLE) and not _is_below(root, "/dev/shm")
        if root == "/" or system:
            raise SandboxError(f"{root} cannot be a writable root: it is part of the system itself")
        fd = self._open_root(root)
        self._add(root, _BOUND, "--bind-fd", str(fd), root)
        for name in confinement.protected:
            self._protect(root, fd, name)
        # `.git` may be a file that names the real directory. And whoever could write our own Python would be us.
        for place in (_named_git_directory(root, fd), os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)):
            if place is not None and _is_below(place, root):
                self._protect_tree(root, place)

    def _open_root(self, root: str) -> int:
        try:
            fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise SandboxError(f"the writable root {root} cannot be opened: {error.strerror}") from None
        self.fds.append(fd)
        if os.readlink(f"/proc/self/fd/{fd}") != root:
            raise SandboxError(f"the writable root {root} is no longer the directory that it was; nothing was run")
        return fd

    def _protect(self, root: str, root_fd: int, name: str) -> None:
        path = f"{root}/{name}"
        stub = hold(root_fd, name)
        if stub is not None:
            self._stubs.append(stub)
            self._add(path, _PROTECTED, "--ro-bind-fd", str(self._keep(os.dup(stub.fd))), path)
            return
        try:
            fd = self._keep(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root_fd))
        except FileNotFoundError:
            return
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise SandboxError(f"{path} is a symbolic link, which cannot be protected; make it a directory or a file")
        self._add(path, _PROTECTED, "--ro-bind-fd", str(fd), path)

    def _protect_tree(self, root: str, target: str) -> None:
        """A directory somewhere below the root."""
        # A mount point cannot be renamed, but what it lies in can: so each directory on the way is one too.
        above = os.path.dirname(target)
        while above != root:
            self._add(above, _BOUND, "--bind-fd", str(self._open_root(above)), above)
            above = os.path.dirname(above)
        self._add(target, _PROTECTED, "--ro-bind-fd", str(self._open_root(target)), target)

    def _protect_nested(self, root: str, elsewhere: Iterable[str]) -> None:
        """Protected names deeper in the root. What they lie in can be renamed, and they go with it as they are.

        Not so in `elsewhere`: what is masked stays so, and other roots are looked after by themselves.
        """
        self._looked_into.append(root)
        for name, held in self._nested.before(root):
            path = f"{root}/{name}"
            if not any(_is_in(path, place) for place in elsewhere):
                self._add(path, _PROTECTED, "--ro-bind-fd", str(self._keep(os.dup(held))), path)

    def _mask(self, path: str, writable: Iterable[str]) -> None:
        real = os.path.realpath(path)
        if os.path.isdir(real):
            self._add(real, _MASKED, "--perms", "0555", "--tmpfs", real)
            self._remount.append(real)
        elif os.path.exists(real):
            self._add(real, _MASKED, "--ro-bind", os.devnull, real)
        elif any(_is_below(real, root) for root in writable) and os.path.isdir(os.path.dirname(real)):
            parent = self._keep(os.open(os.path.dirname(real), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
            self._protect(os.path.dirname(real), parent, os.path.basename(real))

    def _keep(self, fd: int) -> int:
        self.fds.append(fd)
        return fd


def _system(confinement: Confinement) -> Iterator[str]:
    room = min(_TEMPORARY_BYTES, confinement.limits.memory_bytes or _TEMPORARY_BYTES)
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    for path in HIDDEN:
        if os.path.isdir(path) and not os.path.islink(path):
            yield from ("--perms", "1777", "--size", str(room), "--tmpfs", path)


def _own_places() -> Iterator[str]:
    """Python and ourselves, so that our own programs run inside wherever they are installed."""
    yield from (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))


def _is_in(path: str, above: str) -> bool:
    return path == above or _is_below(path, above)


def _is_below(path: str, above: str) -> bool:
    return path.startswith(f"{above.rstrip('/')}/")


def _named_git_directory(root: str, root_fd: int) -> str | None:
    try:
        fd = os.open(".git", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=root_fd)
    except OSError:
        return None
    try:
        named = _GITDIR.match(os.read(fd, 4096)) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)
    if named is None:
        return None
    path = os.path.realpath(os.path.join(root, os.fsdecode(named[1].strip())))
    return path if os.path.isdir(path) else None
