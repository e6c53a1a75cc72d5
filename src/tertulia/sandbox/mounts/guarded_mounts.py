"""Single places that a command must not change or see, wherever they lie and whether or not they exist.

The way to each is gone step by step, by descriptors. What lies on it inside a writable root becomes a mount point: a
directory can then be neither renamed nor replaced, a symbolic link neither, and where something is missing an empty
directory or file stands while a command runs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Mapping

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts.entries import Kind, MountEntry
from tertulia.sandbox.mounts.stubs import Stub, hold_stub, marks_stub

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
                # Nobody could make it, so the command cannot either.
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
        return any(path.startswith(f"{root}/") for root in self._roots)

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
