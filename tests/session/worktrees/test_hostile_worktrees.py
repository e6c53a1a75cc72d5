"""Own workspaces against what is hostile or unlucky: files that are masked, settings that hide changes, odd files."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tertulia
from tertulia.errors import GitError
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.lifecycle import WorktreeFolder, WorktreeLife, make_folder
from tertulia.session.worktrees.worktree import RepositoryTree, Worktree, WorktreeState, snapshot, write_state
from tertulia.testing import RecordedEvents, ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.session.worktrees.repository import committed, variables

SESSION = SessionId("1f0e0000-0000-4000-8000-000000000000")
ROOT = Path(__file__).parents[3]
ID = ConversationId("81bc2f00-0000-4000-8000-000000000000")


def life(place: Path) -> WorktreeLife:
    return WorktreeLife(WorktreeFolder(place / "ours"), variables(place / "home"))


async def test_what_is_masked_comes_into_no_worktree_and_no_commit(tmp_path: Path) -> None:
    need("bubblewrap")
    repository = committed(tmp_path / "repo")
    repository.write(".env", "SECRET-1\n")
    repository.write("keys/deep/one", "SECRET-2\n")
    repository.write("src/b.txt", "SECRET-3\n")
    (tmp_path / "spelled").symlink_to(repository.top)
    masks = [str(repository.top / ".env"), str(tmp_path / "spelled" / "keys"), str(repository.top / "src/b.txt")]
    reading = {"command": ["sh", "-c", "cat .env keys/deep/one src/b.txt; git log --all -p; git fsck --lost-found"]}
    merging = {"mode": "apply"}

    def merge(request: object) -> object:
        return say("", call("conv_merge", {"conversation_id": session.conversations()[1].id, **merging}))

    model = ScriptedModel(
        [
            say("", call("conv_create", {"user_instruction": "Read.", "workspace": "worktree"})),
            say("", call("shell", reading), call("shell", {"command": ["sh", "-c", "echo made > made"]})),
            "Read it.",
            merge,
            say("", call("shell", {"command": ["git", "cat-file", "--batch-all-objects", "--batch"]})),
            "Done.",
        ]
    )
    settings = tertulia.Settings(model=model, cwd=str(repository.top), approval_policy="never", masks={"add": masks})
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        assert (await session.root.message("Ask.")).text == "Done."
    outputs = [event.data.output for event in events.seen if isinstance(event.data, tertulia.ToolCallEnd)]
    assert len(outputs) == 5
    assert not [output for output in outputs if "SECRET" in output]
    assert (repository.top / "made").read_text() == "made\n"
    messages = [event.data.message for event in events.seen if event.type == "warning"]
    assert messages[0].endswith("uncommitted changes: src/b.txt (masked), .env (masked), keys/deep/one (masked)")


@pytest.mark.parametrize(
    ("key", "value"), [("core.ignoreStat", "true"), ("core.trustctime", "false"), ("core.checkStat", "minimal")]
)
async def test_no_setting_of_a_repository_hides_work(tmp_path: Path, key: str, value: str) -> None:
    """With `core.ignoreStat` git takes what it has written for unchanged: the work would be lost when it is closed."""
    repository = committed(tmp_path / "repo")
    repository.git("config", key, value)
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    place = Path(worktree.path, "a.txt")
    before = place.stat()
    place.write_text("one\nTWO\nthree\n")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not await alive.is_clean(worktree)
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert repository.tree(state.commit)["a.txt"] == "100644 one\nTWO\nthree"


@pytest.mark.parametrize("put_there", ["link", "file", "link to itself", "nothing"])
def test_the_directory_of_a_conversation_is_made_in_its_worktree_or_not_at_all(tmp_path: Path, put_there: str) -> None:
    """A link that a command put on the way to it would have us make a directory wherever it leads."""
    (top := tmp_path / "top").mkdir()
    (outside := tmp_path / "outside").mkdir()
    if put_there == "link":
        (top / "deep").symlink_to(outside)
    elif put_there == "file":
        (top / "deep").write_text("a file\n")
    elif put_there == "link to itself":
        (top / "deep").symlink_to("deep")
    before = len(os.listdir("/proc/self/fd"))
    make_folder(str(top), str(top / "deep" / "in" / "it"))
    make_folder(str(top), str(top))
    make_folder(str(top), str(outside / "elsewhere"))
    assert os.listdir(outside) == []
    assert (top / "deep/in/it").is_dir() == (put_there == "nothing")
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_command_that_still_runs_cannot_have_git_read_what_it_must_not_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exchanges directories for links all the time; here it hits the moment before git reads the files."""
    repository = committed(tmp_path / "repo")
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    top, secret = Path(worktree.path), tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("PRIVATE\n")
    (top / "made").mkdir()
    (top / "made" / "key").write_text("harmless\n")
    run = Git.run

    async def exchanged(git: Git, *words: str, **more: Any) -> bytes:
        if (words[0] == "hash-object" or words[:2] == ("update-index", "--add")) and not (top / "made").is_symlink():
            (top / "made").rename(top / "aside")
            (top / "made").symlink_to(secret)
        return await run(git, *words, **more)

    monkeypatch.setattr(Git, "run", exchanged)
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert repository.tree(state.commit)["made/key"] == "100644 harmless"
    assert sorted(path.name for path in top.parent.iterdir()) == [ID, f"{ID}.json"]


