"""A lock file that marks something as used by one process. The lock ends with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def hold_file(path: Path) -> int | None:
    """Lock this file for this process until `release_file`; None where another process holds the lock."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(number).st_ino:
                return number
        except FileNotFoundError:
            # The last holder has removed the file meanwhile: try again with a new one.
            pass
        except BlockingIOError:
            os.close(number)
            return None
        os.close(number)


def release_file(path: Path, number: int) -> None:
    """Remove the lock file and give up its lock."""
    path.unlink(missing_ok=True)
    os.close(number)
