"""Chains that a crash cut: what was begun, waited or queued goes on in the next life, each call and task ended once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.conversation.cut_task import UNKNOWN
from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import ApprovalDeniedError
from tertulia.scheduler import task_runner
from tertulia.session.session import Session
from tertulia.testing import FakeClock, ScriptedModel, ScriptedRequest, call, fail, say
from tests.executors.agents import codex_table
from tests.scheduler.cut_sessions import (
    Gate,
    cut_in_call,
    cut_once,
    hold_to_one_end,
    next_life,
    of,
    outputs,
    settings,
    unfinished,
)
from tests.session.lives import Lives, durable_events, until

# ---- what a turn had come to


async def test_a_cut_answer_is_asked_for_again_under_the_same_task(lives: Lives) -> None:
    """Issue 26, 2: deltas that were shown are discarded, the task has one end, the message its answer."""
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def stuck(request: ScriptedRequest) -> str:
        await never
        return ""

    model = ScriptedModel([stuck])
    async with Session.start(settings(model)) as session:
        message = await unfinished(session)
        await until(lambda: bool(model.requests))
        await session.activity.flush()
        lives.die()
        message.cancel()
    async with next_life(session.id, settings(ScriptedModel(["forty-two"]))) as again:
        reply = await again.root.message("go", message_id="m")
        assert (reply.text, reply.status) == ("forty-two", "completed")
        assert [one.task_id for one in again.activity.continued] == [reply.task_id]
        events = durable_events(again)
        (went_on,) = of(events, "task_continued")
        assert (went_on.task_id, went_on.data.attempt) == (reply.task_id, 1)  # type: ignore[union-attr]
        assert [event.data.discard_deltas for event in of(events, "background_event")] == [True]  # type: ignore[union-attr]
        assert not of(events, "task_started", "turn_aborted")
        hold_to_one_end(again)


async def test_only_a_marked_call_runs_again_and_of_the_other_it_is_said_that_nothing_is_known(lives: Lives) -> None:
    """Issue 26, 2: `act` had begun and may have happened; `mark` says that twice is fine."""
    for name, times, text in (("act", 1, UNKNOWN), ("mark", 2, "did x")):
        gate = Gate()
        id = await cut_in_call(lives, gate, call(name, {"what": "x"}, "c1"))
        async with next_life(id, settings(ScriptedModel(["done"]), gate)) as again:
            assert (await again.root.message("go", message_id="m")).text == "done"
            assert (gate.effects["x"], outputs(again)) == (times, [text])
            assert not of(durable_events(again), "tool_call_begin")
            hold_to_one_end(again)


async def test_a_call_that_had_not_begun_runs_and_one_that_had_ended_keeps_its_output(lives: Lives) -> None:
    """Issue 26, 2: three calls of one answer, cut in the second."""
    gate = Gate()

    @tertulia.tool
    async def first(what: str) -> str:
        gate.effects[what] += 1
        return "first is done"

    def using(model: Any) -> tertulia.Settings:
        return tertulia.Settings(
            model=model, tools=[first, *gate.tools()], on_restart="continue", approval_policy="never"
        )

    calls = [call("first", {"what": "a"}, "c1"), call("act", {"what": "b"}, "c2"), call("act", {"what": "c"}, "c3")]
    async with Session.start(using(ScriptedModel([say("", *calls), "x"]))) as session:
        message = await unfinished(session)
        await until(lambda: bool(gate.reached))
        await session.activity.flush()
        lives.die()
        gate.open.set()
        await message
    gate.effects.clear()
    async with next_life(session.id, using(ScriptedModel(["done"]))) as again:
        await again.root.message("go", message_id="m")
        assert outputs(again) == ["first is done", UNKNOWN, "did c"]
        assert gate.effects == {"c": 1}
        hold_to_one_end(again)


async def test_a_whole_answer_that_was_written_down_is_not_asked_for_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between the answer and the task's end."""

    async def die(scope: TaskScope) -> None:
        await scope.around.bus.flush()
        lives.die()

    with monkeypatch.context() as patched:
        patched.setattr(task_runner, "clean_partial", die)
        async with Session.start(settings(ScriptedModel(["the answer"]))) as session:
            await session.root.message("go", message_id="m")
    model = ScriptedModel([fail("asked again")])
    async with next_life(session.id, settings(model)) as again:
        reply = await again.root.message("go", message_id="m")
        assert (reply.text, len(model.requests)) == ("the answer", 0)
        hold_to_one_end(again)


