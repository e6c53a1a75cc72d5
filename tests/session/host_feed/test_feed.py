"""Who follows a host sees every session that runs, as it is now, and hears of each change; others cost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

import tertulia
from tertulia import Settings
from tertulia.session.host_feed import session_watch
from tertulia.session.host_feed.cards import HostEvent, SessionCard
from tertulia.session.host_feed.feed import HostSubscription
from tertulia.testing import ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.session.lives import until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here waits for a clock."""
    monkeypatch.setattr(session_watch, "EVERY_S", 0.0)


@asynccontextmanager
async def a_host(*replies: object) -> AsyncIterator[tertulia.Host]:
    model = ScriptedModel([*replies, say("ok", repeat=True)])  # type: ignore[list-item]
    host = tertulia.Host(Settings(model=model))
    try:
        yield host
    finally:
        await host.close()


async def heard(subscription: HostSubscription, wanted: Callable[[HostEvent], bool]) -> list[HostEvent]:
    """All that is told until the event that is wanted."""
    events: list[HostEvent] = []
    async with asyncio.timeout(HANG_S):
        while not any(map(wanted, events)):
            assert await subscription.wait()
            events += subscription.take()
    return events


async def test_a_card_says_what_a_session_does_asks_and_costs() -> None:
    """UI.md 7.8, S001-33: a list without a call for each session."""
    async with a_host() as host:
        session = await host.start()
        subscription, answer = await host.services.feed.subscribe()
        (card,) = answer.sessions
        assert (card.session_id, card.where, card.state, card.conversations) == (session.id, "here", "idle", 1)
        assert (card.tokens, card.preview, card.running, card.questions) == (0, None, 0, 0)
        await session.root.message("Where is the  key?")
        *_, last = await heard(subscription, lambda event: event.session.tokens > 0 and event.session.state == "idle")
        assert (last.type, last.session.preview) == ("session_changed", "Where is the key?")
        assert last.session.started_at == card.started_at <= last.session.last_active_at
        assert last.session.cwd == session.root.details.cwd
        subscription.close()


async def test_sessions_that_begin_and_end_are_told() -> None:
    async with a_host() as host:
        subscription, answer = await host.services.feed.subscribe()
        assert answer.sessions == []
        session = await host.start()
        (opened,) = await heard(subscription, lambda event: event.type == "session_opened")
        assert opened.session.session_id == session.id
        await host.close_session(session)
        *_, closed = await heard(subscription, lambda event: event.type == "session_closed")
        assert (closed.session.session_id, closed.session.state) == (session.id, "idle")
        assert host.services.feed._watches == {}
        subscription.close()


async def test_a_question_shows_until_it_is_answered() -> None:
    """S002-44: who waits for a person is seen without asking each session."""
    asks = say("", call("shell", {"command": ["touch", "x"], "sandbox_permissions": "require_escalated"}, "c1"))
    async with a_host(asks) as host:
        session = await host.start()
        subscription, _ = await host.services.feed.subscribe()
        attending = session.events(attend=True)
        running = asyncio.ensure_future(session.root.message("go"))
        await heard(subscription, lambda event: event.session.state == "asking" and event.session.questions == 1)
        (waiting,) = await session.approvals.pending()
        await session.approvals.resolve(waiting.approval_id, "deny")
        await running
        await heard(subscription, lambda event: event.session.state == "idle" and event.session.questions == 0)
        attending.close()
        subscription.close()


async def test_a_slow_client_gets_the_last_state_of_each_session_once() -> None:
    async with a_host() as host:
        one, other = await host.start(), await host.start()
        subscription, _ = await host.services.feed.subscribe()
        for number in range(5):
            await one.root.message(f"m{number}")
            await other.root.message(f"m{number}")
        tokens = {session.id: session.activity.totals.usage.total_tokens for session in (one, other)}

        def is_last(event: HostEvent) -> bool:
            return event.session.tokens == tokens[event.session.session_id] and event.session.state == "idle"

        await until(lambda: len(subscription._waiting) == 2 and all(map(is_last, subscription._waiting.values())))
        events = subscription.take()
        assert sorted(event.session.session_id for event in events) == sorted(tokens)
        assert subscription.take() == []
        new = await host.start()
        await until(lambda: new.id in subscription._waiting)
        await new.root.message("hi")
        await until(lambda: subscription._waiting[new.id].session.tokens > 0)
        assert subscription._waiting[new.id].type == "session_opened", "it was not told yet"
        subscription.close()


