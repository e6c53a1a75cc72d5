"""Every test here is watched for what it leaves behind; and sessions that die."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guards import watch_sessions
from tests.session.lives import Lives

__all__ = ["watch_sessions"]


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)
