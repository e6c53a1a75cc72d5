"""The list of stored sessions, for `record/list`. Blocks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.rollout.sqlite.session_index import SessionEntry, list_sessions
from tertulia.rollout.sqlite.summaries import SessionSummary
from tertulia.session.records.answers import RecordList, RecordSummary
from tertulia.session.records.inputs import ListRecords
from tertulia.session.records.session_pages import session_page


def list_records(home: Path, params: ListRecords, here: Collection[str]) -> RecordList:
    """One page. `here`: the sessions that run in this process."""
    query = None if params.query is None else params.query.casefold().strip()

    def accept(stored: SessionSummary) -> bool:
        return not query or _fits(stored, query)

    page = session_page(home, list_sessions(home), params.before, params.limit, accept)
    timestamps = Timestamps(SystemClock())
    return RecordList([_summary(stored, here, timestamps) for stored in page.sessions], page.next_cursor)


def _fits(stored: SessionSummary, query: str) -> bool:
    texts = (stored.title, stored.preview, stored.cwd, stored.entry.model)
    return stored.entry.id.startswith(query) or any(query in text.casefold() for text in texts if text is not None)


def _summary(stored: SessionSummary, here: Collection[str], timestamps: Timestamps) -> RecordSummary:
    entry = stored.entry
    return RecordSummary(
        session_id=entry.id,
        title=stored.title,
        preview=stored.preview,
        cwd=stored.cwd,
        model=entry.model,
        started_at=timestamps.at(entry.created),
        last_active_at=timestamps.at(entry.updated),
        conversations=entry.conversations,
        items=entry.items,
        tokens=entry.tokens,
        cost_usd=entry.cost_usd,
        state="here" if entry.id in here else "elsewhere" if stored.held else "stored",
        storage=_storage(entry),
        purpose=entry.purpose,
        error=entry.trouble,
    )


def _storage(entry: SessionEntry) -> Literal["full", "partly", "none"]:
    if not entry.bodies:
        return "none"
    return "partly" if entry.keeps_less else "full"
