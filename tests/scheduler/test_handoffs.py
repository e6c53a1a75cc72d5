"""Handoffs: the caller's task ends, the target speaks, a continuation closes the call. Once, in every ending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tertulia
from tertulia.errors import UnsupportedByBackendError
from tertulia.protocol.inputs import NewConversation, TextInput
from tertulia.scheduler.handoffs import Handoffs
from tertulia.testing import ScriptedModel, assert_order, call, fail, say
from tertulia.tools.tool import CallContext, Handoff, Outcome, Result, TargetResult
from tests.session.staging import Ask, Stage, heard, stage, ticks


def ask(to: tertulia.Conversation | str, call_id: str = "c1", tool: str = "ask") -> Any:
    return call(tool, {"to": to if isinstance(to, str) else to.id}, call_id)


async def handing(on: Stage) -> None:
    """Until a task is done whose targets have no branch yet."""
    while not any(chain.root.handing for chain in on.parts.scheduler.active):
        await ticks(1)
    (chain,) = on.parts.scheduler.active
    assert chain.branches == [chain.root]


async def two(on: Stage) -> tuple[tertulia.Conversation, tertulia.Conversation]:
    return await on.session.open(title="a"), await on.session.open(title="b")


class Plot:
    """A model whose replies are written when the ids of the conversations are known."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.model = ScriptedModel([self._next], repeat=True)

    def _next(self, request: Any) -> Any:
        return self.replies.pop(0) if self.replies else say("nothing planned")

    def write(self, *replies: Any) -> None:
        self.replies.extend(replies)


@pytest.fixture
def plot() -> Plot:
    return Plot()


# ---- the order of things


async def test_the_caller_is_replaced_the_target_runs_and_a_continuation_closes_the_call(plot: Plot) -> None:
    """S004-25, S002-35: A aborted(replaced), B from start to end, A again, and only then the call's end."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("I ask.", ask(b)), say("forty-two"), say("b says forty-two"))
        reply = await a.message("what is it?")
        assert (reply.status, reply.text, reply.tool_calls) == ("completed", "b says forty-two", 1)
        assert on.story(a, b) == [
            "a started user",
            "a begin c1",
            "a replaced",
            "b started target",
            "b completed",
            "a started continuation",
            "a end c1",
            "a completed",
        ]
        on.check_idle()


async def test_the_end_of_the_call_stands_under_the_continuation_and_names_what_replaced_its_task(plot: Plot) -> None:
    """DESIGN, Chains; X-39: scheduled tasks have `conv/<task id>` as their submission."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("yes"), say("done"))
        reply = await a.message("go")
        events = {(e.type, e.conversation_id, e.task_id): e for e in on.events.drain() if e.task_id}
        started = [e for e in events.values() if e.type == "task_started"]
        first, target, continuation = (e.task_id for e in started)
        assert reply.task_id == first
        assert [e.sub_id for e in started[1:]] == [f"conv/{target}", f"conv/{continuation}"]
        assert events["tool_call_end", a.id, continuation].data.call_id == "c1"
        assert events["turn_aborted", a.id, first].data.by_call_id == "c1"
        assert {e.trace_id for e in started} == {reply.trace_id}
        assert len({e.span_id for e in started}) == 3


async def test_what_the_target_answered_reaches_the_caller_once_and_its_input_is_recorded_there(plot: Plot) -> None:
    """The result is taken from the target's task; the call stays in the caller's history, answered once."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("first"), say("ok"), say("", ask(b, "c2")), say("second"), say("ok"))
        await a.message("one")
        await a.message("two")
        assert [(heard(o)["status"], heard(o)["text"], o.success) for o in on.outputs(a)] == [
            ("completed", "first", True),
            ("completed", "second", True),
        ]
        assert [entry.text for entry in await b.history()] == ["please", "first", "please", "second"]
        assert [entry.text for entry in await a.history()] == ["one", "ok", "two", "ok"]


async def test_the_usage_of_the_whole_chain_is_the_answers(plot: Plot) -> None:
    """DESIGN, Models: a reply's usage sums every model request of the task and its chain."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("yes"), say("done"))
        reply = await a.message("go")
        counted = [e.data.usage.total_tokens for e in on.events.drain() if e.type == "token_count"]
        assert len(counted) == 3
        assert reply.usage.total_tokens == sum(counted)
        ends = [e.data.usage.total_tokens for e in on.events.seen if e.type == "task_complete"]
        assert ends == counted[1:]


