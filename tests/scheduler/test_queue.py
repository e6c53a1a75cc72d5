"""Who speaks next: first in, first out, one at a time, and a slot that is free again after every ending."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tertulia
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskServices
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import BusyError, ClosedError, LimitError, TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.journal import NoJournal
from tertulia.protocol.events import TurnAborted
from tertulia.protocol.ids import ConversationId, ItemId, SessionId
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import TextPart, UserMessage
from tertulia.scheduler import queue
from tertulia.scheduler.chain_records import ChainRecords
from tertulia.scheduler.handoffs import Handoffs, Occupancy
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.plan import TaskPlan
from tertulia.scheduler.task_runner import TaskRegistry, TaskRunner
from tertulia.testing import FakeClock, ScriptedModel, call, fail, say
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import Rounds
from tests.conversation.conversations import make_conversation, terms
from tests.deadlines import HANG_S
from tests.session.staging import Ask, Disk, Stage, stage, ticks


@tertulia.tool
async def stuck() -> str:
    """Wait until somebody stops it."""
    await asyncio.Event().wait()
    return "never"


async def held(on: Stage, conversation: tertulia.Conversation | None = None) -> asyncio.Task[tertulia.Reply]:
    """A message whose answer does not come."""
    count = len(on.model.requests)
    running = on.begin((conversation or on.root).message("hold"))
    await on.asked(count + 1)
    return running


def hold() -> Any:
    """The model's side of it: nothing is said to `hold`, ever."""
    return say("never", gate=asyncio.Event(), match="hold", repeat=True)


# ---- one at a time, in order


async def test_messages_are_answered_in_the_order_in_which_they_came() -> None:
    """S000-48, S002-35, X-37: one task at a time, first in first out."""
    async with stage(model=ScriptedModel([lambda request: f"re: {request.last_input}"], repeat=True)) as on:
        others = [await on.session.open() for _ in range(4)]
        tasks = [on.begin(others[number % 4].message(f"m{number}")) for number in range(12)]
        replies = await asyncio.gather(*tasks)
        assert [reply.text for reply in replies] == [f"re: m{number}" for number in range(12)]
        started = [e.data.input_preview for e in on.events.drain() if e.type == "task_started"]
        assert started == [f"m{number}" for number in range(12)]


async def test_nobody_is_overtaken_by_one_who_submits_without_pause() -> None:
    """Fairness: a conversation that sends as soon as it is answered goes to the end of the queue each time."""
    async with stage(model=ScriptedModel(["ok"], repeat=True)) as on:
        eager, patient = await on.session.open(), await on.session.open()

        async def chatter() -> None:
            for _ in range(20):
                await eager.message("me!")

        chatting = on.begin(chatter())
        await on.until("task_complete")
        await patient.message("may I?")
        await chatting
        order = [e.conversation_id for e in on.events.drain() if e.type == "task_started"]
        assert order.index(patient.id) <= 3


async def test_at_most_one_task_runs_whatever_is_submitted() -> None:
    """S002-35, S002-36, S000-44: a storm of open, message and close; counts return to zero."""
    most = 0

    def reply(request: Any) -> str:
        nonlocal most
        most = max(most, on.model.streaming, len(on.parts.registry))
        return "ok"

    async with stage(model=ScriptedModel([reply], repeat=True)) as on:

        async def visit(number: int) -> None:
            conversation = await on.session.open(title=f"v{number}")
            first = asyncio.create_task(conversation.message("one"))
            second = asyncio.create_task(conversation.message("two"))
            if number % 3 == 0:
                await ticks(number)
            else:
                await first
            closed = await asyncio.gather(conversation.close(), conversation.close())
            assert {answer.already_closed for answer in closed} == {True, False}
            assert {(await first).status, (await second).status} <= {"completed", "interrupted"}

        async with asyncio.timeout(HANG_S):
            await asyncio.gather(*(visit(number) for number in range(60)))
        assert most == 1
        assert len(on.session.conversations()) == 1
        assert on.parts.closing == {}
        on.check_idle()


