"""Protected names below the top of a root: what is there is found and kept, what a command makes is its own."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.mounts import nested_protected, root_scan
from tertulia.sandbox.mounts.nested_protected import NestedProtectedPaths, protected_part
from tertulia.sandbox.mounts.root_scan import kernel_time
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place
from tests.tables import each_row


def repository(root: Path, path: str) -> Path:
    config = root / path / ".git" / "config"
    config.parent.mkdir(parents=True)
    config.write_text("[core]\n")
    return config


@pytest.fixture
def looking() -> Iterator[NestedProtectedPaths]:
    one = NestedProtectedPaths()
    yield one
    one.close()


def found(looking: NestedProtectedPaths, root: Path) -> list[str]:
    """What a command that begins now must not change."""
    listed = looking.before(str(root))
    assert all((path.device, path.inode) == (s.st_dev, s.st_ino) for path in listed if (s := os.lstat(path.path)))
    return sorted(os.path.relpath(path.path, root) for path in listed)


@each_row(
    ("path", "part"),
    [
        (".git/config", ".git"),
        ("a/b/.git", ".git"),
        ("a/.GIT/x", ".GIT"),
        (".Mcp.json", ".Mcp.json"),
        ("x/.claude./y", ".claude."),
        ("x/.g\u200cit/y", ".g\u200cit"),
        ("x/\uff0egit/y", "\uff0egit"),
        ("a/git/config", None),
        (".github/workflows/x", None),
        ("a/.gitignore", None),
        (".", None),
    ],
)
def test_a_protected_name_is_known_in_any_spelling_and_at_any_depth(path: str, part: str | None) -> None:
    """A23"""
    assert protected_part(path) == part


def test_what_is_there_is_found_and_what_changes_is_seen(tmp_path: Path, looking: NestedProtectedPaths) -> None:
    """A4"""
    repository(tmp_path, ".")
    repository(tmp_path, "sub")
    repository(tmp_path, "a/b/c")
    (tmp_path / "a" / ".mcp.json").write_text("{}")
    (tmp_path / ".VSCode").mkdir()
    assert found(looking, tmp_path) == [".VSCode", "a/.mcp.json", "a/b/c/.git", "sub/.git"]
    repository(tmp_path, "later")
    shutil.rmtree(tmp_path / "a")
    assert found(looking, tmp_path) == [".VSCode", "later/.git", "sub/.git"]


def test_links_are_found_and_not_followed_and_no_place_is_left_out(
    tmp_path: Path, looking: NestedProtectedPaths
) -> None:
    """S3: `node_modules` is looked into like anything else."""
    repository(tmp_path, "real")
    repository(tmp_path, "node_modules/dependency")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").symlink_to(tmp_path / "real" / ".git")
    assert found(looking, tmp_path) == ["node_modules/dependency/.git", "other/.git", "real/.git"]


def test_what_a_command_made_stays_its_own_until_it_is_gone(tmp_path: Path, looking: NestedProtectedPaths) -> None:
    root = str(tmp_path)
    repository(tmp_path, "before")
    assert found(looking, tmp_path) == ["before/.git"]
    looking.began([root])
    repository(tmp_path, "made")
    # Another command that begins meanwhile leaves it to the first.
    assert found(looking, tmp_path) == ["before/.git"]
    looking.ended([root])
    assert found(looking, tmp_path) == ["before/.git"]
    assert found(NestedProtectedPaths(), tmp_path) == ["before/.git", "made/.git"]


def test_s3_what_is_the_users_is_never_taken_for_a_commands(tmp_path: Path, looking: NestedProtectedPaths) -> None:
    """S3: not what was made between commands, nor what was made before and comes in, or comes back, while one runs."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    repository(root, "mine")
    repository(outside, "old")
    assert found(looking, root) == ["mine/.git"]
    looking.began([str(root)])
    os.rename(outside / "old", root / "moved-in")
    os.rename(root / "mine", root / "moved")
    looking.ended([str(root)])
    settle(root)
    repository(root, "between")
    assert found(looking, root) == ["between/.git", "moved-in/.git", "moved/.git"]
    # Another that takes the place of a command's own, with the same number perhaps, is not that one.
    looking.began([str(root)])
    repository(root, "own")
    looking.ended([str(root)])
    assert "own/.git" not in found(looking, root)
    settle(root)
    shutil.rmtree(root / "own")
    repository(root, "own")
    assert "own/.git" in found(looking, root)


def settle(root: Path) -> None:
    """Until the clock by which files are dated has gone on."""
    began, until = kernel_time(), SystemClock().monotonic() + DEADLINE_S
    while kernel_time() == began and SystemClock().monotonic() < until:
        (root / "tick").touch()
    assert kernel_time() > began


