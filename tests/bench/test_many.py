"""`tertulia bench many` in small: it measures what it names, and leaves nothing behind."""

from __future__ import annotations

import pytest

from bench import many
from bench.many import Sizes
from tests.tables import each_row

SMALL = Sizes(clients=3, rounds=1, round_s=0.1, sessions=5, conversations=20, limited=10, listed=20, idle_s=0.1)


@each_row(
    ("step", "name"),
    [
        (many._sessions, "journals left behind"),
        (many._conversations, "that, to the first tenth of them"),
        (many._limited, "sessions that ran under 1,024 descriptors"),
        (many._listing, "that, to reading the files"),
    ],
)
def test_each_part_gives_figures(step: object, name: str) -> None:
    assert callable(step)
    rows = {row[0]: row for row in step(SMALL)}
    assert name in rows
    assert all(isinstance(row[1], int | float) for row in rows.values())
    for what, count in (("journals left behind", 0), ("sessions that ran under 1,024 descriptors", 10)):
        assert what not in rows or rows[what][1] == count


def test_two_servers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where git has the commit before or not: it is compared, or it is said why not."""
    monkeypatch.setattr(many, "BEFORE", "HEAD")
    with many._former_source() as source:
        if source is None:
            pytest.skip("this is no git checkout")
    rows = {row[0]: row[1] for row in many._serving(SMALL)}
    assert rows["serve: turns/s, to those before"] > 0


def test_without_the_commit_before_nothing_is_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(many, "BEFORE", "no-such-commit")
    with many._former_source() as source:
        assert source is None
    assert "not compared with the commit no-such-commit" in capsys.readouterr().out
