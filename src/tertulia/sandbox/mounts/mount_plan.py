"""What a command sees of the file system in the bubblewrap tier: all of it readable, little of it writable.

Bubblewrap makes what no other command can interfere with: the whole file system read-only, devices, private directories
that are empty. The writable roots, and whatever must be visible below a private directory, it only puts aside, by their
descriptors. The mount helper moves them to their places and mounts all that is inside them, by descriptors too: other
commands may rename things in a root at any time, and a path would lead the mount elsewhere.

To a single masked or protected path the way is gone step by step. What lies on it inside a writable root becomes a
mount point: a directory or link can then be neither renamed nor replaced, and where something is missing an empty
directory or file stands while a command runs.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts.entries import HIDDEN, STAGING, Kind, MountEntry, encode_entries
from tertulia.sandbox.mounts.nested_protected import NestedProtectedPaths
from tertulia.sandbox.mounts.root_scan import named_stores
from tertulia.sandbox.mounts.stubs import Stub, hold_stub, marks_stub
from tertulia.sandbox.protected.change_watch import ChangeWatch
from tertulia.sandbox.runner import Change, Command, Confinement

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
        self._change_watch: ChangeWatch | None = None
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

    @property
    def staged(self) -> tuple[MountEntry, ...]:
        """What bubblewrap puts aside by descriptors."""
        return tuple(self._staged)

    @property
    def places(self) -> tuple[str, ...]:
        """The arguments without the numbers of descriptors, which differ from start to start."""
        before = ("", *self.arguments)
        return tuple(word for word, after in zip(self.arguments, before, strict=False) if not after.endswith("-fd"))

    def plan(self) -> bytes:
        """What the mount helper is given. Blocks: all directories of the roots are looked at, and stubs made.

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
        """Close the descriptors that only the start needed."""
        while self.fds:
            os.close(self.fds.pop())

    def end(self) -> None:
        """The command is gone: remove the stubs and look what has changed. It is still to be closed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.close_fds()
            if self._began:
                self._began = False
                self._nested.ended(self._scanned())
            if self._change_watch is not None:
                self.changes += self._change_watch.end(held=True)
            for stub in self._stubs.values():
                stub.remove()

    def close(self) -> None:
        """End it, and close everything. Calling it twice has no effect."""
        self.end()
        with self._lock:
            while self._stubs:
                self._stubs.popitem()[1].close()
            while self._roots:
                os.close(self._roots.popitem()[1])

    # ---- what bubblewrap puts aside

    def _command_environment(self, confinement: Confinement) -> Iterator[str]:
        masked = real_paths(confinement.masked)
        writable = confinement.writable_roots if confinement.mode == "workspace_write" else ()
        for root in dict.fromkeys(writable):
            if root not in masked:
                self._roots[root] = self._open_root(root)
        seen = {*VISIBLE_BELOW_RUN, *confinement.writable_roots, *confinement.readable}
        if not any(_is_in(self._command.cwd, path) for path in (*masked, *confinement.shown)):
            seen.add(self._command.cwd)
        for root, fd in self._roots.items():
            yield from self._put_aside("--bind-fd", root, os.dup(fd))
        wanted = {*_real(*own_places()), *map(os.path.realpath, seen)} - masked
        shown = {os.path.realpath(path) for path in confinement.shown}
        for place in sorted(wanted | shown):
            covers = (*HIDDEN, *masked) if place in shown else HIDDEN
            if any(_is_below(place, path) for path in covers) and not any(_is_in(place, root) for root in self._roots):
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
        nested = [found for root in self._scanned() for found in self._nested.before(root)]
        if not self._began:
            self._began = True
            self._nested.began(self._scanned())
            if self._command.watch is not None and self._roots:
                self._change_watch = ChangeWatch(
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

    def _scanned(self) -> list[str]:
        """The roots in which what is the user's is looked for."""
        return [root for root in self._roots if root not in self._command.confinement.git_stores]

    def _protected(self, confinement: Confinement, nested: Iterable[str]) -> Iterator[str]:
        """Paths that are protected wherever they lead; in what is found deeper down, only what that names elsewhere."""
        if not self._roots:
            return
        for root in self._roots:
            yield from (f"{root}/{name}" for name in confinement.protected)
        yield from confinement.protected_paths
        # A command that could write our own Python would be us.
        yield from own_python()
        for path in (*(f"{root}/.git" for root in self._roots), *nested):
            yield from named_stores(path)
            if os.path.islink(path):
                yield path


def check_root(root: str) -> None:
    """Refuse a root that no tier can make writable."""
    system = any(_is_in(root, place) for place in _NEVER_WRITABLE) and not _is_below(root, "/dev/shm")
    if root == "/" or system:
        raise SandboxError(f"{root} cannot be a writable root: it is part of the system itself")


def own_python() -> tuple[str, ...]:
    """Where the Python that runs us lies."""
    return _real(sys.prefix, sys.base_prefix)


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


@cache
def _real(*places: str) -> tuple[str, ...]:
    """Found once: what runs does not move."""
    return tuple(map(os.path.realpath, places))


