"""What another agent remembers of a conversation after the session was closed, or killed, and resumed."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.session.session import Session
from tests.executors.acp_stage import acp_table, received
from tests.executors.agents import codex_table, until
from tests.session.lives import Lives
from tests.session.lives import durable_events as events_of

HISTORY = "Conversation History"
FAKE = {"fake": codex_table()}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "agent-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


async def heard(conversation: tertulia.Conversation, text: str) -> list[str]:
    """All that the agent was ever told in its own talk."""
    reply = await conversation.message(text)
    assert reply.status == "completed", reply.error
    return json.loads(reply.text or "")["heard"]


def warnings(session: Session) -> list[str]:
    return [e.data.message for e in events_of(session) if e.type == "warning" and e.data.code == "resume_failed"]


def stored(lives: Lives) -> bytes:
    return b"".join(path.read_bytes() for path in lives.home.rglob("*") if path.is_file())


async def begun(lives: Lives, *questions: str, **fields: Any) -> tuple[str, str]:
    """(the session, the conversation): the agent was asked these, and the session was closed."""
    async with lives.start(executors=FAKE) as session:
        conversation = await session.open(backend="command:fake", **fields)
        for question in questions:
            await heard(conversation, question)
    return session.id, conversation.id


async def test_its_own_memory_outlives_the_session(lives: Lives) -> None:
    """S003-20, S003-21, S003-25: by its id, with the bare message, life after life; nothing is charged twice."""
    id, conversation = await begun(lives, "one")
    for number, text in enumerate(("two", "three"), start=2):
        async with lives.resumed(id, executors=FAKE) as session:
            back = session.conversation(conversation)
            reply = await back.message(text)
            assert json.loads(reply.text or "")["heard"] == ["one", "two", "three"][:number]
            assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 1)
            assert [entry.role for entry in await back.history()] == ["user", "assistant"] * number
            assert warnings(session) == []


async def test_its_own_memory_outlives_a_kill(lives: Lives) -> None:
    """S003-25, F1: the id is written down with the answer."""
    async with lives.start(executors=FAKE) as session:
        conversation = await session.open(backend="command:fake")
        await heard(conversation, "one")
        lives.die()
    async with lives.resumed(session.id, executors=FAKE) as back:
        assert await heard(back.conversation(conversation.id), "two") == ["one", "two"]


async def test_a_message_in_whose_task_the_process_died_is_told(lives: Lives, tmp_path: Path) -> None:
    """S003-04, S003-32: nobody knows whether the agent heard it, so it is told all; and that is said."""
    async with lives.start(executors=FAKE) as session:
        conversation = await session.open(backend="command:fake")
        await heard(conversation, "one")
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        task = asyncio.create_task(conversation.message(f"gate {gate} two"))
        await until(lambda: [event.type for event in events_of(session)].count("tool_call_begin") == 2)
        await session.parts.bus.flush()
        lives.die()
        async with lives.resumed(session.id, executors=FAKE) as back:
            (prompt,) = await heard(back.conversation(conversation.id), "three")
            assert [prompt.count(line) for line in ("User: one", f"User: gate {gate} two", "three")] == [1, 1, 1]
            (warning,) = warnings(back)
            assert "not told all" in warning
            assert len(await heard(back.conversation(conversation.id), "four")) == 2
        await conversation.interrupt()
        assert (await task).status == "interrupted"


@pytest.mark.parametrize("change", ["home", "forgotten", "compacted", "program"])
async def test_an_id_that_does_not_fit_any_more_gives_way_to_the_transcript_with_an_event(
    lives: Lives, change: str, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """S003-32, X-58: same agent, same home, same history; and an agent that forgot."""
    fake, why = FAKE, {"home": "another home", "program": "another executor", "compacted": "rewritten"}
    async with lives.start("notes of it", executors=FAKE) as session:
        conversation = await session.open(backend="command:fake")
        await heard(conversation, "one")
        await heard(conversation, "two")
        if change == "compacted":
            assert (await conversation.compact()).compacted
    if change == "home":
        (tmp_path / "other").mkdir()
        monkeypatch.setenv("HOME", str(tmp_path / "other"))
    elif change == "forgotten":
        for path in (home / "conversations").iterdir():
            path.unlink()
    elif change == "program":
        fake = {"fake": codex_table(command=["env", *codex_table()["command"]])}
    async with lives.resumed(session.id, executors=fake) as back:
        (prompt,) = await heard(back.conversation(conversation.id), "three")
        assert HISTORY in prompt
        (warning,) = warnings(back)
        assert why.get(change, "no thread") in warning
        assert len(await heard(back.conversation(conversation.id), "four")) == 2
        assert len(warnings(back)) == 1


@pytest.mark.parametrize("change", ["context", "narrower"])
async def test_new_terms_end_it_in_a_later_life_too(lives: Lives, change: str) -> None:
    """DESIGN, native ids: set_context makes it stale; so does a session that allows less than it did."""
    async with lives.start(executors=FAKE) as session:
        conversation = await session.open(backend="command:fake")
        await heard(conversation, "one")
        if change == "context":
            await conversation.set_context(title="other")
    less = {"sandbox": "read-only"} if change == "narrower" else {}
    async with lives.resumed(session.id, executors=FAKE, **less) as back:
        (prompt,) = await heard(back.conversation(conversation.id), "two")
        assert "User: one" in prompt


@pytest.mark.parametrize("storage", ["headers_only", "none", {"ttl": 60}])
async def test_under_any_policy_but_full_no_id_is_written_down(lives: Lives, storage: Any) -> None:
    """S003-24, E1: storage policy full, or nothing."""
    await begun(lives, "one", storage_policy=storage)
    assert b"native_id" not in stored(lives)


async def test_a_stricter_policy_takes_the_id_away(lives: Lives, home: Path) -> None:
    """E4: what was stored before too."""
    async with lives.start(executors=FAKE) as session:
        conversation = await session.open(backend="command:fake")
        await heard(conversation, "one")
        (native,) = (path.name for path in (home / "conversations").iterdir())
        assert native.encode() in stored(lives)
        await conversation.set_context(storage_policy="headers_only")
    assert native.encode() not in stored(lives)


async def test_a_fork_has_no_memory_of_its_own_in_a_later_life(lives: Lives) -> None:
    """DESIGN, native ids: fork."""
    async with lives.start(executors=FAKE) as session:
        conversation = await session.open(backend="command:fake")
        await heard(conversation, "one")
        fork = await conversation.fork()
    async with lives.resumed(session.id, executors=FAKE) as back:
        assert HISTORY in (await heard(back.conversation(fork.id), "two"))[0]
        assert await heard(back.conversation(conversation.id), "two") == ["one", "two"]


@pytest.mark.parametrize("mode", ["load", "good"])
async def test_an_acp_agent_takes_its_session_up_in_a_later_life(lives: Lives, mode: str, home: Path) -> None:
    """Issue 11, 4: session/load where offered; else the transcript, with an event."""
    agents = {"fake": acp_table(mode)}
    async with lives.start(acp=agents) as session:
        conversation = await session.open(backend="acp:fake")
        assert await heard(conversation, "one") == ["one"]
    async with lives.resumed(session.id, acp=agents) as back:
        answer = await heard(back.conversation(conversation.id), "two")
        assert [HISTORY in text for text in answer] == ([False, False] if mode == "load" else [True])
        assert len(warnings(back)) == (mode == "good")
    assert len(received(home, "session/load")) == (mode == "load")
