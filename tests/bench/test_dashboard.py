"""The benchmark of the dashboard runs on a small session and gives every figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.dashboard import run


def test_it_measures_every_look_at_a_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    rows = run(turns=3, sessions=2)
    names = " ".join(name for name, *_ in rows)
    for look in ("outline", "last page", "board", "prompt", "seen", "list"):
        assert look in names
    assert all(value >= 0 for _, value, *_ in rows)
