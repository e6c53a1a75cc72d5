"""Who is there to answer."""

from __future__ import annotations

from tertulia.events.bus import EventBus
from tertulia.events.journal import NoJournal
from tertulia.session.command_services import ApproverPresence
from tests.events.scripted import SESSION, StillClock
from tests.policy.approval_stage import A, B, request


async def test_a_subscription_counts_as_long_as_it_is_open_and_held() -> None:
    """B9"""
    bus, presence = EventBus(SESSION, StillClock(), NoJournal()), ApproverPresence()
    assert not presence.sees(request(A))
    news = bus.subscribe()
    presence.add(news, None)
    assert presence.sees(request(A))
    news.close()
    assert not presence.sees(request(A))
    held = bus.subscribe()
    presence.add(held, None)
    assert presence.sees(request(A))
    del held
    assert not presence.sees(request(A))


async def test_who_follows_one_conversation_sees_its_requests_alone() -> None:
    bus, presence = EventBus(SESSION, StillClock(), NoJournal()), ApproverPresence()
    news = bus.subscribe(conversation=A)
    presence.add(news, A)
    assert presence.sees(request(A))
    assert not presence.sees(request(B))
    assert presence.sees(request(B, chain=(A,)))
    news.close()
    assert not presence.sees(request(B, chain=(A,)))
