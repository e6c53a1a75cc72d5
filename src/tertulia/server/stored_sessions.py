"""Lists stored sessions page by page, the newest first, for ACP and Codex clients. Reads files: call it in a thread.

A session that is stored or used between two pages moves none of the entries that are still to come. How an entry looks
to a client is decided in `acp/agent.py` and `codex/stored_threads.py`.
"""

from __future__ import annotations

import os.path
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
    """Those of the entries that `accept` takes, from behind the cursor. InvalidParams where that is no cursor."""
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
    """For a client that has seen the list up to this entry."""
    return f"{entry.updated!r}/{entry.id}"


def entries_after(entries: Iterable[SessionEntry], cursor: str | None) -> Iterator[SessionEntry]:
    """Those behind the place where the last page ended; without a cursor all of them."""
    ordered = sorted(entries, key=_sort_key, reverse=True)
    if cursor is None:
        return iter(ordered)
    updated, _, last_id = cursor.partition("/")
    try:
        end = (float(updated), last_id)
    except ValueError:
        raise InvalidParamsError("cursor must be a nextCursor of an earlier page") from None
    return iter([entry for entry in ordered if _sort_key(entry) < end])


def is_in_folders(cwd: str | None, folders: str | list[str] | None) -> bool:
    """Whether a session that worked in `cwd` belongs to one of these folders. None: to any."""
    if folders is None:
        return True
    names = [folders] if isinstance(folders, str) else folders
    return cwd is not None and os.path.realpath(cwd) in map(os.path.realpath, names)


def _sort_key(entry: SessionEntry) -> tuple[float, str]:
    return entry.updated, entry.id
