"""Events that wait a moment: what goes out together, what does not wait, and that nothing overtakes or piles up."""

from __future__ import annotations

import asyncio
import json

import pytest

from tertulia.models.scripted.script import say
from tertulia.server.jsonrpc import event_batcher
from tertulia.server.jsonrpc.event_batcher import EventBatcher
from tertulia.server.jsonrpc.event_sender import BURST_BYTES
from tertulia.session.settings.settings import Settings
from tests.server.client import MemorySink, model
from tests.server.served import DEADLINE_S, served


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So long that nothing goes out for its time alone."""
    monkeypatch.setattr(event_batcher, "BATCH_DELAY_S", 1_000.0)


async def test_events_wait_and_go_out_together_when_their_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10: one write a moment, not one an event."""
    monkeypatch.setattr(event_batcher, "BATCH_DELAY_S", 0.01)
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
    out.send_now(b"1")
    assert sink.sent == [b"1"]
    out.send([b"2"])
    assert sink.sent == [b"1"]
    out.send_now(b"3")
    assert (sink.sent, sink.bursts) == ([b"1", b"2", b"3"], [1, 2])


@pytest.mark.usefixtures("patient")
async def test_where_no_answer_is_to_come_nothing_waits_but_for_what_waits_already() -> None:
    sink, asked = MemorySink(), False
    out = EventBatcher(sink, lambda: asked)
    out.send([b"1"])
    assert sink.sent == [b"1"]
    asked = True
    out.send([b"2"])
    assert sink.sent == [b"1"]
    asked = False
    out.send([b"3"])
    assert sink.sent == [b"1"]
    out.send_now(b"4")
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
    async with served(Settings(model=model(["hello there"]))) as place, place.socket() as talker:
        await talker.call("initialize")
        running = await talker.send("conversation/message", conversation_id="root", text="go")
        order: list[str] = []
        async with asyncio.timeout(DEADLINE_S):
            while "answer" not in order:
                message = json.loads(await talker.socket.recv())
                order.append("answer" if message.get("id") == running else message["params"]["type"])
        assert "task_started" in order
        assert order[-2:] == ["task_complete", "answer"]


@pytest.mark.usefixtures("patient")
async def test_one_who_only_listens_hears_at_once() -> None:
    """X-70."""
    gate = asyncio.Event()
    settings = Settings(model=model([say("late", gate=gate)]))
    async with served(settings) as place, place.socket() as talker, place.socket() as other:
        session_id = (await talker.call("initialize"))["result"]["session_id"]
        await other.call("initialize", session_id=session_id)
        running = await talker.send("conversation/message", conversation_id="root", text="go")
        begun = await other.event("task_started")
        assert running not in talker.answers
        gate.set()
        assert (await talker.answer(running))["result"]["task_id"] == begun["task_id"]


@pytest.mark.usefixtures("patient")
async def test_the_events_of_a_notification_are_sent_though_no_answer_takes_them_along() -> None:
    async with served() as place, place.socket() as talker:
        await talker.call("initialize")
        told = {"jsonrpc": "2.0", "method": "conversation/message", "params": {"conversation_id": "root", "text": "go"}}
        await talker.socket.send(json.dumps(told))
        assert (await talker.event("task_complete"))["task_id"] == (await talker.event("task_started"))["task_id"]
