"""An embedded model without weights: the program that runs it is the real one, llama.cpp in it is played."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tertulia.models.engine import engine_for
from tertulia.models.local import LocalWire
from tertulia.models.weights import WEIGHTS, Weights
from tests.models.wire_contract import until

FAKE = Path(__file__).with_name("fake_llama")
WINDOW = 8_192
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")


class Stage:
    """A home with weights that play an act."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self._monkeypatch = monkeypatch
        self.file = WEIGHTS[0].path(home)
        self.file.parent.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(FAKE))
        monkeypatch.setenv("PYTHONPATH", str(FAKE))

    def play(self, act: str) -> None:
        """From the next process on."""
        self.file.write_text(act)
        self._monkeypatch.setattr("tertulia.models.weights.WEIGHTS", (weights_of(self.file.stat().st_size),))

    def wire(self, name: str = "smollm2") -> LocalWire:
        return LocalWire(name, self.home)

    def diary(self, what: str) -> list[Any]:
        """All that happened of one kind."""
        path = self.file.with_suffix(".diary")
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line[what] for line in lines if what in line]

    @property
    def pid(self) -> int:
        """Of the process that there is."""
        return engine_for(self.file, WINDOW).pid

    @property
    def open_streams(self) -> int:
        """How many connections that process has, besides the one that brings them."""
        return max(0, sum(_is_socket(path) for path in Path(f"/proc/{self.pid}/fd").iterdir()) - 1)


@contextmanager
def stage(home: Path) -> Iterator[Stage]:
    """Everything as before at the end, and no process left."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        staged = Stage(home, monkeypatch)
        yield staged
    engine_for(staged.file, WINDOW).end()


def weights_of(size: int) -> Weights:
    """As the real ones, but for the size."""
    real = WEIGHTS[0]
    return Weights(**{name: getattr(real, name) for name in Weights.__struct_fields__} | {"size": size})


def _is_socket(path: Path) -> bool:
    try:
        return os.readlink(path).startswith("socket:")
    except FileNotFoundError:
        return False


def is_alive(pid: int) -> bool:
    """Not even a zombie."""
    return os.path.exists(f"/proc/{pid}")


async def until_gone(pid: int) -> None:
    """In time, or not at all."""
    await until(lambda: not is_alive(pid))