async def test_the_snapshot_is_taken_when_the_slot_is_free_not_when_the_message_came() -> None:
    """S002-34, X-36: the second message sees the first one's answer."""
    async with stage("first answer", "second answer") as on:
        await asyncio.gather(on.root.message("one"), on.root.message("two"))
        texts = [item.text for item in on.model.last_request.items if not getattr(item, "injected", False)]
        assert texts == ["one", "first answer", "two"]


async def test_a_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MAX_QUEUED", 2)
    async with stage(hold(), say("ok", repeat=True)) as on:
        running = await held(on)
        waiting = [on.begin(on.root.message(f"w{number}")) for number in range(2)]
        await ticks(2)
        with pytest.raises(BusyError) as refusal:
            await on.root.message("one too many")
        assert refusal.value.detail["retry_after_s"] == 5
        assert len(on.parts.scheduler.queued()) == 2
        await on.root.interrupt()
        assert [(await task).status for task in (running, *waiting)] == ["interrupted", "completed", "completed"]


class FixedConversations:
    """The smallest setting: some conversations, no session."""

    def __init__(self, *conversations: ConversationState) -> None:
        self.conversations = {conversation.id: conversation for conversation in conversations}

    def find(self, conversation_id: ConversationId) -> ConversationState:
        return self.conversations[conversation_id]

    def peek(self, conversation_id: ConversationId) -> ConversationState | None:
        return self.conversations.get(conversation_id)

    def check_child(self, spec: NewConversation, caller: ConversationState, promised: int) -> None:
        raise LimitError("no room for one more conversation")

    def open_child(
        self, spec: NewConversation, caller: ConversationState, cause: EventScope, shared: Rounds
    ) -> ConversationState:
        raise LimitError("no room for one more conversation")


async def test_the_scheduler_needs_conversations_and_no_session() -> None:
    """X-28: serial by default, behind an interface: conversations can be scheduled without a session."""
    conversation = make_conversation(terms(wire=ScriptedModel(["one", "two"])))
    clock, nursery, registry = FakeClock(), Nursery(), TaskRegistry()
    bus = EventBus(SessionId("s"), clock, NoJournal())
    occupancy = Occupancy()
    source = FixedConversations(conversation)
    records = ChainRecords(source, bus, clock, NoJournal().keep, conversation.id)
    handoffs = Handoffs(source, bus, clock, occupancy, records)
    around = TaskServices(bus, clock, Toolbox(ToolRegistry([])), 5.0, {})
    runner = TaskRunner(source, around, nursery, registry, handoffs, 1.0)
    scheduler = queue.Scheduler(runner, handoffs, occupancy, bus, clock, nursery, grace_s=1.0)
    questions = [UserMessage(ItemId(text), (TextPart(text),)) for text in ("a", "b")]
    chains = [scheduler.submit(TaskPlan(conversation.id, "user", (message,))) for message in questions]
    assert [(await chain.answer).text for chain in chains] == ["one", "two"]
    assert not await scheduler.close(0)
    await ticks(2)
    assert (len(registry), len(nursery)) == (0, 0)


# ---- if_busy, message ids


async def test_a_message_that_may_not_wait_is_refused_and_leaves_nothing_behind() -> None:
    """X-37, X-38; DESIGN: `if_busy: fail` looks at the session's slot and leaves nothing behind."""
    async with stage(hold(), say("ok", repeat=True)) as on:
        other = await on.session.open()
        running = await held(on)
        before = (on.parts.bus.last_seq, len(on.parts.scheduler.ledger), on.parts.scheduler.queued())
        with pytest.raises(BusyError) as refusal:
            await other.message("now?", if_busy="fail", message_id="m1")
        assert refusal.value.detail["retry_after_s"] == 1
        assert (on.parts.bus.last_seq, len(on.parts.scheduler.ledger), on.parts.scheduler.queued()) == before
        assert await other.history() == []
        await on.root.interrupt()
        await running
        assert (await other.message("now?", if_busy="fail", message_id="m1")).status == "completed"


async def test_it_is_refused_too_when_others_wait_and_nobody_runs_yet() -> None:
    async with stage(say("ok", repeat=True)) as on:
        waiting = on.begin(on.root.message("one"))
        await ticks(1)
        assert on.parts.scheduler.queued()
        with pytest.raises(BusyError):
            await on.root.message("two", if_busy="fail")
        await waiting
        assert (await on.root.message("three", if_busy="fail")).status == "completed"


