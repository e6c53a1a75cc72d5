"""Conversations that have a worktree: opened from Python, by a model and over the wire; committed, closed, resumed."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import GitError, InvalidParamsError
from tertulia.session import operations
from tertulia.session.worktrees.lifecycle import WorktreeFolder
from tertulia.testing import RecordedEvents, ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.session.worktrees.repository import Repository, committed

WORK = "Work."


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = committed(tmp_path / "repo")
    repository.write("src/untracked", "untracked\n")
    return repository


def folder() -> WorktreeFolder:
    return WorktreeFolder(Path(os.environ["TERTULIA_HOME"]))


def ours() -> list[str]:
    return sorted(path.name for path in folder().top.glob("*"))


def shell(script: str) -> Any:
    return call("shell", {"command": ["sh", "-c", script]})


def settings(model: Any, repository: Repository, **others: Any) -> tertulia.Settings:
    fields = {"cwd": str(repository.top), "approval_policy": "never", **others}
    return tertulia.Settings(model=model, **fields)


def outputs(events: RecordedEvents) -> list[str]:
    return [event.data.output for event in events.seen if isinstance(event.data, tertulia.ToolCallEnd)]


def warnings(events: RecordedEvents) -> dict[str, str]:
    found = [event.data for event in events.seen if event.type == "warning"]
    return {data.code: data.message for data in found}


def branches(repository: Repository) -> list[str]:
    return [name for name in repository.refs() if name.startswith("refs/heads/tertulia/")]


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_a_model_opens_one_and_its_answer_has_branch_commit_and_diffstat(
    tmp_path: Path, repository: Repository, tier: Any
) -> None:
    """Issue 20, 8: only this conversation's commands see it, and the caller's workspace is not theirs to write."""
    need(tier)
    script = f"pwd; cat untracked; git status --short; git log --oneline | wc -l; echo x > {repository.top}/bad; "
    script += "echo made > made"
    model = ScriptedModel(
        [
            say("", call("conv_create", {"user_instruction": WORK, "workspace": "worktree"})),
            say("", shell(script)),
            "Child is done.",
            say("", shell(f"cat {folder().top}/*/src/made; echo end")),
            "Root is done.",
        ]
    )
    place = settings(model, repository, cwd=str(repository.top / "src"), sandbox_tier=tier)
    before = repository.fingerprint()
    async with tertulia.Session.start(place) as session, RecordedEvents(session) as events:
        assert (await session.root.message("Ask.")).text == "Root is done."
        child = session.conversations()[1]
        assert child.details.worktree is not None
        path, branch = child.details.worktree.path, child.details.worktree.branch
    of_child, answer, of_root = outputs(events)
    assert f"{path}/src\nuntracked\n2\n" in of_child
    payload = json.loads(answer)
    assert (payload["ok"], payload["last_assistant_message"]) == (True, "Child is done.")
    assert payload["worktree"]["branch"] == branch == f"tertulia/{child.id[:8]}"
    assert payload["worktree"]["commit"] == repository.git("rev-parse", branch)
    assert "src/made" in payload["worktree"]["diffstat"]
    assert "with its uncommitted changes on top" in payload["worktree"]["began"]
    assert "made\nend" not in of_root
    assert ours() == []
    after = repository.fingerprint()
    refs: Any = after["refs"]
    assert refs.pop(f"refs/heads/{branch}")
    assert after == before


async def test_two_work_side_by_side_without_disturbing_each_other(repository: Repository) -> None:
    need("bubblewrap")

    def answer(request: Any) -> Any:
        if request.last_input in ("one", "two"):
            return say("", shell(f"echo {request.last_input} > a.txt; cat a.txt"))
        return "Done."

    both = settings(ScriptedModel([answer], repeat=True), repository, slots=2)
    async with tertulia.Session.start(both) as session:
        names = ("one", "two")
        opened = [await session.open(title=name, workspace="worktree") for name in names]
        replies = await asyncio.gather(*(c.message(name) for c, name in zip(opened, names, strict=True)))
    for reply, name in zip(replies, names, strict=True):
        assert reply.worktree is not None
        assert repository.tree(reply.worktree.commit)["a.txt"] == f"100644 {name}"
    assert (repository.top / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_what_is_not_committed_keeps_a_worktree_and_names_it(repository: Repository) -> None:
    model = ScriptedModel(["Hello."], repeat=True)
    async with tertulia.Session.start(settings(model, repository)) as session, RecordedEvents(session) as events:
        dirty, clean, ignoring = [await session.open(workspace="worktree") for _ in range(3)]
        for conversation in (dirty, clean, ignoring):
            assert (await conversation.message("Hello")).status == "completed"
        places = [Path(c.details.worktree.path) for c in (dirty, clean, ignoring) if c.details.worktree is not None]
        (places[0] / "later").write_text("written by a person, after the task\n")
        (places[2] / ".git").read_text()
        repository.write(".git/info/exclude", "*.o\n")
        (places[2] / "built.o").write_text("ignored\n")
        assert (await dirty.close()).kept_worktree == str(places[0])
        assert (await clean.close()).kept_worktree is None
        assert (await ignoring.close()).kept_worktree is None
        await events.until("conversation_closed")
    assert [place.exists() for place in places] == [True, False, False]
    assert str(places[0]) in warnings(events)["worktree_kept"]
    # The one that stays has its branch, the others had no commit.
    assert len(branches(repository)) == 1


async def test_a_model_is_told_which_worktree_stays(repository: Repository) -> None:
    created: list[str] = []

    def destroy(request: Any) -> Any:
        created.append(json.loads(request.items[-1].text)["conversation_id"])
        (folder().path(created[0]) / "late").write_text("late\n")
        return say("", call("conv_destroy", {"conversation_id": created[0]}))

    model = ScriptedModel(
        [say("", call("conv_create", {"user_instruction": WORK, "workspace": "worktree"})), "Child.", destroy, "End."]
    )
    async with tertulia.Session.start(settings(model, repository)) as session, RecordedEvents(session) as events:
        await session.root.message("Go.")
    assert json.loads(outputs(events)[-1]) == {"ok": True, "kept_worktree": str(folder().path(created[0]))}


@pytest.mark.parametrize("place", ["none", "bare", "inside .git"])
async def test_without_a_repository_it_is_refused_and_nothing_is_left(tmp_path: Path, place: str) -> None:
    repository = committed(tmp_path / "repo")
    where = tmp_path / "empty"
    where.mkdir()
    if place == "bare":
        repository.git("clone", "-q", "--bare", str(repository.top), str(where))
    elif place == "inside .git":
        where = repository.top / ".git"
    model = ScriptedModel(
        [say("", call("conv_create", {"user_instruction": WORK, "workspace": "worktree"})), "Refused."], repeat=True
    )
    settings = tertulia.Settings(
        model=model, cwd=str(where), sandbox="read_only" if place == "inside .git" else "workspace_write"
    )
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        with pytest.raises(GitError):
            await session.open(workspace="worktree")
        await session.root.message("Go.")
        assert len(session.conversations()) == 1
    answer = json.loads(outputs(events)[0])
    assert answer["code"] == ("invalid_params" if place == "inside .git" else "git_error")
    assert branches(repository) == []


async def test_without_git_it_is_refused(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    async with tertulia.Session.start(settings(ScriptedModel([]), repository)) as session:
        with pytest.raises(GitError, match="no git on the PATH; install git, or use the shared workspace"):
            await session.open(workspace="worktree")
        assert len(session.conversations()) == 1
    assert ours() == []


async def test_what_cannot_be_opened_leaves_no_worktree(repository: Repository) -> None:
    async with tertulia.Session.start(settings(ScriptedModel([]), repository)) as session:
        with pytest.raises(InvalidParamsError, match="workspace"):
            await session.open(workspace="elsewhere")  # type: ignore[arg-type]
        with pytest.raises(InvalidParamsError):
            await session.open(workspace="worktree", model="nobody/none")
        with pytest.raises(InvalidParamsError, match="decided when it is opened"):
            await session.root.set_context(workspace="worktree")
        with pytest.raises(InvalidParamsError, match="unknown field `worktree`"):
            await session.open(worktree={})  # type: ignore[call-arg]
        assert [name for name in ours() if not name.endswith(".lock")] == []
    assert branches(repository) == []


async def test_a_handoff_that_is_not_admitted_leaves_no_worktree(repository: Repository) -> None:
    ask = call("conv_create", {"user_instruction": WORK, "workspace": "worktree"})
    model = ScriptedModel([say("", ask, ask, ask), "Child.", "Root."], repeat=True)
    limited = settings(model, repository, limits={"max_chain_conversations": 1})
    async with tertulia.Session.start(limited) as session:
        await session.root.message("Go.")
        opened = [c.details.worktree.conversation_id for c in session.conversations() if c.details.worktree is not None]
        assert len(opened) == 1
        assert [name for name in ours() if name.endswith(".json")] == [f"{opened[0]}.json"]
    assert branches(repository) == []


async def test_what_it_opens_shares_its_worktree_unless_it_asks_for_its_own(repository: Repository) -> None:
    async with tertulia.Session.start(settings(ScriptedModel(["Hi."], repeat=True), repository)) as session:
        outer = await session.open(workspace="worktree")
        shared = await session.open(parent_id=outer.id)
        own = await session.open(parent_id=outer.id, workspace="worktree")
        assert shared.details.worktree is not None
        assert shared.details.worktree == outer.details.worktree
        assert own.details.worktree is not None
        assert own.details.worktree.repository == shared.details.worktree.path
        await outer.close()
        # It goes with the last one that works there.
        assert Path(shared.details.worktree.path).is_dir()
        assert (await shared.message("Hello")).status == "completed"
        path = shared.details.worktree.path
        await shared.close()
        assert not Path(path).exists()
        assert (await own.message("Hello")).status == "completed"


async def test_a_fork_has_a_worktree_of_its_own_that_begins_as_the_first_is(repository: Repository) -> None:
    async with tertulia.Session.start(settings(ScriptedModel(["Hi."], repeat=True), repository)) as session:
        first = await session.open(workspace="worktree")
        await first.message("Hello")
        assert first.details.worktree is not None
        (Path(first.details.worktree.path) / "made").write_text("made\n")
        fork = await first.fork()
        assert fork.details.worktree is not None
        assert fork.details.worktree.path != first.details.worktree.path
        assert (Path(fork.details.worktree.path) / "made").read_text() == "made\n"
        assert (await fork.context()).policy == (await first.context()).policy


async def test_a_resumed_session_has_its_worktrees_again(repository: Repository) -> None:
    model = ScriptedModel([say("", call("apply_patch", {"input": PATCH})), "Made.", "Again.", "Again."])
    async with tertulia.Session.start(settings(model, repository)) as session:
        own = await session.open(workspace="worktree")
        first = (await own.message("Make it.")).worktree
    assert first is not None
    assert [name for name in ours() if not name.endswith(".lock")] == []
    async with tertulia.Session.resume(session.id, settings(model, repository)) as again:
        conversation = again.conversation(own.id)
        reply = await conversation.message("And now?")
        assert reply.worktree is not None
        assert reply.worktree.commit == first.commit
        assert conversation.details.worktree is not None
        assert (Path(conversation.details.worktree.path) / "made.txt").read_text() == "made\n"
        repository.git("worktree", "list")
    repository.git("branch", "-D", first.branch)
    repository.git("-c", "gc.reflogExpire=now", "reflog", "expire", "--expire=now", "--all")
    async with tertulia.Session.resume(session.id, settings(model, repository)) as third:
        assert (await third.conversation(own.id).message("And now?")).status == "completed"


async def test_one_whose_repository_is_gone_says_so_and_runs_nothing(repository: Repository, tmp_path: Path) -> None:
    model = ScriptedModel(["Hello."], repeat=True)
    async with tertulia.Session.start(settings(model, repository)) as session:
        own = await session.open(workspace="worktree")
        await own.message("Hello")
    repository.top.rename(tmp_path / "moved")
    elsewhere = committed(tmp_path / "other")
    request = len(model.requests)
    async with tertulia.Session.resume(session.id, settings(model, elsewhere)) as again:
        reply = await again.conversation(own.id).message("And now?")
    assert reply.error is not None
    assert reply.error.code == "git_error"
    assert "is gone and cannot be had again" in reply.error.message
    assert len(model.requests) == request


async def test_what_a_killed_process_left_is_swept_or_named(repository: Repository) -> None:
    """Issue 20, proof: the next start finds it."""
    model = ScriptedModel(["Hello."], repeat=True)
    async with tertulia.Session.start(settings(model, repository)) as session:
        left, dirty = [await session.open(workspace="worktree") for _ in range(2)]
        records = {record.worktree.conversation_id: record for record in folder().records()}
        places = [Path(c.details.worktree.path) for c in (left, dirty) if c.details.worktree is not None]
        saved = {id: msgspec.structs.replace(record, session_id="dead") for id, record in records.items()}
        (places[1] / "late").write_text("late\n")
        for record in saved.values():
            folder().record(record)
        # As the kill left them: the session that has them does not remove them.
        for state in map(session.parts.conversations.find, (left.id, dirty.id)):
            state.adopt(msgspec.structs.replace(state.terms, worktree=None))
    assert [place.exists() for place in places] == [True, True]
    async with tertulia.Session.start(settings(model, repository)) as session, RecordedEvents(session) as events:
        await session.open(workspace="worktree")
    assert [place.exists() for place in places] == [False, True]
    assert str(places[1]) in warnings(events)["worktree_kept"]


async def test_over_the_wire_open_message_task_and_close_carry_it(repository: Repository) -> None:
    model = ScriptedModel([say("", call("apply_patch", {"input": PATCH})), "Made."], repeat=True)
    host = tertulia.Host(settings(model, repository))
    session = await host.start()

    async def ask(name: str, **params: Any) -> Any:
        answer = (await asyncio.wait_for(operations.call(host, session, name, params), HANG_S)).answer
        return msgspec.to_builtins(answer)

    try:
        opened = await ask("conversation/open", workspace="worktree")
        id = opened["conversation_id"]
        assert opened["worktree"]["branch"] == f"tertulia/{id[:8]}"
        assert "uncommitted changes on top" in opened["worktree"]["began"]
        answered = await ask("conversation/message", conversation_id=id, text="Make it.")
        assert "made.txt" in answered["worktree"]["diffstat"]
        assert (await ask("task/get", task_id=answered["task_id"]))["worktree"]["commit"] == answered["worktree"][
            "commit"
        ]
        assert "worktree" not in await ask("conversation/message", conversation_id="root", text="Hello")
        assert await ask("conversation/close", conversation_id=id) == {
            "closed": True,
            "already_closed": False,
            "forced": False,
        }
    finally:
        await host.close()
    assert branches(repository) == [f"refs/heads/tertulia/{id[:8]}"]


async def test_an_agent_that_is_set_up_has_one_of_its_own(repository: Repository) -> None:
    model = ScriptedModel([say("", call("conv_create", {"user_instruction": WORK, "agent": "writer"})), "C.", "R."])
    agents = {"writer": {"description": "Writes.", "workspace": "worktree"}}
    async with tertulia.Session.start(settings(model, repository, agents=agents)) as session:
        await session.root.message("Go.")
        opened = await session.open(agent="writer")
        assert all(c.details.worktree is not None for c in (session.conversations()[1], opened))
    with pytest.raises(InvalidParamsError, match="the root works in the session's own directory"):
        async with tertulia.Session.start(settings(model, repository, agents=agents, agent="writer")):
            pass


async def test_the_record_of_a_session_has_no_path_where_the_policy_forbids_it(repository: Repository) -> None:
    model = ScriptedModel(["Hello."], repeat=True)
    place = settings(model, repository, storage_policy="headers_only")
    async with tertulia.Session.start(place) as session:
        own = await session.open(workspace="worktree", title="secret title")
        await own.message("secret text")
        message = repository.git(
            "log", "-1", "--format=%B", own.details.worktree.branch if own.details.worktree else ""
        )
    stored = b"".join(p.read_bytes() for p in Path(os.environ["TERTULIA_HOME"]).rglob("*") if p.is_file())
    assert b"secret" not in stored
    assert str(repository.top).encode() not in stored
    assert "secret" not in message


async def test_what_was_left_out_at_the_beginning_is_named(repository: Repository) -> None:
    repository.git("config", "filter.lfs.clean", "cat")
    repository.write(".gitattributes", "*.bin filter=lfs\n")
    repository.write("new.bin", "content\n")
    async with (
        tertulia.Session.start(settings(ScriptedModel(["Hi."]), repository)) as session,
        RecordedEvents(session) as events,
    ):
        own = await session.open(workspace="worktree")
        await own.message("Hello")
    assert "new.bin (filter lfs)" in warnings(events)["worktree_left_out"]


PATCH = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch"


async def test_the_context_of_an_agent_is_that_of_its_worktree(repository: Repository) -> None:
    """Skills and the branch are read where the agent works, which lies in a folder that is hidden otherwise."""
    for name in ("sing", "cook"):
        repository.write(
            f".agents/skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: {name}\n---\nDo {name}.\n"
        )
        if name == "sing":
            repository.commit("a skill")
    model = ScriptedModel([say("", call("skill_read", {"name": "cook"})), lambda request: request.last_input])
    async with tertulia.Session.start(settings(model, repository)) as session:
        ada = await session.open(agent={"name": "ada"}, workspace="worktree")
        repository.write(".agents/skills/cook/SKILL.md", "---\nname: cook\ndescription: changed since\n---\nNo.\n")
        texts = {part["provider"]: part["text"] for part in (await ada.context()).additions}
        assert ada.details.worktree is not None
        assert ada.details.worktree.branch in texts["workspace"]
        assert "- sing: sing\n- cook: cook" in texts["skills"] or "- cook: cook\n- sing: sing" in texts["skills"]
        assert "Do cook." in (await ada.message(WORK)).text
