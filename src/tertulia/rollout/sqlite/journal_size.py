"""How long the journal of a session's file is, about, and what the next commit may do with it."""

from __future__ import annotations

from tertulia.rollout.sqlite.database import PAGE_BYTES

GROWN_BYTES = 4 * 1024 * 1024
"""After so many more bytes it is moved into the file."""
_COMMIT_BYTES = 2 * PAGE_BYTES
"""Bytes that a commit adds to the journal besides its records: pages are written whole."""
_LEAST_ROOM, _MOST_ROOM = 64 * 1024, 512 * 1024
"""By how much a journal that is flushed with every commit is lengthened at once: as much as it has, between these."""


class JournalSize:
    """The estimated size, at most: asking the disk after every commit would cost a tenth of a commit."""

    __slots__ = ("_durable", "_room", "_size", "checkpoint_at", "is_begun")

    def __init__(self, *, durable: bool) -> None:
        self._durable = durable
        self._size = 0
        self._room = 0
        """How long it was made for commits to come; less than it has where none was made."""
        self.checkpoint_at = GROWN_BYTES
        self.is_begun = False
        """Whether the next commit does no more than to add to it. The first one in an empty journal does more."""

    @property
    def only_grows(self) -> bool:
        """Whether the next commit only adds, to a journal that has room for it."""
        return self.is_begun and self._size < self.checkpoint_at and not self.wanted_room

    @property
    def wanted_room(self) -> int:
        """By how much to lengthen it before the next commit, so that flushing it is quick; 0: not at all."""
        if not self._durable or self._size + _COMMIT_BYTES <= self._room:
            return 0
        return min(max(_LEAST_ROOM, self._size), _MOST_ROOM)

    @property
    def is_grown(self) -> bool:
        """Whether it is to be moved into the file."""
        return self._size >= self.checkpoint_at

    def lengthened(self, size: int) -> None:
        """Note how long it was made for what is to come."""
        self._room = size

    def add(self, records: int) -> None:
        """Count the commit of so many bytes of records."""
        self._size += records + _COMMIT_BYTES

    def measured(self, size: int) -> None:
        """Note how long it really is."""
        self._size = size

    def emptied(self) -> None:
        """It was, or may have been, moved into the file: the next commit may be the first one in it."""
        self.is_begun, self._room = False, 0

    def checkpointed(self, size: int) -> None:
        """It was tried to move it; so much is left."""
        self._size, self._room = size, 0
        self.checkpoint_at = size + GROWN_BYTES
