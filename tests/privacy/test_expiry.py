"""A text with a ttl does not outlive it, whoever comes back, forks or asks in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.rollout.sweep.home_sweep import sweep_home
from tertulia.rollout.sweep.retention import Retention
from tertulia.session.resume.fork import fork_session
from tertulia.session.session import Session
from tertulia.session.settings.settings import current_environment
from tertulia.testing import FakeClock, ScriptedModel, call, say
from tests.privacy.secrets_told import Secrets, everything_below
from tests.session.lives import Lives, durable_events

TTL_S = 100.0
S = Secrets("expiry")
PLAN = call("update_plan", {"plan": [{"step": S["plan"], "status": "in_progress"}]})


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


def settings(*replies: Any, **fields: Any) -> tertulia.Settings:
    return tertulia.Settings(model=ScriptedModel(replies), **fields)


def found(home: Path) -> set[str]:
    return set(S.found(everything_below(home)))


def sweep(home: Path, clock: FakeClock) -> None:
    swept = sweep_home(home, Retention(), clock)
    assert not swept.troubles
    assert not swept.skipped


async def test_coming_back_again_and_again_prolongs_nothing(lives: Lives) -> None:
    """E4: what a resumed session tells anew is as old as it was."""
    clock = FakeClock()
    policy = {"ttl": TTL_S}
    async with Session.start(settings(say("", PLAN), S["reply"], storage_policy=policy), clock=clock) as session:
        await session.root.set_context(title=S["title"], user_instructions=S["user_instructions"])
        await session.root.message(S["prompt"])
    for life in range(1, 4):
        clock.advance(TTL_S / 4)
        async with Session.resume(session.id, settings("fine", storage_policy=policy), clock=clock) as again:
            (plan,) = [event.data for event in durable_events(again) if event.type == "plan_update"]
            assert plan["plan"][0].step == S["plan"]
            await again.root.message(f"life {life}")
    assert found(lives.home) == {"plan", "reply", "title", "user_instructions", "prompt"}
    clock.advance(TTL_S / 3)
    sweep(lives.home, clock)
    assert found(lives.home) == set()
    async with Session.resume(session.id, settings("fine", storage_policy=policy), clock=clock) as again:
        assert not [event for event in durable_events(again) if event.type == "plan_update"]


async def test_a_fork_is_as_old_as_what_it_was_made_from(lives: Lives) -> None:
    """E4: its title and its plan too."""
    clock = FakeClock()
    async with Session.start(
        settings(say("", PLAN), S["reply"], storage_policy={"ttl": TTL_S}), clock=clock
    ) as session:
        await session.root.set_context(title=S["title"])
        await session.root.message(S["prompt"])
    clock.advance(TTL_S * 0.9)
    await fork_session(current_environment(), tertulia.Settings(), clock, session.id)
    assert found(lives.home) == {"plan", "reply", "title", "prompt"}
    clock.advance(TTL_S * 0.2)
    sweep(lives.home, clock)
    assert len(list((lives.home / "sessions").glob("*-*.db"))) == 2
    assert found(lives.home) == set()


async def test_a_call_that_a_short_lived_chain_made_is_closed_under_its_policy(lives: Lives) -> None:
    """E4, S002-19: a full conversation, asked by one with a ttl, died before it came to its second call."""
    clock, started, go = FakeClock(), asyncio.Event(), asyncio.Event()

    @tertulia.tool
    async def wait(what: str) -> str:
        """Take long."""
        started.set()
        await go.wait()
        return "late"

    async with Session.start(settings(tools=[wait]), clock=clock) as session:
        both = say(S["reply"], call("wait", {"what": "a"}), call("wait", {"what": S["arguments"]}))
        child = await session.open(model=ScriptedModel([both, "done"]))
        send = call("conv_send", {"conversation_id": child.id, "text": S["sent"]})
        caller = await session.open(storage_policy={"ttl": TTL_S}, model=ScriptedModel([send, "heard"]))
        task = asyncio.create_task(caller.message(S["prompt"]))
        await started.wait()
        lives.die()
        go.set()
        await task
    async with Session.resume(session.id, settings("fine", tools=[wait]), clock=clock):
        pass
    assert found(lives.home) == {"reply", "arguments", "sent", "prompt"}
    clock.advance(TTL_S * 1.1)
    sweep(lives.home, clock)
    assert found(lives.home) == set()
