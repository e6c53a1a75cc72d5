"""Several tasks at once: `slots` of a session, one a conversation, each call answered once in every ending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import BusyError, InvalidParamsError, StorageError
from tertulia.models.scripted.script import ScriptedRequest
from tertulia.protocol.ids import ConversationId
from tertulia.scheduler.plan import Branch, Chain, TaskPlan
from tertulia.testing import ScriptedModel, call, fail, say
from tests.deadlines import HANG_S
from tests.session.staging import Stage, stage, ticks
from tests.tables import each_row


class Crew:
    """A model that answers by what it is told: `ask a b` hands over to a and b, `hold` waits for its gate."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.ids: dict[str, str] = {}
        self.running: set[str] = set()
        self.most = 0
        self.model = ScriptedModel([self.reply], repeat=True)

    def reply(self, request: ScriptedRequest) -> Any:
        name = next((name for name, id in self.ids.items() if id == request.request.conversation_id), "?")
        text = request.last_input
        if text.startswith("ask "):
            return say("", *(self.send(target) for target in text.split()[1:]))
        if text.startswith("hold"):
            return say(f"{name} held", gate=self.gate(name))
        if text == "fail":
            return fail("no such luck")
        return say(f"{name} done")

    def send(self, target: str) -> Any:
        name, _, text = target.partition(":")
        fields = {"conversation_id": self.ids[name], "text": text.replace("+", " ") or "hold"}
        return call("conv_send", fields)

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def open(self, on: Stage, names: str, **fields: Any) -> list[tertulia.Conversation]:
        opened = [await on.session.open(title=name, **fields) for name in names]
        self.ids.update({name: conversation.id for name, conversation in zip(names, opened, strict=True)})
        return opened


@asynccontextmanager
async def crew_on(names: str, *, slots: int, **fields: Any) -> AsyncIterator[tuple[Crew, Stage, Any]]:
    """A crew on a stage with so many slots, and a conversation for each letter of `names`."""
    crew = Crew()
    async with stage(model=crew.model, slots=slots) as on:
        yield crew, on, await crew.open(on, names, **fields)


def running(on: Stage) -> list[str]:
    """The titles of the conversations in which a task runs."""
    return sorted(c.title or "" for c in on.parts.conversations if c.task is not None)


async def until_running(on: Stage, *names: str) -> None:
    async with asyncio.timeout(HANG_S):
        while running(on) != sorted(names):
            await ticks(1)


def heard(on: Stage, conversation: tertulia.Conversation) -> list[dict[str, Any]]:
    return [msgspec.json.decode(output.text) for output in on.outputs(conversation)]


# ---- slots


@each_row("slots", [1, 2, 3, 8])
async def test_at_most_so_many_tasks_run_as_there_are_slots(slots: int) -> None:
    """Issue 20, 1: up to `slots` tasks of a session at once; gather runs side by side."""
    async with crew_on("abcde", slots=slots) as (crew, on, opened):
        tasks = [on.begin(conversation.message("hold")) for conversation in opened]
        await until_running(on, *"abcde"[:slots])
        for name in "abcde":
            crew.gate(name).set()
        assert [reply.text for reply in await asyncio.gather(*tasks)] == [f"{name} held" for name in "abcde"]
        on.check_idle()


async def test_a_conversation_runs_one_task_at_a_time_and_lets_others_pass() -> None:
    """Issue 20, 1 and 3: the second message to a busy conversation waits in its line, a later one to another runs."""
    async with crew_on("ab", slots=2) as (crew, on, (a, b)):
        first, second, other = (on.begin(c.message(text)) for c, text in ((a, "hold"), (a, "two"), (b, "three")))
        assert (await other).text == "b done"
        assert running(on) == ["a"]
        crew.gate("a").set()
        assert [(await task).text for task in (first, second)] == ["a held", "a done"]
        assert [entry.text for entry in await a.history() if entry.role == "user"] == ["hold", "two"]


async def test_if_busy_looks_at_the_conversation_and_at_the_slots() -> None:
    """Issue 20, 2."""
    async with crew_on("abc", slots=2) as (crew, on, (a, b, c)):
        first = on.begin(a.message("hold"))
        await until_running(on, "a")
        with pytest.raises(BusyError):
            await a.message("now", if_busy="fail")
        assert (await b.message("now", if_busy="fail")).text == "b done"
        second = on.begin(b.message("hold"))
        await until_running(on, "a", "b")
        with pytest.raises(BusyError):
            await c.message("now", if_busy="fail")
        crew.gate("a").set()
        crew.gate("b").set()
        await asyncio.gather(first, second)