async def test_a_host_that_is_not_followed_watches_nothing_and_a_sleeping_one_runs_no_timer() -> None:
    """Issue 23: an observer that sleeps costs the server nothing but its socket."""
    async with a_host() as host:
        session = await host.start()
        assert host.services._feed is None
        boxes = len(session.parts.bus._boxes)
        subscription, _ = await host.services.feed.subscribe()
        assert not session.parts.bus.followed, "a card keeps no session open"
        assert session.activity.is_idle
        assert not session.parts.bus._passing_wanted
        loop = asyncio.get_running_loop()
        timers = len(loop._scheduled)  # type: ignore[attr-defined]
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(loop._scheduled) == timers  # type: ignore[attr-defined]
        assert subscription.take() == []
        subscription.close()
        subscription.close()
        bus = session.parts.bus
        await until(lambda: bus._sweep() is None and len(bus._boxes) == boxes)
        await host.start()
        assert host.services.feed._watches == {}
        assert not await subscription.wait()


async def test_two_that_come_at_once_both_see_every_session_and_the_next_one_too() -> None:
    async with a_host() as host:
        session = await host.start()
        (first, one), (second, other) = await asyncio.gather(
            host.services.feed.subscribe(), host.services.feed.subscribe()
        )
        assert (
            [card.session_id for card in one.sessions] == [card.session_id for card in other.sessions] == [session.id]
        )
        first.close()
        await session.root.message("hi")
        await heard(second, lambda event: event.session.tokens > 0)
        second.close()
        third, again = await host.services.feed.subscribe()
        assert [card.session_id for card in again.sessions] == [session.id]
        await session.root.message("again")
        await heard(third, lambda event: event.session.tokens > again.sessions[0].tokens)
        third.close()


async def test_a_resumed_session_counts_its_earlier_lives() -> None:
    async with a_host() as host:
        session = await host.start()
        await session.root.message("hi")
        tokens = session.activity.totals.usage.total_tokens
        await host.close_session(session)
        again = await host.resume(session.id)
        subscription, answer = await host.services.feed.subscribe()
        (card,) = answer.sessions
        assert (card.tokens, card.preview) == (tokens, "hi")
        await again.root.message("more")
        *_, last = await heard(subscription, lambda event: event.session.tokens > tokens)
        assert last.session.started_at == card.started_at
        subscription.close()


class Elsewhere:
    """Sessions of another process, as far as a host can tell."""

    def __init__(self, card: SessionCard) -> None:
        self.card = card
        self.tell: Callable[[HostEvent], None] | None = None

    async def cards(self) -> list[SessionCard]:
        return [self.card]

    def follow(self, tell: Callable[[HostEvent], None]) -> Callable[[], None]:
        self.tell = tell
        return self.leave

    def leave(self) -> None:
        self.tell = None


async def test_sessions_of_other_processes_come_in_as_others_tell_them() -> None:
    async with a_host() as host:
        await host.start()
        subscription, answer = await host.services.feed.subscribe()
        own = answer.sessions[0]
        subscription.close()
        others = Elsewhere(replace(own, session_id="x", where="elsewhere"))
        host.services.feed.others = others
        subscription, answer = await host.services.feed.subscribe()
        assert [card.where for card in answer.sessions] == ["here", "elsewhere"]
        assert others.tell is not None
        others.tell(HostEvent("session_changed", replace(others.card, questions=1, state="asking")))
        (event,) = await heard(subscription, lambda event: event.session.session_id == "x")
        assert event.session.state == "asking"
        subscription.close()
        assert others.tell is None, "no client follows any more"


async def test_a_client_whose_subscription_fails_leaves_nothing_behind() -> None:
    class Broken(Elsewhere):
        async def cards(self) -> list[SessionCard]:
            raise tertulia.errors.LimitError("too many")

    async with a_host() as host:
        session = await host.start()
        subscription, answer = await host.services.feed.subscribe()
        subscription.close()
        others = host.services.feed.others = Broken(answer.sessions[0])
        with pytest.raises(tertulia.errors.LimitError):
            await host.services.feed.subscribe()
        assert (others.tell, host.services.feed._subscriptions, session.closed) == (None, [], False)


async def test_a_session_that_is_not_stored_has_a_card_too() -> None:
    async with a_host() as host:
        session = await host.start()
        session.parts.bus._ring._max_events = 1
        await session.root.message("hi")
        host.services.records.entry = _refuse  # type: ignore[method-assign]
        subscription, answer = await host.services.feed.subscribe()
        assert answer.sessions[0].tokens == session.activity.totals.usage.total_tokens
        subscription.close()


async def _refuse(session_id: str) -> object:
    raise tertulia.errors.NotFoundError(f"there is no session {session_id}")
