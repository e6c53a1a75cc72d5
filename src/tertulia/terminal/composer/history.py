"""What the person has sent before, brought back by the arrow keys or by a search. Pure: stores nothing."""

from __future__ import annotations

from collections.abc import Iterable

MAX_ENTRIES = 1_000


class InputHistory:
    """Entries of this run and earlier ones, the oldest first, and the place that the arrow keys have come to."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = list(entries)[-MAX_ENTRIES:]
        self.fresh: list[str] = []
        """What was sent in this run, to be stored."""
        self._at: int | None = None
        self._draft = ""
        """What was being written when the arrow keys went into the past."""

    def add(self, text: str) -> None:
        """Remember what was sent; the same again counts once."""
        self._at = None
        if text.strip() and (not self._entries or self._entries[-1] != text):
            self._entries = [*self._entries, text][-MAX_ENTRIES:]
            self.fresh.append(text)

    def extend_past(self, entries: Iterable[str]) -> None:
        """Put entries of earlier runs before those of this one."""
        self._entries = [*entries, *self._entries][-MAX_ENTRIES:]

    def back(self, text: str) -> str | None:
        """The entry before; None: there is none. `text`: what the composer holds."""
        if self._at is None:
            self._draft, self._at = text, len(self._entries)
        if self._at == 0:
            return None
        self._at -= 1
        return self._entries[self._at]

    def forward(self) -> str | None:
        """The entry after, and at the end what was being written; None: the arrow keys are not in the past."""
        if self._at is None:
            return None
        self._at += 1
        if self._at >= len(self._entries):
            self._at = None
            return self._draft
        return self._entries[self._at]

    def leave(self) -> None:
        """The person writes: the arrow keys begin at the end again."""
        self._at = None

    def search(self, query: str, most: int) -> list[str]:
        """The entries that contain a text, newest first, each once."""
        wanted = query.casefold()
        found = (entry for entry in reversed(self._entries) if wanted in entry.casefold())
        return list(dict.fromkeys(found))[:most]