@each_row("slots", [0, -1, True, 1.5, "2", 1_001])
def test_slots_that_make_no_sense_are_refused(slots: Any) -> None:
    with pytest.raises(InvalidParamsError, match="slots must be a whole number from 1 to 1,000"):
        tertulia.Settings(slots=slots)


# ---- a chain is a tree


async def test_the_targets_of_one_answer_run_side_by_side_and_are_answered_in_order() -> None:
    """Issue 20, 2: the continuation runs when all have reported; outputs in the order of the calls."""
    async with crew_on("abcd", slots=3) as (crew, on, (a, *_)):
        reply = on.begin(a.message("ask b c d"))
        await until_running(on, "b", "c", "d")
        for name in "dcb":
            crew.gate(name).set()
            await ticks(30)
        assert (await reply).text == "a done"
        assert [result["last_assistant_message"] for result in heard(on, a)] == ["b held", "c held", "d held"]
        assert (await reply).usage.total_tokens > 0


async def test_a_chain_with_one_slot_less_than_it_could_use_goes_on_as_slots_are_free() -> None:
    async with crew_on("abcd", slots=2) as (crew, on, (a, *_)):
        reply = on.begin(a.message("ask b c d"))
        await until_running(on, "b", "c")
        crew.gate("c").set()
        await until_running(on, "b", "d")
        crew.gate("b").set()
        await until_running(on, "d")
        crew.gate("d").set()
        assert (await reply).text == "a done"


async def test_two_handoffs_to_one_conversation_run_one_after_the_other_in_order() -> None:
    """Issue 20, 2."""
    async with crew_on("ab", slots=4) as (crew, on, (a, b)):
        reply = on.begin(a.message("ask b:hold+first b:second"))
        await until_running(on, "b")
        crew.gate("b").set()
        assert (await reply).text == "a done"
        assert [entry.text for entry in await b.history() if entry.role == "user"] == ["hold first", "second"]


async def test_a_limit_holds_back_targets_although_slots_are_free() -> None:
    """Issue 20, 1: `limits.max_parallel_targets` narrows it for one conversation."""
    async with crew_on("abcd", limits={"max_parallel_targets": 2}, slots=8) as (crew, on, (a, *_)):
        reply = on.begin(a.message("ask b c d"))
        await until_running(on, "b", "c")
        crew.gate("b").set()
        await until_running(on, "c", "d")
        crew.gate("c").set()
        crew.gate("d").set()
        assert (await reply).text == "a done"


async def test_the_slot_of_a_caller_goes_to_its_first_target_and_comes_back() -> None:
    """Issue 20, 2: no chain starves: another that waits does not take the slot in between."""
    async with crew_on("abc", slots=1) as (crew, on, (a, _, c)):
        first = on.begin(a.message("ask b:quick b:quick"))
        other = on.begin(c.message("three"))
        await asyncio.gather(first, other)
        story = [line for line in on.story(a, on.session.conversation(crew.ids["b"]), c) if "started" in line]
        assert story == ["a started user", "b started target", "b started target", "a started continuation",
                         "c started user"]  # fmt: skip


async def test_the_target_of_one_chain_waits_in_the_line_of_a_conversation_that_another_uses() -> None:
    """Issue 20, 3."""
    async with crew_on("abc", slots=3) as (crew, on, (a, b, _)):
        direct = on.begin(b.message("hold"))
        await until_running(on, "b")
        reply = on.begin(a.message("ask b:please c:hold"))
        await until_running(on, "b", "c")
        crew.gate("c").set()
        await until_running(on, "b")
        crew.gate("b").set()
        assert ((await direct).text, (await reply).text) == ("b held", "a done")
        assert [result["last_assistant_message"] for result in heard(on, a)] == ["b done", "c held"]


async def test_a_wait_that_would_close_a_cycle_is_refused_and_leaves_nothing_behind() -> None:
    """Issue 20, 3: `awaiting_result`; two branches that ask each other, the later one is refused."""
    async with crew_on("abc", slots=4) as (crew, on, (a, b, c)):
        reply = on.begin(a.message("ask b:ask+c:hold c:hold"))
        await until_running(on, "c")
        # b waits for c, which runs for a: c may not ask b, nor a.
        scheduler = on.parts.scheduler
        assert scheduler.occupancy.would_never_end(c.id, b.id)
        assert scheduler.occupancy.would_never_end(c.id, a.id)
        assert not scheduler.occupancy.would_never_end(c.id, on.root.id)
        crew.gate("c").set()
        assert (await reply).text == "a done"
        assert [result["ok"] for result in heard(on, b)] == [True]
        on.check_idle()


