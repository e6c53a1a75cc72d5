"""A merge whose process is killed with -9 at any moment: all of it is there afterwards, or nothing."""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import BusyError
from tertulia.session.merging.journal import TreeJournal, tree_journals
from tertulia.session.merging.recovery import Recovery, recover
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.session.merging.dying_merge import APPLY, COMMIT, DONE
from tests.session.merging.sides import stage
from tests.session.worktrees.repository import Repository, variables
from tests.thorough import sample

ROOT = Path(__file__).parents[3]
ACTS = 40
"""More than the program that writes files needs for the changes of `dying_merge`."""


class Scene:
    """What a process left that merged in a folder."""

    def __init__(self, folder: Path, mode: str, last: str) -> None:
        need("bubblewrap")
        words = [sys.executable, "-m", "tests.session.merging.dying_merge", str(folder), mode, last]
        self.folder = folder
        self.ended = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=HANG_S, check=False)
        self.before: dict[str, Any] = ast.literal_eval((folder / "before").read_text())
        self.ours = Repository(folder / "workspace")

    @property
    def died(self) -> bool:
        assert self.ended.returncode in (0, -9), self.ended.stderr.decode()
        return self.ended.returncode == -9

    async def recover(self) -> Recovery | None:
        """As the next session does."""
        recovery = None
        for place in tree_journals(self.folder / "data" / "merging"):
            number = place.hold()
            assert number is not None, "the lock went with the process"
            if (journal := place.load()) is not None:
                recovery = await recover(place, journal, variables(self.folder / "home"))
            place.release(number)
        return recovery

    def state(self) -> dict[str, Any]:
        """The same as `dying_merge.state`."""
        found: dict[str, Any] = self.ours.fingerprint()
        files = {name: (mode, content) for name, (mode, _, content) in found["files"].items()}
        refs = {name: id for name, id in found["refs"].items() if name != "refs/heads/tertulia/ab12"}
        return {**found, "files": files, "refs": refs, "index": found["index"][1]}

    def check_merged(self, mode: str) -> None:
        """All is new, and nothing else has changed."""
        files, top = self.state()["files"], self.ours.top
        names = {name for name in files if (top / name).is_symlink() or (top / name).is_file()}
        assert names == {"text", "renamed", "picture", "run", "mine", "deep/er/new"}
        assert "theirs\n" in (top / "text").read_text()
        assert os.access(top / "run", os.X_OK)
        assert os.readlink(top / "picture") == "text"
        assert not (top / "gone").exists()
        status = set(self.ours.git("status", "--porcelain", "-uall").splitlines())
        if mode == "commit":
            assert status == {"A  mine"}
        else:
            assert status == {
                *("A  mine", " M text", " D old", "?? renamed", " M run", " T picture", " D gone/file"),
                "?? deep/er/new",
            }

    def check_nothing_left(self) -> None:
        """Neither in our folder nor beside the files nor in the repository."""
        assert not (self.folder / "data" / "merging").exists()
        assert [path for path in self.ours.top.rglob(".tertulia-*") if ".git" not in path.parts] == []
        store = self.ours.top / ".git"
        assert [path.name for path in store.iterdir() if path.name.startswith("index")] == ["index"]
        assert not [name for name in self.ours.refs() if name.startswith("refs/tertulia/before")]
        assert self.ours.git("fsck", "--connectivity-only", "--no-dangling") == ""


# A commit has every step of an apply, and two more.
@pytest.mark.parametrize(
    ("mode", "step"), [*sample([("apply", step) for step in APPLY], 3), *(("commit", step) for step in COMMIT)]
)
async def test_killed_before_each_step_all_is_as_before_or_all_is_merged(tmp_path: Path, mode: str, step: str) -> None:
    """Issue 20 (8): all or nothing, at any moment."""
    scene = Scene(tmp_path, mode, step)
    assert scene.died
    recovery = await scene.recover()
    if step in DONE:
        assert recovery is not None
        assert recovery.result == "finished"
        scene.check_merged(mode)
    else:
        assert scene.state() == scene.before
        assert (recovery is None) is (step in APPLY[:2])
    scene.check_nothing_left()
    assert await scene.recover() is None


@pytest.mark.parametrize(
    ("mode", "act"), sample([(mode, act) for mode in ("apply", "commit") for act in range(1, ACTS + 1)], 5)
)
async def test_killed_while_the_files_are_written_all_is_as_before(tmp_path: Path, mode: str, act: int) -> None:
    """At each act of the program that writes them, of which one file more or less is new."""
    scene = Scene(tmp_path, mode, str(act))
    if not scene.died:
        # It has fewer acts.
        scene.check_merged(mode)
        scene.check_nothing_left()
        return
    recovery = await scene.recover()
    assert recovery is not None
    assert recovery.result == "undone"
    assert scene.state() == scene.before
    scene.check_nothing_left()


