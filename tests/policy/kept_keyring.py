"""A backend for the package `keyring` that keeps everything in one JSON file: what a desktop would have."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class Backend(KeyringBackend):
    """Chosen with PYTHON_KEYRING_BACKEND; its file is $KEPT_KEYRING."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self._file = Path(os.environ["KEPT_KEYRING"])

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._file.write_text(json.dumps({**self._read(), f"{service} {username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        entries = self._read()
        if entries.pop(f"{service} {username}", None) is None:
            raise PasswordDeleteError("it is not there")
        self._file.write_text(json.dumps(entries))

    def _read(self) -> dict[str, str]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}


class Stalled(Backend):
    """Waits for a person who never comes."""

    def get_password(self, service: str, username: str) -> str | None:
        threading.Event().wait()
        return None
