"""The state of a tree as a commit: all of it that is not ignored, and nothing of the user's is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import GitError
from tertulia.session.worktrees import tree_files as module
from tertulia.session.worktrees.worktree import RepositoryTree, WrittenState, write_state
from tests.session.worktrees.repository import Repository, committed, variables


async def state(repository: Repository, tmp_path: Path, at: Path | None = None) -> WrittenState:
    tree = await RepositoryTree.find(at or repository.top, variables(tmp_path / "home"))
    head = await tree.head()
    return await write_state(tree, tmp_path / "scratch-index", [head] if head else [], "State\n")


async def test_a_clean_tree_is_its_own_head(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    assert await state(repository, tmp_path) == WrittenState(repository.git("rev-parse", "HEAD"))


async def test_every_kind_of_change_is_in_it_and_the_caller_keeps_all(tmp_path: Path) -> None:
    """Staged, not staged, untracked, deleted, renamed, made executable, linked; nothing that is ignored."""
    repository = committed(tmp_path / "repo")
    for name in ("deleted", "deleted-staged", "renamed", "to-directory", "to-link", "mode", "both"):
        repository.write(name, f"{name}\n")
    repository.write("folder/file", "in a folder\n")
    repository.write(".gitignore", "*.log\n")
    repository.commit()
    repository.write("both", "staged\n")
    repository.git("add", "both")
    repository.write("both", "staged and then changed\n")
    repository.write("staged", "new and staged\n")
    repository.git("add", "staged")
    repository.git("rm", "-q", "deleted-staged")
    repository.git("mv", "renamed", "renamed-to")
    (repository.top / "deleted").unlink()
    (repository.top / "to-directory").unlink()
    repository.write("to-directory/inside", "inside\n")
    (repository.top / "to-link").unlink()
    (repository.top / "to-link").symlink_to("a.txt")
    (repository.top / "mode").chmod(0o755)
    (repository.top / "folder" / "file").unlink()
    (repository.top / "folder").rmdir()
    (repository.top / "folder").symlink_to("src")
    repository.write("src/untracked", "untracked\n")
    repository.write("ignored.log", "ignored\n")
    before = repository.fingerprint()
    written = await state(repository, tmp_path)
    assert repository.fingerprint() == before
    assert written.left_out == ()
    assert repository.tree(written.commit) == {
        ".gitignore": "100644 *.log",
        "a.txt": "100644 one\ntwo\nthree",
        "both": "100644 staged and then changed",
        "folder": "120000 src",
        "mode": "100755 mode",
        "renamed-to": "100644 renamed",
        "src/b.txt": "100644 b",
        "src/untracked": "100644 untracked",
        "staged": "100644 new and staged",
        "to-directory/inside": "100644 inside",
        "to-link": "120000 a.txt",
    }


async def test_names_of_files_can_be_anything(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    names = ["new\nline", 'quo"te', "-rf", ":(glob)*", "tab\there", "*", os.fsdecode(b"latin-\xe9"), " ", "ü"]
    for name in names:
        Path(os.path.join(repository.top, name)).write_text("x")
    written = await state(repository, tmp_path)
    assert {*names} <= {*repository.tree(written.commit)}


async def test_before_the_first_commit_there_is_no_parent(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repo")
    repository.write("a", "a\n")
    repository.write("b", "b\n")
    repository.git("add", "a")
    before = repository.fingerprint()
    written = await state(repository, tmp_path)
    assert repository.tree(written.commit) == {"a": "100644 a", "b": "100644 b"}
    assert repository.git("rev-list", "--count", written.commit) == "1"
    assert repository.fingerprint() == before


async def test_conflicts_are_taken_as_they_lie_in_the_files(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.git("checkout", "-q", "-b", "other")
    repository.write("a.txt", "theirs\n")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write("a.txt", "ours\n")
    repository.commit()
    with pytest.raises(AssertionError):
        repository.git("merge", "other")
    assert "<<<<<<<" in repository.tree((await state(repository, tmp_path)).commit)["a.txt"]


async def test_files_with_a_filter_keep_their_committed_version_and_are_named(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.write("big.bin", "version https://git-lfs.github.com/spec/v1\n")
    repository.commit()
    for key in ("clean", "smudge", "process"):
        repository.git("config", f"filter.lfs.{key}", f"touch {tmp_path}/ran; cat")
    repository.git("config", "filter.lfs.required", "true")
    repository.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repository.write("big.bin", "the content itself\n")
    repository.write("new.bin", "new content\n")
    written = await state(repository, tmp_path)
    assert sorted(map(str, written.left_out)) == ["big.bin (filter lfs)", "new.bin (filter lfs)"]
    tree = repository.tree(written.commit)
    assert tree["big.bin"] == "100644 version https://git-lfs.github.com/spec/v1"
    assert "new.bin" not in tree
    assert not (tmp_path / "ran").exists()


async def test_what_git_cannot_take_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 1024 * 1024)
    repository = committed(tmp_path / "repo")
    committed(repository.top / "nested")
    repository.write("large", "x" * (1024 * 1024 + 1))
    (repository.top / "a.txt").unlink()
    os.mkfifo(repository.top / "a.txt")
    written = await state(repository, tmp_path)
    assert {entry.path: entry.reason for entry in written.left_out} == {
        "a.txt": "not a plain file",
        "large": "larger than 1 MB",
        "nested/": "a repository of its own",
    }
    assert written.commit == repository.git("rev-parse", "HEAD")


async def test_a_submodule_is_taken_by_its_commit_and_nothing_is_started_in_it(tmp_path: Path) -> None:
    inner = committed(tmp_path / "inner")
    repository = committed(tmp_path / "repo")
    repository.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), "sub")
    repository.commit()
    sub = repository.top / "sub"
    repository.git("config", "core.fsmonitor", f"touch {tmp_path}/ran", at=sub)
    (sub / "a.txt").write_text("changed in it\n")
    repository.git("commit", "-q", "-am", "in it", at=sub)
    (tmp_path / "ran").unlink(missing_ok=True)
    (sub / "a.txt").write_text("changed and not committed\n")
    written = await state(repository, tmp_path)
    assert repository.tree(written.commit)["sub"] == f"160000 {repository.git('rev-parse', 'HEAD', at=sub)}"
    assert not (tmp_path / "ran").exists()


async def test_where_there_is_no_tree_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(GitError, match="not a git repository"):
        await RepositoryTree.find(tmp_path / "empty", variables(tmp_path))
    repository = committed(tmp_path / "repo")
    repository.git("clone", "-q", "--bare", str(repository.top), str(tmp_path / "bare"))
    with pytest.raises(GitError, match=r"bare|work tree"):
        await RepositoryTree.find(tmp_path / "bare", variables(tmp_path))
    with pytest.raises(GitError, match=r"bare|work tree"):
        await RepositoryTree.find(repository.top / ".git", variables(tmp_path))


async def test_a_repository_cannot_name_another_tree(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    (tmp_path / "secret").mkdir()
    repository.git("config", "core.worktree", str(tmp_path / "secret"))
    with pytest.raises(GitError, match=r"work tree|says that its files are in"):
        await RepositoryTree.find(repository.top, variables(tmp_path))


async def test_hooks_and_the_file_watcher_of_a_repository_do_not_run(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    hooks = repository.top / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "pre-commit", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\n")
        (hooks / name).chmod(0o755)
    repository.write("new", "new\n")
    repository.git("config", "core.fsmonitor", str(hooks / "fsmonitor-watchman"))
    repository.git("config", "core.hooksPath", str(hooks))
    await state(repository, tmp_path)
    assert not list(tmp_path.glob("ran-*"))


async def test_line_ends_are_converted_as_attributes_and_settings_say(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.write(".gitattributes", "*.win text eol=crlf\n*.raw -text\n")
    (repository.top / "a.win").write_bytes(b"one\r\ntwo\r\n")
    (repository.top / "b.raw").write_bytes(b"one\r\n")
    (repository.top / "c.other").write_bytes(b"one\r\n")
    commit = (await state(repository, tmp_path)).commit
    assert repository.git("cat-file", "blob", f"{commit}:a.win") == "one\ntwo"
    assert repository.git("cat-file", "blob", f"{commit}:b.raw") == "one\r"
    assert repository.git("cat-file", "blob", f"{commit}:c.other") == "one\r"
    (tmp_path / "home" / ".gitconfig").write_text("[core]\nautocrlf = input\n")
    (tmp_path / "scratch-index").unlink()
    commit = (await state(repository, tmp_path)).commit
    assert repository.git("cat-file", "blob", f"{commit}:c.other") == "one"
    assert repository.git("cat-file", "blob", f"{commit}:b.raw") == "one\r"


async def test_what_cannot_be_converted_is_named_and_the_rest_is_taken(tmp_path: Path) -> None:
    """With one process for each file a thousand of them took eight seconds."""
    repository = committed(tmp_path / "repo")
    repository.write(".gitattributes", "* text=auto\nwide* working-tree-encoding=UTF-16LE\n")
    (repository.top / "wide").write_bytes("wide\n".encode("utf-16-le"))
    (repository.top / "wide-not").write_bytes(b"odd")
    names = ['quo"te', "new\nline", "back\\slash", "end\r", "src/deep/er", "-w", "tab\t"]
    for name in names:
        (repository.top / name).parent.mkdir(exist_ok=True)
        (repository.top / name).write_bytes(b"content\r\n")
    found = await state(repository, tmp_path)
    assert [left.path for left in found.left_out] == ["wide-not"]
    tree = repository.tree(found.commit)
    assert tree["wide"] == "100644 wide"
    assert {name: tree[name] for name in names} == dict.fromkeys(names, "100644 content")
    (repository.top / "wide-not").unlink()
    (tmp_path / "scratch-index").unlink()
    found = await state(repository, tmp_path)
    assert found.left_out == ()
    assert {name: repository.tree(found.commit)[name] for name in names} == dict.fromkeys(names, "100644 content")
