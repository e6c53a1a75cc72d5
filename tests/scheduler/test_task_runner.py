"""One task, from its start to its one terminal event, whatever happens in between."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

import tertulia
from tertulia.errors import (
    ApprovalDeniedError,
    ModelError,
    NoApproverError,
    SandboxError,
    TertuliaError,
    ToolConflictError,
)
from tertulia.history.sanitiser import prove
from tertulia.models.wire import TextDelta
from tertulia.protocol.events import Event, WarningEvent
from tertulia.protocol.ids import ItemId
from tertulia.protocol.records import Record, SubmissionRecord
from tertulia.scheduler.plan import TaskPlan
from tertulia.scheduler.queue import message_key
from tertulia.testing import ScriptedModel, ScriptedReply, call, check_invariants, fail, say
from tests.deadlines import HANG_S
from tests.events.scripted import StillClock
from tests.session.staging import Ask, Disk, Stage, heard, stage, ticks
from tests.tables import each_row

TERMINAL = ("task_complete", "turn_aborted")


@tertulia.tool
async def note(text: str) -> str:
    """Repeat a text."""
    await asyncio.sleep(0)
    return text


@tertulia.tool(parallel_safe=True)
async def look(text: str) -> str:
    """Look at something; may run beside others."""
    await asyncio.sleep(0)
    return text


@tertulia.tool
async def stuck() -> str:
    """Wait until somebody stops it."""
    await asyncio.Event().wait()
    return "never"


class Stubborn:
    """A tool that goes on when it is cancelled, until it is let go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.free = asyncio.Event()
        self.left = asyncio.Event()

    def tool(self) -> Any:
        async def stubborn(call: tertulia.CallContext) -> str:
            """Ignore cancellation."""
            self.entered.set()
            try:
                while not self.free.is_set():
                    try:
                        await self.free.wait()
                    except asyncio.CancelledError:
                        continue
                call.publish(WarningEvent("after the end"))
                return "too late"
            finally:
                self.left.set()

        return tertulia.tool(stubborn)


def ends(events: list[Event]) -> list[tuple[str, str]]:
    return [(e.type, getattr(e.data, "status", None) or e.data.reason) for e in events if e.type in TERMINAL]


# ---- beginnings


async def test_a_task_begins_with_its_ids_and_its_input_before_any_model_is_asked() -> None:
    """S002-49, S002-50, X-35: slot, register, record the input, start, and only then the model."""
    seen: dict[str, Any] = {}

    def reply(request: Any) -> str:
        conversation = on.parts.conversations.root
        (task,) = on.parts.registry.running()
        seen.update(
            current=list(on.parts.scheduler.active),
            task=(task.task_id, task.conversation_id, task.kind, task.chain, task.conversation() is conversation),
            handle=conversation.task is task.handle,
            input=[item.text for item in conversation.history.snapshot()][-1],
            events=on.events.types(),
            sub_id=task.sub_id,
        )
        return "ok"

    async with stage(model=ScriptedModel([reply])) as on:
        result = await on.root.message("hello")
        assert seen["current"]
        assert seen["task"] == (result.task_id, on.root.id, "user", (on.root.id,), True)
        assert seen["handle"]
        assert seen["input"] == "hello"
        assert seen["events"] == ["task_started", "user_message"]
        started = on.events.seen[0]
        assert (started.conversation_id, started.task_id, started.sub_id) == (
            on.root.id,
            result.task_id,
            seen["sub_id"],
        )
        assert started.trace_id == result.trace_id
        assert started.span_id
        assert started.sub_id.startswith("sub/")
        on.check_idle()


async def test_the_input_is_committed_before_any_model_is_asked() -> None:
    """DESIGN, life of a message 3: committed before any model call."""
    async with stage("ok", journal=(disk := Disk())) as on:
        disk.holding = True
        running = on.begin(on.root.message("hello"))
        await ticks(20)
        assert [event.type for event, _ in disk.open] == ["task_started", "user_message"]
        assert disk.items[-1].text == "hello"
        assert not on.model.requests
        disk.commit()
        await on.asked(1)
        disk.holding = False
        while disk.open:
            disk.commit()
            await ticks(1)
        assert (await running).status == "completed"


