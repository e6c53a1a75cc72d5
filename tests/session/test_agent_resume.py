"""What is written down of agents and their canvases, under each policy, and what comes back of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.context.canvas import Canvas
from tertulia.context.injector import SessionContextInjector
from tertulia.errors import NotFoundError
from tertulia.protocol.items import UserMessage
from tertulia.protocol.records import CanvasRecord
from tertulia.session.session import Session
from tertulia.testing import FakeClock, ScriptedModel, call
from tests.deadlines import HANG_S
from tests.session.agents_stage import EMPLOYEE, HTML, Porter, bell, names
from tests.session.lives import Lives
from tests.session.stored import lines, stored_bytes

DRAW = call("canvas_update", {"html": HTML, "title": "Greeting"})


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


def told(session: Session, conversation: str) -> list[str]:
    history = session.parts.conversations.find(conversation).history
    return [item.text for item in history.snapshot() if isinstance(item, UserMessage) and item.injected]


def drawn(session_id: str) -> list[tuple[int, str | None]]:
    found = [line.what for line in lines(session_id) if isinstance(line.what, CanvasRecord)]
    return [(record.revision, record.html) for record in found]


def canvas(session: Session, conversation: str) -> Canvas | None:
    return session.parts.agent_registry.canvases.peek(conversation)


# ── back ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_an_agent_comes_back_with_its_tools_its_canvas_and_what_it_was_told_once(lives: Lives, end: str) -> None:
    """Issue 9, items 2 and 7: a new token, the same additions, the same page; nothing is said twice."""
    porter = Porter(text="It rains.", tools=[bell()])
    async with lives.start(DRAW, "drawn", providers=[porter], cwd="/usr") as session:
        agent = await session.open(agent=EMPLOYEE)
        plain = await session.open()
        await agent.message("go")
        before, shown, token = (
            told(session, agent.id),
            canvas(session, agent.id),
            session.parts.agent_registry.token(agent.id),
        )
        context = await agent.context()
        if end == "closed":
            await session.close()
        else:
            lives.die()
        async with lives.resumed(
            session.id, "again", call("ring", {}), "rung", providers=[porter], cwd="/usr"
        ) as second:
            back = second.conversation(agent.id)
            agent_registry = second.parts.agent_registry
            assert told(second, agent.id) == before
            assert (canvas(second, agent.id), agent_registry.tokens) == (shown, 1)
            assert shown is not None
            assert shown.html == HTML
            assert agent_registry.token(agent.id) not in (None, token)
            assert (await back.context()).additions == context.additions
            assert names(back, "injector") == ["canvas_update", "canvas_clear", "ring"]
            assert names(second.conversation(plain.id), "injector") == []
            await back.message("go")
            assert (await back.message("go")).text == "rung"
            assert told(second, agent.id) == before
            assert agent_registry.canvases.update(agent.id, "next").revision == 2


async def test_what_providers_say_differently_in_the_next_life_is_told_then(lives: Lives) -> None:
    async with lives.start("hi", providers=[Porter(text="It rains.")], cwd="/usr") as session:
        agent = await session.open(agent=EMPLOYEE)
    async with lives.resumed(session.id, "hi", providers=[Porter(text="It snows.")], cwd="/usr") as second:
        *_, news = told(second, agent.id)
        assert news == "<context_update>\n\nIt snows.\n\n</context_update>"
    async with lives.resumed(session.id, "hi", providers=[Porter(text="It snows.")], cwd="/usr") as third:
        assert [text for text in told(third, agent.id) if "snows" in text] == [news]


async def test_a_cleared_canvas_stays_cleared_and_its_numbers_go_on(lives: Lives) -> None:
    async with lives.start(DRAW, call("canvas_clear", {}), "done") as session:
        agent = await session.open(agent=EMPLOYEE)
        await agent.message("go")
    assert drawn(session.id) == [(1, HTML), (2, None)]
    async with lives.resumed(session.id) as second:
        assert canvas(second, agent.id) is None
        assert second.parts.agent_registry.canvases.update(agent.id, "x").revision == 3


async def test_a_provider_that_hangs_keeps_no_session_from_coming_back(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S001-27: and its time is waited for once, not once for each agent."""
    async with lives.start() as session:
        agents = [await session.open(agent=EMPLOYEE) for _ in range(8)]
    never = asyncio.Event()
    porter = Porter(before=never.wait)
    settings = tertulia.Settings(model=ScriptedModel(["hi"]), providers=[porter])
    monkeypatch.setitem(SessionContextInjector.__init__.__kwdefaults__, "timeout_s", 1.0)
    async with asyncio.timeout(HANG_S):
        async with Session.resume(session.id, settings) as second:
            assert second.parts.agent_registry.tokens == len(agents)


