"""The loop of a task: ask, listen, act, until the model has nothing more to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tertulia
from tertulia.errors import NotRunningError
from tertulia.protocol.items import AssistantMessage, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.testing import Match, ScriptedModel, ScriptedReply, assert_order, call, fail, say
from tests.session.staging import BUILT_IN, heard, stage, ticks
from tests.tables import each_row


@tertulia.tool
async def note(text: str) -> str:
    """Repeat a text."""
    return text


@tertulia.tool
async def slow() -> str:
    """Take some ticks."""
    await ticks(5)
    return "slow"


def spoken(request: Any) -> list[str]:
    """What the model reads, without what we put in ourselves."""
    return [item.text for item in request.items if hasattr(item, "text") and not getattr(item, "injected", False)]


# ---- asking


async def test_the_loop_goes_on_until_the_model_stops() -> None:
    """S002-50: append the outputs, then finalise or loop."""
    async with stage(
        say("one", call("note", {"text": "a"})), say("two", call("note", {"text": "b"})), "three", tools=[note]
    ) as on:
        reply = await on.root.message("go")
        assert (reply.text, reply.tool_calls, len(on.model.requests)) == ("three", 2, 3)
        assert spoken(on.model.last_request) == ["go", "one", "a", "two", "b"]
        assert_order(
            on.events.drain(),
            ["task_started", "token_count", "agent_message", "tool_call_begin", "tool_call_end", "token_count"],
        )


async def test_a_request_is_history_and_pending_and_nothing_twice() -> None:
    """S000-14, S002-23: only newly produced items are appended."""
    async with stage("a", "b") as on:
        await on.root.message("one")
        await on.root.message("two")
        ids = [item.id for item in on.model.last_request.items]
        assert len(ids) == len(set(ids))
        assert spoken(on.model.last_request) == ["one", "a", "two"]


async def test_two_conversations_are_asked_with_their_own_words_only() -> None:
    """S000-37, S002-03: different instructions; the prompts differ and do not influence one another."""
    async with stage(say("ok", repeat=True)) as on:
        poet = await on.session.open(base_instructions="You write poems.", user_instructions="Rhyme.")
        critic = await on.session.open(base_instructions="You review code.", user_instructions="Be brief.")
        for _ in range(2):
            await poet.message("a poem")
            await critic.message("a review")
        by_poet, by_critic = on.model.requests[-2:]
        assert (by_poet.instructions, by_critic.instructions) == ("You write poems.", "You review code.")
        for mine, theirs in ((by_poet, "review"), (by_critic, "poem")):
            everything = mine.instructions + str([item.text for item in mine.items])
            assert theirs not in everything.replace("You review code.", "").replace("You write poems.", "")
        assert "Rhyme." in by_poet.items[0].text
        assert "Be brief." in by_critic.items[0].text
        assert by_poet.cache_key != by_critic.cache_key


async def test_tools_are_put_together_for_each_turn_from_the_preferences() -> None:
    """S000-08: never from a session's or a turn's own list; a change holds from the next request."""
    async with stage(say("", call("slow")), "done", tools=[slow]) as on:
        running = on.begin(on.root.message("go"))
        await on.until("tool_call_begin")
        await on.root.set_context(include_plan_tool=False)
        await running
        first, second = on.model.requests
        assert first.tools == (*BUILT_IN, *CONV_TOOLS, "slow")
        assert second.tools == tuple(name for name in first.tools if name != "update_plan")


async def test_a_change_during_a_task_holds_from_its_next_request() -> None:
    """X-67; DESIGN: a change during a task holds from its next model request; history is not rewritten."""
    async with stage(say("", call("slow")), "done", tools=[slow]) as on:
        running = on.begin(on.root.message("go"))
        await on.until("tool_call_begin")
        before = list(on.parts.conversations.root.history.snapshot())
        await on.root.set_context(base_instructions="Be kind.", user_instructions="In Spanish.")
        await running
        first, second = on.model.requests
        assert first.instructions != "Be kind."
        assert second.instructions == "Be kind."
        items = list(second.items)
        assert items[: len(before)] == before
        # Between a call and its output nothing may stand: the new instructions come after the output.
        kinds = [type(item) for item in items[len(before) :]]
        assert kinds == [ToolOutput, UserMessage]
        assert "In Spanish." in items[-1].text


async def test_an_output_schema_reaches_the_wire() -> None:
    async with stage(say("", call("note", {"text": "x"})), "{}", tools=[note]) as on:
        await on.root.message("go", output_schema={"type": "object"})
        assert [request.request.output_schema for request in on.model.requests] == ['{"type":"object"}'] * 2


async def test_what_the_provider_may_keep_follows_the_storage_policy() -> None:
    async with stage(say("ok", repeat=True)) as on:
        for policy, stored in [("full", True), ("headers_only", False), ("none", False), ({"ttl": 60}, True)]:
            conversation = await on.session.open(storage_policy=policy)
            await conversation.message("hi")
            assert on.model.last_request.request.store is stored


# ---- what the model says


async def test_reasoning_and_answers_are_told_whole_and_in_order() -> None:
    async with stage(say("the answer", reasoning="let me think")) as on:
        await on.root.message("go")
        whole = [(e.type, e.data.text) for e in on.events.drain() if e.type in ("agent_message", "agent_reasoning")]
        assert whole == [("agent_reasoning", "let me think"), ("agent_message", "the answer")]


async def test_an_answer_of_nothing_ends_the_task() -> None:
    async with stage(say("")) as on:
        reply = await on.root.message("go")
        assert (reply.status, reply.text) == ("completed", None)
        assert [entry.role for entry in await on.root.history()] == ["user"]


async def test_a_call_id_used_twice_in_one_answer_is_one_call() -> None:
    """Bad input: the second is dropped with a warning, never recorded, never run."""
    async with stage(
        say("", call("note", {"text": "first"}, "c1"), call("note", {"text": "second"}, "c1")), "done", tools=[note]
    ) as on:
        reply = await on.root.message("go")
        assert (reply.status, reply.tool_calls) == ("completed", 1)
        assert [output.text for output in on.outputs(on.root)] == ["first"]
        (warned,) = [e for e in on.events.drain() if e.type == "warning"]
        assert "'c1'" in warned.data.message
        calls = [item for item in on.model.last_request.items if isinstance(item, ToolCall)]
        assert len(calls) == 1


async def test_a_call_id_may_be_used_again_in_a_later_answer() -> None:
    async with stage(
        say("", call("note", {"text": "a"}, "c1")), say("", call("note", {"text": "b"}, "c1")), "done", tools=[note]
    ) as on:
        assert (await on.root.message("go")).status == "completed"
        assert [output.text for output in on.outputs(on.root)] == ["a", "b"]


@each_row(
    ("name", "arguments", "code"),
    [
        ("nobody", "{}", "not_found"),
        ("", "{}", "not_found"),
        ("bad name\x00!", "{}", "not_found"),
        ("note", "{not json", "invalid_params"),
        ("note", "[]", "invalid_params"),
        ("note", '{"text": 5}', "invalid_params"),
        ("note", '{"other": "x"}', "invalid_params"),
        ("note", "[" * 100_000, "invalid_params"),
    ],
)
async def test_a_call_that_cannot_be_run_is_answered_and_the_valid_ones_run(
    name: str, arguments: str, code: str
) -> None:
    """Bad input: an unknown tool, broken arguments: {ok: false, code, reason}, begin and end all the same."""
    async with stage(
        say("", call(name, arguments, "bad"), call("note", {"text": "good"}, "good")), "done", tools=[note]
    ) as on:
        reply = await on.root.message("go")
        assert (reply.status, reply.text, reply.tool_calls) == ("completed", "done", 2)
        bad, good = on.outputs(on.root)
        assert (heard(bad)["ok"], heard(bad)["code"], bad.success) == (False, code, False)
        assert (good.text, good.success) == ("good", True)


async def test_a_tool_that_is_not_offered_cannot_be_called() -> None:
    """S000-08: what is listed and what can be called are the same."""
    async with stage(say("", call("update_plan", {"plan": []})), "done") as on:
        conversation = await on.session.open(include_plan_tool=False)
        await conversation.message("go")
        assert heard(on.outputs(conversation)[0])["code"] == "not_found"
        assert "plan_update" not in on.events.types()


async def test_outputs_stand_in_the_order_of_the_calls_whoever_is_done_first() -> None:
    @tertulia.tool(parallel_safe=True)
    async def wait(turns: int) -> str:
        """Take so many ticks."""
        await ticks(turns)
        return str(turns)

    async with stage(say("", call("wait", {"turns": 9}), call("wait", {"turns": 1})), "done", tools=[wait]) as on:
        await on.root.message("go")
        assert [output.text for output in on.outputs(on.root)] == ["9", "1"]
        ended = [e.data.output for e in on.events.drain() if e.type == "tool_call_end"]
        assert ended == ["1", "9"]


async def test_a_call_with_an_empty_id_gets_one() -> None:
    async with stage(say("", call("note", {"text": "a"}, "")), "done", tools=[note]) as on:
        assert (await on.root.message("go")).status == "completed"
        (output,) = on.outputs(on.root)
        assert output.call_id


# ---- steering


async def test_an_idle_conversation_cannot_be_steered() -> None:
    """DESIGN: steering an idle conversation: not_running."""
    async with stage("ok") as on:
        with pytest.raises(NotRunningError):
            await on.root.steer("faster")
        await on.root.message("go")
        with pytest.raises(NotRunningError):
            await on.root.steer("faster")
        assert spoken(on.model.last_request) == ["go"]
        assert [entry.text for entry in await on.root.history()] == ["go", "ok"]


async def test_a_word_put_in_is_read_before_the_next_request() -> None:
    async with stage(say("", call("slow")), "done", tools=[slow]) as on:
        running = on.begin(on.root.message("go"))
        await on.until("tool_call_begin")
        await on.root.steer("in French")
        await on.root.steer("and short")
        assert (await running).text == "done"
        assert spoken(on.model.last_request) == ["go", "slow", "in French", "and short"]
        assert len(on.model.requests) == 2


async def test_a_word_put_in_during_the_last_answer_is_one_turn_more() -> None:
    gate = asyncio.Event()
    async with stage(say("that was it", gate=gate), "one thing more") as on:
        running = on.begin(on.root.message("go"))
        await on.asked(1)
        await on.root.steer("wait!")
        gate.set()
        assert (await running).text == "one thing more"
        assert spoken(on.model.last_request) == ["go", "that was it", "wait!"]
        assert [e.type for e in on.events.drain()].count("task_started") == 1


async def test_a_word_is_read_in_this_task_or_refused_whenever_it_comes() -> None:
    """A word that was accepted is never lost: at every tick of a task it is read by it, or not_running."""
    refused = 0
    for step in range(1, 60):
        async with stage(say("", call("note", {"text": "n"})), say("done", repeat=True), tools=[note]) as on:
            running = on.begin(on.root.message("go"))
            await ticks(step)
            try:
                await on.root.steer("now")
            except NotRunningError:
                refused += 1
            else:
                await running
                assert "now" in spoken(on.model.last_request)
            assert (await running).status == "completed"
            assert not on.parts.conversations.root.has_pending
    assert 0 < refused < 58


async def test_a_steering_word_is_checked_like_any_input() -> None:
    async with stage(say("ok", gate=(gate := asyncio.Event()))) as on:
        running = on.begin(on.root.message("go"))
        await on.asked(1)
        for bad in ("", "\ud800", "x" * (16 * 1024 * 1024 + 1)):
            with pytest.raises(tertulia.errors.InvalidParamsError):
                await on.root.steer(bad)
        gate.set()
        await running
        assert len(on.model.requests) == 1


# ---- a history that does not fit


async def test_an_overflow_is_met_with_trimming_once() -> None:
    async with stage(
        say("long answer " * 200, repeat=False),
        say("long answer " * 200, repeat=False),
        fail("too long", overflow=True),
        "fits now",
    ) as on:
        await on.root.message("one " * 200)
        await on.root.message("two " * 200)
        reply = await on.root.message("three")
        assert (reply.status, reply.text) == ("completed", "fits now")
        (compacted,) = [e for e in on.events.drain() if e.type == "history_compacted"]
        assert (compacted.data.trigger, compacted.data.compacted) == ("overflow", True)
        refused, accepted = on.model.requests[-2:]
        assert len(accepted.items) < len(refused.items)
        assert accepted.last_input == "three"


async def test_an_overflow_that_trimming_does_not_cure_is_a_clear_failure() -> None:
    async with stage(
        say("long answer " * 200), fail("too long", overflow=True), fail("still too long", overflow=True), "later"
    ) as on:
        await on.root.message("one " * 200)
        reply = await on.root.message("two")
        assert (reply.status, reply.error.message if reply.error else None) == ("failed", "still too long")
        assert len(on.model.requests) == 3
        assert (await on.root.message("three")).text == "later"


async def test_an_overflow_where_nothing_can_be_trimmed_is_told_at_once() -> None:
    async with stage(fail("too long", overflow=True)) as on:
        reply = await on.root.message("hi")
        assert (reply.status, reply.error.message if reply.error else None) == ("failed", "too long")
        (compacted,) = [e for e in on.events.drain() if e.type == "history_compacted"]
        assert (compacted.data.compacted, bool(compacted.data.reason)) == (False, True)
        assert len(on.model.requests) == 1


async def test_the_estimate_of_tokens_learns_from_what_the_model_reports() -> None:
    usage = tertulia.Usage(input_tokens=100_000, output_tokens=1)
    async with stage(ScriptedReply(text="ok", usage=usage)) as on:
        history = on.parts.conversations.root.history
        before = history.approx_tokens
        await on.root.message("hi")
        assert history.correction > 1
        assert history.approx_tokens > before


# ---- 10 MB


async def test_ten_megabytes_go_through_a_whole_turn() -> None:
    """Bad input: text of 10 MB is accepted, above 16 MB refused before anything happens."""
    big = "ñ" * (5 * 1024 * 1024)
    async with stage(model=ScriptedModel([say("ok", repeat=True)])) as on:
        assert (await on.root.message(big)).status == "completed"
        assert on.model.last_request.last_input == big
        seq = on.parts.bus.last_seq
        with pytest.raises(tertulia.errors.InvalidParamsError, match="16,777,216"):
            await on.root.message("x" * (16 * 1024 * 1024 + 1))
        assert on.parts.bus.last_seq == seq
        assert len(await on.root.history()) == 2
        assert (await on.root.message("x" * (16 * 1024 * 1024))).status == "completed"


async def test_nul_and_odd_text_go_through_as_they_are() -> None:
    async with stage(ScriptedReply(text="a\x00b\u2028c", match=Match(contains="\x00"))) as on:
        reply = await on.root.message("x\x00y")
        assert reply.text == "a\x00b\u2028c"
        assert [entry.text for entry in await on.root.history()] == ["x\x00y", "a\x00b\u2028c"]


async def test_a_lone_surrogate_is_refused_from_users_and_mended_from_models() -> None:
    class Broken(ScriptedModel):
        async def _play(self, request: Any, cue: Any) -> Any:
            async for piece in super()._play(request, cue):
                if hasattr(piece, "item"):
                    item = piece.item
                    assert isinstance(item, AssistantMessage)
                    part = type(item.parts[0])("bad \ud800")
                    piece = type(piece)(type(item)(item.id, (part,)))
                yield piece

    async with stage(model=Broken(["fine"])) as on:
        with pytest.raises(tertulia.errors.InvalidParamsError, match="surrogate"):
            await on.root.message("bad \ud800")
        assert await on.root.history() == []
        reply = await on.root.message("go")
        assert reply.text == "bad ?"
        assert on.events.drain()[-1].json()
