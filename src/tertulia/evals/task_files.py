"""Files of a task: what may lie in its folder, copies of the repository, and a fingerprint of everything.

A suite may come from a stranger. A link that leaves the repository, a pipe or a device is refused before anything is
read, and no name from a file is joined to a path before it was found to stay inside.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tertulia.errors import InvalidParamsError

MAX_FILES = 50_000
MAX_BYTES = 2 << 30
_CACHES = frozenset({"__pycache__"})
"""Written by programs that try a task out; they are no part of it."""
_LINKS_ALLOWED_IN = "repo"


def fingerprint_folder(folder: Path) -> str:
    """SHA-256 of names, modes and contents. InvalidParams for what no task may contain."""
    if folder.is_symlink() or not folder.is_dir():
        raise InvalidParamsError(f"{folder}: expected the folder of a task, and no link to one")
    digest, size = hashlib.sha256(), 0
    for count, path in enumerate(_files(folder), 1):
        name = path.relative_to(folder).as_posix()
        found = path.lstat()
        size += found.st_size
        if count > MAX_FILES or size > MAX_BYTES:
            raise InvalidParamsError(f"{folder}: more than {MAX_FILES:,} files or {MAX_BYTES:,} bytes are no task")
        content = _content(path, folder, found)
        mode = b"x" if found.st_mode & 0o100 else b"-"
        # A name need not be UTF-8.
        raw = os.fsencode(name)
        digest.update(b"%d:%b:%b:%d:%b" % (len(raw), raw, mode, len(content), content))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _CACHES)
        links = [name for name in folders if os.path.islink(os.path.join(above, name))]
        yield from (Path(above, name) for name in sorted([*names, *links]))


def _content(path: Path, folder: Path, found: os.stat_result) -> bytes:
    """What a file holds, or where a link leads."""
    if stat.S_ISLNK(found.st_mode):
        return os.fsencode(_checked_link(path, folder))
    if not stat.S_ISREG(found.st_mode):
        raise InvalidParamsError(f"{path}: neither a file nor a folder; a task has nothing else")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidParamsError(f"{path}: cannot be read: {error.strerror}") from None


def _checked_link(path: Path, folder: Path) -> str:
    target = os.readlink(path)
    top = folder / _LINKS_ALLOWED_IN
    if top not in path.parents:
        raise InvalidParamsError(f"{path}: a link; only the repository of a task may have links")
    # By the names, and by what lies there now: `link/../..` goes up from where the link leads.
    led, leads = os.path.normpath(path.parent / target), os.path.realpath(path)
    inside = f"{led}/".startswith(f"{top}/") and f"{leads}/".startswith(f"{os.path.realpath(top)}/")
    if os.path.isabs(target) or not inside:
        raise InvalidParamsError(f"{path}: the link leads out of the repository ({target!r:.200})")
    return target


def relative_name(name: str, where: str) -> PurePosixPath:
    """A name that a file gives, as a path below a folder; InvalidParams for one that leaves it."""
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts or path == PurePosixPath("."):
        raise InvalidParamsError(f"{where}: {name!r:.200} is not the name of a file inside the repository")
    return path


def copy_folder(source: Path, target: Path, without: frozenset[str] = frozenset()) -> None:
    """A copy with links as links, without caches and names of `without`; files of the target are replaced."""
    for above, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in _CACHES | without]
        place = target / os.path.relpath(above, source)
        place.mkdir(parents=True, exist_ok=True)
        links = [name for name in folders if os.path.islink(os.path.join(above, name))]
        for name in [*(name for name in names if name not in without), *links]:
            (place / name).unlink(missing_ok=True)
            shutil.copy2(Path(above, name), place / name, follow_symlinks=False)