async def test_chains_nest_and_the_inner_one_always_ends_first(plot: Plot) -> None:
    """S004-36: A asks B, B asks C: A✗ B✗ C B′ A′."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        c = await on.session.open()
        plot.write(say("", ask(b)), say("", ask(c, "c2")), say("deep"), say("deeper"), say("deepest"))
        reply = await a.message("go")
        assert reply.text == "deepest"
        assert on.story(a, b, c) == [
            "a started user",
            "a begin c1",
            "a replaced",
            "b started target",
            "b begin c2",
            "b replaced",
            "c started target",
            "c completed",
            "b started continuation",
            "b end c2",
            "b completed",
            "a started continuation",
            "a end c1",
            "a completed",
        ]
        assert heard(on.outputs(b)[0])["text"] == "deep"
        assert heard(on.outputs(a)[0])["text"] == "deeper"
        on.check_idle()


async def test_two_handoffs_of_one_answer_run_in_order_and_one_continuation_closes_both(plot: Plot) -> None:
    """X-12: ordinary calls run before the switch; then [T1, T2, continuation]."""

    @tertulia.tool
    async def note(text: str) -> str:
        """Repeat."""
        return text

    async with stage(model=plot.model, tools=[Ask(), note]) as on:
        a, b = await two(on)
        c = await on.session.open()
        plot.write(
            say("", ask(b, "c1"), call("note", {"text": "n"}, "c2"), ask(c, "c3")), say("B"), say("C"), say("both")
        )
        reply = await a.message("go")
        assert (reply.text, reply.tool_calls) == ("both", 3)
        assert on.story(a, b, c) == [
            "a started user",
            "a begin c1",
            "a begin c2",
            "a end c2",
            "a begin c3",
            "a replaced",
            "b started target",
            "b completed",
            "c started target",
            "c completed",
            "a started continuation",
            "a end c1",
            "a end c3",
            "a completed",
        ]
        assert {o.call_id: o.text if o.call_id == "c2" else heard(o)["text"] for o in on.outputs(a)} == {
            "c1": "B",
            "c2": "n",
            "c3": "C",
        }


async def test_one_conversation_can_be_asked_twice_in_one_answer(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b, "c1"), ask(b, "c2")), say("one"), say("two"), say("both"))
        await a.message("go")
        assert [heard(output)["text"] for output in on.outputs(a)] == ["one", "two"]


async def test_a_continuation_can_hand_over_again(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("one"), say("", ask(b, "c2")), say("two"), say("enough"))
        reply = await a.message("go")
        assert (reply.text, reply.tool_calls) == ("enough", 2)
        assert [line for line in on.story(a, b) if "started" in line] == [
            "a started user",
            "b started target",
            "a started continuation",
            "b started target",
            "a started continuation",
        ]


async def test_a_new_conversation_is_opened_from_its_caller_and_only_narrower(plot: Plot) -> None:
    """S000-19, X-05: a child inherits its caller's terms, and its ceiling is the caller's."""
    new = NewConversation(title="child", sandbox="danger-full-access")
    async with stage(model=plot.model, tools=[Ask(new=new)]) as on:
        a = await on.session.open(sandbox="read-only", base_instructions="Be brief.")
        plot.write(say("", ask("?")), say("from the child"), say("done"))
        reply = await a.message("go")
        assert reply.status == "completed"
        child = on.session.conversations()[-1]
        assert (child.info.title, child.info.parent_id, child.info.depth) == ("child", a.id, 2)
        context = await child.context()
        assert (context.policy["sandbox"], context.base_instructions) == ("read-only", "Be brief.")
        assert [cut.because for cut in context.narrowed] == [f"ancestor:{a.id}"]
        assert_order(on.events.drain(), ["turn_aborted", "conversation_opened", "background_event", "task_started"])


async def test_the_strictest_of_the_whole_chain_binds_the_target(plot: Plot) -> None:
    """DESIGN, Narrowing: while a chain runs its callers' current values bind too."""
    seen: list[Any] = []

    @tertulia.tool
    async def look(call: tertulia.CallContext) -> str:
        """Look at the rights."""
        seen.append(call.rights.sandbox)
        return ""

    async with stage(model=plot.model, tools=[Ask(), look], sandbox="workspace-write") as on:
        a, b = await on.session.open(sandbox="read-only"), await on.session.open()
        plot.write(say("", call("look")), say("free"))
        await b.message("alone")
        plot.write(say("", ask(b)), say("", call("look")), say("bound"), say("done"))
        await a.message("go")
        assert seen == ["workspace_write", "read_only"]


