"""`--debug`: what the program logs goes to a file, and a failure is followed by the places in the code it came from.

Neither has secrets or texts of conversations: a storage policy may forbid them, and no sweep reaches these files. A log
has at most twice `MAX_BYTES`; each new one removes those that are older than `MAX_DAYS` days or beyond `MAX_LOGS`.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from tertulia.events.clock import SystemClock
from tertulia.policy.log_redaction import log_filter, log_stack
from tertulia.version import __version__

_log = logging.getLogger(__name__)
MAX_BYTES = 5_000_000
MAX_DAYS = 14
MAX_LOGS = 20
_DAY_S = 86_400
_TERMINAL = ("TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "LANG", "LC_ALL", "TMUX", "STY", "SSH_TTY")
"""Variables that say which terminal it is; of the last three only whether they are set."""
_SWITCHES = ("NO_COLOR", "ACCESSIBLE", "TMUX", "STY", "SSH_TTY")
_PACKAGES = ("textual", "rich", "msgspec", "aiohttp", "click")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class DebugLog:
    """The log of one command line, from its beginning to `close`."""

    def __init__(self, folder: Path) -> None:
        """Create a file of its own in this folder, for its owner alone. OSError where that cannot be."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_old_logs(folder, SystemClock().now())
        number, name = tempfile.mkstemp(prefix="debug-", suffix=".log", dir=folder)
        os.close(number)
        self.path = Path(name)
        self._handler = RotatingFileHandler(
            name, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
        self._handler.setFormatter(logging.Formatter(_FORMAT))
        self._handler.addFilter(log_filter())
        # Only our own records: other libraries write whole requests at this level.
        self._logger = logging.getLogger("tertulia")
        self._before = self._logger.level
        self._logger.setLevel(logging.DEBUG)
        # Python prints warnings to standard error only while no other handler is set up.
        self._handlers = [self._handler, *([] if logging.lastResort is None else [logging.lastResort])]
        for handler in self._handlers:
            logging.getLogger().addHandler(handler)
        _log.debug("tertulia %s, Python %s, %s", __version__, platform.python_version(), platform.platform())
        _log.debug("packages: %s", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES))

    def add_terminal(self, variables: Mapping[str, str]) -> None:
        """Log which terminal it is. `variables`: of the environment; few are logged, and none that is a person's."""
        known = [f"{name}={variables[name][:40]}" for name in _TERMINAL if name in variables and name not in _SWITCHES]
        known += [f"{name} is set" for name in _SWITCHES if variables.get(name)]
        _log.debug("terminal: %s", ", ".join(known) or "unknown")
        streams = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
        for name, stream in streams.items():
            _log.debug("%s: %s", name, _stream_text(stream))

    def add_failure(self, error: BaseException) -> str:
        """Log where an error came from; returns that, for standard error."""
        stack = log_stack(error)
        _log.debug("failed\n%s", stack)
        return stack

    def close(self) -> None:
        """From here on log as it was before the command line."""
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
        self._logger.setLevel(self._before)
        self._handler.close()


def remove_old_logs(folder: Path, now: float) -> None:
    """Remove the logs that are too old, or too many with the one that begins now."""
    logs: list[tuple[float, Path]] = []
    for path in folder.glob("debug-*.log*"):
        with suppress(OSError):
            logs.append((path.lstat().st_mtime, path))
    logs.sort(reverse=True)
    for index, (changed, path) in enumerate(logs):
        if index >= MAX_LOGS - 1 or now - changed > MAX_DAYS * _DAY_S:
            with suppress(OSError):
                path.unlink()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "is not there"


def _stream_text(stream: TextIO | None) -> str:
    if stream is None or stream.closed:
        return "closed"
    with suppress(OSError, ValueError):
        if stream.isatty():
            size = os.get_terminal_size(stream.fileno())
            return f"a terminal of {size.columns}x{size.lines}, {stream.encoding}"
    return f"no terminal, {stream.encoding}"


def start_debug_log() -> DebugLog:
    """Begin a log in the folder `logs` of our data, and name the file on standard error."""
    from tertulia.session.settings.settings import current_environment

    environment = current_environment()
    log = DebugLog(environment.home / "logs")
    log.add_terminal(environment.variables)
    print(f"debug log: {log.path}", file=sys.stderr)
    return log
