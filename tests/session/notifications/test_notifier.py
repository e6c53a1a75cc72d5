"""Notifications of a session: of what, to whom, with which texts, and what a failure of theirs does (S002-01)."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import ModelError
from tertulia.protocol.events import WarningEvent
from tertulia.testing import RecordedEvents, ScriptedModel, call, say
from tests.deadlines import HANG_S

CANARY = "canary-51d0"


def to_file(path: Path) -> dict[str, Any]:
    """A program of the user that keeps what it reads, a line each."""
    return {"command": ["sh", "-c", f"cat >> {shlex.quote(str(path))}"], "timeout_s": 60}


def notes_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@asynccontextmanager
async def notifying(notify: Any, *replies: Any, **fields: Any) -> AsyncGenerator[tuple[Any, RecordedEvents]]:
    settings = tertulia.Settings(model=ScriptedModel(replies), notify=notify, close_timeout_s=60, **fields)
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        yield session, events


async def warned(events: RecordedEvents) -> WarningEvent:
    data = (await events.until("warning")).data
    assert isinstance(data, WarningEvent)
    return data


async def test_a_program_reads_that_a_task_is_complete(tmp_path: Path) -> None:
    async with notifying(to_file(tmp_path / "notes"), f"Done, {CANARY}.") as (session, _):
        reply = await session.root.message("go")
    (note,) = notes_in(tmp_path / "notes")
    assert note.pop("time").endswith("Z")
    assert note == {
        "type": "complete",
        "session_id": session.id,
        "conversation_id": session.root.id,
        "task_id": reply.task_id,
        "cwd": str(Path.cwd()),
        "text": f"Done, {CANARY}.",
    }


async def test_a_list_is_called_as_codex_calls_it(tmp_path: Path) -> None:
    """With the notification as its last argument, in Codex's spelling."""
    path = tmp_path / "notes"
    program = ["sh", "-c", f'printf "%s\\n" "$1" >> {shlex.quote(str(path))}', "told"]
    async with notifying(program, "Done.") as (session, _):
        reply = await session.root.message("go")
    (note,) = notes_in(path)
    assert note["type"] == "agent-turn-complete"
    assert note["thread-id"] == session.id
    assert note["turn-id"] == reply.task_id
    assert note["last-assistant-message"] == "Done."


async def test_a_delegation_is_told_once_when_the_first_caller_has_ended(tmp_path: Path) -> None:
    replies = (say("", call("conv_create", {"user_instruction": "look"})), "seen", "all done")
    async with notifying(to_file(tmp_path / "notes"), *replies) as (session, _):
        await session.root.message("go")
    assert [(note["type"], note["text"]) for note in notes_in(tmp_path / "notes")] == [("complete", "all done")]


async def test_a_failure_has_its_code_and_an_interrupt_is_not_told(tmp_path: Path) -> None:
    model_failure = ModelError("the provider is gone")
    async with notifying(
        to_file(tmp_path / "notes"), model_failure, say("…", call("wait_here", {})), tools=[wait_here]
    ) as (session, events):
        assert (await session.root.message("fails")).status == "failed"
        task = asyncio.create_task(session.root.message("stopped"))
        await events.until("tool_call_begin")
        await session.root.interrupt()
        assert (await task).status == "interrupted"
    (note,) = notes_in(tmp_path / "notes")
    assert (note["type"], note["code"]) == ("failure", ModelError.code)
    assert "provider is gone" in note["error"]


@tertulia.tool
async def wait_here() -> str:
    """Wait until stopped."""
    await asyncio.Event().wait()
    return ""


async def test_a_question_is_told_while_it_waits(tmp_path: Path) -> None:
    asks = say("", call("shell", {"command": ["touch", CANARY]}))
    notify = {**to_file(tmp_path / "notes"), "on": ["approval"]}
    async with notifying(notify, asks, "ok", approval_policy="untrusted") as (session, _):
        async for event in session.root.stream("go", approver=True):
            if event.type == "approval_request":
                await session.approvals.resolve(event.data.approval_id, "deny")
    (note,) = notes_in(tmp_path / "notes")
    assert (note["type"], note["kind"]) == ("approval", "exec")
    assert CANARY in note["title"]


@pytest.mark.parametrize("policy", ["headers_only", "none", {"ttl": 3600}])
async def test_a_stricter_policy_of_any_conversation_keeps_texts_back(tmp_path: Path, policy: Any) -> None:
    async with notifying(to_file(tmp_path / "notes"), f"quoting {CANARY}") as (session, _):
        await session.open(storage_policy=policy)
        await session.root.message(CANARY)
    assert CANARY not in (tmp_path / "notes").read_text()
    assert [note["type"] for note in notes_in(tmp_path / "notes")] == ["complete"]


async def test_content_false_keeps_texts_back(tmp_path: Path) -> None:
    async with notifying({**to_file(tmp_path / "notes"), "content": False}, CANARY) as (session, _):
        await session.root.message("go")
    assert CANARY not in (tmp_path / "notes").read_text()


async def test_the_program_gets_no_key_and_does_not_run_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("DISPLAY", ":7")
    notify = {"command": ["sh", "-c", 'env > "$HOME/env"; pwd > "$HOME/pwd"'], "timeout_s": 60}
    async with notifying(notify, "ok", cwd=str(workspace)) as (session, _):
        await session.root.message("go")
    assert (home / "pwd").read_text().strip() == str(home)
    assert "DISPLAY=:7" in (home / "env").read_text()
    assert CANARY not in (home / "env").read_text()


async def test_a_program_that_fails_is_warned_of_once_and_fails_no_task() -> None:
    notify = {"command": ["sh", "-c", "echo broken >&2; exit 3"]}
    async with notifying(notify, "one", "two", "three") as (session, events):
        for _ in range(3):
            assert (await session.root.message("go")).status == "completed"
        warning = await warned(events)
    assert warning.code == "notify"
    assert "ended with 3: broken" in warning.message
    assert [event.type for event in events.drain()].count("warning") == 1


async def test_a_program_that_hangs_is_ended_and_holds_up_nothing() -> None:
    async with notifying({"command": ["sleep", "1000"], "timeout_s": 0.2}, "one", "two") as (session, events):
        assert (await session.root.message("go")).status == "completed"
        warning = await warned(events)
        assert (await session.root.message("go")).status == "completed"
    assert "took longer than 0.2 s and was ended" in warning.message


async def test_close_does_not_wait_for_a_program_that_hangs() -> None:
    settings = tertulia.Settings(model=ScriptedModel(["one"]), notify={"command": ["sleep", "1000"], "timeout_s": 60})
    async with asyncio.timeout(HANG_S):
        async with tertulia.Session.start(settings) as session:
            await session.root.message("go")
            await session.close(timeout=0)


async def test_a_missing_program_is_named() -> None:
    async with notifying({"command": ["/no/such/program"]}, "one") as (session, events):
        await session.root.message("go")
        warning = await warned(events)
    assert "/no/such/program" in warning.message
