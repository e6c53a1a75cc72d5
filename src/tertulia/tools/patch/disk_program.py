"""Reads and changes files below its working directory, for `apply_patch` and `conv_merge`: all of a plan, or nothing.

Run inside the sandbox, by `confined_program`. It imports nothing of ours, follows no symbolic link anywhere, and writes
no file that has changed since it was read.

    {"verb": "read", "paths": [PATH…]}      → {"ok": true, "files": {PATH: BASE64 or null}}
    {"verb": "look", "paths": [PATH…], "write": BOOL}
                                            → the same, and "trails": {PATH: NUMBERS or null}, see `trail`;
                                              "write" refuses files that may not be written
    {"verb": "digest", "paths": [PATH…]}    → {"ok": true, "files": {PATH: {"kind", "digest": SHA256, "mode"} or null}}
    {"verb": "apply", "changes": [{"path", "old": SHA256 or null, "new": BASE64 or null, "like": PATH or null}…]}
                                            → {"ok": true}
    a change may have "kind" and "old_kind", the kinds of the new and the old file: "file", "executable" or "link" (then
    the content is the link's target), and "mode", the permissions of the new file
    a request may have "suffix", which is part of the names of temporary files (see `temporary_names`)

    a request that was refused              → {"ok": false, "path": PATH, "reason": TEXT}
    and where undoing failed as well        → {"ok": false, "path": PATH, "reason": TEXT, "undone": false}

If the program is killed with SIGKILL while it exchanges files, each file has its whole old or whole new content, but
some may be old and others new. A merge restores them by its journal; see `disk_undo`, which uses the functions here.
"""

from __future__ import annotations

import binascii
import errno
import os
import stat
import sys
import time

# Started twice for every patch; to import contextlib, signal and hashlib takes longer than Python takes to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
    from typing import Any

    Steps = list[tuple[Callable[..., None], tuple[Any, ...]]]
else:
    import _signal as signal

CHANGED = "it has changed since it was read"
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_READ_BYTES = 32 * 1024 * 1024
"""The most bytes of all files of one request together."""
_LONG_BYTES = 1 << 20
_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE, by which Linux dates changes of files."""
_TICKS = 50
"""How often one request may wait for that clock to advance."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REASONS = {
    errno.ELOOP: "it is a symbolic link",
    errno.ENOTDIR: "a part of the path is a symbolic link or no directory",
    errno.EISDIR: "it is a directory",
}


class RefusedError(Exception):
    """The request was refused because of this path, and nothing was changed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


class FileState:
    """A file as it was when it was read."""

    __slots__ = ("content", "identity", "mode")

    def __init__(self, content: bytes, mode: int, identity: tuple[int, ...]) -> None:
        self.content, self.mode, self.identity = content, mode, identity


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Do what the request says."""
    root = os.open(".", _DIRECTORY)
    try:
        if request["verb"] == "read":
            return {"ok": True, "files": read_all(root, request["paths"])}
        if request["verb"] == "look":
            ticks = iter(range(_TICKS))
            trails = {path: settled_trail(root, path, ticks) for path in request["paths"]}
            access = os.O_RDWR if request["write"] else os.O_RDONLY
            return {"ok": True, "files": read_all(root, request["paths"], access), "trails": trails}
        if request["verb"] == "digest":
            return {"ok": True, "files": {path: digest(root, path) for path in request["paths"]}}
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
        apply_all(root, request["changes"], request.get("suffix") or os.urandom(8).hex())
        return {"ok": True}
    except RefusedError as refused:
        return {"ok": False, "path": refused.path, "reason": refused.reason}
    except OSError as error:
        return {"ok": False, "path": str(error.filename), "reason": str(error.strerror), "undone": False}
    finally:
        os.close(root)


def read_all(root: int, paths: list[str], access: int = os.O_RDONLY) -> dict[str, str | None]:
    """The content of each file, or None where there is none."""
    files: dict[str, str | None] = {}
    room = MAX_READ_BYTES
    for path in paths:
        seen = read_state(root, path, access)
        room -= 0 if seen is None else len(seen.content)
        if room < 0:
            raise RefusedError(path, f"the files of one patch may have {MAX_READ_BYTES:,} bytes in all")
        files[path] = None if seen is None else binascii.b2a_base64(seen.content, newline=False).decode()
    return files


