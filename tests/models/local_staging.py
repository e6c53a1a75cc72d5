"""An embedded model without weights: the program that runs it is the real one, llama.cpp in it is played."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.models.local.local_wire import LocalWire
from tertulia.models.local.weights import WEIGHTS, Weights

FAKE = Path(__file__).with_name("fake_llama")
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")


class Stage:
    """A home with weights that play an act."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self._monkeypatch = monkeypatch
        self.wires: list[LocalWire] = []
        self.file = WEIGHTS[0].path(home)
        self.file.parent.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(FAKE))
        monkeypatch.setenv("PYTHONPATH", str(FAKE))

    def play(self, act: str) -> None:
        """From the next process on."""
        self.file.write_text(act)
        self._monkeypatch.setattr("tertulia.models.local.weights.WEIGHTS", (weights_of(self.file.stat().st_size),))

    def wire(self, name: str = "smollm2") -> LocalWire:
        """One more; it is closed at the end."""
        self.wires.append(LocalWire(name, self.home))
        return self.wires[-1]

    def diary(self, what: str) -> list[Any]:
        """All that happened of one kind, over there."""
        path = self.file.with_suffix(".diary")
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line[what] for line in lines if what in line]

    @property
    def pids(self) -> list[int]:
        """Of the processes that were started."""
        return [started["pid"] for started in self.diary("started")]

    @property
    def open_streams(self) -> int:
        """How many connections the process has, besides the one that brings them."""
        pids = [pid for pid in self.pids if is_alive(pid)]
        return sum(_is_socket(path) for path in Path(f"/proc/{pids[-1]}/fd").iterdir()) - 1 if pids else 0


@asynccontextmanager
async def staged(home: Path, act: str) -> AsyncGenerator[Stage]:
    """Everything as before at the end, and no process left."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        stage = Stage(home, monkeypatch)
        stage.play(act)
        yield stage
        for wire in stage.wires:
            await wire.close()
        for pid in stage.pids:
            assert not is_alive(pid)


def weights_of(size: int) -> Weights:
    """As the real ones, but for the size."""
    real = WEIGHTS[0]
    return replace(real, size=size)


def _is_socket(path: Path) -> bool:
    try:
        return os.readlink(path).startswith("socket:")
    except FileNotFoundError:
        return False


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
