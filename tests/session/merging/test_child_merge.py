"""`conv_merge`, `conversation/merge` and `Conversation.merge` in a session, with real git and a real sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import (
    BusyError,
    ClosedError,
    InvalidParamsError,
    MergeConflictError,
    NoApproverError,
    NotFoundError,
    SandboxError,
    TertuliaError,
)
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.testing import ScriptedModel, ScriptedReply, ScriptedRequest, call, say
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.session.merging.sides import open_with_worktree
from tests.session.staging import ticks
from tests.session.worktrees.repository import Repository, committed

FIVE = ["conv_create", "conv_send", "conv_list", "conv_history", "conv_destroy"]


@asynccontextmanager
async def merging(
    tmp_path: Path, model: object = None, **settings: Any
) -> AsyncIterator[tuple[Repository, tertulia.Session]]:
    """A session in a repository with a commit."""
    need("bubblewrap")
    repository = committed(tmp_path / "workspace")
    made = tertulia.Settings(model=model or ScriptedModel(["Done."], repeat=True), cwd=str(repository.top), **settings)
    async with tertulia.Session.start(made) as session:
        yield repository, session


def worktree_of(session: tertulia.Session, child: tertulia.Conversation) -> Path:
    own = session.parts.conversations.find(child.id).terms.worktree
    assert own is not None
    return Path(own.path)


def conv_names(conversation: tertulia.Conversation) -> list[str]:
    return [tool.name for tool in conversation.tools() if tool.source == "conv"]


@tertulia.tool
def own_tool() -> str:
    """A function of the program."""
    return "ok"


async def test_the_tool_is_the_last_of_all_and_only_where_such_a_child_is(tmp_path: Path) -> None:
    async with merging(tmp_path, tools=[own_tool]) as (_, session):
        before = [tool.name for tool in session.root.tools()]
        assert conv_names(session.root) == FIVE
        await session.open()
        assert [tool.name for tool in session.root.tools()] == before
        child = await open_with_worktree(session)
        assert [tool.name for tool in session.root.tools()] == [*before, "conv_merge"]
        assert conv_names(child) == FIVE
        silent = await session.root.set_context(include_conv_tools=False)
        assert "conv_merge" not in [tool.name for tool in session.root.tools()], silent


async def test_a_call_where_there_is_no_such_child_is_refused_as_any_unknown_tool(tmp_path: Path) -> None:
    model = ScriptedModel([say("", call("conv_merge", {"conversation_id": "x"})), lambda request: request.last_input])
    async with merging(tmp_path, model) as (_, session):
        reply = await session.root.message("Merge.")
        assert '"code":"not_found"' in reply.text


async def test_a_model_merges_what_its_child_has_done(tmp_path: Path) -> None:
    child: list[tertulia.Conversation] = []
    seen: list[str] = []

    def answer(request: ScriptedRequest) -> ScriptedReply:
        if request.last_input == "Merge.":
            seen.append(request.tools[-1])
            return say("", call("conv_merge", {"conversation_id": child[0].id, "mode": "commit"}))
        return say(request.last_input)

    async with merging(tmp_path, ScriptedModel([answer], repeat=True)) as (repository, session):
        child.append(await open_with_worktree(session, title="writer"))
        (worktree_of(session, child[0]) / "new.txt").write_text("new\n")
        events = session.events()
        reply = await session.root.message("Merge.")
        result = msgspec.json.decode(reply.text)
        head = repository.git("rev-parse", "HEAD")
        assert result == {
            "ok": True,
            "merged": True,
            "mode": "commit",
            "branch": f"tertulia/{child[0].id[:8]}",
            "merged_commit": result["merged_commit"],
            "left_out": [],
            "commit": head,
            "onto": "main",
            "files": [{"path": "new.txt", "status": "added", "added": 1, "removed": 0}],
        }
        assert repository.git("log", "-1", "--format=%s") == f"Merge tertulia/{child[0].id[:8]}: writer"
        assert repository.git("status", "--porcelain") == ""
        assert seen == ["conv_merge"]
        await session.close()
        kinds = [event.type async for event in events]
        begin, end = kinds.index("patch_apply_begin"), kinds.index("patch_apply_end")
        assert kinds.index("tool_call_begin") < begin < end < kinds.index("tool_call_end")


async def test_a_model_opens_a_child_lets_it_work_and_merges_it(tmp_path: Path) -> None:
    """The whole of it, by models alone: the tool is there as soon as the child has answered."""
    offered: list[bool] = []

    def answer(request: ScriptedRequest) -> ScriptedReply:
        offered.append("conv_merge" in request.tools)
        if request.last_input == "Go.":
            return say("", call("conv_create", {"user_instruction": "Write.", "workspace": "worktree"}))
        if request.last_input == "Write.":
            return say("", call("shell", {"command": ["sh", "-c", "mkdir src/deep; echo new > src/deep/new"]}))
        if '"last_assistant_message":"Written."' in request.last_input:
            return say("", call("conv_merge", {"conversation_id": json.loads(request.last_input)["conversation_id"]}))
        return say(request.last_input if request.last_input.startswith('{"ok"') else "Written.")

    async with merging(tmp_path, ScriptedModel([answer], repeat=True)) as (repository, session):
        repository.write("a.txt", "not committed\n")
        reply = await session.root.message("Go.")
        assert json.loads(reply.text)["files"] == [
            {"path": "src/deep/new", "status": "added", "added": 1, "removed": 0}
        ]
        assert repository.git("status", "--porcelain", "-uall").split("\n") == [" M a.txt", "?? src/deep/new"]
        assert offered == [False, False, False, True, True]


async def test_the_caller_of_a_child_that_has_a_child_is_a_worktree_too(tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, session):
        outer = await open_with_worktree(session)
        inner = await open_with_worktree(session, parent_id=outer.id)
        (worktree_of(session, inner) / "new.txt").write_text("new\n")
        answer = await inner.merge(mode="commit")
        assert answer.onto == f"tertulia/{outer.id[:8]}"
        assert (worktree_of(session, outer) / "new.txt").read_text() == "new\n"
        assert not (repository.top / "new.txt").exists()
        assert [file.path for file in (await outer.merge()).files] == ["new.txt"]
        assert (repository.top / "new.txt").read_text() == "new\n"


async def test_a_conflict_is_an_answer_that_lists_its_paths(tmp_path: Path) -> None:
    child: list[tertulia.Conversation] = []

    def answer(request: ScriptedRequest) -> ScriptedReply:
        if request.last_input == "Merge.":
            return say("", call("conv.merge", {"conversation_id": child[0].id}))
        return say(request.last_input)

    async with merging(tmp_path, ScriptedModel([answer], repeat=True)) as (repository, session):
        child.append(await open_with_worktree(session))
        (worktree_of(session, child[0]) / "a.txt").write_text("theirs\n")
        repository.write("a.txt", "ours\n")
        result = msgspec.json.decode((await session.root.message("Merge.")).text)
        assert (result["ok"], result["code"]) == (False, "merge_conflict")
        assert result["conflicts"] == ["content: a.txt"]
        assert (repository.top / "a.txt").read_text() == "ours\n"


@pytest.mark.parametrize("mode", ["", "squash", "Apply", None, 1])
async def test_a_mode_that_there_is_not_is_refused_and_merges_nothing(mode: Any, tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, session):
        child = await open_with_worktree(session)
        (worktree_of(session, child) / "new.txt").write_text("new\n")
        with pytest.raises(InvalidParamsError, match="mode: expected"):
            await child.merge(mode=mode)
        assert not (repository.top / "new.txt").exists()


@pytest.mark.parametrize("mode", ["apply", "commit"])
async def test_children_that_are_merged_at_once_are_merged_one_after_the_other(mode: Any, tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, session):
        repository.write("long.txt", "".join(f"{number}\n" for number in range(60)))
        repository.git("add", "-A")
        repository.git("commit", "-q", "-m", "long")
        children = [await open_with_worktree(session) for _ in range(3)]
        for number, child in zip((5, 30, 55), children, strict=True):
            file = worktree_of(session, child) / "long.txt"
            file.write_text(file.read_text().replace(f"\n{number}\n", f"\n{number} changed\n"))
        async with asyncio.timeout(HANG_S):
            assert all(await asyncio.gather(*(child.merge(mode=mode) for child in children)))
        merged = (repository.top / "long.txt").read_text().splitlines()
        assert [line for line in merged if "changed" in line] == ["5 changed", "30 changed", "55 changed"]


async def test_two_sessions_that_merge_into_one_workspace_wait_for_each_other(tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, one), tertulia.Session.start(one.settings) as other:
        children = [await open_with_worktree(session) for session in (one, other, one, other)]
        for number, (child, session) in enumerate(zip(children, (one, other, one, other), strict=True)):
            (worktree_of(session, child) / f"new{number}").write_text("new\n")
        async with asyncio.timeout(HANG_S):
            answers = await asyncio.gather(*(child.merge(mode="commit") for child in children))
        assert all(answers)
        assert repository.git("status", "--porcelain") == ""
        assert {f"new{number}" for number in range(4)} <= set(repository.tree("HEAD"))


@pytest.mark.parametrize("pause", range(6))
async def test_a_child_that_is_closed_while_it_is_merged_is_merged(pause: int, tmp_path: Path) -> None:
    """Its worktree is taken away meanwhile, at one moment or another; its branch is there."""
    async with merging(tmp_path) as (repository, session):
        child = await open_with_worktree(session)
        path = worktree_of(session, child)
        (path / "new.txt").write_text("new\n")
        await child.message("Commit what is there.")
        merge = asyncio.create_task(child.merge())
        for _ in range(pause * 20):
            await asyncio.sleep(0)
        async with asyncio.timeout(HANG_S):
            await child.close()
            assert [file.path for file in (await merge).files] == ["new.txt"]
        assert (repository.top / "new.txt").read_text() == "new\n"
        assert not path.exists()
        left = [entry.name for entry in path.parent.iterdir() if entry.suffix != ".lock"]
        assert left == []


@pytest.mark.parametrize("how", ["the session is closed", "the caller gives up"])
@pytest.mark.parametrize("mode", ["apply", "commit"])
async def test_a_merge_that_is_stopped_while_it_writes_is_taken_back(how: str, mode: Any, tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, session):
        child = await open_with_worktree(session)
        for number in range(100):
            (worktree_of(session, child) / f"new{number}").write_text("new\n")
        merge, journals = asyncio.create_task(child.merge(mode=mode)), session.parts.environment.merges
        async with asyncio.timeout(HANG_S):
            while not list(journals.glob("*.json")):
                await ticks(1)
            if how == "the session is closed":
                await session.close()
            else:
                merge.cancel()
            with pytest.raises((TertuliaError, asyncio.CancelledError)):
                await merge
        assert repository.git("status", "--porcelain") == ""
        assert not list(repository.top.glob(".tertulia-*"))
        assert not (repository.top / ".git" / "index.lock").exists()
        assert not journals.exists()


async def test_python_and_json_rpc_give_the_same_answer(tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, session):
        child = await open_with_worktree(session)
        (worktree_of(session, child) / "new.txt").write_text("new\n")
        answer = await child.merge()
        assert answer
        assert [(file.path, file.status) for file in answer.files] == [("new.txt", "added")]
        assert (repository.top / "new.txt").read_text() == "new\n"
        assert answer.commit is None
        async with asyncio.timeout(HANG_S):
            again = await operate(Host(session.settings), session, "conversation/merge", {"conversationId": child.id})
        assert msgspec.to_builtins(again.answer) == {
            "merged": False,
            "mode": "apply",
            "branch": answer.branch,
            "merged_commit": answer.merged_commit,
            "files": [],
            "left_out": [],
        }
        assert not again.answer


async def test_what_cannot_be_merged_is_refused_by_its_reason(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with merging(tmp_path, ScriptedModel([say("Done.", gate=gate)], repeat=True)) as (repository, session):
        before = repository.fingerprint()
        shared = await session.open()
        for conversation, mode, kind in (
            ("never", "apply", NotFoundError),
            (shared.id, "apply", InvalidParamsError),
            ("root", "apply", InvalidParamsError),
            (shared.id, "both", InvalidParamsError),
        ):
            params = {"conversation_id": conversation, "mode": mode}
            with pytest.raises(kind):
                await operate(Host(session.settings), session, "conversation/merge", params)
        assert repository.fingerprint() == before
        child = await open_with_worktree(session)
        (worktree_of(session, child) / "new.txt").write_text("new\n")
        events = session.events(conversation=child.id)
        working = asyncio.create_task(child.message("Go."))
        async with asyncio.timeout(HANG_S):
            async for event in events:
                if event.type == "task_started":
                    break
        with pytest.raises(BusyError, match="works in the worktree"):
            await child.merge()
        gate.set()
        await working
        assert (await child.merge()).merged


async def test_only_the_conversation_that_opened_it_merges_a_child(tmp_path: Path) -> None:
    async with merging(tmp_path) as (_, session):
        other = await session.open()
        child = await open_with_worktree(session)
        grandchild = await open_with_worktree(session)
        state = session.parts.conversations.find(grandchild.id)
        state.parent_id = other.id
        session.parts.conversations.root.worktree_children.pop(grandchild.id)
        session.parts.conversations.find(other.id).note_child(state)
        result = await other.call_conv_tool("conv_merge", msgspec.json.encode({"conversation_id": child.id}).decode())
        assert msgspec.json.decode(result.text)["code"] == "invalid_params"
        assert "was not opened by this conversation" in result.text


async def test_a_closed_child_is_merged_by_its_branch(tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, session):
        child = await open_with_worktree(session)
        path = worktree_of(session, child)
        (path / "new.txt").write_text("new\n")
        repository.git("add", "-A", at=path)
        repository.git("commit", "-q", "-m", "work", at=path)
        await child.close()
        if path.exists():
            repository.git("worktree", "remove", "--force", str(path))
        answer = await operate(Host(session.settings), session, "conversation/merge", {"conversation_id": child.id})
        assert [file.path for file in answer.answer.files] == ["new.txt"]
        closed = await session.open()
        await closed.close()
        with pytest.raises(ClosedError):
            await closed.merge()


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({"sandbox": "read-only"}, SandboxError), ({"approval_policy": "untrusted"}, NoApproverError)],
)
async def test_the_rights_of_the_caller_hold(
    tmp_path: Path, settings: dict[str, Any], kind: type[TertuliaError]
) -> None:
    async with merging(tmp_path, **settings) as (repository, session):
        child = await open_with_worktree(session)
        (worktree_of(session, child) / "new.txt").write_text("new\n")
        before = {**repository.fingerprint(), "refs": None}
        with pytest.raises(kind):
            await child.merge()
        assert {**repository.fingerprint(), "refs": None} == before


async def test_a_person_is_asked_and_answers(tmp_path: Path) -> None:
    async with merging(tmp_path, approval_policy="untrusted") as (_, session):
        child = await open_with_worktree(session)
        (worktree_of(session, child) / "new.txt").write_text("new\n")
        events = session.events(attend=True)
        waiting = asyncio.create_task(child.merge(mode="commit"))
        async with asyncio.timeout(HANG_S):
            async for event in events:
                if event.data.type == "approval_request":
                    break
        request = event.data
        assert isinstance(request, tertulia.ApprovalRequest)
        assert (request.kind, request.conversation_id) == ("patch", session.root.id)
        assert "committed on main, to 1 file in" in request.title
        assert "│ +new" in request.detail
        await session.approvals.resolve(request.approval_id, "allow")
        assert (await waiting).onto == "main"


async def test_a_conflict_is_typed_in_python(tmp_path: Path) -> None:
    async with merging(tmp_path) as (repository, session):
        child = await open_with_worktree(session)
        (worktree_of(session, child) / "a.txt").unlink()
        repository.write("a.txt", "ours\n")
        with pytest.raises(MergeConflictError) as caught:
            await child.merge()
        assert caught.value.detail["conflicts"] == ["modify/delete: a.txt"]
