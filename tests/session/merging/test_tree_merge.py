"""Three-way merges of commits, with real git."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tertulia.errors import GitError, LimitError, MergeConflictError
from tertulia.session.merging import tree_merge
from tertulia.session.merging.tree_merge import TreeMerge, merge_commits
from tertulia.session.worktrees.git_runner import Git
from tests.deadlines import HANG_S

Edit = Callable[[Path], object]
LINES = "".join(f"line {number}\n" for number in range(20))


def git(place: Path, *words: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_{part}": "t@t" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")},
    }
    command = ["git", "-c", "protocol.file.allow=always", *words]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, timeout=HANG_S, check=True)
    return done.stdout.decode().strip()


def commit(place: Path, message: str = "state") -> str:
    git(place, "add", "-A")
    git(place, "commit", "-q", "--allow-empty", "-m", message)
    return git(place, "rev-parse", "HEAD")


def write(path: str, text: str | bytes) -> Edit:
    def edit(place: Path) -> None:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(text.encode() if isinstance(text, str) else text)

    return edit


def rename(old: str, new: str) -> Edit:
    return lambda place: (place / old).rename(place / new)


def remove(path: str) -> Edit:
    return lambda place: (place / path).unlink()


def both(*edits: Edit) -> Edit:
    return lambda place: [edit(place) for edit in edits]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write("text", LINES)(folder)
    write("old", "old\n" * 5)(folder)
    write("picture", b"\0\1\2")(folder)
    return folder


async def merge(place: Path, ours: Edit, theirs: Edit) -> TreeMerge:
    base = commit(place)
    git(place, "checkout", "-q", "-b", "theirs")
    theirs(place)
    commit(place)
    theirs_commit = commit(place, "a second one")
    git(place, "checkout", "-q", "-B", "ours", base)
    ours(place)
    ours_commit = commit(place)
    found = await Git.find(place, {"PATH": os.environ["PATH"], "HOME": str(place)})
    return await merge_commits(found, place / ".git", base, ours_commit, theirs_commit)


async def test_both_sides_changed_other_lines_of_one_file(place: Path) -> None:
    merged = await merge(
        place, write("text", LINES.replace("line 1\n", "ours\n")), write("text", LINES.replace("line 18\n", "theirs\n"))
    )
    assert [(file.path, file.status, file.added, file.removed) for file in merged.files] == [("text", "modified", 1, 1)]
    assert git(place, "show", f"{merged.tree}:text").splitlines()[1] == "ours"
    assert "-line 18\n+theirs\n" in merged.diff
    assert "+ours" not in merged.diff


async def test_binary_files_deletions_renames_modes_and_links(place: Path) -> None:
    def theirs(place: Path) -> None:
        write("picture", b"\0\7")(place)
        rename("text", "sub")(place)
        (place / "old").unlink()
        write("run", "#!/bin/sh\n")(place)
        (place / "run").chmod(0o755)
        (place / "link").symlink_to("run")

    merged = await merge(place, write("mine", "mine\n"), theirs)
    assert {file.path: (file.status, file.renamed_from) for file in merged.files} == {
        "picture": ("modified", None),
        "sub": ("renamed", "text"),
        "old": ("deleted", None),
        "run": ("added", None),
        "link": ("added", None),
    }
    kinds = {change.path: change.new and change.new.kind for change in merged.changes}
    assert kinds == {"picture": "file", "text": None, "sub": "file", "old": None, "run": "executable", "link": "link"}
    assert next(file for file in merged.files if file.path == "picture").added is None


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (write("text", "a"), write("text", "b"), ["content: text"]),
        (write("picture", b"\0a"), write("picture", b"\0b"), ["binary: picture"]),
        (write("new", "a\n"), write("new", "b\n"), ["add/add: new"]),
        (write("text", "a"), remove("text"), ["modify/delete: text"]),
        (rename("text", "other"), remove("text"), ["rename/delete: other → text"]),
        (rename("text", "one"), rename("text", "two"), ["rename/rename: text → one → two"]),
    ],
    ids=["content", "binary", "add-add", "modify-delete", "rename-delete", "rename-rename"],
)
async def test_a_conflict_names_each_path_and_kind(place: Path, ours: Edit, theirs: Edit, expected: list[str]) -> None:
    with pytest.raises(MergeConflictError) as refused:
        await merge(place, ours, theirs)
    assert refused.value.detail["conflicts"] == expected
    assert expected[0] in refused.value.message


async def test_no_attribute_chooses_a_driver_or_hides_a_difference(place: Path, tmp_path: Path) -> None:
    hostile = f"touch {tmp_path}/started; true"
    for key in ("merge.evil.driver", "diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "core.fsmonitor"):
        git(place, "config", key, hostile)
    git(place, "config", "merge.default", "evil")
    attributes = "text merge=evil diff=evil\nold -diff\npicture merge=union\n"
    theirs = both(write("text", LINES.replace("line 18\n", "theirs\n")), write("old", "new\n"))
    ours = write("text", LINES.replace("line 1\n", "ours\n"))
    write(".gitattributes", attributes)(place)
    (tmp_path / "started").unlink(missing_ok=True)
    merged = await merge(place, ours, theirs)
    assert git(place, "show", f"{merged.tree}:text").count("\nours\n") == 1
    assert "+theirs" in merged.diff
    assert "-old\n" in merged.diff


async def test_a_path_with_a_filter_is_left_out_and_named(place: Path) -> None:
    write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")(place)
    write("big.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")(place)
    theirs = both(write("big.bin", "version https://git-lfs.github.com/spec/v1\nsize 2\n"), write("text", "new\n"))
    merged = await merge(place, write("mine", "mine\n"), theirs)
    assert [change.path for change in merged.changes] == ["text"]
    assert [left.path for left in merged.left_out] == ["big.bin"]
    assert "filter" in merged.left_out[0].reason
    assert "big.bin" not in merged.diff


async def test_a_submodule_is_left_out_and_named(place: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    write("file", "1")(inner)
    commit(inner)

    def theirs(place: Path) -> None:
        git(place, "submodule", "--quiet", "add", str(inner), "module")
        write("text", "new\n")(place)

    merged = await merge(place, lambda place: shutil.rmtree(place / "module"), theirs)
    assert [(left.path, left.reason) for left in merged.left_out] == [("module", "it is a submodule")]
    assert {change.path for change in merged.changes} == {".gitmodules", "text"}


@pytest.mark.parametrize(
    ("name", "most", "expected"),
    [
        ("MAX_FILES", 1, "2 files"),
        ("MAX_BYTES", 3, "4 bytes"),
        ("MAX_FILE_BYTES", 1, "2 bytes"),
        ("MAX_DIFF_BYTES", 20, "the difference has"),
    ],
)
async def test_a_merge_that_is_too_large_names_the_limit(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int, expected: str
) -> None:
    monkeypatch.setattr(tree_merge, name, most)
    with pytest.raises(LimitError, match=expected):
        await merge(place, lambda place: None, both(write("one", "1\n"), write("two", "2\n")))


async def test_a_git_that_cannot_merge_commits_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_merge, "OLDEST_GIT", (99, 1))
    with pytest.raises(GitError, match=r"99\.1 or newer"):
        await merge(place, write("mine", "mine\n"), write("new", "x\n"))


async def test_names_that_are_no_utf8_or_hold_newlines_survive(place: Path) -> None:
    name = os.fsdecode(b"odd\xff\nname")
    merged = await merge(place, write("mine", "mine\n"), write(name, "x\n"))
    assert [change.path for change in merged.changes] == [name]
