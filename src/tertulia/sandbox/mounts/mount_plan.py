"""What a command sees of the file system: everything to read, little to write.

Bubblewrap makes what no other command can interfere with: the whole file system read-only, devices, private directories
that are empty. The writable roots, and whatever must be visible below a private directory, it only puts aside, by their
descriptors. The mount helper moves them to their places and mounts all that is inside them, by descriptors too: other
commands may rename things in a root at any time, and a path would lead the mount elsewhere.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts.entries import MountEntry, encode_entries
from tertulia.sandbox.mounts.git_stores import named_stores
from tertulia.sandbox.mounts.guarded_mounts import GuardedMounts
from tertulia.sandbox.mounts.helper_program import STAGING
from tertulia.sandbox.mounts.nested_protected import NestedProtectedPaths
from tertulia.sandbox.mounts.stubs import Stub
from tertulia.sandbox.protected.change_watch import ChangeWatch
from tertulia.sandbox.runner import Change, Command, Confinement

HIDDEN = ("/tmp", "/var/tmp", "/run", "/dev/shm")
"""Empty and private: sockets, pipes and half-written files of others."""
VISIBLE_BELOW_RUN = ("/run/current-system", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
"""Programs on one distribution, and how names are resolved on others."""
_NEVER_WRITABLE = ("/proc", "/sys", "/dev")
_TEMPORARY_BYTES = 2 << 30


class MountPlan:
    """One command's: arguments for bubblewrap, the descriptors that they name, and what the mount helper is told.

    To be closed when the command is gone.
    """

    def __init__(self, command: Command, nested: NestedProtectedPaths) -> None:
        """`nested`: what is known of roots from command to command."""
        self.fds: list[int] = []
        self.changes: tuple[Change, ...] = ()
        """Protected files that changed, once it is closed."""
        self._vigil: ChangeWatch | None = None
        self._command = command
        self._nested = nested
        self._roots: dict[str, int] = {}
        self._staged: list[MountEntry] = []
        self._stubs: dict[str, Stub] = {}
        self._began = self._closed = False
        self._lock = threading.Lock()
        """Of a plan that is still being made, and the end of the command."""
        try:
            self.arguments = [*_system(command.confinement), *self._command_environment(command.confinement)]
        except OSError as error:
            self.close()
            raise SandboxError(f"the places of a command cannot be opened: {error.strerror}; nothing was run") from None
        except BaseException:
            self.close()
            raise

    def plan(self) -> bytes:
        """For the mount helper, anew each time. Blocks: all directories of the roots are looked at, and stubs made.

        SandboxError where the command must not begin.
        """
        with self._lock:
            if self._closed:
                raise SandboxError("the command was ended before it began")
            try:
                return encode_entries([*self._staged, *self._inside()], HIDDEN)
            except OSError as error:
                raise SandboxError(f"the places of a command cannot be opened: {error.strerror}") from None

    def close_fds(self) -> None:
        """Those that only the start needed."""
        while self.fds:
            os.close(self.fds.pop())

    def close(self) -> None:
        """Everything, and the stubs are gone. Again is nothing."""
        with self._lock:
            self._closed = True
            self.close_fds()
            if self._began:
                self._began = False
                self._nested.ended(self._roots)
            if self._vigil is not None:
                self.changes += self._vigil.end(held=True)
            while self._stubs:
                self._stubs.popitem()[1].release()
            while self._roots:
                os.close(self._roots.popitem()[1])

    # ---- what bubblewrap puts aside

    def _command_environment(self, confinement: Confinement) -> Iterator[str]:
        masked = {os.path.realpath(path) for path in confinement.masked}
        writable = confinement.writable_roots if confinement.mode == "workspace_write" else ()
        for root in dict.fromkeys(writable):
            if root not in masked:
                self._roots[root] = self._open_root(root)
        seen = {*own_places(), *VISIBLE_BELOW_RUN, *confinement.writable_roots}
        if not any(_is_in(self._command.cwd, path) for path in masked):
            seen.add(self._command.cwd)
        for root, fd in self._roots.items():
            yield from self._put_aside("--bind-fd", root, os.dup(fd))
        for place in sorted({os.path.realpath(each) for each in seen} - masked):
            if any(_is_below(place, each) for each in HIDDEN) and not any(_is_in(place, root) for root in self._roots):
                try:
                    yield from self._put_aside("--ro-bind-fd", place, os.open(place, os.O_PATH | os.O_CLOEXEC))
                except FileNotFoundError:
                    continue
        yield from ("--remount-ro", "/proc")

    def _put_aside(self, how: str, path: str, fd: int) -> Iterator[str]:
        self.fds.append(fd)
        number, status = len(self._staged), os.fstat(fd)
        self._staged.append(MountEntry(path, "seen", status.st_dev, status.st_ino, number))
        yield from (how, str(fd), f"/{STAGING}/{number}")

    def _open_root(self, root: str) -> int:
        check_root(root)
        try:
            fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise SandboxError(f"the writable root {root} cannot be opened: {error.strerror}") from None
        if os.readlink(f"/proc/self/fd/{fd}") != root:
            os.close(fd)
            raise SandboxError(f"the writable root {root} is no longer the directory that it was; nothing was run")
        return fd

    # ---- what the mount helper mounts

    def _inside(self) -> Iterator[MountEntry]:
        confinement = self._command.confinement
        nested = [found for root in self._roots for found in self._nested.before(root)]
        if not self._began:
            self._began = True
            self._nested.began(self._roots)
            if self._command.watch is not None and self._roots:
                self._vigil = ChangeWatch(
                    self._command.watch, self._roots, confinement, [found.path for found in nested]
                )
        places = GuardedMounts(self._roots, self._stubs, frozenset(confinement.missing_files))
        try:
            for path in self._protected(confinement, [found.path for found in nested]):
                places.protect(path)
            for path in confinement.masked:
                places.mask(path)
            yield from places.entries
        finally:
            places.close()
        for found in nested:
            yield MountEntry(found.path, "read_only", found.device, found.inode)

    def _protected(self, confinement: Confinement, nested: Iterable[str]) -> Iterator[str]:
        """Paths that are protected wherever they lead; in what is found deeper down, only what that names elsewhere."""
        if not self._roots:
            return
        for root in self._roots:
            yield from (f"{root}/{name}" for name in confinement.protected)
        yield from confinement.protected_paths
        # Whoever could write our own Python would be us.
        yield from own_python()
        for path in (*(f"{root}/.git" for root in self._roots), *nested):
            yield from named_stores(path)
            if os.path.islink(path):
                yield path


def check_root(root: str) -> None:
    """Refuse one that can be none in any tier."""
    system = any(_is_in(root, place) for place in _NEVER_WRITABLE) and not _is_below(root, "/dev/shm")
    if root == "/" or system:
        raise SandboxError(f"{root} cannot be a writable root: it is part of the system itself")


def own_python() -> Iterator[str]:
    """Where the Python that runs us lies."""
    yield from (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix))


def _system(confinement: Confinement) -> Iterator[str]:
    # All of them together hold no more than a command may use of memory.
    room = min(_TEMPORARY_BYTES, (confinement.limits.memory_bytes or _TEMPORARY_BYTES * len(HIDDEN)) // len(HIDDEN))
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    for path in HIDDEN:
        if os.path.isdir(path) and not os.path.islink(path):
            yield from ("--perms", "1777", "--size", str(room), "--tmpfs", path)


def own_places() -> Iterator[str]:
    """Python and ourselves, so that our own programs run inside wherever they are installed."""
    yield from (
        sys.prefix,
        sys.base_prefix,
        os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))),
    )


def _is_in(path: str, above: str) -> bool:
    return path == above or _is_below(path, above)


def _is_below(path: str, above: str) -> bool:
    return path.startswith(f"{above.rstrip('/')}/")