async def test_a_preview_of_the_input_is_short_whatever_the_input_is() -> None:
    async with stage(say("ok", repeat=True)) as on:
        await on.root.message("x" * 1_000)
        await on.root.message([{"type": "image", "image_url": "data:image/png;base64,AA=="}])
        previews = [e.data.input_preview for e in on.events.drain() if e.type == "task_started"]
        assert previews == ["x" * 120, ""]


# ---- endings


async def test_a_task_that_is_done_says_what_it_said_last_and_what_it_cost() -> None:
    """S002-47: final reply and statistics."""
    async with stage(say("one", call("note", {"text": "n"})), "two", tools=[note]) as on:
        reply = await on.root.message("hi")
        end = on.events.drain()[-1]
        assert (end.type, end.data.status, end.data.last_assistant_message) == ("task_complete", "completed", "two")
        assert end.data.usage == reply.usage
        assert reply.usage.total_tokens > 0
        assert (reply.text, reply.status, reply.tool_calls, reply.error) == ("two", "completed", 1, None)
        assert reply.duration >= 0
        assert len(reply.trace_id) == 32


@each_row(
    ("reply", "code", "text"),
    [
        (lambda: fail("no luck", code="rate_limited"), "rate_limited", None),
        (lambda: ScriptedReply(text="half an ans", cut=True), "model_error", "half an ans"),
        (lambda: RuntimeError("a wire that breaks its contract"), "internal", None),
        (lambda: ModelError("as an error of ours"), "model_error", None),
        (RecursionError, "internal", None),
        (lambda: SystemExit(3), "internal", None),
        (asyncio.CancelledError, "cancelled", None),
    ],
)
async def test_a_model_that_fails_ends_its_own_task_and_nothing_else(
    reply: Callable[[], Any], code: str, text: str | None
) -> None:
    """S002-51; bad input: a stream that ends early or raises; `error`, then task_complete{failed}."""

    def failing(request: Any) -> Any:
        made = reply()
        if isinstance(made, BaseException) and not isinstance(made, Exception):
            raise made
        return made

    async with stage(model=ScriptedModel([failing, "works again"])) as on:
        result = await on.root.message("hi")
        assert (result.status, result.error.code if result.error else None) == ("failed", code)
        assert result.text == text
        assert on.events.types()[-2:] == ["error", "task_complete"]
        error = next(e for e in on.events.seen if e.type == "error")
        assert (error.data.code, error.data.message) == (code, result.error.message if result.error else None)
        assert ends(on.events.seen) == [("task_complete", "failed")]
        on.check_idle()
        again = await on.root.message("again")
        assert again.text == "works again"
        texts = [item.text for item in on.model.last_request.items if not getattr(item, "injected", False)]
        assert texts == ["hi", *([text] if text else []), "again"]


@each_row(
    "error",
    [
        ToolConflictError,
        ApprovalDeniedError,
        NoApproverError,
        SandboxError,
        TertuliaError,
        ValueError,
        TimeoutError,
        asyncio.CancelledError,
        SystemExit,
    ],
)
async def test_a_tool_that_fails_is_an_output_and_the_task_goes_on(error: type[BaseException]) -> None:
    """S002-51: tool conflict, approval denied, sandbox error, timeout: told to the model, the task goes on."""

    @tertulia.tool
    async def broken() -> str:
        """Fail."""
        raise error("on purpose")

    async with stage(say("", call("broken")), "I see", tools=[broken]) as on:
        reply = await on.root.message("hi")
        assert (reply.status, reply.text) == ("completed", "I see")
        (output,) = on.outputs(on.root)
        assert not output.success
        assert (error.code if issubclass(error, TertuliaError) else error.__name__) in output.text


async def test_an_interrupted_task_keeps_what_was_half_said_and_answers_its_calls() -> None:
    """X-14, S004-18: history is whole after every ending."""
    async with stage(
        say("I look.", call("note", {"text": "a"}), call("stuck"), call("note", {"text": "b"})), tools=[note, stuck]
    ) as on:
        running = on.begin(on.root.message("hi"))
        while (await on.until("tool_call_begin")).data.name != "stuck":
            pass
        assert await on.root.interrupt()
        reply = await running
        assert (reply.status, reply.text, reply.error, reply.tool_calls) == ("interrupted", "I look.", None, 3)
        assert [(output.success, output.text) for output in on.outputs(on.root)] == [
            (True, "a"),
            (False, "interrupted: the task was stopped before it was done"),
            (False, "interrupted: the task was stopped before it was done"),
        ]
        assert ends(on.events.drain()) == [("turn_aborted", "interrupted")]
        on.check_idle()