async def test_a_person_may_write_to_a_child_while_its_parent_works() -> None:
    """Issue 20, 8: side by side where a slot is free; the parent is neither interrupted nor told."""
    async with crew_on("abc", slots=3) as (crew, on, (a, b, c)):
        reply = on.begin(a.message("ask b"))
        await until_running(on, "b")
        assert (await c.message("how is it going?")).text == "c done"
        aside = on.begin(b.message("and you?"))
        await ticks(20)
        crew.gate("b").set()
        assert ((await reply).text, (await aside).text) == ("a done", "b done")
        assert len(heard(on, a)) == 1


# ---- endings


async def test_a_failed_branch_does_not_cancel_its_siblings() -> None:
    """Issue 20, 5."""
    async with crew_on("abc", slots=3) as (crew, on, (a, *_)):
        reply = on.begin(a.message("ask b:fail c:hold"))
        await until_running(on, "c")
        crew.gate("c").set()
        assert (await reply).text == "a done"
        assert [(result["ok"], result.get("code")) for result in heard(on, a)] == [(False, "model_error"), (True, None)]


@each_row("how", ["interrupt", "cancel"])
async def test_one_branch_is_stopped_and_its_caller_goes_on(how: str) -> None:
    """Issue 20, 5: its caller gets `cancelled` for that call; the sibling runs on."""
    async with crew_on("abc", slots=3) as (crew, on, (a, b, _)):
        reply = on.begin(a.message("ask b c"))
        await until_running(on, "b", "c")
        if how == "interrupt":
            assert (await b.interrupt(scope="branch")).interrupted
            assert not (await b.interrupt(scope="branch")).interrupted
        else:
            (task,) = [task for task in on.parts.registry.running() if task.conversation_id == b.id]
            assert on.session.activity.cancel(task.task_id, scope="branch")
        await until_running(on, "c")
        crew.gate("c").set()
        assert ((await reply).status, (await reply).text) == ("completed", "a done")
        assert [(result["ok"], result.get("code")) for result in heard(on, a)] == [(False, "cancelled"), (True, None)]


@each_row("scope", ["tree", "", None, 1, True, "Branch"])
async def test_a_scope_that_there_is_not_is_refused_and_stops_nothing(scope: Any) -> None:
    """Found under attack: from Python any other word meant the branch."""
    async with crew_on("a", slots=2) as (crew, on, (a,)):
        reply = on.begin(a.message("hold"))
        await until_running(on, "a")
        (task,) = on.parts.registry.running()
        with pytest.raises(InvalidParamsError, match="scope"):
            await a.interrupt(scope=scope)
        with pytest.raises(InvalidParamsError, match="scope"):
            on.session.activity.cancel(task.task_id, scope=scope)
        assert running(on) == ["a"]
        crew.gate("a").set()
        assert (await reply).text == "a held"


async def test_a_branch_that_waits_is_stopped_with_all_below_it() -> None:
    async with crew_on("abcd", slots=3) as (crew, on, (a, b, *_)):
        reply = on.begin(a.message("ask b:ask+c:hold d:hold"))
        await until_running(on, "c", "d")
        assert (await b.interrupt(scope="branch")).interrupted
        await until_running(on, "d")
        crew.gate("d").set()
        assert (await reply).text == "a done"
        assert [(result["ok"], result.get("code")) for result in heard(on, a)] == [(False, "cancelled"), (True, None)]
        assert [(result["ok"], result.get("code")) for result in heard(on, b)] == [(False, "cancelled")]
        assert (await b.message("still there?")).text == "b done"


