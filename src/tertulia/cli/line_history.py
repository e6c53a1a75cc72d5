"""What the arrow keys bring back at the terminal: lines of this run and, where they may be stored, of earlier ones."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import msgspec

from tertulia.errors import TertuliaError
from tertulia.policy.private_file import PrivateFile, VersionedContent
from tertulia.policy.redaction import Redactor
from tertulia.protocol.storage import Full, storage_from_wire
from tertulia.session.resume.store_choice import redactor_of
from tertulia.session.settings.settings import LoadedSettings

_FILE = "chat-history.json"
_MAX_LINES = 1_000


class _StoredLines(VersionedContent, frozen=True):
    lines: list[str] = msgspec.field(default_factory=list)
    """The oldest line stands first in it."""


class LineHistory:
    """The history of `readline`. Lines are stored with secrets replaced, and only where the policy is `full`."""

    def __init__(self, file: PrivateFile[_StoredLines] | None, redactor: Redactor) -> None:
        """`file` None: nothing is stored."""
        self._file = file
        self._redactor = redactor
        self._readline = _load_readline()
        self._before = 0
        if self._readline is not None:
            for line in self._stored():
                self._readline.add_history(line)
            self._before = self._readline.get_current_history_length()

    @classmethod
    def of(cls, loaded: LoadedSettings) -> LineHistory:
        """The history under these settings, in their data directory."""
        stored = isinstance(storage_from_wire(loaded.settings.storage_policy), Full)
        file = PrivateFile(loaded.environment.home / _FILE, _StoredLines) if stored else None
        return cls(file, redactor_of(loaded.settings, loaded.environment))

    def save(self) -> None:
        """Store the lines of this run, with secrets replaced. One that cannot be stored is no loss worth an error."""
        if self._file is None or self._readline is None:
            return
        end = self._readline.get_current_history_length()
        items = [self._readline.get_history_item(at + 1) for at in range(self._before, end)]
        lines = [self._redactor.text(line) for line in items if line]
        if not lines:
            return
        with suppress(TertuliaError), self._file.locked():
            self._file.write(_StoredLines(lines=[*self._stored(), *lines][-_MAX_LINES:]))

    def _stored(self) -> list[str]:
        if self._file is None:
            return []
        try:
            return self._file.load().lines
        except (OSError, ValueError):
            return []


def _load_readline() -> Any:
    """The module that makes `input` edit lines; None where Python was built without it."""
    if find_spec("readline") is None:
        return None
    import readline

    # A paste of several lines is one message.
    readline.parse_and_bind("set enable-bracketed-paste on")
    return readline
