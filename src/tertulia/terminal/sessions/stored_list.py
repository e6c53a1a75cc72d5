"""Reads the list of stored sessions for the picker, by the reader that every surface uses. Used in threads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tertulia.errors import InvalidParamsError, NotFoundError, TertuliaError
from tertulia.rollout.sqlite.session_index import SessionEntry, list_sessions, remove_session
from tertulia.rollout.sqlite.summaries import search, session_cost, summary
from tertulia.terminal.sessions.picker import SessionDetails, StoredSession

_MAX_HITS = 500


class StoredList:
    """The sessions of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def rows(self) -> list[StoredSession]:
        """All sessions of persons, the newest first."""
        return [_row(entry) for entry in list_sessions(self._home) if entry.purpose is None]

    def found(self, text: str) -> list[StoredSession]:
        """Sessions with this text, each once, with the place where it stands first."""
        rows = {row.id: row for row in self.rows()}
        excerpts: dict[str, str] = {}
        for hit in search(self._home, text, _MAX_HITS):
            excerpts.setdefault(hit.session_id, hit.excerpt)
        return [
            StoredSession(row.id, row.updated, row.model, row.conversations, row.problem, excerpts[id])
            for id, row in rows.items()
            if id in excerpts
        ]

    def details(self, ids: Sequence[str]) -> dict[str, SessionDetails]:
        """What is read from these sessions themselves; one that is gone is left out."""
        read: dict[str, SessionDetails] = {}
        for id in ids:
            with suppress(TertuliaError):
                one, cost = summary(self._home, id), session_cost(self._home, id)
                read[id] = SessionDetails(one.title or one.preview or "", one.entry.model or "", one.held, cost)
        return read

    def find(self, beginning: str) -> str:
        """The id of the one session that begins so.

        Raises:
            NotFoundError: None does.
            InvalidParamsError: Several do.
        """
        fitting = [row.id for row in self.rows() if row.id.startswith(beginning)]
        if not fitting:
            raise NotFoundError(f"no stored session begins with {beginning[:40]!r}; F2 lists them")
        if len(fitting) > 1:
            raise InvalidParamsError(f"{len(fitting)} sessions begin with {beginning[:40]!r}; give more of the id")
        return fitting[0]

    def remove(self, session_id: str) -> None:
        """Delete a session for good. TertuliaError where it is in use or gone."""
        remove_session(self._home, session_id)


def _row(entry: SessionEntry) -> StoredSession:
    return StoredSession(entry.id, entry.updated, entry.model or "", entry.conversations, entry.trouble)