async def test_the_same_message_id_is_one_run_and_one_answer() -> None:
    """DESIGN: same id again = same answer, not a second run; while it waits, while it runs, and afterwards."""
    async with stage("once", "twice") as on:
        same = [on.begin(on.root.message("hi", message_id="m1")) for _ in range(3)]
        replies = [await task for task in same]
        replies.append(await on.root.message("hi", message_id="m1"))
        assert {reply.task_id for reply in replies} == {replies[0].task_id}
        assert {reply.text for reply in replies} == {"once"}
        assert len(on.model.requests) == 1
        assert (await on.root.message("hi", message_id="m2")).text == "twice"
        assert len(await on.root.history()) == 4


async def test_a_message_id_belongs_to_its_conversation() -> None:
    async with stage("root's", "other's") as on:
        other = await on.session.open()
        assert (await on.root.message("hi", message_id="m1")).text == "root's"
        assert (await other.message("hi", message_id="m1")).text == "other's"


async def test_a_failed_answer_is_the_answer_too() -> None:
    async with stage(fail("no luck"), "second") as on:
        first = await on.root.message("hi", message_id="m1")
        again = await on.root.message("hi", message_id="m1")
        assert first is again
        assert (first.status, first.error.code if first.error else None) == ("failed", "model_error")
        assert len(on.model.requests) == 1


async def test_a_repeated_message_is_answered_even_when_the_slot_is_taken() -> None:
    async with stage("once", hold()) as on:
        first = await on.root.message("hi", message_id="m1")
        running = await held(on)
        assert await on.root.message("hi", message_id="m1", if_busy="fail") is first
        await on.root.interrupt()
        await running


# ---- stopping


async def test_interrupting_an_idle_conversation_stops_nothing_and_says_so() -> None:
    """DESIGN: `conversation/interrupt` → {interrupted: bool}."""
    async with stage(hold()) as on:
        other = await on.session.open()
        assert (await on.root.interrupt()).interrupted is False
        running = await held(on)
        assert (await other.interrupt()).interrupted is False
        assert (await on.root.interrupt()).interrupted is True
        assert (await on.root.interrupt()).interrupted is False
        reply = await running
        assert (reply.status, reply.error) == ("interrupted", None)
        assert (await on.root.interrupt()).interrupted is False


async def test_interrupting_does_not_touch_messages_that_wait() -> None:
    async with stage(hold(), say("ok", repeat=True)) as on:
        running = await held(on)
        waiting = on.begin(on.root.message("next"))
        await ticks(1)
        assert await on.root.interrupt()
        assert ((await running).status, (await waiting).status) == ("interrupted", "completed")


async def test_a_waiting_task_can_be_cancelled_and_has_its_terminal_event_all_the_same() -> None:
    """S002-09: unified cancel, queued or running; a task ends with exactly one terminal event."""
    async with stage(hold(), say("ok", repeat=True)) as on:
        running = await held(on)
        waiting, last = on.begin(on.root.message("never runs")), on.begin(on.root.message("runs"))
        await ticks(1)
        chain = on.parts.scheduler.queued()[0]
        assert on.parts.scheduler.cancel(chain.task_id)
        reply = await waiting
        assert (reply.status, reply.text, reply.task_id) == ("interrupted", None, chain.task_id)
        assert not on.parts.scheduler.cancel(chain.task_id)
        ended = [e for e in on.events.drain() if e.task_id == chain.task_id and e.type != "message_queued"]
        assert [(e.type, e.data) for e in ended] == [("turn_aborted", TurnAborted("interrupted"))]
        assert ended[0].sub_id.startswith("sub/")
        assert reply.last_seq >= (ended[0].seq or 0)
        assert on.parts.scheduler.cancel(on.parts.scheduler.active[0].task_id)
        assert ((await running).status, (await last).status) == ("interrupted", "completed")
        assert [entry.text for entry in await on.root.history() if entry.role == "user"] == ["hold", "runs"]


async def test_nobody_can_cancel_what_never_was() -> None:
    async with stage() as on:
        assert not on.parts.scheduler.cancel("no such task")
        assert on.parts.scheduler.find("no such task") is None


