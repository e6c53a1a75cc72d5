"""Ending in order and in time, whatever refuses to end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

import tertulia
from tertulia.errors import ClosedError, InvalidParamsError
from tertulia.protocol.records import message_key
from tertulia.scheduler.plan import TaskPlan
from tertulia.session import shutdown
from tertulia.session.resume import store_choice
from tertulia.session.shutdown import close_seconds
from tertulia.testing import ScriptedModel, assert_order, call, check_invariants, say
from tests.deadlines import HANG_S
from tests.session.staging import Ask, Disk, stage, ticks
from tests.tables import each_row


class Stubborn:
    """An asynchronous tool that goes on when it is cancelled, until it is let go."""

    def __init__(self) -> None:
        self.entered, self.free = asyncio.Event(), asyncio.Event()

    def tool(self) -> Any:
        async def stubborn() -> str:
            """Ignore cancellation."""
            self.entered.set()
            while not self.free.is_set():
                try:
                    await self.free.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        return tertulia.tool(stubborn)


# ---- a conversation


async def test_closing_an_idle_conversation_is_one_event_and_frees_what_it_held() -> None:
    """S002-48: released; its id answers closed from now on."""
    async with stage("ok") as on:
        made = await on.session.open()
        await made.message("hi")
        answer = await made.close()
        assert (answer.closed, answer.already_closed, answer.forced) == (True, False, False)
        last = on.events.drain()[-1]
        assert (last.type, last.conversation_id, last.data.forced) == ("conversation_closed", made.id, False)
        assert on.parts.closing == {}


async def test_closing_a_running_conversation_ends_its_task_first() -> None:
    """DESIGN, Answers: turn_aborted{interrupted}, its message answers interrupted, then conversation_closed."""
    async with stage(say("half", gate=asyncio.Event())) as on:
        made = await on.session.open()
        running = on.begin(made.message("hi"))
        await on.asked(1)
        await made.close()
        assert (await running).status == "interrupted"
        assert_order(on.events.drain(), ["task_started", "turn_aborted", "conversation_closed"])


async def test_whoever_closes_at_the_same_time_waits_for_the_same_end() -> None:
    """H2: twice, concurrently."""
    stubborn = Stubborn()
    async with stage(say("", call("stubborn")), tools=[stubborn.tool()]) as on:
        made = await on.session.open()
        running = on.begin(made.message("hi"))
        await stubborn.entered.wait()
        first, second = on.begin(made.close(timeout=5)), on.begin(made.close(timeout=5))
        await ticks()
        assert [first.done(), second.done()] == [False, False]
        stubborn.free.set()
        answers = [await first, await second]
        assert [(a.closed, a.already_closed) for a in answers] == [(True, False), (True, True)]
        assert (await running).status == "interrupted"
        assert [e.type for e in on.events.drain()].count("conversation_closed") == 1


async def test_a_caller_that_gives_up_closing_leaves_no_half_closed_conversation() -> None:
    stubborn = Stubborn()
    async with stage(say("", call("stubborn")), tools=[stubborn.tool()]) as on:
        made = await on.session.open()
        running = on.begin(made.message("hi"))
        await stubborn.entered.wait()
        closing = on.begin(made.close(timeout=5))
        await ticks()
        closing.cancel()
        await ticks()
        assert closing.cancelled()
        again = on.begin(made.close())
        await ticks()
        assert not again.done()
        stubborn.free.set()
        assert (await again).already_closed
        assert (await running).status == "interrupted"
        assert on.parts.closing == {}
        assert [e.type for e in on.events.drain()].count("conversation_closed") == 1


async def test_a_conversation_that_is_being_closed_when_the_session_closes_is_closed() -> None:
    """H2: the two ways to close at the same time, with a journal that does not answer."""
    async with stage(say("never", gate=asyncio.Event()), journal=(disk := Disk()), invariants=False) as on:
        made = await on.session.open()
        running = on.begin(made.message("hi"))
        await on.asked(1)
        disk.holding = True
        closing = on.begin(made.close())
        await ticks()
        async with asyncio.timeout(HANG_S):
            await on.session.close(timeout=0.01)
            assert (await closing).closed
        assert (await running).status in ("interrupted", "failed")


async def test_calls_left_open_by_a_waiting_conversation_are_answered_when_it_is_closed() -> None:
    """S004-18: exactly one output in every ending, destroyed included."""
    replies: list[Any] = []
    async with stage(model=ScriptedModel([lambda request: replies.pop(0)], repeat=True), tools=[Ask()]) as on:
        waiting, target = await on.session.open(), await on.session.open()
        replies += [say("", call("ask", {"to": target.id}, "c1")), say("never", gate=asyncio.Event())]
        running = on.begin(waiting.message("go"))
        await on.asked(2)
        conversation = on.parts.conversations.find(waiting.id)
        await waiting.close()
        assert conversation.history.open_calls == ()
        ends = [e for e in on.events.drain() if e.type == "tool_call_end"]
        assert [(e.data.call_id, e.data.success, e.conversation_id) for e in ends] == [("c1", False, waiting.id)]
        assert (await running).status == "interrupted"


async def test_the_root_cannot_be_closed_alone() -> None:
    async with stage("ok") as on:
        with pytest.raises(InvalidParamsError, match="session"):
            await on.root.close()
        assert (await on.root.message("hi")).text == "ok"


async def test_closing_a_parent_leaves_its_children() -> None:
    async with stage("ok") as on:
        parent = await on.session.open()
        child = await on.session.open(parent_id=parent.id)
        await parent.close()
        assert (await child.message("hi")).text == "ok"


# ---- a session


async def test_a_session_ends_in_order() -> None:
    """Tasks first, then what was held back, then the listeners."""
    async with stage(say("half", gate=asyncio.Event())) as on:
        running = on.begin(on.root.message("hi"))
        waiting = on.begin(on.root.message("and I?"))
        await on.asked(1)
        events = on.session.events()
        answer = await on.session.close()
        assert (answer.closed, answer.forced) == (True, False)
        assert {(await running).status, (await waiting).status} == {"interrupted"}
        types = [event.type async for event in events]
        assert types.count("turn_aborted") == 2
        assert len(on.parts.nursery) == 0


async def test_a_tool_that_will_not_stop_is_abandoned_in_time() -> None:
    """H3: bounded; said in the answer and as an event."""
    stubborn = Stubborn()
    async with stage(say("", call("stubborn")), tools=[stubborn.tool()]) as on:
        running = on.begin(on.root.message("hi"))
        await stubborn.entered.wait()
        async with asyncio.timeout(HANG_S):
            answer = await on.session.close(timeout=0.01)
        assert answer.forced
        assert (await running).status == "interrupted"
        assert "conversation_close_forced" in on.events.types()
        assert [(e.data.reason) for e in on.events.seen if e.type == "turn_aborted"] == ["shutdown"]
        stubborn.free.set()
        await ticks()


async def test_a_synchronous_tool_that_will_not_stop_holds_neither_the_session_nor_the_process() -> None:
    """Issue 3, 3: synchronous tools run in daemon threads."""
    entered, free = threading.Event(), threading.Event()

    @tertulia.tool
    def stuck() -> str:
        """Block a thread."""
        entered.set()
        free.wait(HANG_S)
        return "too late"

    async with stage(say("", call("stuck")), tools=[stuck]) as on:
        running = on.begin(on.root.message("hi"))
        await asyncio.to_thread(entered.wait, 10)
        async with asyncio.timeout(HANG_S):
            await on.session.close(timeout=0.01)
        assert (await running).status == "interrupted"
        blocked = [thread for thread in threading.enumerate() if thread.is_alive() and "tertulia" in thread.name]
        assert all(thread.daemon for thread in blocked)
        free.set()
        for thread in blocked:
            await asyncio.to_thread(thread.join, 10)


async def test_a_listener_that_does_not_read_does_not_hold_the_session() -> None:
    """H4: close with a full event queue returns."""
    async with stage(say("word " * 2_000, gate=(gate := asyncio.Event())), say("ok", repeat=True)) as on:
        stuck = on.parts.bus.subscribe(limit=1)
        gate.set()
        await on.root.message("hi")
        on.events.drain()
        async with asyncio.timeout(HANG_S):
            assert (await on.session.close()).closed
        assert stuck.next_nowait() is not None


async def test_a_journal_that_does_not_answer_does_not_hold_the_session() -> None:
    """H3: what will not stop is abandoned, the disk included."""
    async with stage(say("ok", repeat=True), journal=(disk := Disk()), invariants=False) as on:
        disk.holding = True
        running = on.begin(on.root.message("hi"))
        await ticks()
        waiting = on.begin(on.root.message("and I?"))
        await ticks(1)
        async with asyncio.timeout(HANG_S):
            answer = await on.session.close(timeout=0.01)
        assert answer.forced
        assert {(await running).status, (await waiting).status} <= {"interrupted", "failed"}


async def test_a_journal_that_fails_at_the_end_is_said_and_closing_goes_on() -> None:
    async with stage(journal=(disk := Disk()), invariants=False) as on:
        disk.holding = True
        opening = on.begin(on.session.open())
        await ticks()
        closing = on.begin(on.session.close())
        await ticks()
        disk.fail(OSError("the disk is full"))
        assert (await closing).forced
        with pytest.raises(tertulia.TertuliaError):
            await opening
        assert on.session.closed


class Holding(ScriptedModel):
    """A wire whose close fails, hangs, is none, or is counted."""

    def __init__(self, how: str) -> None:
        super().__init__(["ok"], name=f"scripted/{how}")
        self.how = how
        self.closed = 0
        if how == "breaks":
            self.close = self._refuse  # type: ignore[method-assign,assignment]

    def _refuse(self) -> None:
        self.closed += 1
        raise RuntimeError("not even a coroutine")

    async def close(self) -> None:
        self.closed += 1
        if self.how == "fails":
            raise OSError("the connection is gone")
        if self.how == "hangs":
            await asyncio.Event().wait()


async def test_every_wire_is_closed_once_and_one_that_fails_or_hangs_stops_no_other() -> None:
    """H3, H6"""
    wires = {how: Holding(how) for how in ("fails", "hangs", "breaks", "shared")}
    async with stage(model=wires["shared"]) as on:
        for wire in (*wires.values(), wires["shared"]):
            await on.session.open(model=wire)
        async with asyncio.timeout(HANG_S):
            assert (await on.session.close()).closed
        assert {how: wire.closed for how, wire in wires.items()} == dict.fromkeys(wires, 1)
        assert len(on.parts.nursery) == 0


@each_row("value", [-0.001, float("nan"), float("inf"), 86_401])
def test_a_time_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(InvalidParamsError, match="timeout"):
        close_seconds(tertulia.Settings(), value)


def test_without_a_time_the_settings_say_it() -> None:
    """Default: close 10 s."""
    assert close_seconds(tertulia.Settings(), None) == 10.0
    assert close_seconds(tertulia.Settings(close_timeout_s=2), None) == 2
    assert close_seconds(tertulia.Settings(), 0) == 0


async def test_a_close_without_any_time_is_a_close() -> None:
    async with stage(say("never", gate=asyncio.Event())) as on:
        made = await on.session.open()
        running = on.begin(made.message("hi"))
        await on.asked(1)
        assert (await made.close(timeout=0)).closed
        assert (await running).status == "interrupted"
    check_invariants(on.events.seen)


# ---- the moment in which closing begins


async def test_a_message_that_comes_after_close_began_is_refused_and_never_interrupted() -> None:
    """R3, FINDINGS (queue.py:49): at every turn of the loop while the session closes; nothing of it is left."""
    for late in range(6):
        async with stage("before", "never") as on:
            await on.root.message("hi")
            closing = asyncio.ensure_future(on.session.close())
            await ticks(1)
            assert on.session.closed
            await ticks(late)
            with pytest.raises(ClosedError):
                await on.root.message("late", message_id="late")
            assert on.parts.scheduler.queued() == []
            assert on.parts.scheduler.ledger.by_message(on.root.id, message_key("late", on.session.id)) is None
            await closing
            assert "turn_aborted" not in on.events.types()


async def test_a_message_that_was_taken_before_close_began_has_its_answer() -> None:
    """R3: in the same turn of the loop, one before and one after."""
    async with stage(say("half", gate=asyncio.Event())) as on:
        taken = on.begin(on.root.message("taken"))
        closing = on.begin(on.session.close())
        refused = on.begin(on.root.message("refused"))
        assert (await taken).status == "interrupted"
        with pytest.raises(ClosedError):
            await refused
        await closing


async def test_the_scheduler_itself_refuses_from_that_moment() -> None:
    async with stage("never") as on:
        plan = TaskPlan(on.root.id, "user")
        on.parts.scheduler.closing = True
        with pytest.raises(ClosedError, match="closing"):
            on.parts.scheduler.submit(plan)


@pytest.mark.parametrize(("numbers", "waits"), [((0, 0), 1), ((1, 2, 3, 3), 3), (range(100), shutdown._MOST_GRACES)])
async def test_a_journal_is_waited_for_as_long_as_its_store_gets_on_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, numbers: Iterable[int], waits: int
) -> None:
    """Many sessions that are closed together wait for one disk; one that hangs is not waited for."""
    progress, waited = iter(numbers), list[float | None]()

    async def wait(tasks: object, timeout: float | None) -> None:
        waited.append(timeout)

    never = asyncio.ensure_future(asyncio.Event().wait())
    monkeypatch.setattr(store_choice, "progress_of", lambda journal: next(progress))
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "wait", wait)
        await shutdown._wait_in_line(SimpleNamespace(journal=None), never)  # type: ignore[arg-type]
    assert waited == [shutdown._LAST_GRACE_S] * waits
    never.cancel()


async def test_a_journal_that_is_closed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = asyncio.ensure_future(asyncio.sleep(0, True))
    await closed
    monkeypatch.setattr(store_choice, "progress_of", lambda journal: 1)
    monkeypatch.setattr(asyncio, "wait", lambda *args, **named: pytest.fail("it waits"))
    await shutdown._wait_in_line(SimpleNamespace(journal=None), closed)  # type: ignore[arg-type]