async def test_one_that_was_half_removed_or_half_written_is_whole_again_and_nothing_of_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = committed(tmp_path / "repo")
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    top = Path(worktree.path)
    (top / "made").write_text("made\n")
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))

    def half(path: Path) -> None:
        (path / "a.txt").unlink()
        raise OSError(errno.EIO, "the power fails", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", half)
        with pytest.raises(GitError, match="the power fails"):
            await alive.remove(worktree)
    assert (top / "made").exists()
    assert not (top / "a.txt").exists()
    again = life(tmp_path)
    await again.restore(SESSION, worktree)
    assert (top / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert (await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))).commit == state.commit
    (lock := repository.top / ".git" / "worktrees" / ID / "index.lock").touch()
    await life(tmp_path).restore(SESSION, worktree)
    assert not lock.exists()
    await again.remove(worktree)
    assert not top.exists()


async def test_a_full_disk_fails_no_task_and_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = committed(tmp_path / "repo")
    settings = tertulia.Settings(model=ScriptedModel(["Done."]), cwd=str(repository.top), approval_policy="never")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        child = await session.open(workspace="worktree")
        assert child.details.worktree is not None
        with monkeypatch.context() as patch:
            patch.setattr("tertulia.session.worktrees.tree_files._write", full)
            Path(child.details.worktree.path, "made").write_text("made\n")
            repository.write("mine", "not committed\n")
            assert (await child.message("Work.")).text == "Done."
            with pytest.raises(GitError, match="No space left on device"):
                await child.merge()
            with pytest.raises(GitError, match="No space left on device"):
                await session.open(workspace="worktree")
            Path(child.details.worktree.path, "made").unlink()
            patch.setattr(shutil, "rmtree", full)
            assert (await child.close()).kept_worktree is not None
    messages = [event.data.message for event in events.seen if event.type == "warning"]
    assert len([message for message in messages if "No space left on device" in message]) == 2


