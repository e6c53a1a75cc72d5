"""A workspace, and the tiers that there are here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tertulia.events.clock import SystemClock
from tertulia.sandbox.prepared import preparation
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import Place, need


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    """Of tier 1."""
    need("bubblewrap")
    runner = Sandbox(clock=SystemClock())
    yield runner
    await runner.close()


@pytest.fixture
def unprepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sandbox is made before its command is known."""
    monkeypatch.setattr(preparation, "can_be_prepared", lambda command: False)