async def test_closing_a_conversation_drops_what_waits_for_it_and_nothing_else() -> None:
    async with stage(hold(), say("ok", repeat=True)) as on:
        other = await on.session.open()
        running = await held(on)
        gone, stays = on.begin(other.message("gone")), on.begin(on.root.message("stays"))
        await ticks(1)
        answer = await other.close()
        assert not answer.forced
        assert (await gone).status == "interrupted"
        assert not running.done()
        await on.root.interrupt()
        assert ((await running).status, (await stays).status) == ("interrupted", "completed")


async def test_closing_takes_nothing_more_and_drops_what_waits_with_its_reason() -> None:
    async with stage(hold()) as on:
        running = await held(on)
        waiting = on.begin(on.root.message("waits"))
        await ticks(1)
        await on.session.close()
        assert ((await running).status, (await waiting).status) == ("interrupted", "interrupted")
        reasons = [e.data.reason for e in on.events.drain() if e.type == "turn_aborted"]
        assert reasons == ["shutdown", "shutdown"]
        with pytest.raises(ClosedError):
            await on.root.message("too late")
        assert not await on.parts.scheduler.close(0)


# ---- the slot, whatever happens to its holder


async def test_the_slot_is_free_when_the_answer_is_there() -> None:
    """S002-35: released in every ending, before anybody hears of it."""
    async with stage("ok", fail("no"), hold(), tools=[stuck]) as on:
        for text in ("fine", "bad"):
            await on.root.message(text)
            assert not on.parts.scheduler.active
        running = await held(on)
        await on.root.interrupt()
        await running
        on.check_idle()


async def test_a_driver_that_dies_answers_its_message_and_frees_the_slot() -> None:
    """G7: the holder of the slot is killed from outside; the slot is free and the next message runs."""
    async with stage(hold(), say("ok", repeat=True)) as on:
        running = await held(on)
        (driver,) = [task for task in asyncio.all_tasks() if task.get_name() == "scheduler"]
        waiting = on.begin(on.root.message("next"))
        await ticks(1)
        driver.cancel()
        assert ((await running).status, (await waiting).status) == ("interrupted", "completed")
        assert "a shutdown" in on.story(on.root)
        on.check_idle()


async def test_a_fault_of_our_own_in_one_chain_does_not_strand_the_others() -> None:
    """G7: should the runner itself fail, its message is answered and those behind it are not forgotten."""
    async with stage(say("ok", repeat=True), invariants=False) as on:
        runner = on.parts.scheduler._runner

        async def broken(branch: Any) -> Any:
            del runner.run
            raise ZeroDivisionError("a bug")

        runner.run = broken
        first, second = on.begin(on.root.message("one")), on.begin(on.root.message("two"))
        assert ((await first).status, (await second).status) == ("interrupted", "completed")
        on.check_idle()


# ---- written down before it is answered


async def test_an_answer_comes_after_its_events_were_written_down() -> None:
    """DESIGN: all events of a task are written before its message's answer."""
    async with stage("ok", journal=(disk := Disk())) as on:
        disk.holding = True
        task = on.begin(on.root.message("hi"))
        while not task.done():
            assert not any(e.type == "task_complete" for e in disk.kept) or len(disk.open) == 0
            await ticks(5)
            assert not task.done() or not disk.open
            disk.commit()
        assert disk.kept[-1].type == "task_complete"
        assert task.result().last_seq == disk.kept[-1].seq


async def test_a_message_dropped_from_the_queue_is_answered_after_its_event_was_written_down() -> None:
    async with stage(hold(), journal=(disk := Disk())) as on:
        running = await held(on)
        waiting = on.begin(on.root.message("waits"))
        await ticks(1)
        disk.holding = True
        on.parts.scheduler.cancel(on.parts.scheduler.queued()[0].task_id)
        await ticks()
        assert not waiting.done()
        disk.commit()
        assert (await waiting).last_seq == disk.kept[-1].seq
        disk.holding = False
        await on.root.interrupt()
        await running


