"""Checkpoints and undo in a session: when they are made, for which tasks, what a storage policy leaves of them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import BusyError, GitError, InvalidParamsError, SandboxError, StoragePolicyViolationError
from tertulia.protocol.events import CheckpointEvent
from tertulia.session.checkpoints.places import memory_folder
from tertulia.testing import ScriptedModel, call
from tests.deadlines import HANG_S
from tests.executors.acp_stage import acp_table
from tests.privacy.secrets_told import everything_below
from tests.sandbox.confined import need

CANARY = "canary-5d1e77"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of the test."""
    need("bubblewrap")
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def settings(tmp_path: Path, replies: list[Any], **fields: Any) -> tertulia.Settings:
    """A session that writes without asking."""
    folder = tmp_path / "ws"
    folder.mkdir(exist_ok=True)
    fields = {"checkpoints": True, "approval_policy": "never", **fields}
    return tertulia.Settings(model=ScriptedModel(replies), cwd=str(folder), **fields)


def shell(script: str) -> Any:
    """A call of the shell."""
    return call("shell", {"command": ["sh", "-c", script]})


async def events_of(stream: Any) -> list[CheckpointEvent]:
    """Those of checkpoints."""
    return [event.data async for event in stream if isinstance(event.data, CheckpointEvent)]


async def test_a_task_that_writes_has_two_checkpoints_and_the_model_is_told_of_its_undo(tmp_path: Path) -> None:
    """26-1: events `checkpoint`, before the first call that may write and at the end; undo is in the history."""
    model = ScriptedModel([shell("echo two > a; echo new > b"), shell("echo more > c"), "done", "ok"])
    made = settings(tmp_path, [])
    (tmp_path / "ws" / "a").write_text("one\n")
    async with tertulia.Session.start(tertulia.Settings(**{**_fields(made), "model": model})) as session:
        found = await events_of(session.root.stream("go"))
        assert [(event.moment, event.cause, event.files) for event in found] == [
            ("before", "task", 0),
            ("after", "task", 3),
        ]
        assert found[1].diffstat == "3 files changed, 3 insertions(+), 1 deletions(-)"
        answer = await session.root.undo()
        assert answer.restored
        assert sorted(os.listdir(tmp_path / "ws")) == ["a"]
        assert (tmp_path / "ws" / "a").read_text() == "one\n"
        listed = await session.checkpoints.list()
        assert [(info.cause, info.undone) for info in listed] == [("restore", False), ("task", True)]
        assert answer.undo_id == listed[0].id
        await session.root.message("and now?")
        sent = str(model.requests[-1].request.chunks)
        assert "<files_restored>" in sent
        assert "- b: removed" in sent
        assert [entry.text for entry in await session.root.history()][-2:] == ["and now?", "ok"]


def _fields(made: tertulia.Settings) -> dict[str, Any]:
    return {"cwd": made.cwd, "checkpoints": True, "approval_policy": "never"}


READING = (["ls", "-l"], ["sh", "-c", "cat a | wc -l"])


@pytest.mark.parametrize("reading", [call("grep", {"pattern": "x"}), *(call("shell", {"command": c}) for c in READING)])
async def test_a_call_that_only_reads_makes_no_checkpoint(tmp_path: Path, reading: Any) -> None:
    """26-1: never on the path of a call that only reads."""
    async with tertulia.Session.start(settings(tmp_path, [reading, "done"])) as session:
        assert await events_of(session.root.stream("go")) == []
        assert await session.checkpoints.list() == []


async def test_a_delegated_task_is_undone_with_the_message_that_caused_it(tmp_path: Path) -> None:
    child = call("conv_create", {"user_instruction": "write"})
    replies = [child, shell("echo x > made"), "written", "done"]
    async with tertulia.Session.start(settings(tmp_path, replies)) as session:
        await session.root.message("go")
        assert (tmp_path / "ws" / "made").exists()
        await session.root.undo()
        assert not (tmp_path / "ws" / "made").exists()


async def test_an_executor_is_covered_before_its_task_and_at_its_end(tmp_path: Path) -> None:
    program = {"command": ["sh", "-c", "echo by another program > made; echo done"]}
    own = settings(tmp_path, [], executors={"own": program}, sandbox="danger-full-access")
    async with tertulia.Session.start(own) as session:
        there = await session.open(backend="command:own")
        found = await events_of(there.stream("go"))
        assert [event.moment for event in found] == ["before", "after"]
        assert (tmp_path / "ws" / "made").exists()
        await there.undo()
        assert not (tmp_path / "ws" / "made").exists()