async def test_the_root_can_be_asked_by_its_name(plot: Plot) -> None:
    """DESIGN, Shapes: "root" is accepted everywhere as a name for the root."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a = await on.session.open()
        plot.write(say("", ask("root")), say("I am root"), say("done"))
        await a.message("go")
        assert heard(on.outputs(a)[0])["text"] == "I am root"
        assert heard(on.outputs(a)[0])["conversation_id"] == on.root.id


async def test_a_user_message_waits_until_the_whole_chain_has_ended(plot: Plot) -> None:
    """S002-35: a chain keeps the slot; releasing between target and continuation would meet an open call."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        gate = asyncio.Event()
        plot.write(say("", ask(b)), say("B", gate=gate), say("a done"), say("other done"))
        first = on.begin(a.message("go"))
        await on.until("turn_aborted")
        second = on.begin(a.message("and I?"))
        third = on.begin(on.root.message("me too"))
        await ticks()
        assert a.info.status == "waiting"
        gate.set()
        assert [(await task).text for task in (first, second, third)] == ["a done", "other done", "nothing planned"]
        assert [line for line in on.story(a, b, on.root) if "started" in line] == [
            "a started user",
            "b started target",
            "a started continuation",
            "a started user",
            "c started user",
        ]


async def test_what_is_put_in_while_a_conversation_waits_is_read_after_the_output(plot: Plot) -> None:
    """DESIGN: steering a waiting conversation is queued for its continuation; X-13: after the output."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        gate = asyncio.Event()
        plot.write(say("", ask(b)), say("B", gate=gate), say("done"))
        running = on.begin(a.message("go"))
        await on.until("turn_aborted")
        await a.steer("and be quick")
        gate.set()
        await running
        kinds = [type(item).__name__ for item in on.model.last_request.items]
        assert kinds[-3:] == ["ToolCall", "ToolOutput", "UserMessage"]
        assert on.model.last_request.last_input == "and be quick"


# ---- targets that do not answer


async def test_a_target_that_fails_is_told_to_the_caller_which_goes_on(plot: Plot) -> None:
    """X-14: always closed, with success=false, a reason and what there is of the text."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), fail("no such luck", code="model_error"), say("then without b"))
        reply = await a.message("go")
        assert (reply.status, reply.text) == ("completed", "then without b")
        (output,) = on.outputs(a)
        assert not output.success
        answer = heard(output)
        assert (answer["status"], answer["code"], answer["reason"]) == ("failed", "model_error", "no such luck")
        assert "b failed" in on.story(a, b)


async def test_a_target_that_takes_too_long_is_told_as_such(plot: Plot) -> None:
    """S002-51; DESIGN, Shapes: a timeout is a failure with that code."""
    async with stage(model=plot.model, tools=[Ask()], limits={"target_timeout_s": 0.1}) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("never", gate=asyncio.Event()), say("done"))
        reply = await a.message("go")
        assert reply.status == "completed"
        assert heard(on.outputs(a)[0])["code"] == "timeout"
        assert "b timeout" in on.story(a, b)


