"""What has expired is gone before anybody is served, and soon after while a session runs."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any

import pytest

import tertulia
from tertulia.errors import ClosedError, StorageError
from tertulia.events.journal import NoJournal
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.rollout.store import SweepResult
from tertulia.rollout.sweep.retention import HomeSweepResult, Retention
from tertulia.session.resume import retention_sweep
from tertulia.session.resume.retention_sweep import RetentionSweeper, preview_all, sweep_all, sweep_before_serving
from tertulia.session.session import Session
from tertulia.testing import FakeClock, ScriptedModel
from tests.deadlines import HANG_S
from tests.session.staging import ticks
from tests.session.stored import home, session_ids, stored_bytes
from tests.tables import each_row

CANARY = b"canary-in-a-cage"
DEADLINE_S = HANG_S


async def talked(clock: FakeClock, **settings: Any) -> str:
    """The id of a session in which the canary was told."""
    model = ScriptedModel(["fine"])
    async with Session.start(tertulia.Settings(model=model, **settings), clock=clock) as session:
        await session.root.message(CANARY.decode())
    return session.id


# ── before serving ───────────────────────────────────────────────────────────────────────────────────────────


async def test_what_expired_while_nobody_ran_is_gone_before_the_next_session_begins() -> None:
    """HARDENING E4, X-31: also of sessions that are not the one that begins."""
    clock = FakeClock()
    old = await talked(clock, storage_policy={"ttl": 60.0})
    assert CANARY in stored_bytes(old)
    clock.advance(61)
    async with Session.start(tertulia.Settings(model=ScriptedModel([])), clock=clock):
        assert CANARY not in stored_bytes(old)


async def test_what_would_go_can_be_asked_before() -> None:
    """X-31: nothing goes by asking."""
    clock = FakeClock()
    assert await preview_all(home(), tertulia.Settings(), clock) == HomeSweepResult()
    old = await talked(clock, storage_policy={"ttl": 60.0})
    clock.advance(61)
    preview = await preview_all(home(), tertulia.Settings(), clock)
    assert preview.bodies > 0
    assert CANARY in stored_bytes(old)
    assert await sweep_all(home(), tertulia.Settings(), clock) == preview
    assert CANARY not in stored_bytes(old)


async def test_a_resume_sweeps_the_others_too() -> None:
    clock = FakeClock()
    old = await talked(clock, storage_policy={"ttl": 60.0})
    other = await talked(clock)
    clock.advance(61)
    async with Session.resume(other, tertulia.Settings(model=ScriptedModel([])), clock=clock):
        assert CANARY not in stored_bytes(old)


async def test_retention_holds_for_all_sessions() -> None:
    clock = FakeClock()
    old = await talked(clock)
    clock.advance(3 * 86_400)
    settings = tertulia.Settings(model=ScriptedModel([]), retention={"max_age_days": 2, "ttl_action": "delete"})
    async with Session.start(settings, clock=clock) as session:
        assert session_ids() == {session.id}
        assert old != session.id


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each sweep of a home."""
    done: list[str] = []

    def note(*arguments: object, **options: object) -> HomeSweepResult:
        done.append("swept")
        return HomeSweepResult(troubles=("it is broken",))

    monkeypatch.setattr("tertulia.rollout.sweep.home_sweep.sweep_home", note)
    (home() / "sessions").mkdir(parents=True, mode=0o700)
    home().chmod(0o700)
    return done


async def test_a_process_with_many_sessions_sweeps_once(sweeps: list[str]) -> None:
    host = tertulia.Host(tertulia.Settings(model=ScriptedModel([])))
    await asyncio.gather(host.start(), host.start(), host.start())
    assert sweeps == ["swept"]
    await host.close()


