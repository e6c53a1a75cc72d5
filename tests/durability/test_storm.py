"""A storm of kills: lives that fork, resume, delegate side by side, run commands and sweep, under every storage policy.

Each life is killed at a random commit, or within milliseconds of one. What is left is checked on a copy (see
`storm_check`), then the next life resumes it and is killed as well. R3, and "Done when" of the issue: nothing is found.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.durability.children import Children
from tests.durability.families import on_all
from tests.durability.storm import POLICIES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kills")]
KILLS = 3
"""Of one session, one life after the other."""


class Storm:
    """So many sessions, each with its policy and its dice."""

    def __init__(self, room: Path, seed: int) -> None:
        self._room = room
        self._seed = seed
        self.lives = 0
        self.died = 0
        self.side_by_side = 0
        """Kills that met several tasks at work."""

    def session(self, children: Children, number: int) -> str | None:
        """One of them, to its last kill; what was found."""
        policy = list(POLICIES)[number % len(POLICIES)]
        folder = self._room / f"{policy}-{number}"
        for life in range(KILLS):
            seed = (self._seed * 10_000 + number) * KILLS + life + 1
            status = children.run("storm", folder, policy, str(seed))
            self.lives += 1
            self.died += status == signal.SIGKILL
            wrong = children.check(folder, "storm-check", policy)
            at_work = folder / "open_tasks"
            self.side_by_side += at_work.exists() and int(at_work.read_text()) > 1
            if status not in (0, signal.SIGKILL) or wrong is not None:
                return f"policy {policy}, life {life}, seed {seed}: {wrong or (folder / 'verdict').read_text()}"
        shutil.rmtree(folder)
        return None


def blow(families: SimpleQueue[Children], room: Path, sessions: int, seed: int) -> None:
    storm = Storm(room, seed)
    wrong = on_all(families, storm.session, sessions)
    sys.stdout.write(
        f"{storm.died} kills in {storm.lives} lives of {sessions} sessions, {storm.side_by_side} of them while several "
        f"tasks ran: {len(wrong)} findings\n"
    )
    assert not wrong, "\n".join(wrong)
    assert storm.died > storm.lives / 2, "most of them had ended by themselves"
    assert storm.side_by_side, "none of them ran side by side"


@pytest.mark.timeout(180)
def test_forty_kills_leave_nothing_to_be_found(families: SimpleQueue[Children], room: Path) -> None:
    """F2, F10, F13, E2, R3, target 3; issue 20, 6."""
    blow(families, room, 14, seed=5)


@pytest.mark.torture
@pytest.mark.timeout(1_800)
def test_a_thousand_kills_leave_nothing_to_be_found(families: SimpleQueue[Children], room: Path) -> None:
    """F2, F10, F13, E2, R3, target 3; issue 20, 6."""
    seed = int.from_bytes(os.urandom(2))
    sys.stdout.write(f"storm {seed}: ")
    blow(families, room, 420, seed=seed)
