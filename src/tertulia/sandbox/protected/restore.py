"""Putting a protected file back as it was, and keeping a copy of what stood there instead.

Acts by descriptors that follow no link, on nothing outside of the root: a command that still runs may replace any part
of the path meanwhile. Then it fails, and that is told.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import stat
from collections.abc import Generator
from contextlib import contextmanager

from tertulia.policy.display_text import visible
from tertulia.sandbox.mounts.root_scan import kernel_time
from tertulia.sandbox.protected.program_files import SavedFile, open_folder

MAX_COPIES = 1_000
MAX_COPIED_BYTES = 64 * 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def restore_file(root: int, place: str, path: str, saved: SavedFile | None) -> None:
    """Make what stands at a path below the place what it was; None: nothing. OSError where that cannot be done."""
    above, _, name = path.rpartition("/")
    if saved is None:
        _take_away(root, above, name)
        return
    if path != place:
        _make_way(root, place, above)
    with open_folder(root, above, force=True) as folder:
        if folder is None:
            raise OSError(f"{above} was replaced")
        with _writable(folder):
            _write(folder, name, saved)


def remove_empty(root: int, place: str, path: str) -> None:
    """The directories above a path, up to the place, as far as nothing is in them."""
    while path != place and path:
        path, _, _ = path.rpartition("/")
        above, _, name = path.rpartition("/")
        with open_folder(root, above, force=True) as folder:
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return


def keep_copy(folder: str, path: str, content: bytes) -> str | None:
    """A new file in a directory of the user's alone, whose oldest files go when there are too many; its path.

    None where it cannot be written: what it is a copy of is told and put back all the same.
    """
    name = f"{kernel_time():020}-{secrets.token_hex(4)}-{re.sub(r'[^A-Za-z0-9._-]', '_', os.path.basename(path))[:80]}"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        fd = os.open(os.path.join(folder, name), _NEW, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
        _prune(folder)
    except OSError:
        return None
    return os.path.join(folder, name)


def undo_command(path: str, became: SavedFile | None, copy: str | None) -> str | None:
    """A shell command that makes a file what it was before it was put back, mode included.

    None where no copy was kept, and where a name has characters that a terminal would not show as they are.
    """
    if visible(path) != path:
        return None
    if became is None:
        return shlex.join(["rm", "--", path])
    if stat.S_ISLNK(became.mode) and became.content is not None:
        target = os.fsdecode(became.content)
        return shlex.join(["ln", "-sfn", "--", target, path]) if visible(target) == target else None
    if copy is None or not stat.S_ISREG(became.mode):
        return None
    # With the directories that lead to it, which went when the last file in them did.
    return shlex.join(["install", "-D", "-m", f"{stat.S_IMODE(became.mode):o}", "--", copy, path])


def _prune(folder: str) -> None:
    names, size = sorted(os.listdir(folder), reverse=True), 0
    for number, name in enumerate(names):
        path = os.path.join(folder, name)
        size += os.lstat(path).st_size
        if number >= MAX_COPIES or size > MAX_COPIED_BYTES:
            os.unlink(path)


def _take_away(root: int, above: str, name: str) -> None:
    with open_folder(root, above, force=True) as folder:
        if folder is None:
            raise OSError(f"{above} was replaced")
        with _writable(folder):
            os.unlink(name, dir_fd=folder)


@contextmanager
def _writable(folder: int) -> Generator[None]:
    """For a while, if it is ours: a command can have taken that right away."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    changed = os.fstat(folder).st_uid == os.geteuid() and mode & stat.S_IRWXU != stat.S_IRWXU
    if changed:
        os.fchmod(folder, mode | stat.S_IRWXU)
    try:
        yield
    finally:
        if changed:
            os.fchmod(folder, mode)


def _make_way(root: int, place: str, above: str) -> None:
    """Have real directories lead to it from the place on; the place itself must be there."""
    inside = above.removeprefix(place).strip("/")
    path = place
    for part in inside.split("/") if inside else ():
        with open_folder(root, path, force=True) as folder:
            if folder is None:
                raise OSError(f"{path} was replaced")
            with _writable(folder):
                _make_directory(folder, part)
        path = f"{path}/{part}" if path else part


def _make_directory(folder: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            os.mkdir(name, dir_fd=folder)


def _write(folder: int, name: str, saved: SavedFile) -> None:
    fresh, content = f".{name}.{secrets.token_hex(8)}", saved.content or b""
    try:
        if stat.S_ISLNK(saved.mode):
            os.symlink(os.fsdecode(content), fresh, dir_fd=folder)
        else:
            with open(os.open(fresh, _NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), stat.S_IMODE(saved.mode))
        try:
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except IsADirectoryError:
            # Whatever is in it is nothing that this file was.
            os.rename(name, f"{name}.{secrets.token_hex(8)}", src_dir_fd=folder, dst_dir_fd=folder)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        _forget(folder, fresh)
        raise


def _forget(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
