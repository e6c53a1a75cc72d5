"""Stored sessions page by page, the newest first: what is new or used meanwhile moves no page."""

from __future__ import annotations

from collections.abc import Iterator

from tertulia.errors import InvalidParamsError
from tertulia.rollout.sqlite.session_index import SessionEntry


def cursor_at(entry: SessionEntry) -> str:
    """For a client that has seen all up to this one."""
    return f"{entry.updated!r}/{entry.id}"


def entries_after(entries: list[SessionEntry], cursor: str | None) -> Iterator[SessionEntry]:
    """Those behind the place where the last page ended; without a cursor all of them."""
    ordered = sorted(entries, key=_sort_key, reverse=True)
    if cursor is None:
        return iter(ordered)
    when, _, last = cursor.partition("/")
    try:
        end = (float(when), last)
    except ValueError:
        raise InvalidParamsError("cursor must be a nextCursor of an earlier page") from None
    return iter([entry for entry in ordered if _sort_key(entry) < end])


def _sort_key(entry: SessionEntry) -> tuple[float, str]:
    return entry.updated, entry.id