async def test_an_approval_that_waited_is_asked_again_and_never_granted_by_the_crash(lives: Lives) -> None:
    """Issue 26, 2: the command has not run; a no in the next life is a no."""
    command = call("shell", {"command": ["touch", "/tmp/never-made"]}, "c1")
    policy: dict[str, Any] = {"approval_policy": "untrusted", "sandbox": "danger-full-access"}
    async with Session.start(settings(ScriptedModel([command, "x"]), **policy)) as session:
        message = asyncio.ensure_future(session.root.message("go", message_id="m"))
        with session.parts.command_services.approvals.attended():
            await until(lambda: bool(session.parts.command_services.approvals.pending()))
            await session.activity.flush()
            lives.die()
            message.cancel()
            await asyncio.wait([message])
    async with next_life(session.id, settings(ScriptedModel(["refused"]), **policy)) as again:
        approvals = again.parts.command_services.approvals
        await until(lambda: bool(approvals.pending()))
        approvals.resolve(approvals.pending()[0].approval_id, "deny")
        reply = await again.root.message("go", message_id="m")
        assert reply.text == "refused"
        assert ApprovalDeniedError.code in outputs(again)[0]
        hold_to_one_end(again)


# ---- chains


def nested(gate: Gate) -> Any:
    """root asks two children side by side; each acts; the model is a function of what it has read."""

    def respond(request: ScriptedRequest) -> Any:
        last = request.last_input
        if last == "go":
            new = [call("conv_create", {"user_instruction": f"child {n}", "title": str(n)}, f"n{n}") for n in (1, 2)]
            return say("", *new)
        if last.startswith("child"):
            return call("mark", {"what": last}, f"m-{last[-1]}")
        return f"heard {last[:9]}" if last.startswith("did") else "both"

    return ScriptedModel([respond], repeat=True)


async def cut_in_children(lives: Lives, gate: Gate, slots: int = 2, **fields: Any) -> str:
    return await cut_once(lives, gate, nested(gate), slots, slots=slots, **fields)


@pytest.mark.parametrize("slots", [1, 2])
async def test_a_tree_of_branches_goes_on_inner_first_and_its_counters_with_it(lives: Lives, slots: int) -> None:
    """Issue 26, 2: limits count over the whole life; every call has one output, every task one end."""
    gate = Gate()
    id = await cut_in_children(lives, gate)
    async with next_life(id, settings(nested(gate), gate, slots=slots)) as again:
        (chain,) = again.parts.scheduler.cut_chains.chains
        assert (chain.opened, chain.interrupts, len(chain.branches)) == (2, 2, 3)
        reply = await again.root.message("go", message_id="m")
        assert (reply.text, reply.tool_calls) == ("both", 4)
        assert reply.usage.total_tokens > 0
        story = [(e.type, e.conversation_id == again.root.id) for e in durable_events(again) if "task" in e.type]
        assert story.index(("task_started", True)) > story.index(("task_complete", False))
        assert [kind for kind, _ in story].count("task_continued") == 2
        assert len(again.conversations()) == 3
        hold_to_one_end(again)


async def test_a_target_that_had_not_begun_begins_and_one_that_had_ended_is_not_asked_again(lives: Lives) -> None:
    """With one slot the second child waits for the first: cut in each of them."""
    gate = Gate()
    id = await cut_in_children(lives, gate, slots=1)
    async with next_life(id, settings(nested(gate), gate)) as again:
        assert (await again.root.message("go", message_id="m")).text == "both"
        assert gate.effects["child 2"] == 2  # once in the life that went on elsewhere
        assert len(of(durable_events(again), "task_continued")) == 1
        hold_to_one_end(again)