def read_state(root: int, path: str, access: int) -> FileState | None:
    """Read a regular file that has no other hard link; None where there is no file."""
    with Refusing(path):
        try:
            with Parent(root, path) as (folder, name):
                file = open(name, "rb", opener=lambda name, _: os.open(name, _FILE | access, dir_fd=folder))  # noqa: SIM115
        except FileNotFoundError:
            return None
        with file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RefusedError(path, "it is not a regular file")
            if status.st_nlink > 1:
                raise RefusedError(path, "it has other names (hard links), which would change with it or not")
            content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise RefusedError(path, f"it has more than {MAX_FILE_BYTES:,} bytes")
    return FileState(content, stat.S_IMODE(status.st_mode), identity(status))


def link_state(root: int, path: str) -> FileState | None:
    """The target of a symbolic link; None where there is nothing, or no link."""
    with Refusing(path):
        try:
            with Parent(root, path) as (folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISLNK(status.st_mode):
                    return None
                return FileState(os.fsencode(os.readlink(name, dir_fd=folder)), 0o777, identity(status))
        except FileNotFoundError:
            return None


def digest(root: int, path: str) -> dict[str, Any] | None:
    """The kind, digest and permissions of the file at a path; None where there is none."""
    link = link_state(root, path)
    seen = link or read_state(root, path, os.O_RDONLY)
    if seen is None:
        return None
    kind = "link" if link is not None else "executable" if seen.mode & stat.S_IXUSR else "file"
    return {"kind": kind, "digest": sha256_of(seen.content), "mode": seen.mode}


def sha256_of(content: bytes) -> str:
    """By what hashlib itself falls back to, which is quicker to import; of a long content by the quicker one."""
    try:
        module = "hashlib" if len(content) > _LONG_BYTES else "_sha2" if sys.version_info >= (3, 12) else "_sha256"
        return str(__import__(module).sha256(content).hexdigest())
    except ImportError:
        return str(__import__("hashlib").sha256(content).hexdigest())


def identity(status: os.stat_result) -> tuple[int, ...]:
    """Numbers of which one differs after any change of the file: device, inode, size and both times."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def trail(root: int, path: str) -> list[int]:
    """Device, inode and change time of each directory of a path below the root, and of the file itself.

    A process that moves a directory of the path away, puts a link there and moves it back leaves a later change time on
    that directory. The root is left out: no command can move it, and its time changes when the sandbox adds to it.
    """
    statuses: list[os.stat_result] = []
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        with Parent(root, "/".join(parts[:count])) as (folder, name):
            statuses.append(os.stat(name, dir_fd=folder, follow_symlinks=False))
    return [number for status in statuses for number in (status.st_dev, status.st_ino, status.st_ctime_ns)]


def settled_trail(root: int, path: str, ticks: Iterator[int]) -> list[int] | None:
    """A trail that differs after any later change; None where there is no file, or it keeps changing while we wait."""
    while True:
        try:
            times = trail(root, path)
        except OSError:
            return None
        # A second change within the same tick of the clock would leave the same time.
        if max(times[2::3]) < time.clock_gettime_ns(_COARSE_CLOCK):
            return times
        if next(ticks, None) is None:
            return None
        time.sleep(0.002)


class Refusing:
    """Turns an OSError of its block into a RefusedError that names the path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError):
            reason = _REASONS.get(error.errno or 0) or os.strerror(error.errno or 0)
            raise RefusedError(self._path, reason) from error


class Parent:
    """(open directory of a path, name in it), opened one directory at a time, so that no link is followed."""

    def __init__(self, root: int, path: str) -> None:
        self._parts = path.split("/")
        if any(part in ("", ".", "..") for part in self._parts) or "\0" in path:
            raise RefusedError(path, "it is not a plain relative path")
        self._here = os.dup(root)

    def __enter__(self) -> tuple[int, str]:
        try:
            for folder in self._parts[:-1]:
                there = os.open(folder, _DIRECTORY, dir_fd=self._here)
                os.close(self._here)
                self._here = there
        except OSError:
            os.close(self._here)
            raise
        return self._here, self._parts[-1]

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        os.close(self._here)


def temporary_names(suffix: str, number: int) -> tuple[str, str]:
    """The temporary names of the new and the old file, in the directory of a path, until all changes are made."""
    return f".tertulia-new-{suffix}-{number}", f".tertulia-old-{suffix}-{number}"


def apply_all(root: int, changes: list[dict[str, Any]], suffix: str) -> None:
    """Check every file, write the new ones beside the old, then exchange them; undo all of it at the first error."""
    seen = [verified(root, change) for change in changes]
    modes = {
        change["path"]: old.mode
        for change, old in zip(changes, seen, strict=True)
        if old is not None and change.get("old_kind") != "link"
    }
    undo: Steps = []
    backups: Steps = []
    try:
        for number, change in enumerate(changes):
            if change["new"] is not None:
                mode = change.get("mode", modes.get(change["path"], modes.get(change["like"])))
                stage(root, change, temporary_names(suffix, number)[0], mode, undo)
        for number, (change, old) in enumerate(zip(changes, seen, strict=True)):
            names = temporary_names(suffix, number)
            with Refusing(change["path"]):
                exchange(root, change, old, names, undo)
            if old is not None:
                backups.append((remove, (root, change["path"], names[1])))
        undo.clear()
    finally:
        take(undo)
    try:
        take(backups)
    except OSError:
        # All changes are made: a backup that cannot be removed must not be reported as a failure.
        return