async def test_a_half_said_answer_is_kept_when_it_is_stopped() -> None:
    gate = asyncio.Event()

    async def pieces(seconds: float) -> None:
        await gate.wait()

    model = ScriptedModel([ScriptedReply(text="one two three", delay_between_ms=1), "next"], sleep=pieces)
    async with stage(model=model) as on:
        running = on.begin(on.root.message("hi"))
        await on.until("agent_message_delta")
        await on.root.interrupt()
        assert (await running).text == "one "
        assert [entry.text for entry in await on.root.history()] == ["hi", "one "]
        assert (await on.root.message("go on")).text == "next"


# ---- deadlines


async def test_a_task_that_takes_too_long_is_stopped_and_its_message_has_failed() -> None:
    """S002-51; DESIGN: timeout answers the message with failed and that code."""
    async with stage(say("", call("stuck")), "fine", tools=[stuck], limits={"task_timeout_s": 0.1}) as on:
        reply = await on.root.message("hi")
        assert (reply.status, reply.error.code if reply.error else None) == ("failed", "timeout")
        assert ends(on.events.drain()) == [("turn_aborted", "timeout")]
        assert on.outputs(on.root)[0].text == "interrupted: the task took too long"
        on.check_idle()
        assert (await on.root.message("again")).text == "fine"


async def test_a_task_that_is_done_in_time_is_not_disturbed_by_its_deadline() -> None:
    async with stage("fast", limits={"task_timeout_s": 3600}) as on:
        assert (await on.root.message("hi")).status == "completed"


# ---- H1: cancelled at every await


async def by_interrupt(on: Stage, conversation: tertulia.Conversation, running: asyncio.Task[Any]) -> None:
    await conversation.interrupt()


async def by_giving_up(on: Stage, conversation: tertulia.Conversation, running: asyncio.Task[Any]) -> None:
    running.cancel()


async def by_task_id(on: Stage, conversation: tertulia.Conversation, running: asyncio.Task[Any]) -> None:
    for chain in (*on.parts.scheduler.active, *on.parts.scheduler.queued()):
        if chain is not None:
            on.parts.scheduler.cancel(chain.task_id)


async def by_closing(on: Stage, conversation: tertulia.Conversation, running: asyncio.Task[Any]) -> None:
    await conversation.close()


async def by_closing_the_session(on: Stage, conversation: tertulia.Conversation, running: asyncio.Task[Any]) -> None:
    await on.session.close()


async def by_closing_the_target(on: Stage, conversation: tertulia.Conversation, running: asyncio.Task[Any]) -> None:
    await on.session.conversations()[-1].close()


async def by_interrupting_the_target(
    on: Stage, conversation: tertulia.Conversation, running: asyncio.Task[Any]
) -> None:
    await on.session.conversations()[-1].interrupt()


Stop = Callable[[Stage, tertulia.Conversation, asyncio.Task[Any]], Awaitable[None]]
STOPS = [
    by_interrupt,
    by_giving_up,
    by_task_id,
    by_closing,
    by_closing_the_session,
    by_closing_the_target,
    by_interrupting_the_target,
]


async def stopped_after(step: int, stop: Stop, disk: Disk | None = None) -> bool:
    """One turn with every kind of call, stopped after so many ticks; False when it was over before."""

    def reply(request: Any) -> Any:
        return replies.pop(0) if request.last_input != "next" else say("still here")

    async with stage(model=ScriptedModel([reply], repeat=True), tools=[note, look, Ask()], journal=disk) as on:
        conversation, other = await on.session.open(), await on.session.open()
        replies: list[Any] = [
            say("thinking", call("note", {"text": "a"}), call("look", {"text": "b"}), call("look", {"text": "c"})),
            say("asking", call("ask", {"to": other.id}), call("note", {"text": "d"}), call("nobody")),
            say("the other says"),
            say("done"),
        ]
        running = on.begin(conversation.message("go"))
        await ticks(step)
        over = running.done()
        await stop(on, conversation, running)
        await asyncio.wait((running,), timeout=HANG_S)
        assert running.done()
        if running.cancelled():
            await ticks(60)
        elif not over:
            # A stop that came when everything was said is too late, and then says so.
            assert running.result().status in ("interrupted", "completed")
        on.check_idle()
        survivor = other if conversation.id not in [c.id for c in on.session.conversations()] else conversation
        if stop is not by_closing_the_session:
            assert (await survivor.message("next")).text == "still here"
        for state in on.parts.conversations:
            assert prove(state.history.snapshot()) == ((), ())
    started = {e.task_id for e in on.events.seen if e.type == "task_started"}
    ended = [e.task_id for e in on.events.seen if e.type in TERMINAL]
    assert started <= set(ended)
    assert len(ended) == len(set(ended))
    check_invariants(on.events.seen)
    return not over


