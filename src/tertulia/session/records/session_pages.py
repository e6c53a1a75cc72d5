"""Pages of the list of stored sessions, the newest first.

A session that is stored or used between two pages moves none of the entries that are still to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.rollout.sqlite.session_index import SessionEntry
from tertulia.rollout.sqlite.summaries import SessionSummary, summary_of


class SessionPage(msgspec.Struct, frozen=True):
    """One page of a list."""

    sessions: list[SessionSummary]
    next_cursor: str | None
    """None on the last page."""


def session_page(
    home: Path,
    entries: Iterable[SessionEntry],
    cursor: str | None,
    size: int,
    accept: Callable[[SessionSummary], bool],
) -> SessionPage:
    """The entries after the cursor that `accept` takes. InvalidParams where the cursor is not valid."""
    page: list[SessionSummary] = []
    last: str | None = None
    for entry in entries_after(entries, cursor):
        if len(page) == size:
            return SessionPage(page, last)
        last = cursor_at(entry)
        summary = summary_of(home, entry)
        if accept(summary):
            page.append(summary)
    return SessionPage(page, None)


def cursor_at(entry: SessionEntry) -> str:
    """The cursor of a client that has seen the list up to this entry."""
    return f"{entry.updated!r}/{entry.id}"


def entries_after(entries: Iterable[SessionEntry], cursor: str | None) -> Iterator[SessionEntry]:
    """The entries after the last page; without a cursor all of them."""
    ordered = sorted(entries, key=_sort_key, reverse=True)
    if cursor is None:
        return iter(ordered)
    updated, _, last_id = cursor.partition("/")
    try:
        end = (float(updated), last_id)
    except ValueError:
        raise InvalidParamsError("the cursor must be the one that came with an earlier page") from None
    return iter([entry for entry in ordered if _sort_key(entry) < end])


def _sort_key(entry: SessionEntry) -> tuple[float, str]:
    return entry.updated, entry.id
