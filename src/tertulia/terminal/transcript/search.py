"""Finds text in a transcript, folded or not: from the cursor upwards, and on from the other end."""

from __future__ import annotations

from collections.abc import Iterable

from tertulia.terminal.transcript.document import Document
from tertulia.terminal.transcript.selection import written_text
from tertulia.terminal.transcript.viewport import Position


class Search:
    """One search. A query in lower case finds upper case too."""

    __slots__ = ("missed", "query", "typing")

    def __init__(self, query: str = "") -> None:
        self.query = query
        self.typing = True
        """The query is still being written."""
        self.missed = False
        """Whether no cell has a match."""

    def type(self, key: str, character: str | None) -> bool:
        """Handle a key while the query is typed; True for the key that ends it."""
        if key == "enter":
            self.typing = False
            return True
        if key == "backspace":
            self.query = self.query[:-1]
        elif character is not None and character.isprintable():
            self.query += character
        return False

    def matches(self, text: str) -> list[tuple[int, int]]:
        """Where the query stands in a text."""
        query, text = self._folded(text)
        found: list[tuple[int, int]] = []
        at = text.find(query) if query else -1
        while at >= 0:
            found.append((at, at + len(query)))
            at = text.find(query, at + len(query))
        return found

    def _folded(self, text: str) -> tuple[str, str]:
        if self.query.lower() == self.query and len(lowered := text.lower()) == len(text):
            return self.query, lowered
        return self.query, text

    def find(self, document: Document, start: Position, direction: int) -> Position | None:
        """The next row that has the query, above or below; from the other end where there is none."""
        self.missed = False
        here, row = start
        count = len(document)
        if not count or not self.query:
            return None
        inner = [at for at in self._matching_rows(document, here) if (at - row) * direction > 0]
        if inner:
            return here, inner[0] if direction > 0 else inner[-1]
        for distance in range(1, count + 1):
            index = (here + direction * distance) % count
            if self.matches(written_text(document.source[index], document.source.name)):
                rows = list(self._matching_rows(document, index)) or self._unfold(document, index)
                return index, rows[0] if direction > 0 else rows[-1]
        self.missed = True
        return None

    def _matching_rows(self, document: Document, index: int) -> Iterable[int]:
        return [number for number, row in enumerate(document.rows(index)) if self.matches(row.text)]

    def _unfold(self, document: Document, index: int) -> list[int]:
        document.unfolded.add(document.source[index].key)
        # A match across the end of a row is in no single row: show the cell's first one.
        return list(self._matching_rows(document, index)) or [0]