async def test_a_chain_that_went_on_goes_on_again_with_what_its_targets_had_answered(lives: Lives) -> None:
    """The first child has ended when the second life dies: its result comes from the record."""
    gate = Gate()
    id = await cut_in_children(lives, gate, slots=1)
    gate.open.clear()
    first = Session.resume(id, settings(nested(gate), gate), continue_tasks=True)
    await first.__aenter__()
    await until(lambda: gate.reached == ["child 1"])
    gate.open.set()
    await until(lambda: "child 2" in gate.reached)
    await first.activity.flush()
    lives.die()
    await first.close()
    async with next_life(id, settings(nested(gate), gate)) as again:
        (chain,) = again.parts.scheduler.cut_chains.chains
        assert chain.attempt == 2
        assert (await again.root.message("go", message_id="m")).text == "both"
        assert len(again.conversations()) == 3
        hold_to_one_end(again)


async def test_after_three_attempts_the_task_is_closed_with_the_reason(lives: Lives) -> None:
    """Issue 26, 2: the client that asks again is told; a chain of three conversations has its ends."""
    gate = Gate()
    id = await cut_in_children(lives, gate)
    for _ in range(3):
        gate.open.clear()
        gate.reached.clear()
        life = Session.resume(id, settings(nested(gate), gate, slots=2), continue_tasks=True)
        await life.__aenter__()
        await until(lambda: len(gate.reached) == 2)
        await life.activity.flush()
        lives.die()
        gate.open.set()
        await life.close()
    async with next_life(id, settings(nested(gate), gate, slots=2)) as last:
        reply = await last.root.message("go", message_id="m")
        assert (reply.status, reply.error and reply.error.code) == ("failed", "limit")
        assert reply.error is not None
        assert "3 times" in reply.error.message
        hold_to_one_end(last)
    async with next_life(id, settings(nested(gate), gate)) as after:
        assert not after.activity.continued
        again = await after.root.message("go", message_id="m")
        assert (again.task_id, again.status) == (reply.task_id, "failed")


async def test_the_task_itself_is_closed_after_three_attempts(lives: Lives) -> None:
    """One task without a chain: its call has its output, and it its end."""
    gate = Gate()
    id = await cut_in_call(lives, gate, call("mark", {"what": "x"}, "c1"))
    for _ in range(3):
        gate.open.clear()
        gate.reached.clear()
        life = Session.resume(id, settings(ScriptedModel(["x"]), gate), continue_tasks=True)
        await life.__aenter__()
        await until(lambda: bool(gate.reached))
        await life.activity.flush()
        lives.die()
        gate.open.set()
        await life.close()
    async with next_life(id, settings(ScriptedModel(["x"]), gate)) as last:
        reply = await last.root.message("go", message_id="m")
        assert (reply.status, len(outputs(last))) == ("failed", 1)
        assert not of(durable_events(last), "task_continued")
        hold_to_one_end(last)


# ---- what waits, and what was stopped


async def test_a_message_that_waited_in_the_queue_runs_after_what_was_before_it(lives: Lives) -> None:
    """Accepted is accepted: it has not begun, so that counts as no attempt."""
    gate = Gate()
    async with Session.start(settings(ScriptedModel([call("act", {"what": "x"}, "c1"), "a", "b"]), gate)) as session:
        messages = [asyncio.ensure_future(session.root.message(text, message_id=text)) for text in ("one", "two")]
        await until(lambda: bool(gate.reached))
        await session.activity.flush()
        lives.die()
        gate.open.set()
        await asyncio.gather(*messages)
    async with next_life(session.id, settings(ScriptedModel(["first", "second"]), gate)) as again:
        replies = [await one.reply() for one in again.activity.continued]
        assert [reply.text for reply in replies] == ["first", "second"]
        assert [entry.text for entry in await again.root.history() if entry.role == "user"] == ["one", "two"]
        assert (await again.root.message("two", message_id="two")).text == "second"
        hold_to_one_end(again)