async def test_an_acp_agent_is_covered_before_its_task_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """26-1: what it writes itself, by its own process, as well as through us."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "ws" / "made"
    with_agent = settings(tmp_path, [], acp={"fake": acp_table()}, sandbox="danger-full-access")
    path.write_text("mine")
    async with tertulia.Session.start(with_agent) as session:
        there = await session.open(backend="acp:fake")
        found = await events_of(there.stream(f"write {path} theirs"))
        assert [(event.moment, event.files) for event in found] == [("before", 0), ("after", 1)]
        assert path.read_text() == "theirs"
        await there.undo()
        assert path.read_text() == "mine"


async def test_no_undo_while_the_conversation_works_or_in_a_session_that_only_reads(tmp_path: Path) -> None:
    gate = asyncio.Event()

    @tertulia.tool
    async def scribble() -> str:
        """Write, and wait."""
        (tmp_path / "ws" / "a").write_text("1")
        gate.set()
        await asyncio.Event().wait()
        return ""

    async with tertulia.Session.start(settings(tmp_path, [call("scribble", {})], tools=[scribble])) as session:
        sent = asyncio.ensure_future(session.root.message("go"))
        async with asyncio.timeout(HANG_S):
            await gate.wait()
        with pytest.raises(BusyError):
            await session.root.undo()
        await session.root.interrupt()
        await sent
        await session.root.undo()
        assert not (tmp_path / "ws" / "a").exists(), "an interrupted task is undone as any other"
    async with tertulia.Session.start(settings(tmp_path, [], sandbox="read-only")) as session:
        with pytest.raises(SandboxError):
            await session.root.undo()


async def test_without_git_that_is_said_once_at_the_start_and_in_the_info(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """26-1: without git: not available, said once at the start, and in the session's info."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    async with tertulia.Session.start(settings(tmp_path, ["hi"])) as session:
        events = session.events(after=0)
        assert not session.info.checkpoints.available
        assert "install git" in str(session.info.checkpoints.reason)
        with pytest.raises(GitError, match="install git"):
            await session.root.undo()
        await session.root.message("hello")
        await session.close()
        codes = [event.data.code async for event in events if event.type == "warning"]
        assert codes.count("checkpoints_unavailable") == 1


async def test_switched_off_undo_says_how_to_have_it(tmp_path: Path) -> None:
    async with tertulia.Session.start(settings(tmp_path, [], checkpoints=False)) as session:
        with pytest.raises(GitError, match="checkpoints = true"):
            await session.root.undo()


@pytest.mark.parametrize("policy", ["none", "headers_only"])
async def test_a_policy_that_stores_nothing_has_no_checkpoints_unless_asked_for(tmp_path: Path, policy: str) -> None:
    """26-1: undo is refused with the reason; asked for, they are in memory until the session closes. Canary."""
    data = tmp_path / "data"
    replies = [shell(f"echo {CANARY} > {CANARY}.txt"), "done"]
    async with tertulia.Session.start(settings(tmp_path, list(replies), storage_policy=policy)) as session:
        assert await events_of(session.root.stream("go")) == []
        with pytest.raises(StoragePolicyViolationError, match=r"checkpoints\.in_memory"):
            await session.root.undo()
    in_memory = settings(tmp_path, list(replies), storage_policy=policy, checkpoints={"in_memory": True})
    (tmp_path / "ws" / f"{CANARY}.txt").unlink()
    async with tertulia.Session.start(in_memory) as session:
        assert session.info.checkpoints.in_memory
        assert len(await events_of(session.root.stream("go"))) == 2
        place = memory_folder(session.id)
        assert place.is_dir()
        assert not (data / "checkpoints").exists()
        await session.root.undo()
        assert os.listdir(tmp_path / "ws") == []
    assert not place.exists()
    assert CANARY.encode() not in everything_below(data)


async def test_a_stricter_policy_removes_checkpoints_before_it_answers(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with tertulia.Session.start(settings(tmp_path, [shell(f"echo x > {CANARY}.txt"), "done"])) as session:
        await session.root.message("go")
        assert len(await session.checkpoints.list()) == 1
        await session.root.set_context(storage_policy="none")
        found = [path for path in (data / "checkpoints").rglob("windows.json") if b"session_id" in path.read_bytes()]
        assert found == []


async def test_a_session_that_records_much_drops_its_oldest_while_it_runs(tmp_path: Path) -> None:
    """26-1: `full` by retention.checkpoints, not only when the next session begins."""
    replies = [reply for _ in range(6) for reply in (shell("head -c 400000 /dev/urandom > a"), "done")]
    small = settings(tmp_path, replies, retention={"checkpoints": {"max_mb": 1}})
    async with tertulia.Session.start(small) as session:
        ids: list[str] = []
        for _ in range(6):
            await session.root.message("go")
            ids.append((await session.checkpoints.list())[0].id)
        for _ in range(round(HANG_S * 100)):
            if len(left := await session.checkpoints.list()) < 6:
                break
            await asyncio.sleep(0.01)
        assert len(left) < 6
        assert [info.id for info in left] == ids[::-1][: len(left)]
        await session.root.undo()


async def test_the_operations_answer_over_json(tmp_path: Path) -> None:
    from tertulia.session.host import Host
    from tertulia.session.operations import call as operate

    made = settings(tmp_path, [shell("echo x > a"), "done"])
    host = Host(made)
    try:
        session = await host.start(made)
        await session.root.message("go")
        listed = (await operate(host, session, "checkpoint/list", {})).answer
        (info,) = listed.checkpoints
        shown = (await operate(host, session, "checkpoint/diff", {"id": info.id})).answer
        assert "+x" in shown.diff
        dry = (await operate(host, session, "checkpoint/restore", {"id": info.id, "dry_run": True})).answer
        assert ([file.path for file in dry.files], dry.restored) == (["a"], False)
        with pytest.raises(InvalidParamsError, match="give id or since"):
            await operate(host, session, "checkpoint/restore", {"id": info.id, "since": info.at})
        with pytest.raises(InvalidParamsError, match="since"):
            await operate(host, session, "checkpoint/restore", {"since": "yesterday"})
        assert os.listdir(tmp_path / "ws") == ["a"]
        done = (await operate(host, session, "checkpoint/restore", {"since": info.at, "paths": ["a"]})).answer
        assert done.restored
    finally:
        await host.close()
