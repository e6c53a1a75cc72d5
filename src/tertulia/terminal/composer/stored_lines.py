"""Stores the lines that a person typed for later runs: with secrets replaced, and only under the policy `full`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from tertulia.errors import TertuliaError
from tertulia.policy.private_file import PrivateFile, VersionedContent
from tertulia.policy.redaction import Redactor
from tertulia.protocol.storage import Full, storage_from_wire
from tertulia.session.resume.store_choice import redactor_of
from tertulia.session.settings.settings import LoadedSettings

_FILE = "chat-history.json"
_MAX_LINES = 1_000
_MAX_CHARACTERS = 10_000
"""Longer lines are pasted texts and not stored: every run would read them, and every message would write them."""


class _Content(VersionedContent, frozen=True):
    lines: list[str] = msgspec.field(default_factory=list)
    """The oldest line stands first in it."""


class StoredLines:
    """The stored lines of a data directory."""

    def __init__(self, file: PrivateFile[_Content] | None, redactor: Redactor) -> None:
        """`file` None: nothing is stored, and nothing is read."""
        self._file = file
        self._redactor = redactor

    @classmethod
    def of(cls, loaded: LoadedSettings) -> StoredLines:
        """The lines that these settings keep, in their data directory."""
        stored = isinstance(storage_from_wire(loaded.settings.storage_policy), Full)
        file = PrivateFile(loaded.environment.home / _FILE, _Content) if stored else None
        return cls(file, redactor_of(loaded.settings, loaded.environment))

    def load(self) -> list[str]:
        """The lines of earlier runs, oldest first."""
        if self._file is None:
            return []
        try:
            return self._file.load().lines
        except (OSError, ValueError):
            return []

    def add(self, lines: Sequence[str]) -> None:
        """Store these lines too. A failure is ignored: the lines are not worth an error."""
        redacted = [self._redactor.text(line) for line in lines if 0 < len(line) <= _MAX_CHARACTERS]
        if self._file is None or not redacted:
            return
        with suppress(TertuliaError), self._file.locked():
            self._file.write(_Content(lines=[*self.load(), *redacted][-_MAX_LINES:]))
