"""The benchmark of the dashboard runs on a small session and gives every figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.dashboard import run
from bench.page.figures import Busy
from tests.web.browser import why_not


def test_it_measures_every_look_at_a_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    rows = run(turns=3, sessions=2, busy=None)
    names = " ".join(name for name, *_ in rows)
    for look in ("outline", "last page", "board", "prompt", "seen", "list", "as sent"):
        assert look in names
    assert all(value >= 0 for _, value, *_ in rows)


@pytest.mark.torture
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_it_measures_the_page_in_a_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    figures = {name: value for name, value, *_ in run(turns=3, sessions=2, busy=Busy(5, 100, 0.2, 100, 0.2))}
    for figure in ("first paint", "as it came", "until seen", "scrub step", "frames", "memory"):
        assert any(figure in name and value > 0 for name, value in figures.items()), figure