def take(steps: Steps) -> None:
    """Take all steps, the last one first, whatever fails; the last failure is raised."""
    failure: OSError | RefusedError | None = None
    while steps:
        step, arguments = steps.pop()
        try:
            step(*arguments)
        except (OSError, RefusedError) as error:
            failure = error
    if failure is not None:
        raise failure


def verified(root: int, change: dict[str, Any]) -> FileState | None:
    """The file at the path, which must have the content that the plan expects; RefusedError otherwise."""
    path = change["path"]
    if change.get("old_kind") == "link":
        old = link_state(root, path)
    else:
        # Opened for writing though it is not written to: a file that may not be written may not be replaced either.
        old = read_state(root, path, os.O_RDONLY if change["new"] is None else os.O_RDWR)
    if (None if old is None else sha256_of(old.content)) != change["old"]:
        raise RefusedError(path, CHANGED)
    return old


def stage(root: int, change: dict[str, Any], name: str, mode: int | None, undo: Steps) -> None:
    """Write the new content under a temporary name, in the directory of its path."""
    path, content = change["path"], binascii.a2b_base64(change["new"])
    with Refusing(path):
        make_folders(root, path, undo)
        with Parent(root, path) as (folder, _):
            if change.get("kind") == "link":
                os.symlink(content, name, dir_fd=folder)
                undo.append((remove, (root, path, name)))
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
            descriptor = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
            undo.append((remove, (root, path, name)))
            with open(descriptor, "wb") as file:
                file.write(content)
                if mode is not None:
                    os.fchmod(descriptor, mode & 0o777)
                if "kind" in change:
                    set_executable(descriptor, change["kind"] == "executable")


def set_executable(descriptor: int, executable: bool) -> None:
    """Set the executable bit for all who may read the file, or clear it for all."""
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    os.fchmod(descriptor, mode | (mode & 0o444) >> 2 if executable else mode & ~0o111)


def make_folders(root: int, path: str, undo: Steps) -> None:
    """Make the missing parent directories of a path."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        with Parent(root, above) as (folder, name):
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                continue
            undo.append((remove_folder, (root, above)))


def exchange(root: int, change: dict[str, Any], old: FileState | None, names: tuple[str, str], undo: Steps) -> None:
    """Replace the old file by the new one; the old one keeps a temporary name until all changes are made."""
    path = change["path"]
    new_name, old_name = names
    with Parent(root, path) as (folder, name):
        if present(folder, name) != (None if old is None else old.identity):
            raise RefusedError(path, CHANGED)
        if old is None:
            os.rename(new_name, name, src_dir_fd=folder, dst_dir_fd=folder)
            undo.append((remove, (root, path, name)))
            return
        # Each undo is registered only after its step succeeded: undoing a step that failed would fail as well.
        if change["new"] is None:
            os.rename(name, old_name, src_dir_fd=folder, dst_dir_fd=folder)
            undo.append((restore, (root, path, old_name)))
            return
        # A hard link, so that the path exists at every moment; without hard links it is missing for a moment.
        try:
            os.link(name, old_name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError:
            os.rename(name, old_name, src_dir_fd=folder, dst_dir_fd=folder)
        undo.append((restore, (root, path, old_name)))
        os.rename(new_name, name, src_dir_fd=folder, dst_dir_fd=folder)


def present(folder: int, name: str) -> tuple[int, ...] | None:
    """The identity of the file that has the name now; None where there is none."""
    try:
        return identity(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None


def restore(root: int, path: str, old_name: str) -> None:
    """Undo an exchange, whether or not the new file is in place already."""
    with Parent(root, path) as (folder, name):
        os.rename(old_name, name, src_dir_fd=folder, dst_dir_fd=folder)
    # If both names were still the same file, the rename did nothing and left the old name.
    remove(root, path, old_name)


def remove(root: int, path: str, name: str) -> None:
    """Remove the file with this name in the directory of a path, if there is one."""
    with Parent(root, path) as (folder, _):
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return


def remove_folder(root: int, path: str) -> None:
    """Remove a directory that was made, unless another process has put something into it."""
    with Parent(root, path) as (folder, name):
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            return
