"""Events on their way to one client, and who waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from tertulia.events.bus import EventBus, EventScope
from tertulia.events.journal import NoJournal
from tertulia.models.scripted.script import say
from tertulia.protocol.events import AgentMessage, AgentMessageDelta
from tertulia.protocol.ids import ConversationId, ItemId, SessionId
from tertulia.server.jsonrpc import event_batching
from tertulia.server.jsonrpc.event_batching import BURST_BYTES, EventBatcher, EventSender
from tertulia.session.settings.settings import Settings
from tertulia.testing import FakeClock
from tests.server.client import DEADLINE_S, MemorySink, model, ticks
from tests.server.served import served

A, B = EventScope("s", ConversationId("a")), EventScope("s", ConversationId("b"))
MESSAGE = AgentMessage("hello", ItemId("item"))
DELTA = AgentMessageDelta("h", ItemId("item"), 0)


class Stage:
    """A bus, a sink, and the feeds between them."""

    def __init__(self) -> None:
        self.bus = EventBus(SessionId("session"), FakeClock(), NoJournal())
        self.sink = MemorySink()
        self.jobs: list[asyncio.Task[None]] = []

    def feed(self, *, after: int | None = None, conversation: str | None = None, limit: int = 1_000) -> EventSender:
        wanted = None if conversation is None else ConversationId(conversation)
        return self.run(EventSender(self.bus.subscribe(after=after, conversation=wanted, limit=limit), self.sink))

    def run(self, feed: EventSender) -> EventSender:
        self.jobs.append(asyncio.create_task(feed.run()))
        return feed

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.jobs.append(asyncio.create_task(coroutine))
        return self.jobs[-1]

    @property
    def seqs(self) -> list[int | None]:
        return [message["params"]["seq"] for message in self.sink.messages]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    stage.bus.close()
    stage.sink.loosen()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*stage.jobs)


async def test_every_event_goes_out_as_a_notification_encoded_once(stage: Stage) -> None:
    stage.feed()
    event = stage.bus.publish(MESSAGE, A)
    encoded = event.json()
    await ticks()
    assert stage.sink.sent == [b'{"jsonrpc":"2.0","method":"event","params":' + encoded + b"}"]
    assert event.json() is encoded
    assert json.loads(encoded)["data"]["text"] == "hello"


async def test_what_is_published_in_one_step_is_sent_in_one_burst(stage: Stage) -> None:
    stage.feed()
    await ticks()
    for _ in range(10):
        stage.bus.publish(MESSAGE, A)
    await ticks()
    assert stage.sink.bursts == [10]
    assert stage.seqs == list(range(1, 11))


async def test_a_long_replay_lets_others_run_between_its_bursts(stage: Stage) -> None:
    large = AgentMessage("x" * BURST_BYTES, ItemId("item"))
    for _ in range(50):
        stage.bus.publish(large, A)
    stage.feed(after=0)
    await ticks(10)
    assert 0 < len(stage.sink.sent) <= 10
    await ticks(60)
    assert stage.seqs == list(range(1, 51))


async def test_who_waits_for_an_event_goes_on_when_it_is_sent_and_not_before(stage: Stage) -> None:
    feed = stage.feed()
    await ticks()
    stage.sink.stick()
    stage.bus.publish(DELTA, A)
    stage.bus.publish(MESSAGE, A)
    stage.bus.publish(MESSAGE, A)
    waiting = [stage.start(feed.sent(seq)) for seq in (1, 2)]
    await ticks()
    assert not any(task.done() for task in waiting)
    assert stage.sink.sent == []
    stage.sink.loosen()
    await ticks()
    assert all(task.done() for task in waiting)
    assert stage.seqs == [None, 1, 2]


async def test_who_waits_for_what_was_sent_already_does_not_wait(stage: Stage) -> None:
    feed = stage.feed()
    stage.bus.publish(MESSAGE, A)
    await ticks()
    stage.sink.stick()
    stage.bus.publish(MESSAGE, A)
    await ticks()
    await feed.sent(1)


async def test_who_waits_for_an_event_that_the_filter_leaves_out_does_not_wait(stage: Stage) -> None:
    feed = stage.feed(conversation="a")
    stage.sink.stick()
    stage.bus.publish(MESSAGE, B)
    await feed.sent(1)


async def test_who_stops_waiting_is_forgotten(stage: Stage) -> None:
    feed = stage.feed()
    stage.sink.stick()
    stage.bus.publish(MESSAGE, A)
    waiting = asyncio.create_task(feed.sent(1))
    await ticks()
    waiting.cancel()
    await ticks()
    stage.sink.loosen()
    await ticks()
    assert waiting.cancelled()
    assert stage.seqs == [1]
    assert feed._waiting == []


async def test_a_client_that_does_not_read_makes_its_own_subscription_lag_and_is_told(stage: Stage) -> None:
    """G2: bounded for it, nothing lost for the others."""
    stage.feed(limit=10)
    other = stage.bus.subscribe(limit=1_000)
    await ticks()
    stage.sink.stick()
    for _ in range(20):
        stage.bus.publish(MESSAGE, A)
        for _ in range(20):
            stage.bus.publish(DELTA, A)
    await ticks()
    assert stage.sink.sent == []
    assert sum(other.next_nowait() is not None for _ in range(1_000)) == 20 * 21
    stage.sink.loosen()
    await ticks()
    types = [message["params"]["type"] for message in stage.sink.messages]
    assert types.count("subscriber_lagged") == 1
    assert [seq for seq in stage.seqs if seq is not None] == list(range(1, 21))
    assert types.count("agent_message_delta") < 10


async def test_a_replaced_feed_ends_and_those_who_wait_wait_for_the_new_one(stage: Stage) -> None:
    former = stage.feed()
    await ticks()
    stage.sink.stick()
    stage.bus.publish(MESSAGE, A)
    waiting = stage.start(former.sent(1))
    await ticks()
    heir = stage.run(former.replace(stage.bus.subscribe(after=0)))
    await ticks()
    assert not waiting.done()
    stage.sink.loosen()
    await ticks()
    assert waiting.done()
    assert stage.jobs[0].done()
    assert stage.seqs == [1]
    stage.bus.publish(MESSAGE, A)
    await ticks()
    assert stage.seqs == [1, 2]
    await heir.sent(2)


async def test_those_who_wait_for_what_the_new_feed_will_never_send_go_on_at_once(stage: Stage) -> None:
    former = stage.feed()
    await ticks()
    stage.sink.stick()
    stage.bus.publish(MESSAGE, A)
    waiting = stage.start(former.sent(1))
    await ticks()
    stage.run(former.replace(stage.bus.subscribe()))
    await ticks()
    assert waiting.done()


async def test_after_the_end_of_the_session_everything_is_sent_and_nobody_waits(stage: Stage) -> None:
    """H4."""
    feed = stage.feed()
    await ticks()
    stage.sink.stick()
    stage.bus.publish(MESSAGE, A)
    waiting = stage.start(feed.sent(99))
    stage.bus.close()
    await ticks()
    assert not waiting.done()
    stage.sink.loosen()
    await ticks()
    assert waiting.done()
    assert stage.jobs[0].done()
    assert stage.seqs == [1]


async def test_a_feed_that_is_cancelled_lets_everybody_go(stage: Stage) -> None:
    feed = EventSender(stage.bus.subscribe(), stage.sink)
    running = asyncio.create_task(feed.run())
    await ticks()
    stage.sink.stick()
    stage.bus.publish(MESSAGE, A)
    waiting = stage.start(feed.sent(1))
    await ticks()
    running.cancel()
    await ticks()
    assert running.cancelled()
    assert waiting.done()
    assert stage.sink.sent == []


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So long that nothing goes out for its time alone."""
    monkeypatch.setattr(event_batching, "BATCH_DELAY_S", 1_000.0)


