"""Which MCP servers were not ready in time, run after run: a server that hangs must not delay every run.

A small file in the data directory, with a count for each server by the digest of its launch. A server that is defined
otherwise, or becomes ready, begins again. Without a file, and where it cannot be read or written, nothing is known.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from tertulia.errors import StorageError
from tertulia.policy.private_file import PrivateFile, VersionedContent

USUAL = 2
"""After so many runs in a row a server is known to be late."""
_MAX_SERVERS = 200
_FILE = "mcp-late.json"


class _LateCounts(VersionedContent, frozen=True):
    servers: dict[str, int] = msgspec.field(default_factory=dict)
    """In how many runs in a row each was late, by its key; the latest stands last."""


class LateServers:
    """The counts of one data directory."""

    def __init__(self, home: Path | None) -> None:
        """`home` None: nothing is stored."""
        self._file = None if home is None else PrivateFile(home / _FILE, _LateCounts)

    def is_usual(self, key: str) -> bool:
        """Whether the server was late in all of the last runs."""
        return self._counts().get(key, 0) >= USUAL

    def add(self, keys: Collection[str]) -> None:
        """These servers were late in this run."""
        counts = self._counts()
        late = {key: counts.get(key, 0) + 1 for key in keys}
        self._write({**{key: count for key, count in counts.items() if key not in late}, **late})

    def forget(self, key: str) -> None:
        """The server became ready, sooner or later."""
        counts = self._counts()
        if counts.pop(key, None) is not None:
            self._write(counts)

    def _counts(self) -> dict[str, int]:
        if self._file is None:
            return {}
        try:
            return self._file.load().servers
        except (OSError, ValueError):
            return {}

    def _write(self, counts: dict[str, int]) -> None:
        if self._file is None:
            return
        newest = list(counts.items())[-_MAX_SERVERS:]
        # Two runs that end at once may lose a count of one of them; it is not worth more.
        with suppress(StorageError), self._file.locked():
            self._file.write(_LateCounts(servers=dict(newest)))
