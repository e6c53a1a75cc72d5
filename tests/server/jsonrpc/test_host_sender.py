"""`host/subscribe` over a connection: the cards in the answer, changes after it, and the end of both."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.session.host import Host
from tertulia.session.host_feed import session_watch
from tertulia.session.settings.settings import Settings
from tests.server.client import Client
from tests.session.lives import until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_watch, "EVERY_S", 0.0)


def is_of(session_id: str, type: str) -> Any:
    def wanted(message: Any) -> bool:
        if message.get("method") != "host_event":
            return False
        return message["params"]["type"] == type and message["params"]["session"]["session_id"] == session_id

    return wanted


async def test_an_observer_gets_cards_and_then_what_changes() -> None:
    """Issue 23 (1), S001-49: no session of its own, no polling, and the answer comes before the first change."""
    host = Host(Settings(model=ScriptedModel(["hi"], repeat=True)))
    session = await host.start()
    client = Client(host)
    await client.call("initialize", observe=True)
    answer = await client.call("host/subscribe")
    assert [card["session_id"] for card in answer["sessions"]] == [session.id]
    await session.root.message("hello")
    changed = await client.sink.until(
        lambda m: is_of(session.id, "session_changed")(m) and m["params"]["session"]["tokens"] > 0
    )
    assert changed["params"]["session"]["preview"] == "hello"
    other = await host.start()
    await client.sink.until(is_of(other.id, "session_opened"))
    await host.close_session(other)
    await client.sink.until(is_of(other.id, "session_closed"))
    again = await client.call("host/subscribe")
    assert len(again["sessions"]) == 1
    assert len(host.services.feed._subscriptions) == 1, "a second one takes the place of the first"
    error = await client.fail("host/subscribe", nonsense=1)
    assert error["data"]["code"] == "invalid_params"
    await client.connection.close(1.0)
    await until(lambda: not host.services.feed._subscriptions and not host.services.feed._tasks)
    await host.close()


async def test_a_client_that_is_gone_is_forgotten_and_one_that_is_not_initialized_refused() -> None:
    host = Host(Settings(model=ScriptedModel(["hi"], repeat=True)))
    client = Client(host)
    assert (await client.fail("host/subscribe"))["data"]["code"] == "not_initialized"
    await client.call("initialize", observe=True)
    await client.call("host/subscribe")
    await client.connection.leave()
    assert host.services.feed._subscriptions == []
    await host.close()


async def test_a_client_that_does_not_read_gets_what_is_newest_when_it_does() -> None:
    host = Host(Settings(model=ScriptedModel(["hi"], repeat=True)))
    session = await host.start()
    client = Client(host)
    await client.call("initialize", observe=True)
    await client.call("host/subscribe")
    client.sink.stick()
    sent = len(client.sink.sent)
    for _ in range(5):
        await session.root.message("more")
    tokens = session.activity.totals.usage.total_tokens
    (subscription,) = host.services.feed._subscriptions
    await until(lambda: any(event.session.tokens == tokens for event in subscription._waiting.values()))
    await until(lambda: all(event.session.state == "idle" for event in subscription._waiting.values()))
    assert len(client.sink.sent) == sent
    client.sink.loosen()
    message = await client.sink.until(is_of(session.id, "session_changed"), sent)
    assert message["params"]["session"]["tokens"] == tokens
    await client.connection.close(1.0)
    await host.close()
