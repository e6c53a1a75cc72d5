"""Who is there to answer."""

from __future__ import annotations

from tertulia.events.bus import EventBus
from tertulia.events.journal import NoJournal
from tertulia.session.approvals.presence import ApproverPresence
from tests.events.scripted import SESSION, StillClock
from tests.policy.asking import A, B, request


async def test_a_subscription_counts_as_long_as_it_is_open_and_held() -> None:
    """B9"""
    bus, attendance = EventBus(SESSION, StillClock(), NoJournal()), ApproverPresence()
    assert not attendance.sees(request(A))
    news = bus.subscribe()
    attendance.add(news, None)
    assert attendance.sees(request(A))
    news.close()
    assert not attendance.sees(request(A))
    held = bus.subscribe()
    attendance.add(held, None)
    assert attendance.sees(request(A))
    del held
    assert not attendance.sees(request(A))


async def test_who_follows_one_conversation_sees_its_requests_alone() -> None:
    bus, attendance = EventBus(SESSION, StillClock(), NoJournal()), ApproverPresence()
    news = bus.subscribe(conversation=A)
    attendance.add(news, A)
    assert attendance.sees(request(A))
    assert not attendance.sees(request(B))
    assert attendance.sees(request(B, chain=(A,)))
    news.close()
    assert not attendance.sees(request(B, chain=(A,)))
