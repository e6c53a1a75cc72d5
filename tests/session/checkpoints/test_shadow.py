"""The shadow repository: has the workspace byte for byte, touches nothing of the user's, and starts no program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import GitError, LimitError
from tertulia.session.worktrees.git_runner import Git
from tests.session.checkpoints.scene import Scene
from tests.session.worktrees.repository import Repository


async def test_a_capture_has_files_links_and_modes_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("a.txt", "one\r\n")
    scene.write("run", "#!/bin/sh\n", 0o755)
    (scene.top / "link").symlink_to("/etc/passwd")
    scene.write("big", b"x" * (10 * 1024 * 1024 + 1))
    scene.write(".gitignore", "*.o\n")
    scene.write("ignored.o", "object")
    scene.write(".vscode/settings.json", "{}")
    Repository(scene.top / "nested").write("inner", "i")
    os.mkfifo(scene.top / "pipe")
    captured = await scene.capture()
    assert await scene.contents(captured.tree) == {
        "a.txt": "100644 one\r\n",
        "run": "100755 #!/bin/sh\n",
        "link": "120000 /etc/passwd",
        ".gitignore": "100644 *.o\n",
    }
    reasons = {left.path: left.reason for left in captured.left_out}
    assert reasons == {
        "big": "larger than 10 MB",
        ".vscode": "protected, commands cannot change it",
        "nested/": "a repository of its own",
    }


async def test_ignored_files_are_captured_where_the_setting_says_so(tmp_path: Path) -> None:
    scene = Scene(tmp_path, include_ignored=True)
    scene.write(".gitignore", "*.o\n")
    scene.write("ignored.o", "object")
    assert "ignored.o" in await scene.contents((await scene.capture()).tree)


async def test_a_file_that_the_user_has_committed_although_it_is_ignored_is_captured(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    user = Repository(scene.top)
    user.write(".gitignore", "*.o\n")
    user.write("kept.o", "k")
    user.git("add", "-f", "kept.o")
    user.write("other.o", "o")
    assert set(await scene.contents((await scene.capture()).tree)) == {".gitignore", "kept.o"}


async def test_ignore_files_of_the_repository_above_hold_for_a_workspace_below(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    above = Repository(tmp_path)
    above.write(".gitignore", "ws/node_modules/\n/data\n/home\n")
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*.log\n")
    scene.write("node_modules/m.js", "m")
    scene.write("x.log", "l")
    scene.write("a.txt", "a")
    first = await scene.capture()
    assert set(await scene.contents(first.tree)) == {"a.txt"}
    (scene.top / "a.txt").unlink()
    assert await scene.contents((await scene.capture()).tree) == {}


async def test_a_file_that_grew_too_large_is_not_taken_for_what_it_was(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("log", "small")
    await scene.capture()
    scene.write("log", b"x" * (11 * 1024 * 1024))
    captured = await scene.capture()
    assert await scene.contents(captured.tree) == {}
    assert [left.path for left in captured.left_out] == ["log"]


async def test_masked_files_are_never_captured(tmp_path: Path) -> None:
    secret = Path(os.path.realpath(tmp_path)) / "ws" / "secret"
    scene = Scene(tmp_path, masked=[str(secret)])
    scene.write("secret/key", "K")
    scene.write("open", "o")
    captured = await scene.capture()
    assert set(await scene.contents(captured.tree)) == {"open"}
    assert [(left.path, left.reason) for left in captured.left_out] == [("secret/key", "masked")]


PLANTED = """[core]
    fsmonitor = touch {0}/fsmonitor; false
    hooksPath = {0}/hooks
    pager = touch {0}/pager
[filter "evil"]
    clean = touch {0}/clean; cat
    smudge = touch {0}/smudge; cat
    process = touch {0}/process
    required = true
[diff "evil"]
    textconv = touch {0}/textconv; cat
    command = touch {0}/external
"""


@pytest.mark.parametrize("place", ["repository", "global", "system"])
async def test_planted_filters_hooks_and_drivers_do_not_run(tmp_path: Path, place: str) -> None:
    """A planted configuration would run something with plain git, which the test shows at its end."""
    scene = Scene(tmp_path)
    traces = tmp_path / "traces"
    (traces / "hooks").mkdir(parents=True)
    for hook in ("pre-commit", "post-index-change", "reference-transaction", "post-checkout"):
        (traces / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {traces}/{hook}\n")
        (traces / "hooks" / hook).chmod(0o755)
    user = Repository(scene.top)
    scene.write(".gitattributes", "*.txt filter=evil diff=evil text eol=crlf ident\n* filter=evil\n")
    scene.write("a.txt", "one\n$Id$\n")
    config = PLANTED.format(traces)
    files = {"repository": scene.top / ".git" / "config", "global": tmp_path / "home" / ".gitconfig"}
    target = files.get(place, tmp_path / "system")
    with open(target, "a") as file:
        file.write(config)
    scene.shadow._variables = {**scene.variables, "GIT_CONFIG_SYSTEM": str(tmp_path / "system")}
    window = await scene.begin()
    scene.write("a.txt", "two\n$Id$\n")
    window = await scene.end(window)
    assert (await scene.contents(window.before))["a.txt"] == "100644 one\n$Id$\n"
    await scene.place.diff(None, "c1", to_now=False)
    await scene.undo()
    assert (scene.top / "a.txt").read_text() == "one\n$Id$\n"
    assert sorted(path.name for path in traces.iterdir()) == ["hooks"]
    plain = {**os.environ, **scene.variables, "GIT_CONFIG_SYSTEM": str(tmp_path / "system")}
    subprocess.run(["git", "-C", str(user.top), "add", "."], env=plain, capture_output=True, check=False)
    assert len(list(traces.iterdir())) > 1, "the plant is one"


async def test_the_users_repository_is_as_it_was_with_staged_changes_stash_and_worktree(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    user = Repository(scene.top)
    user.write("a.txt", "one\n")
    user.write("b.txt", "b\n")
    user.commit("first")
    user.write("b.txt", "stashed\n")
    user.git("stash", "-q")
    user.git("worktree", "add", "-q", str(tmp_path / "tree"))
    user.write("a.txt", "staged\n")
    user.git("add", "a.txt")
    user.write("a.txt", "staged and then changed\n")
    user.write("new", "untracked\n")
    before, objects = user.fingerprint(), sorted((scene.top / ".git" / "objects").rglob("*"))
    window = await scene.begin()
    scene.write("a.txt", "by the agent\n")
    (scene.top / "b.txt").unlink()
    scene.write("added", "x")
    await scene.end(window)
    await scene.undo()
    after = user.fingerprint()
    assert (after["index"], after["refs"], after["config"]) == (before["index"], before["refs"], before["config"])
    assert sorted((scene.top / ".git" / "objects").rglob("*")) == objects
    assert user.git("diff", "--cached", "--stat").strip().startswith("a.txt")
    assert (scene.top / "a.txt").read_text() == "staged and then changed\n"
    assert user.git("stash", "list") != ""
    assert not (scene.top / "added").exists()


async def test_a_linked_worktree_a_submodule_and_a_bare_repository_are_workspaces_too(tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.write("inner", "i")
    other.commit("first")
    main = Repository(tmp_path / "main")
    main.write("a.txt", "one\n")
    main.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.top), "sub")
    main.commit("first")
    main.git("worktree", "add", "-q", str(tmp_path / "linked" / "ws"))
    main.git("clone", "-q", "--bare", str(main.top), str(tmp_path / "bare" / "ws"))
    (tmp_path / "inside").mkdir()
    os.symlink(main.top, tmp_path / "inside" / "ws")
    for name in ("linked", "bare", "inside"):
        scene = Scene(tmp_path / name)
        if name == "inside":
            scene.shadow.workspace = str(main.top)
            scene.top = main.top
        before = main.refs()
        window = await scene.begin()
        scene.write("note", name)
        await scene.end(window)
        assert [file.path for file in (await scene.undo()).plan.files] == ["note"]
        assert main.refs() == before
        if name == "inside":
            left = (await scene.capture()).left_out
            assert [entry.path for entry in left] == ["sub/"]


async def test_garbage_collection_in_the_users_repository_breaks_no_checkpoint(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    user = Repository(scene.top)
    user.write("a.txt", "one\n")
    user.commit("first")
    window = await scene.begin()
    user.write("a.txt", "two\n")
    await scene.end(window)
    user.git("update-ref", "-d", "HEAD")
    user.git("rm", "-q", "-f", "--cached", "a.txt")
    user.git("reflog", "expire", "--expire=now", "--all")
    user.git("gc", "-q", "--prune=now")
    await scene.undo()
    assert (scene.top / "a.txt").read_text() == "one\n"
    git = await scene.shadow.git()
    assert b"missing" not in await git.run("fsck", "--connectivity-only", "--no-dangling")
    assert not (scene.shadow.store / "objects" / "info" / "alternates").exists()


async def test_a_git_that_was_killed_over_a_capture_is_no_obstacle(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("a.txt", "one\n")
    await scene.capture()
    (scene.shadow.store / "index.lock").write_bytes(b"")
    scene.write("a.txt", "two\n")
    assert await scene.contents((await scene.capture()).tree) == {"a.txt": "100644 two\n"}


async def test_a_disk_with_little_room_is_left_to_the_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """26-1: refused before it is full, and nothing half is left; with room again it is recorded."""
    scene = Scene(tmp_path)
    scene.write("large", os.urandom(1_000_000))
    room = os.statvfs(tmp_path)
    little = os.statvfs_result((room.f_bsize, 1024, 0, 0, 16 * 1024, *room[5:]))
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda path: little)
        with pytest.raises(LimitError, match="make room, or set checkpoints = false"):
            await scene.capture()
    pack = scene.shadow.store / "objects" / "pack"
    assert list(pack.iterdir()) == []
    # As a git leaves it that was killed, or ran out of room.
    (pack / "tmp_pack_x").write_bytes(b"half")
    (scene.shadow.store / "index.lock").touch()
    captured = await scene.capture()
    assert set(await scene.contents(captured.tree)) == {"large"}
    assert {path.suffix for path in pack.iterdir()} <= {".pack", ".idx", ".rev"}


async def test_what_a_git_that_fails_has_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """26-1: half a pack would take the room that the session needs."""
    scene = Scene(tmp_path)
    scene.write("a", "a")
    await scene.capture()
    scene.write("a", "b")
    run = Git.run

    async def full(self: Git, *words: str, **options: Any) -> bytes:
        if words[0] == "fast-import":
            (scene.shadow.store / "objects" / "pack" / "tmp_pack_x").write_bytes(b"half")
            raise GitError("`git fast-import` failed: No space left on device")
        return await run(self, *words, **options)

    monkeypatch.setattr(Git, "run", full)
    with pytest.raises(GitError):
        await scene.capture()
    assert not (scene.shadow.store / "objects" / "pack" / "tmp_pack_x").exists()
