"""A chain of depth three, killed at any moment, goes on to the answer that it would have come to without a kill.

Tools count their effects outside: those that may run twice at least once, all others once (the model looks before
it repeats), each task one end (see `going_on`).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.durability.children import Children
from tests.durability.families import Point, on_all, points_of
from tests.rollout.faults import needs_strace
from tests.thorough import sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.xdist_group("kills")]


class Kills:
    """So many sessions, each killed once, or in every third case up to three times."""

    def __init__(self, room: Path, seed: int) -> None:
        self._room = room
        self._seed = seed
        self.died = 0

    def session(self, children: Children, number: int) -> str | None:
        folder = self._room / f"kill-{number}"
        for life in range(3 if number % 3 == 0 else 1):
            status = children.run("go-on", folder, str(self._seed * 100_000 + number * 3 + life + 1))
            if status not in (0, signal.SIGKILL):
                return f"kill {number}, life {life}: {(folder / 'verdict').read_text()}"
            self.died += status == signal.SIGKILL
        return judged(children, folder, number)


def judged(children: Children, folder: Path, case: object) -> str | None:
    wrong = children.check(folder, "go-on-check")
    if wrong is not None:
        return f"{case}: {wrong}"
    shutil.rmtree(folder)
    return None


def kill(families: SimpleQueue[Children], room: Path, sessions: int, seed: int) -> None:
    kills = Kills(room, seed)
    wrong = on_all(families, kills.session, sessions)
    sys.stdout.write(f"{kills.died} kills in {sessions} chains: {len(wrong)} did not come to their answer\n")
    assert not wrong, "\n".join(wrong)
    assert kills.died >= sessions / 2, "most of them had ended by themselves"


def test_a_chain_comes_to_its_answer_after_a_kill(families: SimpleQueue[Children], room: Path) -> None:
    """Issue 26, 2: the short form."""
    kill(families, room, 8, seed=3)


@pytest.mark.torture
@pytest.mark.timeout(3_000)
def test_a_thousand_kills_cost_no_chain_its_answer(families: SimpleQueue[Children], room: Path) -> None:
    """Issue 26, 2: kill -9 at 1,000 random moments of chains of depth 3 with parallel branches."""
    seed = int.from_bytes(os.urandom(2))
    sys.stdout.write(f"seed {seed}: ")
    kill(families, room, 1_000, seed)


@needs_strace
@pytest.mark.timeout(1_200)
def test_killed_at_any_storage_call_the_chain_goes_on(families: SimpleQueue[Children], room: Path) -> None:
    """Issue 26, 2: at every call in `make torture`."""
    kill_at(families, room, sample(points_of(families, room, "0", "go-on"), 4))


def kill_at(families: SimpleQueue[Children], room: Path, points: Sequence[Point]) -> None:
    died: list[Point] = []

    def once(children: Children, number: int) -> str | None:
        name, k = points[number]
        folder = room / f"{name}-{k}"
        inject = ("-e", f"inject={name}:signal=KILL:when={k}", "-e", f"trace={name}")
        if children.run("go-on", folder, "0", "full", *inject) == signal.SIGKILL:
            died.append((name, k))
        return judged(children, folder, (name, k))

    wrong = on_all(families, once, len(points))
    sys.stdout.write(f"{len(points) - len(wrong)}/{len(points)} kills at calls cost nothing; {len(died)} really died\n")
    assert not wrong, "\n".join(wrong)
    assert died
