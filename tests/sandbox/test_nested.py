"""Protected names below the top of a root: what is there is found and kept, what a command makes is its own."""

from __future__ import annotations

import os
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


def test_what_is_there_is_found_and_what_changes_is_seen(tmp_path: Path) -> None:
    """A4"""
    root = str(tmp_path)
    repository(tmp_path, ".")
    repository(tmp_path, "sub")
    repository(tmp_path, "a/b/c")
    (tmp_path / "a" / ".mcp.json").write_text("{}")
    (tmp_path / ".VSCode").mkdir()
    looking = Nested()
    assert looking.before(root) == [".VSCode", "a/.mcp.json", "sub/.git", "a/b/c/.git"]
    repository(tmp_path, "later")
    os.rename(tmp_path / "sub", tmp_path / "moved")
    assert looking.before(root) == [".VSCode", "a/.mcp.json", "later/.git", "moved/.git", "a/b/c/.git"]


def test_links_and_places_of_nobody_are_left_alone(tmp_path: Path) -> None:
    repository(tmp_path, "real")
    repository(tmp_path, "node_modules/dependency")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").symlink_to(tmp_path / "real" / ".git")
    assert Nested().before(str(tmp_path)) == ["real/.git"]
    assert Nested().before(str(tmp_path / "no such place")) == []


def test_what_a_command_made_stays_its_own_until_it_is_gone(tmp_path: Path) -> None:
    root, looking = str(tmp_path), Nested()
    repository(tmp_path, "before")
    assert looking.before(root) == ["before/.git"]
    repository(tmp_path, "made")
    looking.after(root)
    assert looking.before(root) == ["before/.git"]
    looking.after(root)
    assert looking.before(root) == ["before/.git"]
    # What was there does not become a command's by being moved.
    os.rename(tmp_path / "before", tmp_path / "moved")
    looking.after(root)
    assert looking.before(root) == ["moved/.git"]
    assert Nested().before(root) == ["made/.git", "moved/.git"]


def test_the_look_is_bounded_and_nearer_ones_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MAX_FOUND + 3):
        repository(tmp_path, f"{number:02}/deep")
    repository(tmp_path, "zz")
    found = Nested().before(str(tmp_path))
    assert (len(found), found[0]) == (MAX_FOUND, "zz/.git")
    monkeypatch.setattr(nested, "MAX_FOLDERS", 3)
    assert Nested().before(str(tmp_path)) == []
    monkeypatch.setattr(nested, "MAX_FOLDERS", 256)
    monkeypatch.setattr(nested, "MAX_ENTRIES", 10)
    looking = Nested()
    assert looking.before(str(tmp_path)) == []
    monkeypatch.setattr(nested, "MAX_ENTRIES", 10_000)
    assert len(looking.before(str(tmp_path))) == MAX_FOUND


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
    finished = await sandbox.run(place.command("sh", "-c", "echo 2 > new/.git/config"), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0, finished.output.text()
    assert (place.root / "new" / ".git" / "config").read_text() == "2\n"
    assert config.read_text() == "[core]\n"