async def test_what_a_person_stopped_does_not_go_on(lives: Lives) -> None:
    """The process dies when the chain is to end, and its tasks have not ended yet."""
    gate = Gate()
    session = Session.start(settings(nested(gate), gate, slots=2, close_timeout_s=5))
    await session.__aenter__()
    message = await unfinished(session)
    await until(lambda: len(gate.reached) == 2)
    await session.activity.flush()
    (chain,) = session.parts.scheduler.active
    session.parts.scheduler._records.stopped(chain.root, "interrupted")
    await session.parts.journal.settle()
    lives.die()
    gate.open.set()
    await message
    await session.close()
    async with next_life(session.id, settings(nested(gate), gate)) as again:
        assert not again.activity.continued
        hold_to_one_end(again)


async def test_one_that_is_stopped_before_it_has_a_slot_has_its_end_and_its_calls_their_outputs(lives: Lives) -> None:
    """With one slot now, the second child cannot go on at once; the chain is interrupted meanwhile."""
    gate = Gate()
    id = await cut_in_children(lives, gate)
    gate.open.clear()
    async with next_life(id, settings(nested(gate), gate, slots=1)) as again:
        await until(lambda: len(gate.reached) == 1)
        assert await again.root.interrupt()
        (submission,) = again.activity.continued
        assert (await submission.reply()).status == "interrupted"
        assert len(of(durable_events(again), "turn_aborted")) == 2
        hold_to_one_end(again)
    async with next_life(id, settings(nested(gate), gate)) as after:
        assert not after.activity.continued


async def test_a_session_that_is_closed_before_it_begins_leaves_the_cut_tasks_for_the_next(lives: Lives) -> None:
    """Entering failed, or the client went away: nothing was ended, and no attempt counted."""
    gate = Gate()
    id = await cut_in_children(lives, gate, slots=1, limits={"target_wait_s": 60})
    held = Session(settings(nested(gate), gate), resumed=id, waits=False, continue_tasks=True)
    async with held:
        waiting = asyncio.ensure_future(held.root.message("other"))
        await asyncio.sleep(0)
    assert (await waiting).status == "interrupted"
    async with next_life(id, settings(nested(gate), gate)) as again:
        (chain,) = again.parts.scheduler.cut_chains.chains
        assert (chain.attempt, len(chain.branches)) == (1, 3)
        assert (await again.root.message("go", message_id="m")).text == "both"
        hold_to_one_end(again)


async def test_a_queued_message_of_a_session_that_never_began_stays_for_the_next(lives: Lives) -> None:
    """The same for one whose chain has not begun."""
    gate = Gate()
    async with Session.start(settings(ScriptedModel([call("act", {"what": "x"}, "c1"), "a", "b"]), gate)) as session:
        messages = [asyncio.ensure_future(session.root.message(text, message_id=text)) for text in ("one", "two")]
        await until(lambda: bool(gate.reached))
        await session.activity.flush()
        lives.die()
        gate.open.set()
        await asyncio.gather(*messages)
    async with Session(settings(ScriptedModel([]), gate), resumed=session.id, waits=False, continue_tasks=True) as held:
        assert len(held.activity.continued) == 2
    async with next_life(session.id, settings(ScriptedModel(["first", "second"]), gate)) as again:
        assert [(await one.reply()).text for one in again.activity.continued] == ["first", "second"]


async def test_a_conversation_that_is_closed_before_its_task_can_go_on_has_its_end(lives: Lives) -> None:
    """Its call is answered, its task ended, and its caller goes on."""
    gate = Gate()
    id = await cut_in_children(lives, gate)
    async with Session(settings(nested(gate), gate), resumed=id, waits=False, continue_tasks=True) as again:
        second = again.conversations()[2]
        await second.close()
        (submission,) = again.activity.go_on()
        assert (await submission.reply()).text == "both"
        assert len(of(durable_events(again), "turn_aborted")) == 1
        hold_to_one_end(again)