async def test_events_wait_and_go_out_together_when_their_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10: one write a moment, not one an event."""
    monkeypatch.setattr(event_batching, "BATCH_DELAY_S", 0.01)
    sink = MemorySink()
    out = EventBatcher(sink, lambda: True)
    out.send([b"1", b"2"])
    out.send([])
    out.send([b"3"])
    assert sink.sent == []
    assert await sink.until(lambda message: message == 3) == 3
    assert (sink.sent, sink.bursts) == ([b"1", b"2", b"3"], [3])


@pytest.mark.usefixtures("patient")
async def test_an_answer_goes_out_at_once_after_what_was_before_it() -> None:
    """X-69: it does not overtake."""
    sink = MemorySink()
    out = EventBatcher(sink, lambda: True)
    out.send_now([b"1"])
    assert sink.sent == [b"1"]
    out.send([b"2"])
    assert sink.sent == [b"1"]
    out.send_now([b"3"])
    assert (sink.sent, sink.bursts) == ([b"1", b"2", b"3"], [1, 2])


@pytest.mark.usefixtures("patient")
async def test_where_no_answer_is_to_come_nothing_waits_but_for_what_waits_already() -> None:
    sink, is_pending = MemorySink(), False
    out = EventBatcher(sink, lambda: is_pending)
    out.send([b"1"])
    assert sink.sent == [b"1"]
    is_pending = True
    out.send([b"2"])
    assert sink.sent == [b"1"]
    is_pending = False
    out.send([b"3"])
    assert sink.sent == [b"1"]
    out.send_now([b"4"])
    out.send([b"5"])
    assert (sink.sent, sink.bursts) == ([b"1", b"2", b"3", b"4", b"5"], [1, 3, 1])


@pytest.mark.usefixtures("patient")
async def test_no_more_than_a_burst_is_held() -> None:
    """G2: bounded, however long it may wait."""
    sink = MemorySink()
    out = EventBatcher(sink, lambda: True)
    out.send([b"x" * (BURST_BYTES - 1)])
    assert sink.sent == []
    out.send([b"y"])
    assert len(sink.sent) == 2
    out.send([b"z"])
    assert len(sink.sent) == 2


@pytest.mark.usefixtures("patient")
async def test_what_waits_can_be_told_to_go_and_then_nothing_is_left_to_do() -> None:
    loop = asyncio.get_running_loop()
    sink = MemorySink()
    out = EventBatcher(sink, lambda: True)
    out.flush()
    assert sink.bursts == []
    out.send([b"1"])
    out.flush()
    out.flush()
    assert sink.bursts == [1]
    due = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    assert due == []


async def test_one_who_is_stuck_makes_everybody_wait_as_before() -> None:
    """See `Sink`: who drains waits for the client, not for us."""
    sink = MemorySink()
    out = EventBatcher(sink, lambda: True)
    sink.stick()
    waiting = asyncio.ensure_future(out.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    sink.loosen()
    await waiting


@pytest.mark.usefixtures("patient")
async def test_an_answer_over_a_socket_brings_along_every_event_of_its_task() -> None:
    """X-69: in order, though nothing went out for its time."""
    async with served(Settings(model=model(["hello there"]))) as place, place.socket() as client:
        await client.call("initialize")
        running = await client.send("conversation/message", conversation_id="root", text="go")
        order: list[str] = []
        async with asyncio.timeout(DEADLINE_S):
            while "answer" not in order:
                message = json.loads(await client.socket.recv())
                order.append("answer" if message.get("id") == running else message["params"]["type"])
        assert "task_started" in order
        assert order[-2:] == ["task_complete", "answer"]


@pytest.mark.usefixtures("patient")
async def test_one_who_only_listens_hears_at_once() -> None:
    """X-70."""
    gate = asyncio.Event()
    settings = Settings(model=model([say("late", gate=gate)]))
    async with served(settings) as place, place.socket() as client, place.socket() as other:
        session_id = (await client.call("initialize"))["result"]["session_id"]
        await other.call("initialize", session_id=session_id)
        running = await client.send("conversation/message", conversation_id="root", text="go")
        begun = await other.event("task_started")
        assert running not in client.answers
        gate.set()
        assert (await client.answer(running))["result"]["task_id"] == begun["task_id"]


@pytest.mark.usefixtures("patient")
async def test_the_events_of_a_notification_are_sent_though_no_answer_takes_them_along() -> None:
    async with served() as place, place.socket() as client:
        await client.call("initialize")
        fields = {
            "jsonrpc": "2.0",
            "method": "conversation/message",
            "params": {"conversation_id": "root", "text": "go"},
        }
        await client.socket.send(json.dumps(fields))
        assert (await client.event("task_complete"))["task_id"] == (await client.event("task_started"))["task_id"]
