"""Merging a worktree into the caller's files, with real git and a real sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import (
    ApprovalDeniedError,
    BusyError,
    InvalidParamsError,
    MergeConflictError,
    NoApproverError,
    NotFoundError,
    SandboxError,
    TertuliaError,
)
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.session.merging import merge
from tests.session.merging.sides import LINES, Stage, stage
from tests.tools.workbench import allow, deny


async def refused(made: Stage, mode: str = "apply", **more: object) -> TertuliaError:
    """The error of a merge that leaves everything as it was."""
    before = made.state()
    with pytest.raises(TertuliaError) as caught:
        await made.merge(mode, **more)  # type: ignore[arg-type]
    assert made.state() == before
    return caught.value


async def test_every_kind_of_change_comes_over_and_index_and_head_stay(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("text", LINES.replace("line 18\n", "theirs\n"))
        made.write("picture", b"\0\7")
        (made.child / "old").rename(made.child / "renamed")
        made.write("deep/run", "#!/bin/sh\n").chmod(0o755)
        (made.child / "deep" / "link").symlink_to("../text")
        made.ours.write("text", LINES.replace("line 1\n", "ours\n"))
        made.ours.write("mine", "mine\n")
        before = made.state()
        outcome = await made.merge()
        top, after = made.ours.top, made.state()
        assert (top / "text").read_text() == LINES.replace("line 18\n", "theirs\n").replace("line 1\n", "ours\n")
        assert (top / "picture").read_bytes() == b"\0\7"
        assert (top / "renamed").read_text() == "old\n" * 5
        assert not (top / "old").exists()
        assert (top / "deep" / "run").stat().st_mode & 0o100
        assert os.readlink(top / "deep" / "link") == "../text"
        assert (top / "mine").read_text() == "mine\n"
        assert after["index"] == before["index"]
        assert made.ours.git("rev-parse", "HEAD") == made.ours.git("rev-parse", "main")
        listed = {(file.path, file.status, file.added, file.removed) for file in outcome.files}
        assert ("text", "modified", 1, 1) in listed
        assert ("picture", "modified", None, None) in listed
        assert ("renamed", "renamed", 0, 0) in listed
        assert outcome.commit is None
        assert not made.bench.asked, "on-request does not ask about what stays in the sandbox"
        assert made.bench.kinds() == ["patch_apply_begin", "patch_apply_end"]
        begin = made.bench.events[0]
        changes = {change.get("move_to", change["path"]): change for change in begin.changes}
        assert changes["text"] == {"kind": "update", "path": "text", "added": 1, "removed": 1}
        assert changes["picture"] == {"kind": "update", "path": "picture"}, "of a binary file no lines are counted"
        assert "+theirs" in begin.diff or "diff --git" in begin.diff


async def test_a_second_merge_brings_only_what_is_new(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("text", LINES.replace("line 5\n", "theirs\n"))
        await made.merge()
        # The caller goes on with the very line that was merged: counted from the start, this would be a conflict.
        made.ours.write("text", LINES.replace("line 5\n", "ours by now\n"))
        made.write("new", "new\n")
        second = await made.merge()
        assert [file.path for file in second.files] == ["new"]
        assert "ours by now" in (made.ours.top / "text").read_text()
        before = made.state()
        assert (await made.merge()).files == ()
        assert made.state() == before


async def test_nothing_to_merge_is_a_success_that_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.write("mine", "mine\n")
        before = made.state()
        assert (await made.merge()).files == ()
        assert made.state() == before
        assert made.bench.kinds() == []


async def test_a_caller_with_uncommitted_changes_keeps_them_out_of_the_merge(tmp_path: Path) -> None:
    """The worktree began with them: they are the base, and no difference."""
    async with stage(tmp_path) as made:
        made.ours.git("worktree", "remove", "--force", str(made.child))
        made.ours.git("branch", "-q", "-D", "tertulia/ab12")
        made.ours.write("text", LINES + "not committed\n")
        made.ours.write("untracked", "untracked\n")
        await made.begin()
        assert (made.child / "untracked").read_text() == "untracked\n"
        made.write("text", "theirs\n" + LINES + "not committed\n")
        outcome = await made.merge()
        assert [(file.path, file.added, file.removed) for file in outcome.files] == [("text", 1, 0)]
        assert (made.ours.top / "text").read_text().startswith("theirs\nline 0\n")


async def test_a_conflict_changes_nothing_and_names_its_paths(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("text", LINES.replace("line 5\n", "theirs\n"))
        made.write("new", "fine by itself\n")
        made.ours.write("text", LINES.replace("line 5\n", "ours\n"))
        error = await refused(made)
        assert isinstance(error, MergeConflictError)
        assert error.detail["conflicts"] == ["content: text"]


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (".vscode/settings.json", "{}", "'.vscode'"),
        ("sub/.tertulia/config.toml", "x", "'.tertulia'"),
        (".mcp.json", "{}", "'.mcp.json'"),
        ("odd\nname", "x", "control character"),
        (os.fsdecode(b"odd\xff"), "x", "not UTF-8"),
    ],
)
async def test_a_path_that_a_patch_may_not_change_stops_all_of_it(
    tmp_path: Path, path: str, content: str, expected: str
) -> None:
    async with stage(tmp_path) as made:
        made.write("new", "fine by itself\n")
        made.write(path, content)
        error = await refused(made)
        assert isinstance(error, InvalidParamsError)
        assert expected in error.message


async def test_a_masked_path_stops_all_of_it(tmp_path: Path) -> None:
    masked = os.path.realpath(tmp_path / "workspace" / "secrets")
    async with stage(tmp_path, masked=(masked,)) as made:
        made.write("secrets/key", "x")
        error = await refused(made)
        assert "is not shown" in error.message


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "sub/../../../outside", "../up/x", ""])
async def test_a_link_that_leads_out_stops_all_of_it(tmp_path: Path, target: str) -> None:
    async with stage(tmp_path) as made:
        if not target:
            # Through a link of the user's own.
            (made.ours.top / "away").symlink_to(tmp_path)
            target = "../away/x"
        made.write("new", "fine by itself\n")
        if target == "../up/x":
            (made.child / "up").symlink_to(".")
            target = "../up/../.."
        (made.child / "dir").mkdir()
        (made.child / "dir" / "link").symlink_to(target)
        error = await refused(made)
        assert isinstance(error, InvalidParamsError)
        assert "symbolic link" in error.message


async def test_a_caller_that_may_only_read_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("new", "x")
        made.bench.with_rights("on-request", sandbox="read_only")
        assert isinstance(await refused(made), SandboxError)


async def test_a_path_outside_of_the_writable_roots_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("new", "x")
        made.bench.with_rights("on-request", writable_roots=(str(made.ours.top / "sub"),))
        error = await refused(made)
        assert isinstance(error, SandboxError)
        assert "outside" in error.message


async def test_a_caller_that_may_write_a_part_of_the_repository_merges_that_part(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("sub/new", "x")
        (made.ours.top / "sub").mkdir()
        made.bench.with_rights("on-request", writable_roots=(str(made.ours.top / "sub"),))
        await made.merge()
        assert (made.ours.top / "sub" / "new").read_text() == "x"


async def test_without_a_sandbox_it_merges_as_well(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("new", "x")
        made.bench.with_rights("on-request", sandbox="danger_full_access")
        await made.merge("commit")
        assert (made.ours.top / "new").read_text() == "x"


async def test_an_ignored_file_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.write(".git/info/exclude", "secret\n")
        made.ours.write("secret", "mine\n")
        made.write("secret", "theirs\n")
        made.ours.git("add", "-f", "secret", at=made.child)
        error = await refused(made)
        assert error.detail["conflicts"] == ["ignored file in the way: secret"]


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
async def test_a_change_that_git_was_told_not_to_see_is_not_undone(tmp_path: Path, flag: str) -> None:
    async with stage(tmp_path) as made:
        made.ours.git("update-index", flag, "text")
        made.ours.write("text", LINES + "mine, and unseen\n")
        made.write("text", LINES.replace("line 1\n", "theirs\n"))
        error = await refused(made)
        assert error.detail["conflicts"] == ["changed: text"]


async def test_names_that_need_quotes_and_old_links_are_merged(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.git("worktree", "remove", "--force", str(made.child))
        made.ours.git("branch", "-q", "-D", "tertulia/ab12")
        for name in ('"quoted\\', "plain ü", "-dash"):
            made.ours.write(name, "old\n")
        (made.ours.top / "link").symlink_to("text")
        await made.begin()
        for name in ('"quoted\\', "plain ü", "-dash"):
            made.write(name, "new\n")
        (made.child / "link").unlink()
        (made.child / "link").symlink_to("old")
        assert len((await made.merge()).files) == 4
        assert (made.ours.top / '"quoted\\').read_text() == "new\n"
        assert os.readlink(made.ours.top / "link") == "old"


async def test_a_file_that_becomes_a_directory_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        (made.child / "old").unlink()
        made.write("old/inside", "x")
        error = await refused(made)
        assert isinstance(error, InvalidParamsError)
        assert "'old' is a file on one side" in error.message


async def test_a_directory_in_the_place_of_a_new_file_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("text", "new\n")
        made.write("there", "x")
        (made.ours.top / "there").mkdir()
        error = await refused(made)
        assert "there: it is a directory" in error.message


async def test_filters_are_named_and_left_out(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.git("config", "filter.lfs.clean", f"touch {tmp_path}/started; cat")
        made.ours.git("config", "filter.lfs.smudge", f"touch {tmp_path}/started; cat")
        made.write(".gitattributes", "*.bin filter=lfs\n")
        made.write("big.bin", "a pointer")
        made.write("new", "x")
        outcome = await made.merge()
        assert {file.path for file in outcome.files} == {".gitattributes", "new"}
        assert [left.path for left in outcome.left_out] == ["big.bin"]
        assert not (made.ours.top / "big.bin").exists()
        assert not (tmp_path / "started").exists()


async def test_nothing_that_a_repository_names_is_started(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        started = f"touch {tmp_path}/started; true"
        for key in ("merge.evil.driver", "filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "gpg.program"):
            made.ours.git("config", key, started)
        made.ours.git("config", "commit.gpgsign", "true")
        for name in ("pre-commit", "post-commit", "reference-transaction", "post-index-change", "prepare-commit-msg"):
            made.ours.write(f".git/hooks/{name}", f"#!/bin/sh\n{started}\n").chmod(0o755)
        made.write(".gitattributes", "text merge=evil\n* diff=evil\n")
        made.write("text", LINES.replace("line 18\n", "theirs\n"))
        assert (await made.merge("commit")).commit is not None
        assert not (tmp_path / "started").exists()


async def test_a_repository_with_longer_ids_is_merged_as_well(tmp_path: Path) -> None:
    async with stage(tmp_path, allow) as made:
        made.bench.with_rights("untrusted")
        shutil.rmtree(made.ours.top / ".git")
        shutil.rmtree(made.child)
        made.ours.git("init", "-q", "-b", "main", "--object-format=sha256")
        made.ours.commit("first")
        await made.begin()
        (made.child / "old").unlink()
        made.write("größe", "x\n")
        assert len((await made.merge("commit")).commit or "") == 64
        assert made.ours.git("status", "--porcelain") == ""
        assert "+++ b/größe" in made.bench.asked[0].detail


async def test_two_children_are_merged_one_after_the_other(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("text", LINES.replace("line 1\n", "first child\n"))
        await made.merge()
        first = made.worktree
        made.child = made.child.with_name("cd34")
        made.ours.git("worktree", "add", "-q", "-b", "tertulia/cd34", str(made.child), "main")
        assert first is not None
        made.worktree = replace(first, path=made.child, branch="tertulia/cd34", conversation_id=ConversationId("two"))
        made.write("text", LINES.replace("line 18\n", "second child\n"))
        await made.merge()
        text = (made.ours.top / "text").read_text()
        assert "first child\n" in text
        assert "second child\n" in text


async def test_line_ends_are_as_the_attributes_say(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write(".gitattributes", "*.bat text eol=crlf\n")
        made.write("run.bat", b"one\r\ntwo\r\n")
        await made.merge()
        assert (made.ours.top / "run.bat").read_bytes() == b"one\r\ntwo\r\n"


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_untrusted_asks_and_shows_the_whole_difference(tmp_path: Path) -> None:
    async with stage(tmp_path, allow) as made:
        made.bench.with_rights("untrusted")
        made.write("text", LINES.replace("line 18\n", "theirs\n"))
        await made.merge()
        (question,) = made.bench.asked
        assert (question.kind, question.files[0].path, question.files[0].added) == ("patch", "text", 1)
        assert "│ -line 18\n│ +theirs\n" in question.detail
        assert "tertulia/ab12" in question.title
        assert made.bench.kinds() == ["patch_apply_begin", "approval_request", "approval_resolved", "patch_apply_end"]


async def test_a_no_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path, deny) as made:
        made.bench.with_rights("untrusted")
        made.write("new", "x")
        error = await refused(made)
        assert isinstance(error, ApprovalDeniedError)
        assert "not today" in error.message


async def test_where_no_approver_may_be_asked_it_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.bench.with_rights({"auto_run": "trusted", "may_ask": False, "retry_outside_on_failure": False})
        made.write("new", "x")
        assert isinstance(await refused(made), NoApproverError)


def _ours(made: Stage) -> None:
    made.ours.write("text", LINES.replace("line 1\n", "just now\n"))


def _theirs(made: Stage) -> None:
    made.write("another", "just now\n")


def _branch(made: Stage) -> None:
    made.ours.git("commit", "-q", "--allow-empty", "-m", "just now")


@pytest.mark.parametrize(("act", "mode"), [(_ours, "apply"), (_theirs, "apply"), (_branch, "commit")])
async def test_what_changes_after_the_question_is_not_written(
    tmp_path: Path, act: Callable[[Stage], None], mode: str
) -> None:
    stages: list[Stage] = []
    after: list[dict[str, object]] = []

    def answer(request: ApprovalRequest) -> dict[str, str]:
        act(stages[0])
        after.append(stages[0].state())
        return {"decision": "allow"}

    async with stage(tmp_path, answer) as made:
        stages.append(made)
        made.bench.with_rights("untrusted")
        made.write("text", LINES.replace("line 18\n", "theirs\n"))
        with pytest.raises(MergeConflictError, match="since it was asked about"):
            await made.merge(mode)  # type: ignore[arg-type]
        assert made.state() == after[0]


async def test_a_change_elsewhere_after_the_question_does_not_matter(tmp_path: Path) -> None:
    stages: list[Stage] = []

    def answer(request: ApprovalRequest) -> dict[str, str]:
        stages[0].ours.write("elsewhere", "just now\n")
        return {"decision": "allow"}

    async with stage(tmp_path, answer) as made:
        stages.append(made)
        made.bench.with_rights("untrusted")
        made.write("text", "theirs\n")
        await made.merge()
        assert (made.ours.top / "text").read_text() == "theirs\n"
        assert (made.ours.top / "elsewhere").read_text() == "just now\n"


async def test_a_child_that_works_is_refused(tmp_path: Path) -> None:
    def busy() -> None:
        raise BusyError("it works")

    async with stage(tmp_path) as made:
        made.write("new", "x")
        assert isinstance(await refused(made, check_idle=busy), BusyError)


# ── a child that is closed ───────────────────────────────────────────────────────────────────────────────────


async def test_the_kept_branch_of_a_closed_child_is_merged(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.write("new", "x")
        made.ours.git("add", "-A", at=made.child)
        made.ours.git("commit", "-q", "-m", "work", at=made.child)
        made.ours.git("worktree", "remove", "--force", str(made.child))
        assert [file.path for file in (await made.merge()).files] == ["new"]


async def test_a_branch_that_is_gone_is_not_found(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.git("worktree", "remove", "--force", str(made.child))
        made.ours.git("branch", "-q", "-D", "tertulia/ab12")
        assert isinstance(await refused(made), NotFoundError)


# ── commits ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_commit_has_the_merged_paths_and_nothing_else(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.write("staged", "staged\n")
        made.ours.git("add", "staged")
        made.ours.write("untracked", "untracked\n")
        made.ours.write("old", "not committed\n")
        head = made.ours.git("rev-parse", "HEAD")
        made.write("text", LINES.replace("line 18\n", "theirs\n"))
        made.write("new", "x")
        (made.child / "picture").unlink()
        outcome = await made.merge("commit")
        assert outcome.onto == "main"
        assert made.ours.git("rev-parse", "main", "HEAD").split() == [outcome.commit] * 2
        assert made.ours.git("rev-parse", "HEAD^") == head
        assert made.ours.git("diff", "--name-status", "HEAD^", "HEAD").split("\n") == [
            "A\tnew",
            "D\tpicture",
            "M\ttext",
        ]
        assert made.ours.git("status", "--porcelain").split("\n") == [" M old", "A  staged", "?? untracked"]
        assert made.ours.git("log", "-1", "--format=%s") == "Merge tertulia/ab12: a title"
        assert (made.ours.top / "text").read_text() == LINES.replace("line 18\n", "theirs\n")


def _stage_change(made: Stage) -> None:
    made.ours.write("text", "staged\n" + LINES)
    made.ours.git("add", "text")


def _leave_change(made: Stage) -> None:
    made.ours.write("text", "changed\n" + LINES)


def _stage_then_undo(made: Stage) -> None:
    _stage_change(made)
    made.ours.write("text", LINES)


@pytest.mark.parametrize(
    ("act", "expected"),
    [(_stage_change, "staged: text"), (_leave_change, "not committed: text"), (_stage_then_undo, "staged: text")],
)
async def test_a_commit_never_takes_along_what_the_user_has_not_committed(
    tmp_path: Path, act: Callable[[Stage], None], expected: str
) -> None:
    async with stage(tmp_path) as made:
        made.write("text", LINES + "theirs\n")
        made.write("new", "x")
        act(made)
        error = await refused(made, "commit")
        assert error.detail["conflicts"] == [expected]
        assert 'mode "apply"' in error.message


async def test_a_detached_head_takes_no_commit(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.git("checkout", "-q", "--detach")
        made.write("new", "x")
        error = await refused(made, "commit")
        assert isinstance(error, InvalidParamsError)
        assert "detached" in error.message
        assert (await made.merge()).files


async def test_a_merge_of_the_users_own_that_is_under_way_takes_no_commit(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        made.ours.write(".git/MERGE_HEAD", made.ours.git("rev-parse", "HEAD") + "\n")
        made.write("new", "x")
        assert "a merge is under way" in (await refused(made, "commit")).message


@pytest.mark.parametrize("lock", ["index.lock", "refs/heads/main.lock"])
async def test_a_commit_that_cannot_be_made_takes_the_files_back(tmp_path: Path, lock: str) -> None:
    async with stage(tmp_path) as made:
        made.write("text", LINES.replace("line 18\n", "theirs\n"))
        made.write("deep/new", "x")
        (made.child / "picture").unlink()
        (made.child / "old").chmod(0o755)
        made.ours.write(f".git/{lock}", "")
        before = made.state()
        with pytest.raises(TertuliaError, match="lock"):
            await made.merge("commit")
        after = made.state()
        assert _without_times(after) == _without_times(before)
        assert made.ours.git("status", "--porcelain") == ""


def _without_times(state: dict[str, object]) -> dict[str, object]:
    files: dict[str, tuple[object, ...]] = state["files"]  # type: ignore[assignment]
    shapes = {name: (mode, content) for name, (mode, _, content) in files.items()}
    return {"files": shapes, "refs": state["refs"], "config": state["config"]}


async def test_cancelled_between_files_and_commit_all_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(tree: object, prepared: object) -> None:
        raise asyncio.CancelledError

    async with stage(tmp_path) as made:
        made.write("text", LINES.replace("line 18\n", "theirs\n"))
        monkeypatch.setattr(merge, "add_to_branch", stop)
        with pytest.raises(asyncio.CancelledError):
            await made.merge("commit")
        assert made.ours.git("status", "--porcelain") == ""
        assert (made.ours.top / "text").read_text() == LINES
        assert made.bench.kinds() == ["patch_apply_begin", "patch_apply_end"]


async def test_a_worktree_inside_a_worktree_is_committed_on_its_branch(tmp_path: Path) -> None:
    """The caller is a worktree conversation itself."""
    async with stage(tmp_path) as made:
        top = made.ours.top
        made.ours.git("worktree", "add", "-q", "-b", "tertulia/outer", str(top / "outer"))
        made.ours.top = top / "outer"
        shutil.rmtree(made.child)
        made.ours.git("worktree", "prune")
        made.ours.git("branch", "-q", "-D", "tertulia/ab12")
        await made.begin()
        made.write("new", "x")
        outcome = await made.merge("commit")
        assert outcome.onto == "tertulia/outer"
        assert (top / "outer" / "new").read_text() == "x"
        assert made.ours.git("rev-parse", "tertulia/outer") == outcome.commit
        assert not (top / "new").exists()
