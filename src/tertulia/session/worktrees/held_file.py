"""A lock file that marks something as used by one process. The lock ends with the process, however that ends."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tertulia.policy.file_lock import try_lock


def hold_file(path: Path) -> int | None:
    """Lock this file for this process until `release_file`; None where another process holds the lock."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not try_lock(number):
            os.close(number)
            return None
        # The last holder may have removed the file meanwhile: then try again with a new one.
        with suppress(FileNotFoundError):
            if os.stat(path).st_ino == os.fstat(number).st_ino:
                return number
        os.close(number)


def release_file(path: Path, number: int) -> None:
    """Remove the lock file and give up its lock."""
    path.unlink(missing_ok=True)
    os.close(number)