@each_row("stop", STOPS)
async def test_a_turn_can_be_stopped_at_every_step(stop: Stop) -> None:
    """H1, S002-35, S004-18: one terminal event a task, every call answered once, the next message works."""
    for step in count(1):
        if not await stopped_after(step, stop):
            break
    assert step > 15


@each_row("stop", STOPS[:2])
async def test_a_turn_can_be_stopped_at_every_step_while_the_journal_takes_its_time(stop: Stop) -> None:
    """H1 again, with a commit to be waited for after every event."""

    class Late(Disk):
        def write(self, event: Any, storage: Any = None) -> Any:
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(future.set_result, None)
            return future

    for step in count(1):
        if not await stopped_after(step, stop, Late()):
            break
    assert step > 25


# ---- those who do not want to stop


async def test_a_tool_that_ignores_cancellation_is_abandoned_in_time_and_not_heard_again() -> None:
    """H3, S002-48: cancel, wait, then go on without it and say so. What it says afterwards reaches nobody."""
    stubborn = Stubborn()
    async with stage(
        say("", call("stubborn"), call("note", {"text": "later"})),
        "next",
        tools=[stubborn.tool(), note],
        close_timeout_s=0.01,
    ) as on:
        before = len(on.parts.nursery)
        running = on.begin(on.root.message("hi"))
        await stubborn.entered.wait()
        await on.root.interrupt()
        reply = await running
        assert reply.status == "interrupted"
        assert "warning" in on.events.types()
        warned = next(e for e in on.events.seen if e.type == "warning")
        assert (warned.data.code, "0.01 s" in warned.data.message) == ("abandoned", True)
        on.check_idle()
        assert len(on.parts.nursery) == before + 1
        assert (await on.root.message("again")).text == "next"
        count = len(on.events.drain())
        stubborn.free.set()
        await stubborn.left.wait()
        await ticks()
        assert len(on.events.drain()) == count
        assert len(on.parts.nursery) == before
        assert [output.success for output in on.outputs(on.root)] == [False, False]


async def test_a_close_that_had_to_be_forced_says_so() -> None:
    """S002-48, H3: an event, and `forced` in the answer; bounded by the timeout that was given."""
    stubborn = Stubborn()
    async with stage(say("", call("stubborn")), tools=[stubborn.tool()]) as on:
        conversation = await on.session.open()
        running = on.begin(conversation.message("hi"))
        await stubborn.entered.wait()
        answer = await conversation.close(timeout=0.01)
        assert answer.forced
        assert (await running).status == "interrupted"
        forced = next(e for e in on.events.drain() if e.type == "conversation_close_forced")
        assert forced.data.timeout_s == 0.01
        closed = next(e for e in on.events.seen if e.type == "conversation_closed")
        assert closed.data.forced
        stubborn.free.set()
        await stubborn.left.wait()


async def test_a_tool_that_swallows_the_cancellation_ends_the_task_all_the_same() -> None:
    """H1: nothing more is asked or run after the stop, although the tool returned as if nothing had been."""
    entered = asyncio.Event()

    @tertulia.tool
    async def swallows() -> str:
        """Return although it was cancelled."""
        entered.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "as if nothing had been"

    replies = (say("", call("swallows"), call("note", {"text": "x"})), say("", call("swallows")), "next")
    async with stage(*replies, tools=[swallows, note]) as on:
        for outputs in ([True, False], [True]):
            entered.clear()
            running = on.begin(on.root.message("hi"))
            await entered.wait()
            assert await on.root.interrupt()
            assert (await running).status == "interrupted"
            assert ends(on.events.drain())[-1] == ("turn_aborted", "interrupted")
            assert [o.success for o in on.outputs(on.root)][-len(outputs) :] == outputs
        assert len(on.model.requests) == 2
        assert (await on.root.message("again")).text == "next"


