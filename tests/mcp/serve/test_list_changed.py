"""Who is told that a list is another: soon, once for many changes, and nobody on account of nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tertulia.mcp.serve import sdk_server as module
from tertulia.mcp.serve.sdk_server import LatestOnlySender, ListChangedSubscribers, ListNotice
from tertulia.scheduler.nursery import Nursery
from tests.mcp.connected import until

OLD, NEW = "2025-11-25", "2026-07-28"


class Hall:
    """Subscribers whose clients are names, and who was told how often."""

    def __init__(self) -> None:
        self.nursery = Nursery()
        self.told: dict[str, int] = {}
        self.published = 0
        self.asleep: set[str] = set()
        self.subscribers = ListChangedSubscribers(self.nursery.start, self, ListNotice("news", self._send))  # type: ignore[arg-type]

    async def publish(self, event: Any) -> None:
        self.published += 1

    async def _send(self, client: Any) -> None:
        if client in self.asleep:
            await asyncio.Event().wait()
        self.told[client] = self.told.get(client, 0) + 1

    def comes(self, client: str, connection: str | None = None, era: str = OLD) -> None:
        request = SimpleNamespace(headers={"mcp-session-id": connection or client})
        context: Any = SimpleNamespace(protocol_version=era, request=request, session=client)
        self.subscribers.remember(context)

    def comes_over_a_stream(self, client: str, connection: object) -> None:
        context: Any = SimpleNamespace(protocol_version=OLD, request=None, session=client, lifespan_context=connection)
        self.subscribers.remember(context)


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    made = Hall()
    yield made
    made.subscribers.close()
    await until(lambda: not len(made.nursery))


async def test_a_storm_is_a_word_or_two(hall: Hall) -> None:
    """Issue 10, G2: bounded, however often the list changes."""
    hall.comes("a")
    hall.comes("b")
    for _ in range(10_000):
        hall.subscribers.tell()
    assert len(hall.nursery) <= 3
    await until(lambda: hall.told == {"a": 1, "b": 1})
    for _ in range(10_000):
        hall.subscribers.tell()
        await asyncio.sleep(0)
    await until(lambda: hall.told.get("a", 0) > 1)
    assert max(hall.published, *hall.told.values()) < 30, "ten in a second at most"


async def test_one_that_does_not_read_keeps_nothing_from_the_others(hall: Hall) -> None:
    """G2."""
    hall.asleep.add("a")
    hall.comes("a")
    hall.comes("b")
    hall.subscribers.tell()
    await until(lambda: hall.told == {"b": 1})
    hall.subscribers.tell()
    await until(lambda: hall.told == {"b": 2})
    assert hall.published == 2


async def test_a_connection_is_told_once_through_its_newest_session(hall: Hall) -> None:
    hall.comes("first", connection="x")
    hall.comes("second", connection="x")
    hall.subscribers.tell()
    await until(lambda: hall.told == {"second": 1})


async def test_each_stream_is_a_client_of_its_own_until_it_is_closed(hall: Hall) -> None:
    """G2: of two on one broker both are told, and nothing is kept of one that is gone."""
    one, other = object(), object()
    for client, connection in (("a", one), ("b", other), ("b2", other)):
        hall.comes_over_a_stream(client, connection)
    hall.subscribers.tell()
    await until(lambda: hall.told == {"a": 1, "b2": 1})
    hall.subscribers.forget(other)
    hall.subscribers.forget(other)
    assert list(hall.subscribers._clients) == [one]
    hall.subscribers.tell()
    await until(lambda: hall.told == {"a": 2, "b2": 1})


async def test_those_of_the_new_era_listen_themselves(hall: Hall) -> None:
    hall.comes("a", era=NEW)
    hall.subscribers.tell()
    await until(lambda: hall.published == 1)
    assert not hall.told


async def test_there_is_room_for_those_who_came_last(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LISTENERS", 2)
    for name in ("a", "b", "a", "c"):
        hall.comes(name)
    hall.subscribers.tell()
    await until(lambda: hall.told == {"a": 1, "c": 1})


async def test_nobody_is_told_after_the_end(hall: Hall) -> None:
    hall.comes("a")
    hall.subscribers.tell()
    hall.subscribers.close()
    await until(lambda: not len(hall.nursery))
    assert not hall.told


# ---- news for somebody slow: one piece under way, the newest next


class Slow:
    def __init__(self) -> None:
        self.nursery, self.heard = Nursery(), list[int]()
        self.may_go = asyncio.Event()
        self.newest = LatestOnlySender(self.nursery.start, "news")

    def piece(self, number: int) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            self.heard.append(number)
            await self.may_go.wait()

        return send


async def test_of_all_that_comes_while_one_piece_is_under_way_the_last_is_told() -> None:
    slow = Slow()
    for number in range(1_000):
        slow.newest.send(slow.piece(number))
    assert len(slow.nursery) == 1
    await until(lambda: slow.heard == [999])
    for number in range(1_000, 2_000):
        slow.newest.send(slow.piece(number))
    assert len(slow.nursery) == 1
    slow.may_go.set()
    await until(lambda: slow.heard == [999, 1_999] and not len(slow.nursery))
    slow.newest.send(slow.piece(5))
    await until(lambda: slow.heard[-1] == 5)


async def test_after_the_end_nothing_is_told() -> None:
    slow = Slow()
    slow.newest.close()
    slow.newest.send(slow.piece(1))
    await until(lambda: slow.heard == [1])
    slow.newest.send(slow.piece(2))
    slow.newest.close()
    await until(lambda: not len(slow.nursery))
    assert slow.heard == [1]


async def test_a_piece_that_cannot_be_told_does_not_keep_the_next_from_it() -> None:
    slow = Slow()

    async def fails() -> None:
        raise OSError("gone")

    slow.newest.send(fails)
    await until(lambda: not len(slow.nursery))
    slow.newest.send(slow.piece(1))
    await until(lambda: slow.heard == [1])
    slow.newest.close()
    await until(lambda: not len(slow.nursery))