async def test_a_target_that_has_not_begun_is_listed_and_cancelled_by_its_task() -> None:
    """Issue 20, 5: what waits for a slot can be found, and stopped alone."""
    async with crew_on("abcd", slots=2) as (crew, on, (a, _, _, d)):
        reply = on.begin(a.message("ask b c d"))
        await until_running(on, "b", "c")
        *_, waiting = on.session.activity.tasks
        assert (waiting.kind, waiting.status, waiting.chain) == ("target", "queued", [a.id, d.id])
        assert await on.session.activity.task(waiting.task_id) == waiting
        assert on.session.activity.cancel(waiting.task_id, scope="branch")
        assert not on.session.activity.cancel(waiting.task_id, scope="branch")
        crew.gate("b").set()
        crew.gate("c").set()
        assert (await reply).text == "a done"
        assert [result.get("code") for result in heard(on, a)] == [None, None, "cancelled"]
        assert await d.history() == []


@each_row("member", ["a", "b", "c"])
async def test_interrupting_any_member_stops_the_whole_chain(member: str) -> None:
    """Issue 20, 5."""
    async with crew_on("abcd", slots=3) as (crew, on, (a, *_)):
        reply = on.begin(a.message("ask b:ask+d c"))
        await until_running(on, "c", "d")
        other = on.begin(on.root.message("me too"))
        assert (await on.session.conversation(crew.ids[member]).interrupt()).interrupted
        assert ((await reply).status, (await other).status) == ("interrupted", "completed")
        assert [result["code"] for result in heard(on, a)] == ["cancelled", "cancelled"]
        on.check_idle()


async def test_closing_a_conversation_that_waits_stops_its_branch_and_no_other() -> None:
    async with crew_on("abcd", slots=3) as (crew, on, (a, b, *_)):
        reply = on.begin(a.message("ask b:ask+c d"))
        await until_running(on, "c", "d")
        assert not (await b.close()).forced
        await until_running(on, "d")
        crew.gate("d").set()
        assert (await reply).text == "a done"
        assert [result.get("code") for result in heard(on, a)] == ["closed", None]


async def test_a_target_that_waits_too_long_is_answered_with_a_timeout() -> None:
    """Issue 20, 3: `target_timeout_s` counts from the start of the target; `target_wait_s` limits the wait."""
    crew = Crew()
    limits = {"target_wait_s": 0.01}
    async with stage(model=crew.model, slots=1) as on:
        a, *_ = await crew.open(on, "abc", limits=limits)
        reply = on.begin(a.message("ask b c"))
        await until_running(on, "b")
        async with asyncio.timeout(HANG_S):
            while len(on.parts.scheduler.active[0].branches) > 2:
                await ticks(1)
        crew.gate("b").set()
        assert (await reply).text == "a done"
        assert [result.get("code") for result in heard(on, a)] == [None, "timeout"]


async def test_the_time_of_a_target_counts_while_its_own_target_waits_in_line() -> None:
    """Issue 20, 3 and 4: deadlines follow the path; b may not outlive its own because c belongs to another chain."""
    crew = Crew()
    async with stage(model=crew.model, slots=3, limits={"target_timeout_s": 0.2}) as on:
        a, b, c = await crew.open(on, "abc")
        other = on.begin(c.message("hold"))
        await until_running(on, "c")
        async with asyncio.timeout(HANG_S):
            assert (await a.message("ask b:ask+c")).text == "a done"
        assert running(on) == ["c"]
        assert [result["code"] for result in (*heard(on, a), *heard(on, b))] == ["timeout", "timeout"]
        assert "target_timeout_s" in heard(on, b)[0]["reason"]
        crew.gate("c").set()
        assert (await other).text == "c held"
        on.check_idle()


async def test_closing_the_session_ends_every_branch() -> None:
    async with crew_on("abcd", slots=3) as (_, on, (a, *_)):
        reply = on.begin(a.message("ask b:ask+d c"))
        other = on.begin(on.root.message("hold"))
        await until_running(on, "", "c", "d")
        await on.session.close()
        assert ((await reply).status, (await other).status) == ("interrupted", "interrupted")
        assert not on.parts.scheduler.active


# ---- rights and limits follow the path


async def test_siblings_neither_widen_nor_narrow_each_other() -> None:
    """Issue 20, 4: rights of a task are the meet of the path from the chain's root."""
    crew, seen = Crew(), {}

    def reply(request: ScriptedRequest) -> Any:
        for task in on.parts.registry.running():
            seen[on.parts.conversations.find(task.conversation_id).title] = task.chain
        return crew.reply(request)

    async with stage(model=ScriptedModel([reply], repeat=True), slots=3) as on:
        a, b, c, d = await crew.open(on, "abcd")
        answer = on.begin(a.message("ask b:ask+d c"))
        await until_running(on, "c", "d")
        crew.gate("c").set()
        crew.gate("d").set()
        assert (await answer).text == "a done"
        assert (seen["c"], seen["d"]) == ((a.id, c.id), (a.id, b.id, d.id))


