"""Keeps logs off the screen: while the screen is open, they go to a file, without secrets."""

from __future__ import annotations

import logging
import os
from logging.handlers import MemoryHandler
from pathlib import Path
from types import TracebackType
from typing import IO

from tertulia.policy.log_redaction import log_filter

LOG_NAME = "terminal.log"
_MAX_WAITING = 1_000
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MAX_BYTES = 1_000_000
_PRIVATE = 0o600


class ScreenLog:
    """A context in which nothing is logged to a terminal; records wait until a folder is known."""

    def __init__(self) -> None:
        self.path: Path | None = None
        """Where records are written; None while that is not known."""
        self._waiting = MemoryHandler(_MAX_WAITING, flushLevel=logging.CRITICAL + 1)
        self._file: IO[str] | None = None
        self._before: list[logging.Handler] = []
        self._files: list[logging.Handler] = []

    def __enter__(self) -> ScreenLog:
        root = logging.getLogger()
        self._before = root.handlers[:]
        # Handlers that write to files stay, since they do not disturb the screen.
        self._files = [handler for handler in self._before if isinstance(handler, logging.FileHandler)]
        root.handlers[:] = [self._waiting, *self._files]
        return self

    def write_to(self, folder: Path) -> None:
        """Write records to a file in this folder from now on, those that waited first."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / LOG_NAME
        too_long = path.exists() and path.stat().st_size > _MAX_BYTES
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, _PRIVATE)
        if too_long:
            os.ftruncate(number, 0)
        self._file = os.fdopen(number, "a", encoding="utf-8", errors="backslashreplace")
        handler = logging.StreamHandler(self._file)
        handler.setFormatter(logging.Formatter(_FORMAT))
        handler.addFilter(log_filter())
        # What `--debug` logs has a file of its own.
        handler.setLevel(logging.INFO)
        self.path = path
        self._waiting.setTarget(handler)
        self._waiting.flush()
        logging.getLogger().handlers[:] = [handler, *self._files]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().handlers[:] = self._before
        self._waiting.close()
        if self._file is not None:
            self._file.close()