async def test_an_agent_that_cannot_come_back_is_a_conversation_all_the_same(lives: Lives) -> None:
    async with lives.start("hi") as session:
        agent = await session.open(agent=EMPLOYEE)
        conversation = session.parts.conversations.find(agent.id)
        assert conversation.terms.agent is not None
        conversation.terms.agent.meta["name"] = "../../etc"
        await agent.set_context(title="new terms are written down")
    async with lives.resumed(session.id, "hi") as second:
        back = second.conversation(agent.id)
        assert (second.parts.agent_registry.tokens, names(back, "injector")) == (0, [])
        assert (await back.message("go")).text == "hi"


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────

SECRETS = ("zebulon", "wizardry", "petrichor", "kaleidoscope", "headline")


async def session_of_secrets(lives: Lives, policy: Any, **settings: Any) -> tuple[str, str]:
    """Everything that is said about an agent and by it is a secret."""
    page = call("canvas_update", {"html": "<p>kaleidoscope</p>", "title": "headline"})
    porter = Porter(text="petrichor")
    async with lives.start(page, "done", providers=[porter], cwd="/usr", **settings) as session:
        agent = await session.open(
            agent={"name": "zebulon", "backend_type": "wizardry", "archetype": "service"}, **policy
        )
        await agent.message("go")
    return session.id, agent.id


@pytest.mark.parametrize(
    ("conversation", "session"),
    [
        ({"storage_policy": "none"}, {}),
        ({"storage_policy": "headers-only"}, {}),
        ({}, {"storage_policy": "none"}),
        ({}, {"storage_policy": "headers-only"}),
    ],
)
async def test_nothing_of_an_agent_is_on_the_disk_where_no_text_may_be(
    lives: Lives, conversation: dict[str, Any], session: dict[str, Any]
) -> None:
    """E1, issue 9, item 7: name, backend, additions, page and title are content; it is no agent any more afterwards."""
    session_id, agent = await session_of_secrets(lives, conversation, **session)
    stored = stored_bytes(session_id)
    assert [secret for secret in SECRETS if secret.encode() in stored] == []
    async with lives.resumed(session_id, "hi") as second:
        back = second.conversation(agent)
        assert (second.parts.agent_registry.tokens, names(back, "injector"), canvas(second, agent)) == (0, [], None)
        assert (await back.message("go")).text == "hi"


async def test_under_full_all_of_it_is_there(lives: Lives) -> None:
    """The search above finds what there is."""
    session_id, _ = await session_of_secrets(lives, {})
    stored = stored_bytes(session_id)
    assert [secret for secret in SECRETS if secret.encode() not in stored] == []


@pytest.mark.parametrize("policy", ["none", "headers-only"])
async def test_a_stricter_policy_takes_the_page_off_the_disk(lives: Lives, policy: str) -> None:
    """S002-19, E4: also what was drawn before."""
    async with lives.start(DRAW, "done") as session:
        agent = await session.open(agent=EMPLOYEE)
        await agent.message("go")
        assert drawn(session.id) == [(1, HTML)]
        await agent.set_context(storage_policy=policy)
        await session.parts.journal.settle()
    assert HTML.encode() not in stored_bytes(session.id)
    assert drawn(session.id) == ([(1, None)] if policy == "headers-only" else [])


async def test_a_page_with_a_ttl_expires(lives: Lives) -> None:
    """E4."""
    clock = FakeClock()
    started = Session.start(
        tertulia.Settings(model=ScriptedModel([DRAW, "done"]), storage_policy={"ttl": 60}), clock=clock
    )
    async with started as session:
        agent = await session.open(agent=EMPLOYEE)
        await agent.message("go")
    clock.advance(61)
    settings = tertulia.Settings(model=ScriptedModel(["hi"]), storage_policy={"ttl": 60})
    async with Session.resume(session.id, settings, clock=clock) as second:
        assert canvas(second, agent.id) is None
    assert HTML.encode() not in stored_bytes(session.id)


async def test_what_is_drawn_for_somebody_stricter_is_kept_by_that_ones_policy(lives: Lives) -> None:
    """S002-19: what a conversation of policy none has asked for is stored by none."""
    ids: list[str] = []
    send = [lambda request: call("conv_send", {"conversation_id": ids[0], "text": "draw"}), DRAW, "drawn", "done"]
    async with lives.start(*send) as session:
        agent = await session.open(agent=EMPLOYEE)
        ids.append(agent.id)
        strict = await session.open(storage_policy="none")
        assert (await strict.message("go")).text == "done"
        assert canvas(session, agent.id) is not None
    stored = stored_bytes(session.id)
    assert (HTML.encode() in stored, b"Greeting" in stored) == (False, False)
    async with lives.resumed(session.id) as second:
        assert canvas(second, agent.id) is None


async def test_a_closed_conversations_canvas_is_gone(lives: Lives) -> None:
    """S001-49: unknown, not found; the record stays what it was."""
    async with lives.start(DRAW, "done") as session:
        agent = await session.open(agent=EMPLOYEE)
        await agent.message("go")
        await agent.close()
        with pytest.raises(NotFoundError):
            session.parts.agent_registry.canvases.get(agent.id)
    async with lives.resumed(session.id) as second:
        assert second.parts.agent_registry.canvases.list() == {}
    assert drawn(session.id) == [(1, HTML)]
