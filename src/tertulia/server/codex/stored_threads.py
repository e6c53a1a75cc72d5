"""Stored sessions as a Codex client lists and reads them, and which of them are put away. Reads files: use a thread.

Codex keeps archived threads apart. Here they stay where they are, and one file names them: `archived-threads`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tertulia.protocol.items import Item
from tertulia.rollout.sqlite.session_files import create_private
from tertulia.rollout.sqlite.session_index import find_session, list_sessions
from tertulia.rollout.sqlite.summaries import SessionSummary, summary
from tertulia.server.codex.history import ThreadSummary, round_number, thread_object, turn_objects
from tertulia.server.codex.params import ListThreads
from tertulia.server.stored_sessions import is_in_folders, session_page
from tertulia.session.resume.fork import read_recorded_state
from tertulia.session.resume.past_turns import PastTurns, read_past_turns

PAGE = 25
MAX_PAGE = 100
ARCHIVED_FILE = "archived-threads"
NOT_LOADED = {"type": "notLoaded"}


class StoredThreads:
    """The threads below one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def listed(self, request: ListThreads, states: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """One page, the newest first: threads in which something was said. `states`: of those that run."""
        size = min(max(request.limit or PAGE, 1), MAX_PAGE)
        archived = self.archived()
        entries = [entry for entry in list_sessions(self._home) if (entry.id in archived) is bool(request.archived)]

        def accept(stored: SessionSummary) -> bool:
            return stored.preview is not None and is_in_folders(stored.cwd, request.cwd)

        page = session_page(self._home, entries, request.cursor, size, accept)
        threads = [thread_object(_about(one, states.get(one.entry.id, NOT_LOADED))) for one in page.sessions]
        return {"data": threads, "nextCursor": page.next_cursor}

    def read(self, id: str, *, turns: bool) -> dict[str, Any]:
        """One that does not run. NotFound, or StorageError."""
        about = _about(summary(self._home, id), NOT_LOADED)
        if not turns:
            return thread_object(about)
        endings = self.past(id).endings
        objects = turn_objects(self.items(id), about.cwd, {name: name for name in endings})
        return thread_object(about, ({**turn, "status": endings.get(turn["id"], turn["status"])} for turn in objects))

    def past(self, id: str) -> PastTurns:
        """How the turns of one ended and what they cost; nothing of one that is not stored."""
        stored = self._home / "sessions" / f"{id}.db"
        return read_past_turns(self._home, id) if stored.exists() else PastTurns()

    def items(self, id: str) -> list[Item]:
        """All that was said in one. NotFound, or StorageError."""
        past = read_recorded_state(self._home, id)
        _, root = past.identity()
        return [
            item
            for conversation in past.conversations.values()
            if conversation.id == root
            for item in conversation.items
        ]

    def round_of(self, id: str, turn_id: str) -> int:
        """Which round of its history a turn is. NotFound, or StorageError."""
        return round_number(self.items(id), turn_id, {name: name for name in self.past(id).endings})

    def cwd(self, id: str) -> str | None:
        """Where one worked. NotFound, or StorageError."""
        return summary(self._home, id).cwd

    def created(self, id: str, otherwise: float) -> float:
        """When a stored thread was created."""
        stored = self._home / "sessions" / f"{id}.db"
        return find_session(self._home, id).created if stored.exists() else otherwise

    # ── put away ─────────────────────────────────────────────────────────────────────────────────────────────

    def archived(self) -> set[str]:
        """Those that were put away."""
        try:
            return set((self._home / ARCHIVED_FILE).read_text(encoding="ascii").split())
        except FileNotFoundError:
            return set()

    def archive(self, id: str, *, away: bool) -> None:
        """Put one away, or take it out again. NotFound where there is none."""
        find_session(self._home, id)
        # Sessions that were removed since are forgotten here too.
        there = {entry.id for entry in list_sessions(self._home)}
        named = (self.archived() & there) | {id} if away else (self.archived() & there) - {id}
        draft = self._home / f"{ARCHIVED_FILE}.{os.getpid()}"
        draft.unlink(missing_ok=True)
        create_private(draft, "".join(f"{name}\n" for name in sorted(named)).encode())
        draft.replace(self._home / ARCHIVED_FILE)


def _about(stored: SessionSummary, status: dict[str, Any]) -> ThreadSummary:
    entry = stored.entry
    return ThreadSummary(
        id=entry.id,
        model=entry.model or "",
        cwd=stored.cwd or "/",
        created=entry.created,
        updated=entry.updated,
        preview=stored.preview or "",
        name=stored.title,
        status=status,
    )