async def test_limits_count_over_the_whole_chain_also_when_branches_race() -> None:
    """Issue 20, 4: two branches that each open conversations share one room."""
    crew = Crew()

    def reply(request: ScriptedRequest) -> Any:
        if request.last_input == "many":
            return say("", *(call("conv_create", {"user_instruction": "quick"}) for _ in range(3)))
        return crew.reply(request)

    limits = {"max_chain_conversations": 4}
    async with stage(model=ScriptedModel([reply], repeat=True), slots=8, limits=limits) as on:
        a, b, c = await crew.open(on, "abc")
        assert (await a.message("ask b:many c:many")).text == "a done"
        made = [result for conversation in (b, c) for result in heard(on, conversation)]
        assert sorted((result["ok"], result.get("code")) for result in made) == [
            *[(False, "limit")] * 2,
            *[(True, None)] * 4,
        ]


# ---- one slot says so, once


async def test_with_one_slot_the_first_message_that_waits_for_another_conversation_says_so_once() -> None:
    """Issue 20, 1: a `warning` event that names the setting; not where it waits for its own conversation."""
    crew = Crew()
    async with stage(model=crew.model) as on:
        a, b = await crew.open(on, "ab")
        tasks = [on.begin(a.message("hold"))]
        await until_running(on, "a")
        tasks += [on.begin(a.message("next"))]
        await ticks(1)
        assert "warning" not in on.events.types()
        tasks += [on.begin(b.message("one")), on.begin(b.message("two"))]
        crew.gate("a").set()
        await asyncio.gather(*tasks)
        (warning,) = [event for event in on.events.drain() if event.type == "warning"]
        assert (warning.data.code, warning.conversation_id) == ("one_slot", b.id)
        assert "slots" in warning.data.message


async def test_with_several_slots_there_is_no_such_warning() -> None:
    async with crew_on("abc", slots=2) as (crew, on, opened):
        tasks = [on.begin(conversation.message("hold")) for conversation in opened]
        await until_running(on, "a", "b")
        for name in "abc":
            crew.gate(name).set()
        await asyncio.gather(*tasks)
        assert "warning" not in on.events.types()


# ---- many inputs


async def test_map_answers_many_inputs_and_closes_its_conversations() -> None:
    """Issue 20, 9: replies as they finish, at most `max_parallel` conversations at once."""
    most = 0

    def reply(request: ScriptedRequest) -> str:
        nonlocal most
        most = max(most, len(on.parts.conversations) - 1)
        return f"re: {request.last_input}"

    async with stage(model=ScriptedModel([reply], repeat=True), slots=4) as on:
        replies = [reply async for reply in on.session.map({"title": "m"}, (f"i{n}" for n in range(30)))]
        assert sorted((reply.index, reply.text) for reply in replies) == [(n, f"re: i{n}") for n in range(30)]
        assert 1 < most <= 4
        assert len(on.session.conversations()) == 1
        stored = [reply async for reply in on.session.map({}, ["a", "b"], max_parallel=1, keep=True)]
        assert [reply.index for reply in stored] == [0, 1]
        assert {reply.conversation_id for reply in stored} == {c.id for c in on.session.conversations()[1:]}


async def test_map_gives_an_input_that_is_refused_as_a_reply_and_goes_on() -> None:
    async with stage(model=ScriptedModel(["ok"], repeat=True), slots=2) as on:
        replies = [reply async for reply in on.session.map({}, ["fine", "", "fine too"])]
        assert sorted((reply.index, reply.status) for reply in replies) == [
            (0, "completed"),
            (1, "failed"),
            (2, "completed"),
        ]
        with pytest.raises(InvalidParamsError, match="max_parallel"):
            await anext(on.session.map({}, ["x"], max_parallel=0))


