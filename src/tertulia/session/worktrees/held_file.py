"""A file of ours that says which process has something: held by a lock that goes with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def hold_file(path: Path) -> int | None:
    """Say that this process has it, until the descriptor is released; None where another one has it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(number).st_ino:
                return number
        except FileNotFoundError:
            # The last holder removed it meanwhile.
            pass
        except BlockingIOError:
            os.close(number)
            return None
        os.close(number)


def release_file(path: Path, number: int) -> None:
    """This process does not have it any more."""
    path.unlink(missing_ok=True)
    os.close(number)
