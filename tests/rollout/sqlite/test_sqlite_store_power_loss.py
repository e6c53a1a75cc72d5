"""F14: with durability full, what was acknowledged survives the machine."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tests.rollout.faults import Zygote, acknowledged, hold_to_its_word, needs_strace
from tests.rollout.power_loss import TRACED, Disk

pytestmark = [pytest.mark.slow, needs_strace, pytest.mark.timeout(120)]


def followed(room: Path, durability: str) -> Iterator[Path]:
    """What is left when the power goes after each call in turn: what was flushed, and by chance some of the rest."""
    zygote = Zygote()
    try:
        options = ("-e", f"trace={TRACED}", "-y", "-xx", "-s", "1000000", "-o", str(room / "log"))
        assert zygote.run(room / "run", durability, *options) == 0
    finally:
        zygote.close()
    disk, dice = Disk(room / "run"), random.Random(14)
    for moment, _ in enumerate(disk.follow((room / "log").read_text())):
        for by_chance in (False, True):
            folder = room / f"{moment}-{by_chance}"
            disk.leave(folder, dice if by_chance else None)
            yield folder
            shutil.rmtree(folder)


@pytest.mark.parametrize("disk", ["full", pytest.param("full-slow", marks=pytest.mark.torture)])
def test_whenever_the_power_goes_what_was_acknowledged_is_there(room: Path, disk: str) -> None:
    """F14, E3: and what was erased is not. On a quick disk the loop commits, on a slow one a thread."""
    moments = acknowledged_numbers = 0
    for folder in followed(room, disk):
        hold_to_its_word(folder)
        acknowledged_numbers = len(acknowledged(folder))
        moments += 1
    assert moments > 200
    assert acknowledged_numbers == 25


def test_without_flushes_it_would_be_lost(room: Path) -> None:
    """That the model can find a loss at all: durability normal promises nothing about the machine."""
    lost = 0
    for folder in followed(room, "normal"):
        try:
            hold_to_its_word(folder)
        except (AssertionError, StorageError):
            lost += 1
    assert lost > 10