async def test_the_time_of_a_target_includes_all_that_it_hands_over(plot: Plot) -> None:
    """`target_timeout_s` is for the target with all that it causes: b's time runs while c speaks."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a = await on.session.open()
        b = await on.session.open(limits={"target_timeout_s": 0.2})
        c = await on.session.open()
        plot.write(say("", ask(b)), say("", ask(c, "c2")), say("never", gate=asyncio.Event()), say("", ask(c, "c3")))
        reply = await a.message("go")
        assert reply.status == "completed"
        assert [line for line in on.story(a, b, c) if "timeout" in line] == ["c timeout", "b timeout"]
        assert heard(on.outputs(a)[0])["code"] == "timeout"
        on.check_idle()


async def test_a_target_that_is_closed_while_it_runs_is_told_and_the_caller_goes_on(plot: Plot) -> None:
    """DESIGN, Chains: closing a running target gives its caller {ok: false} and the caller goes on."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("never", gate=asyncio.Event()), say("went on"))
        running = on.begin(a.message("go"))
        await on.asked(2)
        answer = await b.close()
        assert (answer.closed, answer.already_closed, answer.forced) == (True, False, False)
        reply = await running
        assert (reply.status, reply.text) == ("completed", "went on")
        assert heard(on.outputs(a)[0])["status"] == "cancelled"
        assert "b interrupted" in on.story(a, b)


