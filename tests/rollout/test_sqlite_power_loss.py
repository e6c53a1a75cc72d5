"""F14: with durability full, what was acknowledged survives the machine; with normal, the file does."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rollout.faults import Zygote, acknowledged, hold_to_its_word, needs_strace
from tests.rollout.power_loss import TRACED, Disk

pytestmark = [pytest.mark.slow, needs_strace, pytest.mark.timeout(120)]


@pytest.fixture
def room() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


def test_every_prefix_of_what_was_flushed_has_what_was_acknowledged(room: Path) -> None:
    """The power goes after each call in turn; what was not flushed is lost, or by chance some of it is not."""
    zygote = Zygote()
    try:
        options = ("-e", f"trace={TRACED}", "-y", "-xx", "-s", "100000", "-o", str(room / "log"))
        assert zygote.run(room / "run", "full", *options) == 0
    finally:
        zygote.close()
    disk = Disk(room / "run")
    dice, moments, kept = random.Random(14), 0, 0
    for moment, _ in enumerate(disk.follow((room / "log").read_text())):
        for chance in (None, dice):
            folder = room / f"{moment}-{chance is None}"
            disk.leave(folder, chance)
            hold_to_its_word(folder)
            kept = len(acknowledged(folder))
            shutil.rmtree(folder)
        moments += 1
    assert moments > 100
    assert kept == 25