@each_row(
    ("fields", "inputs", "most", "named"),
    [
        ({}, ["x"], 1.5, "max_parallel"),
        ({}, ["x"], "2", "max_parallel"),
        ({}, ["x"], True, "max_parallel"),
        ({}, ["x"], -1, "max_parallel"),
        ({}, "one text", None, "inputs must be several texts"),
        ({}, b"bytes", None, "inputs must be several texts"),
        ({}, None, None, "inputs must be several texts"),
        (None, ["x"], None, "fields must be a mapping"),
    ],
)
async def test_map_of_what_makes_no_sense_is_refused_before_anything_is_opened(
    fields: Any, inputs: Any, most: Any, named: str
) -> None:
    """Found under attack: a text was taken letter by letter, and 1.5 bounded nothing."""
    async with stage("never", slots=2) as on:
        with pytest.raises(InvalidParamsError, match=named):
            await anext(on.session.map(fields, inputs, max_parallel=most))
        assert len(on.session.conversations()) == 1


async def test_a_thousand_inputs_that_fail_are_a_thousand_replies() -> None:
    async with stage(model=ScriptedModel([fail("no")], repeat=True), slots=8) as on:
        replies = [reply async for reply in on.session.map({}, map(str, range(1_000)), max_parallel=16)]
        assert sorted(reply.index for reply in replies) == list(range(1_000))
        assert {reply.error.code for reply in replies if reply.error} == {"model_error"}
        assert len(on.session.conversations()) == 1
        on.check_idle()


async def test_map_that_is_left_early_stops_and_closes_the_rest() -> None:
    crew = Crew()
    async with stage(model=crew.model, slots=3) as on:
        replies = on.session.map({}, ["quick", "hold", "hold"])
        assert (await anext(replies)).index == 0
        await replies.aclose()
        assert len(on.session.conversations()) == 1
        on.check_idle()


# ---- a journal that fails


@pytest.mark.parametrize("slots", [1, 3])
async def test_a_handoff_that_cannot_be_written_down_fails_the_message_and_answers_its_calls(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The targets are made and may not start: nothing is acknowledged, nothing hangs, each call has its output."""
    async with crew_on("abc", slots=slots) as (_, on, (a, *_)):
        flush = on.parts.bus.flush

        async def broken() -> None:
            if any(branch.state == "waiting" for chain in on.parts.scheduler.active for branch in chain.branches):
                monkeypatch.undo()
                raise StorageError("the disk is gone")
            await flush()

        monkeypatch.setattr(on.parts.bus, "flush", broken)
        async with asyncio.timeout(HANG_S):
            reply = await a.message("ask b:quick c:quick")
        assert (reply.status, reply.error.code if reply.error else None) == ("failed", "storage_error")
        assert [result["code"] for result in heard(on, a)] == ["cancelled", "cancelled"]
        on.check_idle()
        assert (await a.message("still there?")).text == "a done"


async def test_a_conversation_that_is_forsaken_while_nothing_of_it_runs_lets_its_caller_go_on() -> None:
    async with crew_on("abc", slots=2) as (crew, on, (a, b, c)):
        busy = on.begin(c.message("hold"))
        await until_running(on, "c")
        reply = on.begin(a.message("ask b:ask+c:please"))
        async with asyncio.timeout(HANG_S):
            while on.parts.conversations.find(b.id).awaiting == 0:
                await ticks(1)
        on.parts.scheduler.forsake(on.parts.conversations.find(b.id))
        assert (await reply).text == "a done"
        crew.gate("c").set()
        assert (await busy).text == "c held"
        assert [result["code"] for result in heard(on, a)] == ["closed"]


async def test_a_worker_that_is_cancelled_ends_its_chain_when_the_last_branch_has_ended() -> None:
    """G7: a fault of ours in one branch; the message is answered, its siblings are not cut off from their ends."""
    crew = Crew()
    async with stage(model=crew.model, slots=2, invariants=False) as on:
        a, *_ = await crew.open(on, "abc")
        reply = on.begin(a.message("ask b c"))
        await until_running(on, "b", "c")
        workers = [task for task in asyncio.all_tasks() if task.get_name() == "scheduler"]
        assert len(workers) == 2
        workers[0].cancel()
        await ticks(20)
        assert not reply.done()
        crew.gate("b").set()
        crew.gate("c").set()
        assert (await reply).status == "interrupted"
        assert (await a.message("still there?")).text == "a done"


async def test_a_caller_that_is_gone_narrows_no_rights() -> None:
    async with stage("ok") as on:
        root = on.parts.conversations.root
        chain = Chain(TaskPlan(ConversationId("gone"), "user"), 0.0)
        branch = Branch(chain, TaskPlan(root.id, "target"), chain.root)
        assert on.parts.scheduler._runner._rights(branch, root)() == root.terms.rights