async def test_a_target_that_is_closed_before_its_turn_is_told_as_closed(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        c = await on.session.open()
        gate = asyncio.Event()
        plot.write(say("", ask(b, "c1"), ask(c, "c2")), say("B", gate=gate), say("done"))
        running = on.begin(a.message("go"))
        await on.asked(2)
        await c.close()
        gate.set()
        assert (await running).status == "completed"
        assert [heard(output)["code"] for output in on.outputs(a)] == [None, "closed"]


async def test_a_new_conversation_that_cannot_be_opened_is_told_and_leaves_nothing(plot: Plot) -> None:
    new = NewConversation(model="nobody/knows")
    async with stage(model=plot.model, tools=[Ask(new=new)]) as on:
        plot.write(say("", ask("?")), say("never mind"))
        before = len(on.session.conversations())
        reply = await on.root.message("go")
        assert (reply.status, reply.text) == ("completed", "never mind")
        assert len(on.session.conversations()) == before
        assert heard(on.outputs(on.root)[0])["code"] == "invalid_params"


async def test_a_target_that_is_gone_when_the_switch_comes_is_told() -> None:
    """Found when it was admitted and gone when it is to run: an answer all the same."""

    class Vanishing(Ask):
        async def run(self, arguments: Any, call: CallContext) -> Outcome:
            handoff = await super().run(arguments, call)
            assert isinstance(handoff, Handoff)
            victims.append(handoff.target)
            return handoff

    victims: list[Any] = []
    plot = Plot()
    async with stage(model=plot.model, tools=[Vanishing()]) as on:
        a, b = await two(on)
        scheduler, real = on.parts.scheduler, on.parts.conversations.find

        def find(conversation_id: str) -> Any:
            conversation = real(conversation_id)
            if victims and conversation_id == b.id:
                conversation.closed = True
            return conversation

        on.parts.conversations.find = find
        plot.write(say("", ask(b)), say("so be it"))
        assert (await a.message("go")).text == "so be it"
        assert heard(on.outputs(a)[0])["code"] == "closed"
        assert not scheduler.active


# ---- refusals: before anything has happened


async def refused(on: Stage, caller: tertulia.Conversation) -> dict[str, Any]:
    """The one refusal in a conversation's history; no task but the caller's ran."""
    (output,) = on.outputs(caller)
    assert not output.success
    return heard(output)


def test_a_conversation_of_another_backend_cannot_hand_over() -> None:
    """DESIGN, Delegation: an agent of its own has no turn of ours to come back to. Nothing is counted first."""
    scope = SimpleNamespace(conversation=SimpleNamespace(terms=SimpleNamespace(backend="claude")))
    nothing_is_touched: Any = None
    with pytest.raises(UnsupportedByBackendError, match="claude cannot hand over"):
        Handoffs(*[nothing_is_touched] * 5).admit(nothing_is_touched, cast(Any, scope), nothing_is_touched)


async def test_a_conversation_cannot_ask_itself(plot: Plot) -> None:
    """X-11"""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        plot.write(say("", ask("root")), say("silly me"))
        reply = await on.root.message("go")
        assert (reply.status, reply.text) == ("completed", "silly me")
        assert (await refused(on, on.root))["code"] == "awaiting_result"
        assert on.story(on.root) == ["a started user", "a begin c1", "a end c1", "a completed"]


async def test_a_conversation_that_waits_cannot_be_asked(plot: Plot) -> None:
    """X-11: an ancestor has an open call; a message into it could never be sent to a model."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("", ask(a, "c2")), say("b alone"), say("a done"))
        assert (await a.message("go")).text == "a done"
        assert (await refused(on, b))["code"] == "awaiting_result"
        assert heard(on.outputs(a)[0])["text"] == "b alone"


@pytest.mark.parametrize("target", ["no-such-id", "", "\ud800", "x" * 100_000])
async def test_who_does_not_exist_cannot_be_asked(plot: Plot, target: str) -> None:
    """S004-28: malformed ids and unknown ones."""
    async with stage(model=plot.model, tools=[_Fixed(target)]) as on:
        plot.write(say("", call("ask", {}, "c1")), say("nobody there"))
        assert (await on.root.message("go")).text == "nobody there"
        assert (await refused(on, on.root))["code"] == "not_found"


class _Fixed(Ask):
    """Asks one target, whatever the model says."""

    def __init__(self, target: Any, content: tuple[Any, ...] = (TextInput("please"),)) -> None:
        super().__init__()
        self._target, self._content = target, content

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        return Handoff(self._target, self._content, self._render)


async def test_a_closed_conversation_cannot_be_asked(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        b = await on.session.open()
        await b.close()
        plot.write(say("", ask(b)), say("gone"))
        await on.root.message("go")
        assert (await refused(on, on.root))["code"] == "closed"


async def test_a_handoff_with_nothing_to_say_is_refused(plot: Plot) -> None:
    """S004-30"""
    async with stage(model=plot.model, tools=[_Fixed("root", ())]) as on:
        a = await on.session.open()
        plot.write(say("", call("ask", {}, "c1")), say("ok"))
        await a.message("go")
        assert (await refused(on, a))["code"] == "invalid_params"
        assert not await on.root.history()


async def test_depth_is_refused_before_anything_happens(plot: Plot) -> None:
    """S004-20, S004-32, X-16: with depth 2, two children below the first caller; the third is refused."""
    async with stage(
        model=plot.model, tools=[Ask(new=NewConversation())], limits={"max_interrupt_chain_depth": 2}
    ) as on:
        plot.write(say("", ask("?", "c1")), say("", ask("?", "c2")), say("", ask("?", "c3")))
        plot.write(say("too deep"), say("second back"), say("first back"))
        reply = await on.root.message("go")
        assert reply.text == "first back"
        assert len(on.session.conversations()) == 3
        deepest = on.session.conversations()[-1]
        assert (await refused(on, deepest))["code"] == "depth_exceeded"
        opened = [e for e in on.events.drain() if e.type == "conversation_opened"]
        assert len(opened) == 2


@pytest.mark.parametrize(
    ("limit", "tool", "word"),
    [
        ("max_task_interrupts", "ask", "max_task_interrupts"),
        ("max_task_interrupts", "create", "max_task_interrupts"),
        ("max_chain_conversations", "create", "max_chain_conversations"),
    ],
)
async def test_one_message_can_cause_only_so_much(plot: Plot, limit: str, tool: str, word: str) -> None:
    """DESIGN, Scheduling: caps on conversations a chain may create and on interrupts one task may cause."""
    tools = [Ask(), Ask("create", new=NewConversation())]
    async with stage(model=plot.model, tools=tools, limits={limit: 1}) as on:
        b = await on.session.open()
        plot.write(say("", ask(b, "c1", tool)), say("B"), say("", ask(b, "c2", tool)), say("enough"))
        assert (await on.root.message("go")).text == "enough"
        first, second = on.outputs(on.root)
        assert (first.success, second.success) == (True, False)
        assert heard(second)["code"] == "limit"
        assert word in heard(second)["reason"]
        # The cap is the chain's: the next message has its own.
        plot.write(say("", ask(b, "c3", tool)), say("B"), say("done"))
        await on.root.message("again")
        assert on.outputs(on.root)[-1].success


@pytest.mark.parametrize("limit", ["max_interrupt_chain_depth", "max_task_interrupts", "max_chain_conversations"])
async def test_without_a_limit_nothing_is_refused(plot: Plot, limit: str) -> None:
    async with stage(model=plot.model, tools=[Ask(new=NewConversation())], limits={limit: None}) as on:
        plot.write(say("", ask("?")), say("B"), say("done"))
        assert (await on.root.message("go")).text == "done"
        assert on.outputs(on.root)[0].success


async def test_in_a_mixed_answer_valid_calls_go_and_refused_ones_are_answered(plot: Plot) -> None:
    """DESIGN, Chains: in a mixed batch valid calls run and refused ones get their {ok: false, code, reason}."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(a, "c1"), ask(b, "c2"), call("nobody", {}, "c3")), say("B"), say("done"))
        assert (await a.message("go")).text == "done"
        answer = {output.call_id: heard(output) for output in on.outputs(a)}
        assert answer["c1"]["code"] == "awaiting_result"
        assert answer["c2"]["text"] == "B"
        assert answer["c3"]["code"] == "not_found"
        on.check_idle()


# ---- stopping a chain


async def test_a_user_interrupt_closes_every_call_of_the_chain_once(plot: Plot) -> None:
    """X-15: abort what runs, close every pending call without asking a model, drop the chain."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        c = await on.session.open()
        plot.write(say("A asks", ask(b)), say("", ask(c, "c2")), say("never", gate=asyncio.Event()))
        running = on.begin(a.message("go"))
        await on.asked(3)
        assert (a.info.status, b.info.status) == ("waiting", "waiting")
        assert await a.interrupt()
        reply = await running
        assert (reply.status, reply.text, reply.error) == ("interrupted", "A asks", None)
        assert len(on.model.requests) == 3
        assert on.story(a, b, c)[-3:] == ["c interrupted", "b end c2", "a end c1"]
        first = next(e.task_id for e in on.events.seen if e.type == "task_started")
        assert on.events.seen[-1].task_id == first
        assert [heard(on.outputs(x)[0])["status"] for x in (a, b)] == ["cancelled", "cancelled"]
        on.check_idle()
        plot.write(say("still here"))
        assert (await a.message("hello?")).text == "still here"


@pytest.mark.parametrize("member", ["a", "b", "c"])
async def test_interrupting_any_member_stops_the_whole_chain(plot: Plot, member: str) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        c = await on.session.open()
        plot.write(say("", ask(b)), say("", ask(c, "c2")), say("never", gate=asyncio.Event()))
        running = on.begin(a.message("go"))
        await on.asked(3)
        assert not await on.root.interrupt()
        assert await {"a": a, "b": b, "c": c}[member].interrupt()
        assert (await running).status == "interrupted"
        on.check_idle()


async def test_what_one_target_answered_is_kept_when_the_next_is_stopped(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        c = await on.session.open()
        plot.write(say("", ask(b, "c1"), ask(c, "c2")), say("B answered"), say("never", gate=asyncio.Event()))
        running = on.begin(a.message("go"))
        await on.asked(3)
        await on.session.root.interrupt()
        await c.interrupt()
        await running
        assert [(heard(o)["status"], heard(o)["text"]) for o in on.outputs(a)] == [
            ("completed", "B answered"),
            ("cancelled", None),
        ]


async def test_a_stop_between_the_answer_and_the_switch_is_not_lost(plot: Plot) -> None:
    """G6: the job is done and its handoff not yet on the stack; who stops then must be heard."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("must not be asked"))
        running = on.begin(a.message("go"))
        await handing(on)
        assert await a.interrupt()
        assert not await a.interrupt()
        assert (await running).status == "interrupted"
        assert len(on.model.requests) == 1
        assert not on.outputs(a)[0].success
        on.check_idle()


async def test_cancelling_by_any_task_of_the_chain_stops_it(plot: Plot) -> None:
    """DESIGN, Chains: `task/cancel` acts on the whole chain; also by the id of the task that was replaced."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("never", gate=asyncio.Event()))
        running = on.begin(a.message("go"))
        first = (await on.until("task_started")).task_id
        await on.until("task_started")
        assert on.parts.scheduler.cancel(first)
        assert (await running).status == "interrupted"
        assert not on.parts.scheduler.cancel(first)


async def test_closing_a_waiting_conversation_ends_a_chain_that_it_began(plot: Plot) -> None:
    """DESIGN, Chains: it drops its frames and those above; without a caller below, the chain ends."""
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("B's own", gate=asyncio.Event()))
        running = on.begin(a.message("go"))
        await on.asked(2)
        assert not (await a.close()).forced
        reply = await running
        assert (reply.status, reply.text) == ("interrupted", None)
        assert "a end c1" in on.story(a, b)
        assert b.info.status == "idle"
        on.check_idle()


async def test_closing_a_waiting_conversation_in_the_middle_lets_its_caller_go_on(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        c = await on.session.open()
        plot.write(say("", ask(b)), say("", ask(c, "c2")), say("never", gate=asyncio.Event()), say("a goes on"))
        running = on.begin(a.message("go"))
        await on.asked(3)
        await b.close()
        reply = await running
        assert (reply.status, reply.text) == ("completed", "a goes on")
        assert heard(on.outputs(a)[0])["status"] == "cancelled"
        assert on.story(a, b, c).count("b end c2") == 1
        on.check_idle()


async def test_closing_two_waiting_conversations_drops_both_whatever_the_order(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        c = await on.session.open()
        plot.write(say("", ask(b)), say("", ask(c, "c2")), say("never", gate=asyncio.Event()))
        running = on.begin(a.message("go"))
        await on.asked(3)
        await asyncio.gather(a.close(), b.close())
        assert (await running).status == "interrupted"
        assert len(on.model.requests) == 3
        on.check_idle()


async def test_closing_a_conversation_that_has_just_handed_over_drops_its_targets(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("must not be asked"))
        running = on.begin(a.message("go"))
        await handing(on)
        await a.close()
        assert (await running).status == "interrupted"
        assert len(on.model.requests) == 1
        on.check_idle()


@pytest.mark.parametrize("stop", ["interrupt", "close"])
async def test_nothing_is_opened_once_it_is_over(plot: Plot, stop: str) -> None:
    """G6: whoever was told that it is over finds no conversation that was opened afterwards."""
    async with stage(model=plot.model, tools=[Ask(new=NewConversation())]) as on:
        a = await on.session.open()
        plot.write(say("", ask("?")), say("must not be asked"))
        running = on.begin(a.message("go"))
        await handing(on)
        await getattr(a, stop)()
        assert (await running).status == "interrupted"
        assert len(on.session.conversations()) == (2 if stop == "interrupt" else 1)
        assert len([e for e in on.events.drain() if e.type == "conversation_opened"]) == 1
        on.check_idle()


async def test_closing_the_session_in_the_middle_of_a_chain_answers_every_call(plot: Plot) -> None:
    async with stage(model=plot.model, tools=[Ask()]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("never", gate=asyncio.Event()))
        running = on.begin(a.message("go"))
        await on.asked(2)
        await on.session.close()
        assert (await running).status == "interrupted"
        assert [line for line in on.story(a, b) if "end" in line or "shutdown" in line] == ["b shutdown", "a end c1"]
        assert not on.outputs(a)[0].success


async def test_a_call_that_ends_the_task_leaves_no_handoff_of_the_same_answer_behind(plot: Plot) -> None:
    """X-10: the conversation is gone with the call; its other calls are answered, none is handed over."""

    @tertulia.tool
    async def leave() -> Result:
        """End it."""
        return Result("gone", ends_task=True)

    async with stage(model=plot.model, tools=[Ask(), leave]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b, "c1"), call("leave", {}, "c2"), ask(b, "c3")))
        reply = await a.message("go")
        assert (reply.status, reply.tool_calls) == ("completed", 3)
        assert {output.call_id: output.success for output in on.outputs(a)} == {"c1": False, "c2": True, "c3": False}
        assert not await b.history()
        on.check_idle()


# ---- rendering the answer


def broken(result: TargetResult) -> Result:
    raise ValueError("cannot render")


@pytest.mark.parametrize(
    ("render", "says"),
    [
        (broken, "ValueError: cannot render"),
        (lambda _: None, "NoneType"),
        (lambda _: Result(5), "Result"),  # type: ignore[arg-type]
        (lambda _: Handoff("root", (), broken), "another one"),  # type: ignore[arg-type]
    ],
)
async def test_a_tool_that_cannot_render_the_answer_has_failed_and_nothing_else_has(
    plot: Plot, render: Callable[[TargetResult], Any], says: str
) -> None:
    """G7: code of a tool runs in the driver of the slot; whatever it does, the slot is released."""
    async with stage(model=plot.model, tools=[Ask(render=render)]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("B"), say("done"))
        assert (await a.message("go")).text == "done"
        (output,) = on.outputs(a)
        assert not output.success
        assert says in output.text
        assert (await on.root.message("next")).status == "completed"


@pytest.mark.parametrize(("limit", "cut"), [(1_000, True), (None, False)])
async def test_an_answer_that_is_too_long_is_cut_like_any_output(plot: Plot, limit: int | None, cut: bool) -> None:
    async with stage(model=plot.model, tools=[Ask()], limits={"max_output_bytes": limit}) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("x" * 100_000), say("done"))
        await a.message("go")
        (output,) = on.outputs(a)
        assert (len(output.text) <= 1_000) is cut
        end = next(e for e in on.events.drain() if e.type == "tool_call_end")
        assert end.data.truncated is cut


async def test_the_storage_policy_of_a_result_travels_with_its_output(plot: Plot) -> None:
    """DESIGN, Storage: each record carries the strictest policy of its sources."""
    headers = tertulia.HeadersOnly()
    async with stage(model=plot.model, tools=[Ask(render=lambda r: Result("x", storage=headers))]) as on:
        a, b = await two(on)
        plot.write(say("", ask(b)), say("B"), say("done"))
        await a.message("go")
        assert on.outputs(a)[0].storage == headers


@pytest.mark.parametrize(
    ("caller", "expected", "value"),
    [
        ("headers_only", None, "headers_only"),
        ("headers_only", "none", "none"),
        ("headers_only", "full", "headers_only"),
        ("full", None, "full"),
    ],
)
async def test_what_is_opened_on_behalf_of_a_strict_caller_is_kept_as_strictly(
    plot: Plot, caller: str, expected: str | None, value: str
) -> None:
    """B11: strict asks b, which is not, and b opens a child: its instructions and title come from the whole chain."""
    spec = (
        NewConversation(title="secret")
        if expected is None
        else NewConversation(title="secret", storage_policy=expected)
    )
    async with stage(model=plot.model, tools=[Ask(), Ask("create", new=spec)]) as on:
        strict = await on.session.open(storage_policy=caller)
        b = await on.session.open()
        plot.write(say("", ask(b)), say("", ask("", "c2", "create")), "child", "b", "strict")
        await strict.message("go")
        child = on.session.conversations()[-1]
        assert (child.info.title, child.info.parent_id) == ("secret", b.id)
        assert (await child.context()).storage_policy == value
        assert (await b.context()).storage_policy == "full"


class HandsOverAllTheSame(Ask):
    """Swallows the cancellation and hands its call over."""

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await super().run(arguments, call)
        raise AssertionError


async def test_a_task_that_was_to_stop_hands_nothing_over(plot: Plot) -> None:
    """HARDENING G6, H3: a tool that keeps the cancellation to itself does not buy time with another conversation."""
    tool = HandsOverAllTheSame(new=NewConversation())
    async with stage(model=plot.model, tools=[tool], limits={"task_timeout_s": 0.02}) as on:
        plot.write(say("", ask("")))
        reply = await on.root.message("go")
        assert (reply.status, reply.error and reply.error.code) == ("failed", "timeout")
        assert (len(on.session.conversations()), len(on.model.requests)) == (1, 1)
        on.check_idle()
