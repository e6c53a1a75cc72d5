"""Finds texts in stored sessions, for `record/search`. Blocks."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.rollout.sqlite.summaries import SearchBudget, search
from tertulia.session.records.answers import RecordHit, RecordHits
from tertulia.session.records.inputs import SearchRecords

MAX_BYTES = 256 * 1024 * 1024
"""Of texts that one search looks through: other reads wait for their turn."""


def search_records(home: Path, params: SearchRecords) -> RecordHits:
    """Places with the text, those of the newest session first."""
    budget, at = SearchBudget(MAX_BYTES), Timestamps(SystemClock()).at
    found = search(home, params.query, params.limit + 1, session_id=params.session_id, budget=budget)
    hits = [
        RecordHit(hit.session_id, hit.n, hit.conversation_id, at(hit.ts), hit.type, hit.excerpt)
        for hit in islice(found, params.limit + 1)
    ]
    return RecordHits(hits[: params.limit], len(hits) > params.limit or budget.left <= 0)
