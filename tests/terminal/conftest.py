"""A session of the scripted model behind a screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tertulia.session.settings.settings import LoadedSettings, Settings, current_environment
from tertulia.terminal.app import TerminalApp
from tertulia.terminal.local_port import LocalPort
from tertulia.terminal.port import Port
from tertulia.testing import ScriptedModel
from tests.terminal.real_terminal import Tmux

MakeApp = Callable[..., TerminalApp]


@pytest.fixture(autouse=True)
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each key Textual waits until the process is idle, and looks every 20 ms: it was most of a test's time."""

    async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
        until, used_s = time.monotonic() + max_sleep, 1.0
        while used_s > 0.0005 and time.monotonic() < until:
            before = time.process_time()
            await asyncio.sleep(0.002)
            used_s = time.process_time() - before

    monkeypatch.setattr("textual.app.wait_for_idle", wait_for_idle)


@pytest.fixture
def make_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeApp:
    """Makes apps whose sessions are answered by these replies; settings may be given by name."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    workspace = tmp_path / "work"
    workspace.mkdir()

    def make(*replies: Any, **settings: Any) -> TerminalApp:
        model = ScriptedModel(list(replies))
        fields = {"model": model, "cwd": str(workspace), "storage_policy": "none", **settings}
        loaded = LoadedSettings(Settings(**fields), {}, [], current_environment())

        async def connect() -> Port:
            return await LocalPort.open(loaded)

        return TerminalApp(connect)

    return make


Connecting = Callable[[], Awaitable[Port]]


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """A terminal, gone at the end."""
    terminal = Tmux(tmp_path)
    yield terminal
    terminal.run("kill-server")