async def test_an_executor_that_was_at_work_is_not_asked_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Issue 26, 2: what it has done is not known; the caller is told so and decides."""
    monkeypatch.setenv("HOME", str(tmp_path))
    plans: list[Any] = []
    model = ScriptedModel([lambda request: plans.pop(0)], repeat=True)
    with_fake: dict[str, Any] = {"executors": {"fake": codex_table()}, "sandbox": "danger-full-access"}
    async with Session.start(settings(model, **with_fake)) as session:
        agent = await session.open(backend="command:fake")
        plans += [call("conv_send", {"conversation_id": agent.id, "text": "hang"}, "c1"), "x"]
        message = await unfinished(session)
        await until(lambda: any(task.conversation_id == agent.id for task in session.parts.registry.running()))
        await session.activity.flush()
        lives.die()
        await session.root.interrupt()
        await message
    async with next_life(session.id, settings(ScriptedModel(["I look"]), **with_fake)) as again:
        assert (await again.root.message("go", message_id="m")).text == "I look"
        assert ("outcome_unknown" in outputs(again)[0], UNKNOWN in outputs(again)[0]) == (True, True)
        hold_to_one_end(again)


# ---- time


async def test_the_deadline_of_a_target_holds_for_all_that_it_causes_in_the_next_life_too(lives: Lives) -> None:
    """Three deep: the innermost is cut, and has no more time than the first target had."""
    gate = Gate()

    def respond(request: ScriptedRequest) -> Any:
        last = request.last_input
        if last in ("go", "deeper"):
            below = {"go": "deeper", "deeper": "deepest"}[last]
            return call("conv_create", {"user_instruction": below}, f"n-{below}")
        return call("mark", {"what": "x"}, "m") if last == "deepest" else f"answer to {last[:12]}"

    def using(**fields: Any) -> tertulia.Settings:
        return settings(ScriptedModel([respond], repeat=True), gate, **fields)

    async with Session.start(using(limits={"target_timeout_s": 60})) as session:
        message = await unfinished(session)
        await until(lambda: bool(gate.reached))
        await session.activity.flush()
        lives.die()
        gate.open.set()
        await message
    gate.open.clear()
    async with next_life(session.id, using(limits={"target_timeout_s": 0.001})) as again:
        reply = await again.root.message("go", message_id="m")
        assert (reply.status, '"code":"timeout"' in outputs(again)[0]) == ("completed", True)
        hold_to_one_end(again)


async def test_the_time_of_a_task_counts_over_its_whole_life(lives: Lives) -> None:
    """Issue 26, 2: a task that has had its time is stopped when it goes on."""
    gate = Gate()
    clock = FakeClock()
    limits = {"task_timeout_s": 3_600}
    id = await cut_in_call(lives, gate, call("mark", {"what": "x"}, "c1"), clock=clock, limits=limits)
    gate.open.clear()
    clock.advance(3_601)
    async with next_life(id, settings(ScriptedModel(["x"]), gate), clock=clock) as again:
        (submission,) = again.activity.continued
        reply = await submission.reply()
        assert (reply.status, reply.error and reply.error.code) == ("failed", "timeout")


async def test_a_target_that_waited_too_long_for_its_slot_is_not_started(lives: Lives) -> None:
    """`target_wait_s` counts from when it was handed over, whichever process lives then."""
    gate = Gate()
    id = await cut_in_children(lives, gate, slots=1, limits={"target_wait_s": 30, "target_timeout_s": 60})
    async with next_life(id, settings(nested(gate), gate, limits={"target_wait_s": 0.0001})) as again:
        assert (await again.root.message("go", message_id="m")).status == "completed"
        assert "timeout" in outputs(again)[1]


# ---- what cannot go on


async def test_a_chain_with_a_member_that_keeps_no_texts_is_closed_and_that_is_said_when_it_takes_part(
    lives: Lives,
) -> None:
    """Issue 26, 2: a policy that does not keep the texts cannot go on, nor can a chain with such a member."""
    gate = Gate()
    plans: list[Any] = []
    model = ScriptedModel([lambda request: plans.pop(0)], repeat=True)
    async with Session.start(settings(model, gate)) as session:
        silent = await session.open(storage_policy="headers_only")
        context = await silent.context()
        assert [(cut.field, cut.given, cut.because) for cut in context.narrowed] == [
            ("on_restart", "close", "storage_policy")
        ]
        send = call("conv_send", {"conversation_id": silent.id, "text": "psst"}, "c1")
        plans += [say("", send, call("conv_send", {"conversation_id": silent.id, "text": "again"}, "c2"))]
        plans += [call("mark", {"what": "x"}, "c3"), "a", "b", "c"]
        message = await unfinished(session)
        await until(lambda: bool(gate.reached))
        await session.activity.flush()
        warnings = of(durable_events(session), "warning")
        assert [event.data.code for event in warnings] == ["cannot_continue"]  # type: ignore[union-attr]
        lives.die()
        gate.open.set()
        await message
    async with next_life(session.id, settings(ScriptedModel(["x"]), gate)) as again:
        assert not again.activity.continued
        codes = [event.data.code for event in of(durable_events(again), "warning")]  # type: ignore[union-attr]
        assert "cannot_continue" in codes
        hold_to_one_end(again)


async def test_a_plan_that_cannot_be_written_down_is_said_and_does_not_go_on(lives: Lives) -> None:
    """A pipeline's earlier result may be any object of a program."""
    gate = Gate()
    async with Session.start(settings(ScriptedModel([call("act", {"what": "x"}, "c1"), "a"]), gate)) as session:
        message = await unfinished(session, previous_result=object())
        await until(lambda: bool(gate.reached))
        await session.activity.flush()
        assert [e.data.code for e in of(durable_events(session), "warning")] == ["cannot_continue"]  # type: ignore[union-attr]
        lives.die()
        gate.open.set()
        await message
    async with next_life(session.id, settings(ScriptedModel(["x"]), gate)) as again:
        assert not again.activity.continued


