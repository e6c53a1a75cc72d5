"""Where shadow repositories lie: in the data directory, or, where nothing may be stored, in memory."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from tertulia.errors import StoragePolicyViolationError
from tertulia.session.worktrees.held_file import hold_file, release_file

_CANDIDATES = ("/dev/shm", "/run/user/{uid}")
_MEMORY = ("tmpfs", "ramfs")


def stored_folder(home: Path) -> Path:
    """The folder of the data directory."""
    return home / "checkpoints"


def memory_folder(session_id: str) -> Path:
    """A folder of this session's own that lies in memory. StoragePolicyViolationError where there is no such place."""
    for candidate in _CANDIDATES:
        place = Path(candidate.format(uid=os.getuid()))
        if _is_in_memory(place) and os.access(place, os.W_OK | os.X_OK):
            top = place / f"tertulia-{os.getuid()}"
            top.mkdir(mode=0o700, exist_ok=True)
            status = top.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
                return top / session_id
    raise StoragePolicyViolationError(
        f"checkpoints.in_memory needs a file system in memory, and none of {', '.join(_CANDIDATES)} is one that can be "
        "written"
    )


def memory_folders() -> list[Path]:
    """Those of sessions that are open, and those that killed ones have left."""
    tops = [Path(candidate.format(uid=os.getuid()), f"tertulia-{os.getuid()}") for candidate in _CANDIDATES]
    return [folder for top in tops if top.is_dir() for folder in sorted(top.iterdir()) if folder.is_dir()]


def hold_memory(folder: Path) -> int | None:
    """Mark a folder as used by this process; None where another one uses it."""
    return hold_file(folder.with_suffix(".lock"))


def drop_memory(folder: Path, number: int) -> None:
    """Remove a folder and its mark."""
    shutil.rmtree(folder, ignore_errors=True)
    release_file(folder.with_suffix(".lock"), number)


def _is_in_memory(place: Path) -> bool:
    """By the table of mounts: the last one of a place counts."""
    found = False
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split(" ")[4] == str(place):
            found = after.split(" ")[0] in _MEMORY
    return found
