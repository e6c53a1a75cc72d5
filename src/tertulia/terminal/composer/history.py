"""Messages that the person has sent before, for the arrow keys and for a search. Pure: stores nothing."""

from __future__ import annotations

from collections.abc import Iterable

MAX_ENTRIES = 1_000


class InputHistory:
    """Entries of this run and earlier ones, oldest first, and the position of the arrow keys."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = list(entries)[-MAX_ENTRIES:]
        self.fresh: list[str] = []
        """What was sent in this run, to be stored."""
        self._at: int | None = None
        self._draft = ""
        """The unfinished text from before the arrow keys went into the history."""

    def add(self, text: str) -> None:
        """Add a sent text; the same text twice in a row is kept once."""
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
        """The entry after, and at the end the unfinished text; None: the arrow keys are not in the history."""
        if self._at is None:
            return None
        self._at += 1
        if self._at >= len(self._entries):
            self._at = None
            return self._draft
        return self._entries[self._at]

    def leave(self) -> None:
        """Go back to the end of the history, because the person writes."""
        self._at = None

    def search(self, query: str, most: int) -> list[str]:
        """The entries that contain a text, newest first, each once."""
        wanted = query.casefold()
        found = (entry for entry in reversed(self._entries) if wanted in entry.casefold())
        return list(dict.fromkeys(found))[:most]