async def test_without_continue_tasks_everything_is_closed_and_nothing_goes_on_later(lives: Lives) -> None:
    """`close` is what happened before there was a choice, also where the conversation asked for more."""
    gate = Gate()
    id = await cut_in_children(lives, gate)
    async with Session.resume(id, settings(nested(gate), gate)) as again:
        assert not again.activity.continued
        assert {event.data.reason for event in of(durable_events(again), "turn_aborted")} == {"crash"}  # type: ignore[union-attr]
        hold_to_one_end(again)
    async with next_life(id, settings(nested(gate), gate)) as after:
        assert not after.activity.continued


async def test_a_conversation_that_is_closed_meanwhile_has_its_chain_marked_as_over() -> None:
    """What is written of a chain stands with the root, where its own conversation is gone."""
    gate = Gate()
    async with Session.start(settings(ScriptedModel([call("act", {"what": "x"}, "c1"), "a"]), gate)) as session:
        child = await session.open()
        message = asyncio.ensure_future(child.message("go"))
        await until(lambda: bool(gate.reached))
        await child.close(timeout=0.1)
        assert (await message).status == "interrupted"


async def test_a_compaction_is_no_message_and_does_not_go_on(lives: Lives) -> None:
    async with Session.start(settings(ScriptedModel(["one", "a summary"]))) as session:
        await session.root.message("go")
        await session.root.compact()
        assert not session.activity.continued
    async with next_life(session.id, settings(ScriptedModel(["two"]))) as again:
        assert not again.activity.continued
        assert (await again.root.message("more")).text == "two"


async def test_the_end_of_a_task_waits_for_what_has_to_happen_before_it(tmp_path: Path) -> None:
    """Checkpoints: what a task did to files is recorded before its terminal event."""
    async with Session.start(settings(ScriptedModel(["one"]), checkpoints=True, cwd=str(tmp_path))) as session:
        assert (await session.root.message("go")).status == "completed"