def real_paths(paths: Iterable[str]) -> set[str]:
    """Where these absolute paths lead: many lie in a few directories, and where those lead is found out once."""
    folders: dict[str, str] = {}
    found: set[str] = set()
    for path in paths:
        above, name = os.path.split(path)
        if name in ("", ".", ".."):
            found.add(os.path.realpath(path))
            continue
        if above not in folders:
            folders[above] = os.path.realpath(above)
        here = os.path.join(folders[above], name)
        found.add(os.path.realpath(here) if os.path.islink(here) else here)
    return found


def _is_in(path: str, above: str) -> bool:
    return path == above or _is_below(path, above)


def _is_below(path: str, above: str) -> bool:
    return path.startswith(f"{above.rstrip('/')}/")


_MOST_LINKS = 40
_ATTEMPTS = 100
_OPEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class GuardedMounts:
    """Entries for the mount helper, collected for one command. Each directory is opened once."""

    def __init__(self, roots: Mapping[str, int], stubs: dict[str, Stub], files: Container[str] = ()) -> None:
        """`roots`: what can be written, each with its descriptor. `stubs`: those that the command holds already.

        `files`: paths that would be files where they are missing; anything else would be a directory.
        """
        self.entries: list[MountEntry] = []
        self._roots = roots
        self._stubs = stubs
        self._files = files
        self._open: dict[str, int] = {}
        self._passed: set[str] = set()
        """Directories that a way has led through: hundreds of ways begin with the same ones."""
        self._inside = tuple(f"{root}/" for root in roots)

    def close(self) -> None:
        """The directories, not the stubs."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def protect(self, path: str) -> None:
        """Read-only, and not to be made, inside a root; elsewhere nothing can be written anyway."""
        self._go(path, "read_only")

    def mask(self, path: str) -> None:
        """Empty wherever it is; and not to be made inside a root."""
        self._go(path, "masked")

    def _go(self, path: str, kind: Kind) -> None:
        at, links = "", 0
        left = [part for part in reversed(path.split("/")) if part]
        while left:
            name = left.pop()
            if name in (".", ".."):
                at = os.path.dirname(at).rstrip("/") if name == ".." else at
                continue
            here = f"{at}/{name}"
            if left and here in self._passed:
                at = here
                continue
            status = self._status(at, name, is_file=not left and path in self._files)
            if status is None:
                return
            if stat.S_ISLNK(status.st_mode):
                target = self._link(here, at, name, status)
                links += 1
                if links > _MOST_LINKS:
                    raise SandboxError(f"{path} leads through too many symbolic links; nothing was run")
                at = "" if target.startswith("/") else at
                left += [part for part in reversed(target.split("/")) if part]
            elif not left or not stat.S_ISDIR(status.st_mode):
                # A file where a directory should be could be replaced by one.
                self._add(here, kind if not left else "read_only", status)
            else:
                self._add(here, "pinned", status)
                self._passed.add(here)
                at = here

    def _add(self, path: str, kind: Kind, status: os.stat_result) -> None:
        if kind == "masked" or self._is_writable(path):
            self.entries.append(MountEntry(path, kind, status.st_dev, status.st_ino))

    def _link(self, here: str, at: str, name: str, status: os.stat_result) -> str:
        self._add(here, "read_only", status)
        try:
            return os.readlink(name, dir_fd=self._folder(at))
        except OSError:
            raise _changed(here) from None

    def _status(self, at: str, name: str, *, is_file: bool) -> os.stat_result | None:
        """What stands there; None where the way ends, because nothing does."""
        here = f"{at}/{name}"
        for _ in range(_ATTEMPTS):
            try:
                status = os.stat(name, dir_fd=self._folder(at), follow_symlinks=False)
            except (FileNotFoundError, PermissionError, NotADirectoryError):
                status = None
            if not self._is_writable(here) or not (status is None or marks_stub(status)):
                return status
            stub = self._stub(here, at, name, status, is_file=is_file)
            if stub is not None:
                self._add(here, "read_only", os.fstat(stub.fd))
                return None
            if status is None and not os.path.lexists(here):
                # No process could make it, so the command cannot either.
                return None
        raise _changed(here)

    def _stub(self, here: str, at: str, name: str, status: os.stat_result | None, *, is_file: bool) -> Stub | None:
        known = self._stubs.get(here)
        if known is not None:
            if status is not None and os.path.samestat(status, os.fstat(known.fd)):
                return known
            self._stubs.pop(here).release()
        stub = hold_stub(self._folder(at), name, is_file=is_file)
        if stub is not None:
            self._stubs[here] = stub
        return stub

    def _is_writable(self, path: str) -> bool:
        """Whether it lies in a writable root, which is not part of itself."""
        return path.startswith(self._inside)

    def _folder(self, path: str) -> int:
        known = self._roots.get(path, self._open.get(path))
        if known is None:
            try:
                if path:
                    above, _, name = path.rpartition("/")
                    known = os.open(name, _OPEN, dir_fd=self._folder(above))
                else:
                    known = os.open("/", _OPEN)
            except OSError:
                raise _changed(path) from None
            self._open[path] = known
        return known


def _changed(path: str) -> SandboxError:
    return SandboxError(f"{path} changed while the command was started; nothing was run")
