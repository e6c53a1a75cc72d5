"""Cursors of a list of stored sessions; the tests of ACP and Codex have whole pages."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.rollout.sqlite.session_index import SessionEntry
from tertulia.session.records.session_pages import cursor_at, entries_after
from tests.tables import each_row


def entry(id: str, updated: float) -> SessionEntry:
    return SessionEntry(id=id, stamp=(0, 0, 0, 0), size=0, created=0.0, updated=updated)


def test_a_cursor_leads_on_from_where_it_was_taken_whatever_came_since() -> None:
    """Issue 10 (4): sessions of the same moment are told apart by their id."""
    old, same_age, new = entry("a", 1.5), entry("b", 1.5), entry("c", 2.25)
    assert list(entries_after([old, new, same_age], None)) == [new, same_age, old]
    assert list(entries_after([old, new, same_age, entry("d", 9.0)], cursor_at(same_age))) == [old]
    assert list(entries_after([new, same_age], cursor_at(old))) == []


@each_row("cursor", ["", "nonsense", "/", "1.5.5/a"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    """Issue 10 (4)."""
    with pytest.raises(InvalidParamsError, match="cursor"):
        entries_after([], cursor)