async def test_one_of_a_conversation_that_was_never_opened_goes_when_its_own_session_is_resumed(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    settings = tertulia.Settings(model=ScriptedModel(["Done."]), cwd=str(repository.top))
    async with tertulia.Session.start(settings) as session:
        id, folder = session.id, WorktreeFolder(Path(os.environ["TERTULIA_HOME"]))
        # As a process leaves it that is killed before the conversation is open.
        await WorktreeLife(folder, variables(tmp_path / "home")).make(SessionId(id), ID, str(repository.top), None)
        await session.open(workspace="worktree")
        assert folder.find(ID) is None
    assert sorted(path.name for path in folder.top.iterdir()) == []


async def test_what_is_in_a_worktree_is_committed_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge that met the end of a task had that say that its work was not committed."""
    repository = committed(tmp_path / "repo")
    settings = tertulia.Settings(model=ScriptedModel(["Done."]), cwd=str(repository.top), approval_policy="never")
    at_work, most = 0, 0

    async def counted(worktree: Worktree, variables: Mapping[str, str]) -> WorktreeState:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            return await snapshot(worktree, variables)
        finally:
            at_work -= 1

    async with tertulia.Session.start(settings) as session:
        child = await session.open(workspace="worktree")
        for module in ("merging.merge", "worktrees.conversation_worktrees"):
            monkeypatch.setattr(f"tertulia.session.{module}.snapshot", counted)
        await asyncio.gather(child.merge(), child.merge(), child.merge())
        assert (await child.message("Work.")).worktree is not None
    assert most == 1


async def test_a_branch_that_was_removed_is_named_and_the_files_stay(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    repository.git("update-ref", "-d", f"refs/heads/{worktree.branch}")
    with pytest.raises(GitError, match=f"the branch {worktree.branch} is gone; the files are in {worktree.path}"):
        await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert not await alive.is_clean(worktree)


async def test_what_there_was_no_time_to_remove_the_next_session_of_the_same_process_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of a session that is closed stayed with the process, and so did its worktrees."""
    repository = committed(tmp_path / "repo")
    settings = tertulia.Settings(model=ScriptedModel([]), cwd=str(repository.top), close_timeout_s=0.01)
    folder = WorktreeFolder(Path(os.environ["TERTULIA_HOME"]))

    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        async with tertulia.Session.start(settings) as session:
            left = await session.open(workspace="worktree")
            patch.setattr(WorktreeLife, "remove", forever)
    assert folder.find(left.id) is not None
    async with tertulia.Session.start(replace(settings, close_timeout_s=HANG_S)) as session:
        await session.open(workspace="worktree")
        assert folder.find(left.id) is None
    assert list(folder.top.iterdir()) == []


async def test_hooks_that_a_configuration_names_are_off(tmp_path: Path) -> None:
    """As git 2.54 and later know them: `core.hooksPath` has no say there."""
    repository = committed(tmp_path / "repo")
    for key, value in (("event", "reference-transaction"), ("command", f"touch {tmp_path}/ran"), ("enabled", "true")):
        repository.git("config", f"hook.An evil.one.{key}", value)
    git = await Git.find(repository.top, variables(tmp_path / "home"))
    assert await git.run("config", "hook.An evil.one.enabled") == b"false\n"
    worktree = (await life(tmp_path).make(SESSION, ID, str(repository.top), None)).worktree
    await life(tmp_path).remove(worktree)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("policy", ["full", "none", "headers_only"])
async def test_the_commit_of_a_merge_has_the_title_only_where_all_may_be_kept(tmp_path: Path, policy: str) -> None:
    need("bubblewrap")
    repository = committed(tmp_path / "repo")
    settings = tertulia.Settings(model=ScriptedModel(["Done."]), cwd=str(repository.top), approval_policy="never")
    async with tertulia.Session.start(settings) as session:
        child = await session.open(workspace="worktree", title="Private words", storage_policy=policy)
        assert child.details.worktree is not None
        Path(child.details.worktree.path, "made").write_text("made\n")
        assert (await child.merge(mode="commit")).commit is not None
    assert ("Private words" in repository.git("log", "--all", "--format=%B")) == (policy == "full")


async def test_a_file_that_becomes_a_directory_while_it_is_looked_at_is_not_given_to_git_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = committed(tmp_path / "repo")
    worktree = (await life(tmp_path).make(SESSION, ID, str(repository.top), None)).worktree
    place = Path(worktree.path, "key")
    place.write_text("untracked\n")
    run = Git.run

    async def exchanged(git: Git, *words: str, **more: Any) -> bytes:
        if words[0] == "check-attr" and place.is_file():
            place.unlink()
            place.mkdir()
        return await run(git, *words, **more)

    monkeypatch.setattr(Git, "run", exchanged)
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert [str(left) for left in state.left_out] == ["key (it is a directory)"]


_UNREADABLE = """
import asyncio, os, sys
from pathlib import Path
from tests.session.worktrees.test_hostile_worktrees import ID, SESSION, life
from tests.session.worktrees.repository import committed, variables
from tertulia.session.worktrees.worktree import Worktree, snapshot

async def main(place):
    repository = committed(place / "repo")
    alive = life(place)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    top = Path(worktree.path)
    (top / ".gitignore").write_text("ignored\\n")
    for name in ("made", "ignored"):
        (top / name).mkdir()
        (top / name / "file").write_text("work")
        (top / name).chmod(0)
    (top / "src").chmod(0)
    state = await snapshot(Worktree.of(worktree), variables(place / "home"))
    print([str(entry) for entry in state.left_out], await alive.is_clean(worktree))
    (top / "made").chmod(0o500)
    (top / "src").chmod(0o500)
    await snapshot(Worktree.of(worktree), variables(place / "home"))
    print(await alive.is_clean(worktree))
    await alive.remove(worktree)
    print(top.exists())

asyncio.run(main(Path(sys.argv[1])))
"""


def test_directories_that_cannot_be_read_are_named_keep_a_worktree_and_can_be_removed(tmp_path: Path) -> None:
    """Root reads all of them, so it gives that up first."""
    without = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if without and shutil.which("setpriv") is None:
        pytest.skip("root reads everything, and there is no setpriv to give that up")
    ended = subprocess.run(
        [*without, sys.executable, "-c", _UNREADABLE, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stdout.splitlines() == [
        "['made/ (not readable)', 'src/ (not readable)', 'src/b.txt (not readable)'] False",
        "True",
        "False",
    ], ended.stderr


async def test_a_name_that_git_takes_in_no_commit_is_named(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.write("q/.GIT/config", "[core]\n")
    repository.write("q/plain", "plain\n")
    tree = await RepositoryTree.find(repository.top, variables(tmp_path / "home"))
    written = await write_state(tree, tmp_path / "index", [], "State\n")
    assert [str(entry) for entry in written.left_out] == ["q/.GIT/config (git takes no such name)"]
    assert "q/plain" in repository.tree(written.commit)


async def test_a_worktree_that_is_gone_after_a_task_is_named(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    model = ScriptedModel([say("Done.", gate=(gate := asyncio.Event()))])
    settings = tertulia.Settings(model=model, cwd=str(repository.top))
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        child = await session.open(workspace="worktree")
        assert child.details.worktree is not None
        answer = asyncio.create_task(child.message("Go."))
        await events.until("task_started")
        shutil.rmtree(child.details.worktree.path)
        gate.set()
        assert (await answer).worktree is None
    found = [event.data for event in events.seen if event.type == "warning"]
    assert [(data.code, child.details.worktree.path in data.message) for data in found] == [
        ("worktree_not_committed", True)
    ]


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_the_workspace_can_be_read_where_it_lies_below_a_private_directory(tier: Any) -> None:
    """Each command has a /tmp of its own: the workspace of the caller is seen there all the same."""
    need(tier)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        repository = committed(Path(folder, "repo"))
        repository.write("ignored", "of the caller\n")
        repository.write(".git/info/exclude", "ignored\n")
        script = f"cat {repository.top}/ignored; echo bad > {repository.top}/ignored; ls {folder}"
        model = ScriptedModel([say("", call("shell", {"command": ["sh", "-c", script]})), "Done."])
        settings = tertulia.Settings(model=model, cwd=str(repository.top), sandbox_tier=tier, approval_policy="never")
        async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
            child = await session.open(workspace="worktree")
            await child.message("Read.")
        output = next(event.data.output for event in events.seen if event.type == "tool_call_end")
        assert "of the caller" in output
        assert (repository.top / "ignored").read_text() == "of the caller\n"
