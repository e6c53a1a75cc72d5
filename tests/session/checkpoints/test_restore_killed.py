"""A restore whose process is killed with -9 at any moment: all of it is there afterwards, or nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tertulia.errors import NotFoundError
from tertulia.session.merging.journal import tree_journals
from tertulia.session.merging.recovery import recover
from tests.deadlines import HANG_S
from tests.session.checkpoints.dying_restore import DONE, STEPS
from tests.session.checkpoints.scene import Scene
from tests.session.worktrees.repository import variables
from tests.thorough import sample

ROOT = Path(__file__).parents[3]
ACTS = 90
"""More than the files of `changes_of_every_kind` need."""


class Aftermath:
    """What a process left that was restoring."""

    def __init__(self, folder: Path, last: str) -> None:
        words = [sys.executable, "-m", "tests.session.checkpoints.dying_restore", str(folder), last]
        self.folder = folder
        self.ended = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=HANG_S, check=False)
        assert self.ended.returncode in (0, -9), self.ended.stderr.decode()
        self.old, self.new = (ast.literal_eval((folder / name).read_text()) for name in ("old", "new"))

    async def recover(self) -> None:
        """As the next session does when it starts."""
        for place in tree_journals(self.folder / "data" / "worktrees" / "merging"):
            number = place.hold()
            assert number is not None, "the lock went with the process"
            if (journal := place.load()) is not None:
                await recover(place, journal, variables(self.folder / "home"))
            place.release(number)

    async def check(self, *, done: bool) -> None:
        """All is restored or nothing; nothing is left beside the files; and undo goes on from there."""
        await self.recover()
        scene = Scene(self.folder, "s2")
        scene.ticks.time += 1_000
        assert scene.files() == (self.old if done else self.new)
        assert not (self.folder / "data" / "worktrees" / "merging").exists()
        await scene.place.prepare(None)
        if done:
            with pytest.raises(NotFoundError):
                await scene.undo()
            restore = max(await scene.place.list(), key=lambda window: window.began)
            await scene.undo(None, restore.id)
            assert scene.files() == self.new
        else:
            await scene.undo()
            assert scene.files() == self.old


@pytest.mark.parametrize("step", STEPS)
async def test_killed_before_each_step_all_is_restored_or_nothing(tmp_path: Path, step: str) -> None:
    """26-1: crash between any two steps: finished or rolled back at the next start."""
    left = Aftermath(tmp_path, step)
    assert left.ended.returncode == -9, step
    await left.check(done=step in DONE)


@pytest.mark.parametrize("act", sample(range(1, ACTS), 6))
async def test_killed_at_an_act_on_a_file_nothing_is_restored(tmp_path: Path, act: int) -> None:
    left = Aftermath(tmp_path, str(act))
    if left.ended.returncode == -9:
        # Acts after the last file belong to the end of a restore that is done.
        done = Scene(tmp_path, "look").files() == left.old and not _has_journal(tmp_path)
        await left.check(done=done or _is_done(tmp_path))


def _has_journal(folder: Path) -> bool:
    return (folder / "data" / "worktrees" / "merging").exists()


def _is_done(folder: Path) -> bool:
    return any((folder / "data" / "checkpoints").glob("*/git/refs/tertulia/merged/*"))
