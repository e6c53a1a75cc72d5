"""The bearer token of a server of ours: in a file that only its owner can read, and compared in constant time."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from tertulia.errors import StorageError

_LEAST = 32


def token_file(path: Path) -> str:
    """The token in that file, made when there is none; only its owner can read it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None
    with os.fdopen(fd, "r+", encoding="ascii", errors="ignore") as file:
        os.fchmod(file.fileno(), 0o600)
        token = file.read(256).strip()
        if len(token) < _LEAST:
            token = secrets.token_hex(32)
            file.seek(0)
            file.truncate()
            file.write(token)
        return token


def is_token(given: bytes, token: str) -> bool:
    """Whether it is this one; how long that takes tells nothing."""
    return hmac.compare_digest(given, token.encode())