async def test_a_dropped_message_whose_event_cannot_be_written_has_failed() -> None:
    async with stage(hold(), journal=(disk := Disk()), invariants=False) as on:
        running = await held(on)
        waiting = on.begin(on.root.message("waits"))
        await ticks(1)
        disk.holding = True
        on.parts.scheduler.cancel(on.parts.scheduler.queued()[0].task_id)
        disk.fail(OSError("the disk is full"))
        disk.holding = False
        reply = await waiting
        assert (reply.status, reply.error.code if reply.error else None) == ("failed", "internal")
        await on.root.interrupt()
        await running


class BreaksOnce(Disk):
    """The write of one number fails, with all that is written before that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.until = -1
        self.failed = 0

    def write(self, event: Any, storage: Any = None) -> Any:
        self.until -= 1
        if self.until == 0:
            self.holding = True
            asyncio.get_running_loop().call_soon(self._break)
        return super().write(event, storage)

    def _break(self) -> None:
        self.failed += 1
        self.fail(OSError("the disk is full"))
        self.holding = False


async def test_when_the_journal_fails_the_message_fails_and_the_next_one_works() -> None:
    """DESIGN, Storage: acknowledged is committed. Each write of a task fails once."""
    number = 0
    while True:
        number += 1
        async with stage(say("ok", repeat=True), journal=(disk := BreaksOnce()), invariants=False) as on:
            disk.until = number
            reply = await on.root.message("hi")
            disk.until = -1
            if not disk.failed:
                assert reply.status == "completed"
                break
            assert (reply.status, reply.error.code if reply.error else None) == ("failed", "internal")
            on.check_idle()
            assert (await on.root.message("again")).status == "completed"
            events = [event for event in on.events.drain() if event.seq is not None]
            assert [event.seq for event in events] == [event.seq for event in disk.kept[-len(events) :]]
    assert number > 4


async def test_when_the_journal_fails_under_a_target_the_waiting_call_is_answered_too() -> None:
    async with stage(
        model=ScriptedModel([lambda request: replies.pop(0)], repeat=True),
        tools=[Ask()],
        journal=(disk := Disk()),
        invariants=False,
    ) as on:
        other = await on.session.open()
        gate = asyncio.Event()
        replies: list[Any] = [
            say("", call("ask", {"to": other.id}, "c1")),
            say("target", gate=gate),
            say("works again"),
        ]
        running = on.begin(on.root.message("go"))
        await on.asked(2)
        disk.holding = True
        gate.set()
        while "task_complete" not in [event.type for event, _ in disk.open]:
            disk.commit(max(0, len(disk.open)))
            await ticks(1)
        disk.fail(TertuliaError("full"))
        disk.holding = False
        reply = await running
        assert (reply.status, reply.error.code if reply.error else None) == ("failed", "agent_error")
        on.check_idle()
        assert [output.success for output in on.outputs(on.root)] == [False]
        assert (await on.root.message("next")).text == "works again"


async def test_an_abort_of_a_chain_that_never_ran_is_numbered_like_everything() -> None:
    """S002-42: ids on every event; X-39: user tasks carry their submission."""
    async with stage(hold()) as on:
        scheduler = on.parts.scheduler
        running = await held(on)
        chain = scheduler.submit(TaskPlan(on.root.id, "user"))
        assert scheduler.stop(chain)
        assert not scheduler.stop(chain)
        await chain.answer
        event = on.events.drain()[-1]
        assert (event.sub_id, event.conversation_id) == (f"conv/{chain.task_id}", on.root.id)
        assert event.trace_id == chain.trace_id
        await on.root.interrupt()
        await running


async def test_a_conversation_that_goes_while_it_waits_has_its_call_answered_first() -> None:
    """S004-11: whoever forgets it may do so before the chain has noticed."""
    script = [say("", call("conv_create", {"user_instruction": "hold"})), hold()]
    async with stage(*script) as on:
        waits = await on.session.open()
        running = on.begin(waits.message("ask somebody"))
        await on.asked(2)
        conversation = on.parts.conversations.find(waits.id)
        assert len(conversation.history.open_calls) == 1
        on.parts.scheduler.forsake(conversation)
        assert not conversation.history.open_calls
        await on.session.conversations()[-1].interrupt()
        async with asyncio.timeout(HANG_S):
            assert (await running).status == "interrupted"
