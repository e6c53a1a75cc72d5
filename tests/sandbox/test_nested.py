"""Protected names below the top of a root: what is there is found and kept, what a command makes is its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertulia.sandbox import nested
from tertulia.sandbox.nested import MAX_FOUND, Nested, protected_part
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place


def repository(root: Path, path: str) -> Path:
    config = root / path / ".git" / "config"
    config.parent.mkdir(parents=True)
    config.write_text("[core]\n")
    return config


@pytest.fixture
def looking() -> Iterator[Nested]:
    one = Nested()
    yield one
    one.close()


def found(looking: Nested, root: Path) -> list[str]:
    """What a command that begins now must not change."""
    held = looking.before(str(root))
    assert all(os.path.samestat(os.fstat(fd), (root / path).lstat()) for path, fd in held)
    return [path for path, _ in held]


@pytest.mark.parametrize(
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


def test_what_is_there_is_found_and_what_changes_is_seen(tmp_path: Path, looking: Nested) -> None:
    """A4"""
    repository(tmp_path, ".")
    repository(tmp_path, "sub")
    repository(tmp_path, "a/b/c")
    (tmp_path / "a" / ".mcp.json").write_text("{}")
    (tmp_path / ".VSCode").mkdir()
    assert found(looking, tmp_path) == [".VSCode", "a/.mcp.json", "sub/.git", "a/b/c/.git"]
    repository(tmp_path, "later")
    shutil.rmtree(tmp_path / "a")
    assert found(looking, tmp_path) == [".VSCode", "sub/.git", "later/.git"]


def test_links_and_places_of_nobody_are_left_alone(tmp_path: Path, looking: Nested) -> None:
    repository(tmp_path, "real")
    repository(tmp_path, "node_modules/dependency")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").symlink_to(tmp_path / "real" / ".git")
    assert found(looking, tmp_path) == ["real/.git"]
    assert found(looking, tmp_path / "no such place") == []


def test_what_a_command_made_stays_its_own_until_it_is_gone(tmp_path: Path, looking: Nested) -> None:
    repository(tmp_path, "before")
    assert found(looking, tmp_path) == ["before/.git"]
    repository(tmp_path, "made")
    looking.after(str(tmp_path))
    assert found(looking, tmp_path) == ["before/.git"]
    looking.after(str(tmp_path))
    assert found(looking, tmp_path) == ["before/.git"]
    other = Nested()
    assert found(other, tmp_path) == ["before/.git", "made/.git"]
    other.close()


def test_what_was_there_cannot_be_hidden_from_the_next_look(
    tmp_path: Path, looking: Nested, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4, A6: neither by moving it where nobody looks, nor behind so much else that the look ends before it."""
    monkeypatch.setattr(nested, "MAX_FOLDERS", 4)
    repository(tmp_path, "deep/er/mine")
    assert found(looking, tmp_path) == ["deep/er/mine/.git"]
    (tmp_path / "node_modules").mkdir()
    os.rename(tmp_path / "deep", tmp_path / "node_modules" / "x")
    for number in range(20):
        repository(tmp_path, f"decoy{number}")
    looking.after(str(tmp_path))
    assert "node_modules/x/er/mine/.git" in found(looking, tmp_path)
    # What leaves the root is nothing that a command of this root could reach.
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    os.rename(tmp_path / "node_modules" / "x", outside)
    assert not [path for path in found(looking, tmp_path) if "mine" in path]


def test_the_look_is_bounded_and_nearer_ones_come_first(
    tmp_path: Path, looking: Nested, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MAX_FOUND + 3):
        repository(tmp_path, f"{number:02}/deep")
    repository(tmp_path, "zz")
    most = found(looking, tmp_path)
    assert (len(most), most[0]) == (MAX_FOUND, "zz/.git")
    monkeypatch.setattr(nested, "FIRST_LOOK", 1)
    for bound in ("MAX_FOLDERS", "MAX_ENTRIES"):
        hurried = Nested()
        with monkeypatch.context() as less:
            less.setattr(nested, bound, 3)
            assert found(hurried, tmp_path) == []
        assert len(found(hurried, tmp_path)) == MAX_FOUND
        hurried.close()


def test_nothing_is_held_once_it_is_closed(tmp_path: Path) -> None:
    repository(tmp_path, "sub")
    before = len(os.listdir("/proc/self/fd"))
    one = Nested()
    assert found(one, tmp_path) == ["sub/.git"]
    assert len(os.listdir("/proc/self/fd")) == before + 1
    shutil.rmtree(tmp_path / "sub")
    assert found(one, tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before
    repository(tmp_path, "sub")
    assert found(one, tmp_path) == ["sub/.git"]
    one.close()
    one.close()
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
