"""`--debug`: what the program logs goes to a file, and a failure is followed by the places in the code it came from.

Neither has secrets or texts of conversations: a storage policy may forbid them, and no sweep reaches these files.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import tempfile
from pathlib import Path

from tertulia.policy.log_redaction import log_filter, log_stack
from tertulia.version import __version__

_log = logging.getLogger(__name__)
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class DebugLog:
    """The log of one command line, from its beginning to `close`."""

    def __init__(self, folder: Path) -> None:
        """Create a file of its own in this folder, for its owner alone. OSError where that cannot be."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, name = tempfile.mkstemp(prefix="debug-", suffix=".log", dir=folder)
        os.close(number)
        self.path = Path(name)
        self._handler = logging.FileHandler(name, encoding="utf-8", errors="backslashreplace")
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


def start_debug_log() -> DebugLog:
    """Begin a log in the folder `logs` of our data, and name the file on standard error."""
    from tertulia.session.settings.settings import current_environment

    log = DebugLog(current_environment().home / "logs")
    print(f"debug log: {log.path}", file=sys.stderr)
    return log