def test_what_was_there_cannot_be_hidden_from_the_next_look(
    tmp_path: Path, looking: NestedProtectedPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4, A6, S3: neither by moving it where nobody looks, nor behind much else, nor where no path leads."""
    root = tmp_path / "root"
    repository(root, "deep/er/mine")
    assert found(looking, root) == ["deep/er/mine/.git"]
    looking.began([str(root)])
    (root / "node_modules").mkdir()
    os.rename(root / "deep", root / "node_modules" / "x")
    for number in range(50):
        repository(root, f"decoy{number}")
    looking.ended([str(root)])
    assert found(looking, root) == ["node_modules/x/er/mine/.git"]
    # What the user puts there is found at the latest when a minute is over.
    repository(root, "node_modules/x/late")
    assert "node_modules/x/late/.git" not in found(looking, root)
    monkeypatch.setattr(nested_protected, "_EVERYWHERE_NS", -1)
    assert found(looking, root) == ["node_modules/x/er/mine/.git", "node_modules/x/late/.git"]
    shutil.rmtree(root / "node_modules" / "x" / "late")
    # What leaves the root is nothing that a command of this root could reach.
    os.rename(root / "node_modules" / "x", tmp_path / "outside")
    assert found(looking, root) == []


def test_s3_where_nobody_can_look_everything_is_closed_while_something_is_missing(
    tmp_path: Path, looking: NestedProtectedPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3: a directory too deep for any path; and only while something of the user's is missing."""
    monkeypatch.setattr(root_scan, "LONGEST_PATH", len(str(tmp_path)) + 15)
    repository(tmp_path, "mine")
    (tmp_path / "keep").mkdir()
    assert found(looking, tmp_path) == ["mine/.git"]
    looking.began([str(tmp_path)])
    deep = tmp_path / "made" / "by" / "a" / "command"
    deep.mkdir(parents=True)
    looking.ended([str(tmp_path)])
    assert found(looking, tmp_path) == ["mine/.git"]
    os.rename(tmp_path / "mine", deep / "mine")
    assert found(looking, tmp_path) == ["made/by/a/command"]
    assert found(looking, tmp_path) == ["made/by/a/command"]
    os.rename(deep / "mine", tmp_path / "mine")
    assert found(looking, tmp_path) == ["mine/.git"]
    # What the user has put there is closed from the beginning.
    os.rename(tmp_path / "mine", deep / "mine")
    other = NestedProtectedPaths()
    assert found(other, tmp_path) == ["made/by/a/command"]


def test_a_root_that_changes_all_the_time_is_refused_until_it_was_seen_once(
    tmp_path: Path, looking: NestedProtectedPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2, S3: what somebody moves around while we look could be missed; so no command begins before one whole look."""
    config = repository(tmp_path, "a/mine")
    (tmp_path / "b").mkdir()

    def move_and_look() -> int:
        """At the beginning of each look, where a thread might not have its turn."""
        os.rename(tmp_path / "a" / "mine", tmp_path / "b" / "mine")
        os.rename(tmp_path / "b" / "mine", tmp_path / "a" / "mine")
        return kernel_time()

    with monkeypatch.context() as moving, pytest.raises(SandboxError, match="change all the"):
        moving.setattr(root_scan, "kernel_time", move_and_look)
        looking.before(str(tmp_path))
    assert config.exists()
    assert found(looking, tmp_path) == ["a/mine/.git"]
    with Moving(tmp_path / "a" / "mine", tmp_path / "b" / "mine"):
        for _ in range(20):
            # Once it is known it is found, wherever it is, or refused.
            with suppress(SandboxError):
                assert [os.path.basename(path.path) for path in looking.before(str(tmp_path))] == [".git"]


class Moving:
    """A thread that moves a directory to and fro as fast as it can."""

    def __init__(self, here: Path, there: Path) -> None:
        self._here, self._there = here, there
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._move)

    def _move(self) -> None:
        while not self._stop.is_set():
            os.rename(self._here, self._there)
            os.rename(self._there, self._here)

    def __enter__(self) -> Moving:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()
        self._thread.join()


def test_nothing_is_held(tmp_path: Path, looking: NestedProtectedPaths) -> None:
    """S3: neither a descriptor for each of many, nor anything once it is closed."""
    for number in range(50):
        repository(tmp_path, f"sub{number}")
    before = len(os.listdir("/proc/self/fd"))
    assert len(found(looking, tmp_path)) == 50
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_command_cannot_change_a_repository_deeper_down_and_can_make_one(
    place: Place, sandbox: Sandbox
) -> None:
    """A4: judged from outside; and beginning one with a command, to go on with the next, works."""
    config = repository(place.root, "sub")
    script = "echo x > sub/.git/config; mkdir sub/.git/hooks; rm -r sub; mkdir -p new/.git && echo 1 > new/.git/config"
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0
    assert finished.output.text().count("Read-only file system") >= 2
    assert config.read_text() == "[core]\n"
    assert list((place.root / "sub" / ".git").iterdir()) == [config]
    # Moved where nobody looks, it is found all the same.
    await sandbox.run(place.command("sh", "-c", "mkdir node_modules; mv sub node_modules/sub"), timeout_s=DEADLINE_S)
    config = place.root / "node_modules" / "sub" / ".git" / "config"
    script = "echo x > node_modules/sub/.git/config; echo 2 > new/.git/config"
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0, finished.output.text()
    assert (place.root / "new" / ".git" / "config").read_text() == "2\n"
    assert config.read_text() == "[core]\n"