async def test_a_wire_that_swallows_the_cancellation_ends_the_task_all_the_same() -> None:
    async def reply(request: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "an answer that came too late"
        return "never"

    async with stage(model=ScriptedModel([reply, "next"])) as on:
        running = on.begin(on.root.message("hi"))
        await on.asked(1)
        await on.root.interrupt()
        result = await running
        assert (result.status, result.text) == ("interrupted", "an answer that came too late")
        assert ends(on.events.drain()) == [("turn_aborted", "interrupted")]


class Cruel(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize("kind", [Cruel, GeneratorExit, SystemExit])
@pytest.mark.parametrize("where", ["wire", "tool", "together"])
async def test_whatever_is_raised_ends_its_own_task_once_and_nothing_else(
    kind: type[BaseException], where: str
) -> None:
    """H6: a task has one end, its calls are answered, and the conversation goes on."""

    class Raising(ScriptedModel):
        async def _play(self, request: Any, cue: Any) -> Any:
            if where == "wire" and len(self.requests) == 1:
                yield TextDelta(ItemId("i"), "half")
                raise kind
            async for piece in super()._play(request, cue):
                yield piece

    @tertulia.tool(parallel_safe=where == "together")
    async def bad() -> str:
        """Break the rules."""
        raise kind

    model = Raising([say("I try", call("bad"), call("bad")), "next", "last"])
    async with stage(model=model, tools=[bad]) as on:
        await on.root.message("hi")
        assert len(ends(on.events.drain())) == 1
        assert prove(on.parts.conversations.root.history.snapshot()) == ((), ())
        assert (on.root.info.status, len(on.parts.registry)) == ("idle", 0)
        assert (await on.root.message("again")).status == "completed"


async def test_failing_while_being_stopped_is_being_stopped() -> None:
    """The event and the answer agree: both say interrupted."""

    async def reply(request: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ModelError("the connection broke while it was closed") from None
        return "never"

    class Raising(ScriptedModel):
        async def _play(self, request: Any, cue: Any) -> Any:
            yield TextDelta(ItemId("i"), await reply(request))

    async with stage(model=Raising(["x"])) as on:
        running = on.begin(on.root.message("hi"))
        await on.asked(1)
        await on.root.interrupt()
        result = await running
        assert (result.status, result.error) == ("interrupted", None)
        assert ends(on.events.drain()) == [("turn_aborted", "interrupted")]


async def test_stopping_comes_to_its_end_at_once() -> None:
    """Speed: from the cancel to the terminal event there are loop ticks and no waiting."""
    async with stage(say("", call("stuck")), tools=[stuck]) as on:
        running = on.begin(on.root.message("hi"))
        await on.until("tool_call_begin")
        await on.root.interrupt()
        await ticks(10)
        assert running.done()


# ---- memory


@each_row("collector", [True, False])
async def test_a_closed_conversation_is_collectable_after_every_ending(collector: bool) -> None:
    """S002-10, G8: no cycle keeps it, with the garbage collector on or off, and nothing loses it early."""
    async with stage(
        say("fine", match="fine", repeat=True),
        fail("no"),
        say("", call("stuck"), match="stuck", repeat=True),
        tools=[stuck],
    ) as on:
        refs: list[weakref.ref[Any]] = []
        gc.collect()
        if not collector:
            gc.disable()
        try:
            for text in ("fine", "bad", "stuck"):
                conversation = await on.session.open()
                running = on.begin(conversation.message(text))
                if text == "stuck":
                    await on.until("tool_call_begin")
                    assert on.parts.registry.running()[0].conversation() is not None
                    await conversation.interrupt()
                await running
                on.begun.clear()
                refs.append(weakref.ref(on.parts.conversations.find(conversation.id)))
                assert refs[-1]() is not None
                await conversation.close()
            del running, conversation
            await ticks()
            if collector:
                gc.collect()
            assert [ref() for ref in refs] == [None, None, None]
            assert len(on.parts.registry) == 0
        finally:
            gc.enable()


async def test_the_answer_of_a_target_that_timed_out_is_bounded_by_the_callers_deadline_too() -> None:
    """A target's own limit and the time that its caller has left: the earlier one counts."""
    plot: list[Any] = []
    async with stage(model=ScriptedModel([lambda request: plot.pop(0)], repeat=True), tools=[Ask()]) as on:
        a = await on.session.open(limits={"target_timeout_s": 3600})
        b = await on.session.open(limits={"target_timeout_s": 0.1})
        plot += [
            say("", call("ask", {"to": a.id}, "c1")),
            say("", call("ask", {"to": b.id}, "c2")),
            say("never", gate=asyncio.Event()),
            say("a goes on"),
            say("done"),
        ]
        assert (await on.root.message("go")).text == "done"
        assert heard(on.outputs(a)[0])["code"] == "timeout"
        assert heard(on.outputs(on.root)[0])["text"] == "a goes on"


# ---- work that is not a turn


async def test_a_task_can_do_other_work_than_turns_and_ends_like_any_other() -> None:
    """X-22: a compaction is a task: it takes the slot, has its events, and can be stopped."""
    scopes: list[Any] = []

    async def work(scope: Any) -> None:
        scopes.append(scope)
        scope.publish(WarningEvent("at work"))

    entered = asyncio.Event()

    async def swallows(scope: Any) -> None:
        entered.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async with stage("not asked") as on:
        chain = on.parts.scheduler.submit(TaskPlan(on.root.id, "user", work=work))
        reply = await chain.answer
        assert (reply.status, reply.text) == ("completed", None)
        assert on.events.types() == ["task_started", "warning", "task_complete"]
        with pytest.raises(asyncio.CancelledError):
            scopes.pop().publish(WarningEvent("too late"))
        chain = on.parts.scheduler.submit(TaskPlan(on.root.id, "user", work=swallows))
        await entered.wait()
        await on.root.interrupt()
        assert (await chain.answer).status == "interrupted"
        assert ends(on.events.drain())[-1] == ("turn_aborted", "interrupted")
        assert not on.model.requests


# ---- executors


class Other:
    """Implements `Backend`."""

    def __init__(self, error: type[Exception] | None = None) -> None:
        self.error = error
        self.commissions: list[Any] = []

    async def run(self, scope: Any, commission: Any) -> None:
        self.commissions.append(commission)
        if self.error is not None:
            raise self.error("no")
        scope.last_text = "done by another"


@each_row("error", [None, ModelError, ValueError])
async def test_a_task_of_another_backend_is_done_by_it_and_ends_like_any(error: type[Exception] | None) -> None:
    """Issue 11: the same scheduler; one terminal event whatever becomes of it."""
    async with stage("never asked", executors={"other": {"command": ["other"]}}) as on:
        other = Other(error)
        on.parts.scheduler._runner._find_backend = lambda state: other
        conversation = await on.session.open(backend="command:other")
        reply = await conversation.message("go", task_type="chat", previous_result={"value": 1})
        assert reply.status == ("completed" if error is None else "failed")
        assert reply.text == ("done by another" if error is None else None)
        (commission,) = other.commissions
        assert (commission.task_type, commission.previous_result) == ("chat", {"value": 1})
        assert on.model.requests == []
        assert [kind for kind in on.events.types() if kind in TERMINAL] == ["task_complete"]
        on.check_idle()


class Submissions(Disk):
    """A journal that notes under which message ids tasks ran."""

    def __init__(self) -> None:
        super().__init__()
        self.submissions: list[SubmissionRecord] = []

    def keep(self, record: Record) -> None:
        if isinstance(record, SubmissionRecord):
            self.submissions.append(record)
        super().keep(record)


async def test_the_message_id_of_a_task_is_recorded_once_and_that_of_a_task_without_one_is_not() -> None:
    """So that a resumed session answers a message that is sent again, and does not run it again."""
    async with stage("one", "two", journal=(disk := Submissions())) as on:
        reply = await on.root.message("first", message_id="m1")
        await on.root.message("second")
        (submission,) = disk.submissions
        assert (submission.conversation_id, submission.task_id) == (on.root.id, reply.task_id)
        assert (submission.trace_id, submission.message) == (reply.trace_id, message_key("m1", on.session.id))


async def test_a_chain_began_when_its_first_task_did() -> None:
    clock = StillClock()

    def later(reply: Any) -> Any:
        clock.seconds += 1
        return reply

    asks = say("", call("conv_create", {"user_instruction": "What is 2 + 2?"}, "c1"))
    replies = [lambda _, reply=reply: later(reply) for reply in (asks, "4", "It is 4.")]
    async with stage(*replies, clock=clock) as on:
        reply = await on.root.message("go")
        started = [event.ts for event in on.events.drain() if event.type == "task_started"]
        assert len(set(started)) == 3
        assert (await on.session.activity.task(reply.task_id)).started_at == started[0]
