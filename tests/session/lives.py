"""Sessions with a real record, and what is left of them when the process dies at any moment."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.protocol.events import Event
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel
from tests.events.scripted import drain

_afterlives = count()


class Lives:
    """One session, its deaths and resurrections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._folder = folder
        self.home = folder / "first"
        self._settle()

    def start(self, *replies: Any, **settings: Any) -> Session:
        return Session.start(tertulia.Settings(model=ScriptedModel(replies), **settings))

    def die(self) -> None:
        """As after `kill -9`, now: what the disk holds is all there is. The old life goes on elsewhere."""
        self.home = self._folder / f"afterlife-{next(_afterlives)}"
        shutil.copytree(
            Path(os.environ["TERTULIA_HOME"]), self.home, ignore=shutil.ignore_patterns("*.lock", "*-shm", "*.sock")
        )
        self._settle()

    @asynccontextmanager
    async def resumed(self, id: str, *replies: Any, **settings: Any) -> AsyncIterator[Session]:
        async with Session.resume(id, tertulia.Settings(model=ScriptedModel(replies), **settings)) as session:
            yield session

    def _settle(self) -> None:
        self._monkeypatch.setenv("TERTULIA_HOME", str(self.home))


async def until(ready: Callable[[], bool]) -> None:
    """Let others work until it is so."""
    for _ in range(100_000):
        if ready():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


def durable_events(session: Session) -> list[Event]:
    """What the session has said since it was resumed."""
    return [event for event in drain(session.events(after=0)) if event.seq is not None]


def types(session: Session) -> list[str]:
    return [event.type for event in durable_events(session)]