async def test_what_cannot_be_swept_is_logged_and_keeps_nobody_from_working(
    sweeps: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with Session.start(tertulia.Settings(model=ScriptedModel(["fine"]))) as session:
            assert (await session.root.message("hello")).text == "fine"
    assert "it is broken" in caplog.text


async def test_nobody_sweeps_for_a_session_that_records_elsewhere(sweeps: list[str]) -> None:
    async with Session.start(tertulia.Settings(model=ScriptedModel([])), journal=NoJournal()):
        assert sweeps == []


async def test_a_home_that_is_not_there_yet_is_not_made() -> None:
    assert await sweep_all(home(), tertulia.Settings(), FakeClock()) == HomeSweepResult()
    assert not home().exists()


async def test_the_same_home_is_not_swept_again_within_a_second(sweeps: list[str]) -> None:
    """Starting sessions by the hundred stays cheap; another home, other rules or a clock that goes back count anew."""
    clock, settings = FakeClock(), tertulia.Settings()
    other = tertulia.Settings(retention={"max_age_days": 1})
    for wanted, seconds in ((settings, 0), (settings, 0.9), (settings, 0.1), (other, 0), (other, 0.1)):
        clock.advance(seconds)
        await sweep_before_serving(home(), wanted, clock)
    assert len(sweeps) == 3
    clock.set_wall(clock.now() - 60)
    await sweep_before_serving(home(), other, clock)
    assert len(sweeps) == 4


# ── while it runs ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_running_session_loses_its_texts_when_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """S002-18: the process need not end for it."""
    monkeypatch.setattr(retention_sweep, "SHORTEST_S", 0.0)
    monkeypatch.setattr(retention_sweep, "LONGEST_S", 0.0)
    clock = FakeClock()
    settings = tertulia.Settings(model=ScriptedModel(["fine", "still there"]), storage_policy={"ttl": 60.0})
    async with Session.start(settings, clock=clock) as session:
        await session.root.message(CANARY.decode())
        assert CANARY in stored_bytes(session.id)
        clock.advance(61)
        async with asyncio.timeout(DEADLINE_S):
            while CANARY in stored_bytes(session.id):
                await ticks()
        assert (await session.root.message("and you?")).text == "still there"


async def test_a_policy_that_is_agreed_later_is_kept_as_promptly(monkeypatch: pytest.MonkeyPatch) -> None:
    """S002-18: a minute was to pass before the next sweep, and then somebody wanted less."""
    monkeypatch.setattr(retention_sweep, "SHORTEST_S", 0.0)
    clock, settings = FakeClock(), tertulia.Settings(model=ScriptedModel(["fine", "fine"]))
    async with Session.start(settings, clock=clock) as session:
        opened, changed = await session.open(storage_policy={"ttl": 0.01}), await session.open()
        for conversation in (opened, changed):
            await conversation.message(CANARY.decode())
        await changed.set_context(storage_policy={"ttl": 0.01})
        assert CANARY in stored_bytes(session.id)
        clock.advance(1)
        async with asyncio.timeout(DEADLINE_S):
            while CANARY in stored_bytes(session.id):
                await ticks()


async def test_news_never_puts_a_sweep_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_sweep, "SHORTEST_S", 0.01)
    store = ScriptedStore(ClosedError("over"))
    busy = sweeper(store, Ttl(0.01))
    running = asyncio.ensure_future(busy.run())
    async with asyncio.timeout(DEADLINE_S):
        while not running.done():
            busy.hear(Ttl(5))
            busy.hear(Full())
            await asyncio.sleep(0)
    assert store.swept == [(1_000, "delete")]


class ScriptedStore:
    """A store that answers as it is told."""

    def __init__(self, *answers: SweepResult | StorageError | ClosedError) -> None:
        self._answers = list(answers)
        self.swept: list[tuple[float, str]] = []

    def sweep(self, now: float, action: str, done: Callable[[Any], None]) -> None:
        self.swept.append((now, action))
        answer = self._answers.pop(0)
        if isinstance(answer, ClosedError):
            raise answer
        done(answer)


def sweeper(store: Any, *policies: StoragePolicy) -> RetentionSweeper:
    return RetentionSweeper(store, Retention(ttl_action="delete"), FakeClock(1_000), lambda: policies)


async def test_it_goes_on_after_a_failure_and_ends_with_the_record(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retention_sweep, "SHORTEST_S", 0.0)
    monkeypatch.setattr(retention_sweep, "LONGEST_S", 0.0)
    store = ScriptedStore(SweepResult(), StorageError("the disk is full"), ClosedError("over"))
    await asyncio.wait_for(sweeper(store, Ttl(1)).run(), DEADLINE_S)
    assert store.swept == [(1_000, "delete")] * 3
    assert "the disk is full" in caplog.text


@each_row(
    ("policies", "due", "seconds"),
    [
        ((), None, math.inf),
        ((Full(),), None, math.inf),
        ((Full(), Ttl(20), Ttl(7)), None, 7),
        ((Ttl(0.01),), None, 1),
        ((), 1_010, 10),
        ((), 5_000, 60),
        ((), 900, 1),
        ((Ttl(30),), 1_003, 3),
    ],
)
def test_it_waits_for_what_is_due_next_between_a_second_and_a_minute(
    policies: tuple[StoragePolicy, ...], due: float | None, seconds: float
) -> None:
    assert sweeper(None, *policies).pause(due) == seconds


async def test_where_nothing_can_expire_it_sweeps_only_what_was_to_be_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle session wakes no process; after an erasure that failed it is tried every minute."""
    monkeypatch.setattr(retention_sweep, "SHORTEST_S", 0.0)
    monkeypatch.setattr(retention_sweep, "LONGEST_S", 0.0)
    store = ScriptedStore(StorageError("it is still read"), SweepResult(), ClosedError("over"))
    idle = sweeper(store, Full())
    running = asyncio.ensure_future(idle.run())
    await ticks(20)
    idle.hear(Full())
    await ticks(20)
    assert store.swept == []
    idle.hear(HeadersOnly())
    await ticks(20)
    assert store.swept == [(1_000, "delete")] * 2
    assert not running.done()
    idle.hear(NoStorage())
    await asyncio.wait_for(running, DEADLINE_S)
    assert len(store.swept) == 3