RECOVERING = """
import asyncio, os, signal, sys
from pathlib import Path
from tertulia.session.merging.journal import tree_journals
from tertulia.session.merging.recovery import recover

folder, turn, count = Path(sys.argv[1]), int(sys.argv[2]), 0

def dying(real):
    def act(*arguments, **names):
        global count
        count += 1
        if count == turn:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **names)
    return act

async def main():
    (place,) = tree_journals(folder / "data" / "merging")
    number = place.hold()
    journal = place.load()
    for act in ("rename", "link", "mkdir", "unlink", "symlink", "fchmod", "rmdir"):
        setattr(os, act, dying(getattr(os, act)))
    await recover(place, journal, {"HOME": str(folder / "home"), "PATH": os.environ["PATH"]})
    place.release(number)

asyncio.run(main())
"""


@pytest.mark.parametrize("act", sample(list(range(1, 31)), 3))
async def test_killed_again_while_it_is_taken_back_the_next_one_goes_on(tmp_path: Path, act: int) -> None:
    scene = Scene(tmp_path, "commit", "ref")
    ended = subprocess.run(
        [sys.executable, "-c", RECOVERING, str(tmp_path), str(act)], capture_output=True, timeout=HANG_S, check=False
    )
    assert ended.returncode in (0, -9), ended.stderr.decode()
    await scene.recover()
    assert scene.state() == scene.before
    scene.check_nothing_left()


async def test_a_disk_without_second_names_takes_a_commit_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no second names here")

    async with stage(tmp_path) as made:
        made.write("new", "x")
        monkeypatch.setattr(os, "link", refuse)
        outcome = await made.merge("commit")
        assert made.ours.git("rev-parse", "HEAD") == outcome.commit
        assert made.ours.git("status", "--porcelain") == ""


@pytest.mark.parametrize("mode", ["apply", "commit"])
async def test_a_file_that_the_user_changed_since_stops_the_undoing_and_nothing_is_lost(
    tmp_path: Path, mode: str
) -> None:
    scene = Scene(tmp_path, mode, "ref")
    scene.ours.write("text", "written since\n")
    files = scene.state()["files"]
    recovery = await scene.recover()
    assert recovery is not None
    assert recovery.result == "left"
    assert "text changed since" in recovery.text
    assert scene.state()["files"] == files
    assert scene.state()["index"] == scene.before["index"]
    assert not (scene.ours.top / ".git" / "index.lock").exists()
    ref = next(name for name in scene.ours.refs() if name.startswith("refs/tertulia/before"))
    assert ref in recovery.text
    assert scene.ours.git("show", f"{ref}:old") + "\n" == "old\n" * 5
    assert await scene.recover() is None


async def test_a_commit_of_the_users_on_top_of_a_merge_does_not_undo_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "commit", "finish")
    commit = scene.ours.git("rev-parse", "HEAD")
    later = scene.ours.git("commit-tree", "-p", commit, "-m", "later", f"{commit}^{{tree}}")
    scene.ours.git("update-ref", "refs/heads/main", later)
    recovery = await scene.recover()
    assert recovery is not None
    assert recovery.result == "finished"
    scene.check_merged("commit")


async def test_a_tree_that_is_not_there_is_looked_at_another_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "apply", "ref")
    away = scene.ours.top.rename(tmp_path / "away")
    assert await scene.recover() is None
    away.rename(scene.ours.top)
    assert await scene.recover() is not None
    assert scene.state() == scene.before


def test_a_journal_is_private_and_has_no_content(tmp_path: Path) -> None:
    Scene(tmp_path, "commit", "ref")
    folder = tmp_path / "data" / "merging"
    journals = list(folder.glob("*.json"))
    assert [path.stat().st_mode & 0o777 for path in (folder, *journals)] == [0o700, 0o600]
    assert "theirs" not in journals[0].read_text()
    assert "line 18" not in journals[0].read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "tertulia"))
    return tmp_path / "tertulia"


@pytest.mark.parametrize("start", ["start", "resume"])
async def test_the_next_session_takes_it_back_and_says_so(tmp_path: Path, home: Path, start: str) -> None:
    model = tertulia.testing.ScriptedModel(["Done."], repeat=True)
    (tmp_path / "elsewhere").mkdir()
    settings = tertulia.Settings(model=model, cwd=str(tmp_path / "elsewhere"))
    async with tertulia.Session.start(settings) as first:
        await first.root.message("Hello.")
    scene = Scene(tmp_path, "commit", "ref")
    (home / "worktrees").mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / "merging").rename(home / "worktrees" / "merging")
    session = tertulia.Session.start(settings) if start == "start" else tertulia.Session.resume(first.id, settings)
    async with session:
        events = session.events(after=0)
        assert scene.state() == scene.before
        await session.close()
    warnings = [event.data async for event in events if event.data.type == "warning"]
    found = [warning.message for warning in warnings if warning.code == "merge_recovered"]
    assert len(found) == 1
    assert "was taken back: every file is as before" in found[0]
    scene.check_nothing_left()


async def test_a_merge_that_another_process_has_under_way_is_waited_for_and_not_touched(tmp_path: Path) -> None:
    one, other = (TreeJournal.of(tmp_path / "merging", "/a/tree") for _ in range(2))
    number = one.hold()
    assert number is not None
    with pytest.raises(BusyError, match="another process merges into this tree"):
        async with other.held(wait_s=0.1):
            pytest.fail("it is held")
    one.release(number)
    async with other.held(wait_s=0.1):
        assert one.hold() is None
    assert not (tmp_path / "merging").exists()
