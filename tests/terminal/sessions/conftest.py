"""A home and a workspace of their own for stored sessions."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory that sessions are stored in."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder
