"""Undo in a workspace: what is brought back, what is left because others have changed it, and undo of an undo."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tertulia.errors import BusyError, InvalidParamsError, MergeConflictError, NotFoundError
from tertulia.session.checkpoints.plan import CHANGED_BESIDE, CHANGED_SINCE
from tests.session.checkpoints.scene import Scene


def changes_of_every_kind(scene: Scene) -> None:
    """What a task may do to files: each kind becomes each other."""
    scene.write("text", "changed\n")
    scene.write("new/deep/file", "new\n")
    (scene.top / "gone").unlink()
    (scene.top / "run").chmod(0o644)
    (scene.top / "plain").chmod(0o755)
    (scene.top / "file-dir").unlink()
    scene.write("file-dir/inner", "in\n")
    shutil.rmtree(scene.top / "dir-file")
    scene.write("dir-file", "was a directory\n")
    (scene.top / "link-file").unlink()
    scene.write("link-file", "was a link\n")
    (scene.top / "file-link").unlink()
    (scene.top / "file-link").symlink_to("text")
    shutil.rmtree(scene.top / "dir-link")
    (scene.top / "dir-link").symlink_to("/etc")
    (scene.top / "link-dir").unlink()
    scene.write("link-dir/inner", "x\n")
    (scene.top / "Case").rename(scene.top / "case")
    (scene.top / "link-other").unlink()
    (scene.top / "link-other").symlink_to("b")


def many_kinds(scene: Scene) -> None:
    """The same before it."""
    scene.write("text", "one\n")
    scene.write("gone", "gone\n", 0o600)
    scene.write("run", "#!/bin/sh\n", 0o755)
    scene.write("plain", "plain\n")
    scene.write("file-dir", "a file\n")
    scene.write("dir-file/a", "a\n")
    scene.write("dir-file/b/c", "c\n")
    (scene.top / "link-file").symlink_to("text")
    scene.write("file-link", "a file\n")
    scene.write("dir-link/x", "x\n")
    (scene.top / "link-dir").symlink_to("dir-file")
    scene.write("Case", "case\n")
    (scene.top / "link-other").symlink_to("a")
    scene.write("empty", "")
    scene.write("name with\nnewline", "n\n")


async def test_undo_brings_back_every_kind_of_change_and_can_be_undone(tmp_path: Path) -> None:
    """26-1: files added later go, deleted ones come back with their permissions, links as links."""
    scene = Scene(tmp_path)
    many_kinds(scene)
    before = scene.files()
    window = await scene.begin()
    changes_of_every_kind(scene)
    after = scene.files()
    await scene.end(window)
    dry = await scene.undo(dry_run=True)
    assert dry.window is None
    assert scene.files() == after
    undone = await scene.undo()
    assert [change.path for change in undone.plan.changes] == [change.path for change in dry.plan.changes]
    assert scene.files() == before
    assert not (scene.top / "new").exists(), "directories that were made for new files go with them"
    assert undone.window is not None
    again = await scene.undo(None, undone.window.id)
    assert scene.files() == after
    assert again.plan.left == ()
    await scene.undo()
    assert scene.files() == before


async def test_undo_goes_back_one_message_after_another(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("a", "0")
    for number in "123":
        window = await scene.begin()
        scene.write("a", number)
        await scene.end(window)
    found = [((await scene.undo()), scene.files()["a"][1])[1] for _ in range(3)]
    assert found == ["2", "1", "0"]
    with pytest.raises(NotFoundError, match="nothing to undo"):
        await scene.undo()


async def test_to_a_checkpoint_goes_back_over_several_messages_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("a", "0")
    first = await scene.begin()
    scene.write("a", "1")
    await scene.end(first)
    second = await scene.begin()
    scene.write("b", "2")
    second = await scene.end(second)
    await scene.undo("c1", first.id)
    assert set(scene.files()) == {"a"}
    assert scene.files()["a"][1] == "0"
    with pytest.raises(NotFoundError):
        await scene.undo()
    await scene.undo("c1", f"{second.id}:after", force=True, paths=["a", "b"])
    assert {name: content for name, (_, content) in scene.files().items()} == {"a": "1", "b": "2"}


async def test_a_file_that_was_changed_since_is_named_and_left_unless_told_to(tmp_path: Path) -> None:
    """26-1: refuses a file that was changed since by anything but this conversation."""
    scene = Scene(tmp_path)
    scene.write("mine", "0")
    scene.write("both", "0")
    window = await scene.begin()
    for name in ("mine", "both", "added"):
        scene.write(name, "agent")
    await scene.end(window)
    scene.write("both", "the user")
    scene.write("added", "the user")
    undone = await scene.undo()
    assert {(left.path, left.reason) for left in undone.plan.left} == {
        ("both", CHANGED_SINCE),
        ("added", CHANGED_SINCE),
    }
    assert {name: content for name, (_, content) in scene.files().items()} == {
        "mine": "0",
        "both": "the user",
        "added": "the user",
    }
    forced = await scene.undo(force=True)
    assert forced.plan.left == ()
    assert {name: content for name, (_, content) in scene.files().items()} == {"mine": "0", "both": "0"}


async def test_a_file_that_the_user_changed_between_two_messages_is_left(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("a", "0")
    first = await scene.begin()
    scene.write("a", "1")
    await scene.end(first)
    scene.write("a", "the user")
    second = await scene.begin()
    scene.write("a", "2")
    await scene.end(second)
    undone = await scene.undo("c1", first.id)
    assert [(left.path, left.reason) for left in undone.plan.left] == [("a", CHANGED_SINCE)]
    await scene.undo()
    assert scene.files()["a"][1] == "the user", "of the last message alone it can be undone"


async def test_files_of_another_conversation_that_wrote_at_the_same_time_are_left(tmp_path: Path) -> None:
    """26-1: with parallel conversations, files that changed while another writing task ran are named and left."""
    scene, ticks = Scene(tmp_path), None
    other = Scene(tmp_path, "s2", ticks=scene.ticks)
    assert ticks is None
    scene.write("shared", "0")
    mine = await scene.begin("c1")
    scene.write("before", "mine alone")
    theirs = await other.begin("c2")
    scene.write("shared", "who knows")
    await other.end(theirs)
    scene.write("after", "mine alone")
    await scene.end(mine)
    undone = await scene.undo("c1")
    assert [(left.path, left.reason) for left in undone.plan.left] == [("shared", CHANGED_BESIDE)]
    assert set(scene.files()) == {"shared"}


async def test_what_others_did_on_behalf_of_a_conversation_is_undone_with_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for conversation, callers in (("c1", ()), ("c2", ("c1",)), ("c3", ("c1", "c2"))):
        window = await scene.begin(conversation, trace="one message", callers=callers)
        scene.write(conversation, conversation)
        await scene.end(window)
    await scene.undo("c1")
    assert scene.files() == {}


async def test_only_the_named_paths_are_restored_and_one_outside_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    window = await scene.begin()
    for name in ("a/x", "a/y", "ab", "c"):
        scene.write(name, "agent")
    await scene.end(window)
    await scene.undo(paths=["a", str(scene.top / "c")])
    assert set(scene.files()) == {"ab"}
    (scene.top / "out").symlink_to("/etc")
    for path in ("../x", "/etc/passwd", "out/passwd"):
        with pytest.raises(InvalidParamsError, match="outside the workspace"):
            await scene.undo(paths=[path])
    with pytest.raises(InvalidParamsError, match="there is no 'nothing'"):
        await scene.undo(paths=["nothing"])


async def test_a_restore_follows_no_link_that_was_put_in_its_way(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("not ours")
    scene.write("dir/x", "0")
    window = await scene.begin()
    scene.write("dir/x", "1")
    await scene.end(window)
    shutil.rmtree(scene.top / "dir")
    (scene.top / "dir").symlink_to(outside)
    undone = await scene.undo(force=True)
    assert [left.path for left in undone.plan.left] == ["dir/x"]
    assert (outside / "x").read_text() == "not ours"


async def test_a_file_with_other_names_and_one_that_is_too_large_now_are_left(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("linked", "0")
    scene.write("large", "0")
    scene.write("dir-of-ignored", "0")
    window = await scene.begin()
    scene.write("linked", "1")
    os.link(scene.top / "linked", tmp_path / "elsewhere")
    scene.write("large", b"x" * (11 * 1024 * 1024))
    (scene.top / "dir-of-ignored").unlink()
    scene.write("dir-of-ignored/.gitignore", "*\n")
    await scene.end(window)
    undone = await scene.undo(force=True)
    assert {left.path for left in undone.plan.left} == {"linked", "large", "dir-of-ignored"}
    assert (tmp_path / "elsewhere").read_text() == "1"


async def test_nothing_is_undone_while_the_conversation_works(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.begin()
    scene.write("a", "1")
    with pytest.raises(BusyError):
        await scene.undo()


async def test_the_window_of_a_killed_process_ends_when_the_next_one_looks(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("a", "0")
    await scene.begin()
    scene.write("a", "1")
    scene.place.close()
    later = Scene(tmp_path, "s2", ticks=scene.ticks)
    await later.place.prepare(None)
    (window,) = await later.place.list()
    assert (window.cut, window.files) == (True, 1)
    await later.undo()
    assert scene.files()["a"][1] == "0"


async def test_a_file_that_changes_at_the_moment_of_a_restore_stops_all_of_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("a", "0")
    window = await scene.begin()
    scene.write("a", "1")
    scene.write("b", "1")
    await scene.end(window)

    def step(name: str) -> None:
        if name == "files":
            scene.write("b", "the user, just now")

    scene.place.step = step
    with pytest.raises(MergeConflictError, match="b: it has changed"):
        await scene.undo()
    assert {name: content for name, (_, content) in scene.files().items()} == {"a": "1", "b": "the user, just now"}
    assert not (scene.data / "worktrees" / "merging").exists()
    scene.place.step = lambda _: None
    assert [left.path for left in (await scene.undo()).plan.left] == ["b"]


async def test_back_to_a_moment_takes_back_every_task_that_began_after_it(tmp_path: Path) -> None:
    """26-1: what edit-and-fork asks for, which knows when the message was written."""
    scene = Scene(tmp_path)
    moments: list[float] = []
    for number in "123":
        moments.append(scene.ticks())
        window = await scene.begin()
        scene.write(number, number)
        await scene.end(window)
    with pytest.raises(NotFoundError, match="since then"):
        await scene.undo(since=scene.ticks())
    with pytest.raises(NotFoundError, match="since then"):
        await scene.undo("another conversation", since=moments[0])
    assert len(scene.files()) == 3
    await scene.undo(since=moments[1])
    assert set(scene.files()) == {"1"}
    dry = await scene.undo(since=moments[1], dry_run=True)
    assert dry.plan.changes == (), "it is undone already"
    await scene.undo(since=moments[0])
    assert scene.files() == {}
