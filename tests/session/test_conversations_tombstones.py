"""Ids of what was closed, not for ever."""

from __future__ import annotations

from tertulia.session.conversations import Tombstones


def test_an_id_is_remembered() -> None:
    gone = Tombstones()
    gone.add("a")
    gone.add("a")
    assert "a" in gone
    assert "b" not in gone
    assert None not in gone


def test_only_the_newest_are_remembered() -> None:
    gone = Tombstones(limit=3)
    for id in "abcde":
        gone.add(id)
    assert [id in gone for id in "abcde"] == [False, False, True, True, True]
