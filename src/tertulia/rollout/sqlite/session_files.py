"""The files of sessions on disk, and their protection from other users. `ownership` says whose they are."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

import msgspec

from tertulia.errors import InvalidParamsError, StorageError

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FOLDER = "sessions"
_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MOUNTS = "/proc/self/mountinfo"
_LOCAL = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})
"""File systems that are on a disk or in memory. Any other may wait for a network, or for another program."""


class SessionFiles(msgspec.Struct, frozen=True):
    """The names of one session's files. None of them need exist."""

    home: Path
    session_id: str

    @property
    def db(self) -> Path:
        """The file with the records."""
        return self._beside(".db")

    @property
    def wal(self) -> Path:
        """SQLite's journal: what was committed last stands here first."""
        return self._beside(".db-wal")

    @property
    def shm(self) -> Path:
        """SQLite's index of the journal."""
        return self._beside(".db-shm")

    @property
    def lock(self) -> Path:
        """The file in which its owner has a lock, with other sessions; made and removed by owners."""
        return Path(self.name_of_lock)

    @property
    def name_of_lock(self) -> str:
        """The path of that file."""
        # Several, because a system looks through all locks of a file for each.
        return f"{self.home}/{_FOLDER}/owners-{self.session_id[-1]}.lock"

    @property
    def unborn(self) -> Path:
        """A record that has not got its name yet."""
        return self._beside(".new")

    def _beside(self, ending: str) -> Path:
        return Path(self.name(ending))

    def name(self, ending: str) -> str:
        """The path of the file with that ending."""
        return f"{self.home}/{_FOLDER}/{self.session_id}{ending}"

    def size(self) -> int:
        """Bytes on the disk, the journal included."""
        return file_size(self.db) + file_size(self.wal)


def is_session_id(text: str) -> bool:
    """Whether it can be one: a UUID in small letters."""
    return _ID.fullmatch(text) is not None


def session_files(home: Path, session_id: str) -> SessionFiles:
    """The files of that session. InvalidParams for an id that is no UUID, before any path is made of it."""
    if not is_session_id(session_id):
        raise InvalidParamsError(f"a session id is a UUID in small letters, not {session_id[:40]!r}")
    return SessionFiles(home, session_id)


def sessions_folder(home: Path) -> Path:
    """The folder with all session files."""
    return home / _FOLDER


def names_in(home: Path) -> list[str]:
    """The names of everything in the folder; none where there is no folder."""
    try:
        return os.listdir(sessions_folder(home))
    except FileNotFoundError:
        return []


def file_size(path: Path) -> int:
    """The size of a file; 0 where there is none."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def make_sessions_folder(home: Path, *, durable: bool = False) -> None:
    """Have the folder, for us alone whatever the umask. StorageError where others could put their files into it."""
    folder = sessions_folder(home)
    missing = list(takewhile(lambda place: not place.exists(), (folder, home, *home.parents)))
    for place in reversed(missing):
        with suppress(FileExistsError):
            place.mkdir(_PRIVATE_DIRECTORY)
            place.chmod(_PRIVATE_DIRECTORY)
            if durable:
                flush(place.parent.resolve())
    # The home itself may be a link that its owner made; what lies in it is ours, and none of it is a link.
    if folder.is_symlink():
        raise StorageError(f"{folder} is a link; put a directory there, or set TERTULIA_HOME", file=str(folder))
    for place in (home, folder):
        _refuse_what_others_can_write(place)


def _refuse_what_others_can_write(folder: Path) -> None:
    found = folder.stat()
    # A group of one's own is common, and so is the umask that goes with it.
    others = stat.S_IWOTH if found.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
    if found.st_mode & others:
        raise StorageError(
            f"{folder} can be written by others, who could read or change what is recorded there; "
            f"run `chmod go-w {folder}`",
            file=str(folder),
        )


def refuse_links(files: SessionFiles) -> None:
    """StorageError for anything but plain files under a session's names."""
    for path in (files.db, files.wal, files.shm, files.lock):
        refuse_link(path)


def refuse_link(path: Path) -> None:
    """StorageError for anything but a plain file, or nothing."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise StorageError(f"{path} is not a plain file; only Tertulia puts files there: remove it", file=str(path))


def create_private(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a new file that only we can read, and if it is to be durable see it to the disk."""
    fd = os.open(path, _OPEN | os.O_EXCL, _PRIVATE_FILE)
    try:
        os.fchmod(fd, _PRIVATE_FILE)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if durable:
            _flush(fd)
    finally:
        os.close(fd)


def flush(path: Path) -> None:
    """See a file, or the names in a folder, to the disk. Never for a database: see `ownership`."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _flush(fd)
    finally:
        os.close(fd)


class FlushError(OSError):
    """The disk could not save what it had taken."""


def _flush(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise FlushError(*error.args) from error


def processes_with_file_open(path: Path) -> list[int]:
    """Other processes that have a file open, as far as the system tells us."""
    path, found = path.resolve(), set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        # Gone by now, or of another user.
        with suppress(OSError):
            if str(path) in {os.readlink(fd) for fd in (process / "fd").iterdir()}:
                found.add(int(process.name))
    return sorted(found - {os.getpid()})


def is_local(file: Path) -> bool:
    """Whether its file system is known to be local. False where the system does not tell."""
    try:
        return _is_local_device(os.stat(file).st_dev)
    except OSError:
        return False


@lru_cache(maxsize=64)
def _is_local_device(device: int) -> bool:
    number = f"{os.major(device)}:{os.minor(device)}"
    with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
        # "36 35 98:0 /root /mounted/at options - ext4 /dev/root options"
        found = [line.partition(" - ")[2].split(" ", 1)[0] for line in mounts if line.split(" ", 3)[2] == number]
    return bool(found) and set(found) <= _LOCAL
