"""A conversation as its user holds it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

import tertulia
from tertulia.errors import BusyError, InvalidParamsError, NotFoundError
from tertulia.protocol.inputs import ImageInput, TextInput
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.testing import FakeClock, ScriptedModel, call, say
from tests.session.staging import BUILT_IN, Ask, stage, ticks
from tests.tables import each_row

PICTURE = "data:image/png;base64,AA=="


@tertulia.tool
async def note(text: str) -> str:
    """Repeat a text."""
    return text


# ---- message


async def test_a_message_is_answered_with_what_it_came_to() -> None:
    """S002-47: the final reply, tokens, tool calls, duration, trace."""
    async with stage(say("one", call("note", {"text": "n"})), "two", tools=[note], clock=FakeClock()) as on:
        reply = await on.root.message("hi")
        assert (reply.text, reply.status, reply.tool_calls, reply.duration) == ("two", "completed", 1, 0.0)
        assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens > 0
        assert (len(reply.task_id), len(reply.trace_id)) == (36, 32)


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "look"}, {"type": "image", "image_url": PICTURE}],
        [TextInput("look"), ImageInput(PICTURE)],
        (TextInput("look"), {"type": "image", "imageUrl": PICTURE}),
    ],
)
async def test_a_message_can_have_several_parts(content: Any) -> None:
    async with stage("I see") as on:
        await on.root.message(content, sender="ada")
        sent = on.model.last_request.items[-1]
        assert (sent.text, sent.parts[1].image_url, sent.sender) == ("look", PICTURE, "ada")
        entry = (await on.root.history())[0]
        assert (entry.text, entry.attachments) == ("look", [{"type": "image", "image_url": PICTURE}])


@each_row(
    ("content", "fields"),
    [
        ("", {}),
        (None, {}),
        (5, {}),
        ([object()], {}),
        ([[[]]], {}),
        ([], {}),
        ([{"type": "text", "text": ""}], {}),
        ([{"type": "film", "url": "x"}], {}),
        ([{"type": "text", "txt": "x"}], {}),
        ([{"type": "image", "image_url": "http://insecure"}], {}),
        ([{"type": "local_image", "path": "/no/such/file.png"}], {}),
        ([5], {}),
        ("\ud800", {}),
        ("hi", {"message_id": ""}),
        ("hi", {"message_id": "x" * 257}),
        ("hi", {"message_id": "\ud800"}),
        ("hi", {"message_id": 5}),
        ("hi", {"sender": "\ud800"}),
        ("hi", {"if_busy": "perhaps"}),
        ("hi", {"output_schema": "not an object"}),
    ],
)
async def test_a_message_that_cannot_be_accepted_leaves_nothing_behind(content: Any, fields: dict[str, Any]) -> None:
    """Bad input: empty, wrong types, lone surrogates: invalid_params, and nothing has happened."""
    async with stage("fine") as on:
        before = (on.parts.bus.last_seq, len(on.parts.scheduler.ledger))
        with pytest.raises(InvalidParamsError):
            await on.root.message(content, **fields)
        with pytest.raises(InvalidParamsError):
            async for _ in on.root.stream(content, **fields):
                pass
        assert (on.parts.bus.last_seq, len(on.parts.scheduler.ledger)) == before
        assert await on.root.history() == []
        assert not on.model.requests
        assert (await on.root.message("hi", message_id="x" * 256)).text == "fine"


async def test_giving_up_on_a_message_stops_its_task() -> None:
    """The Python caller is cancelled: the task is interrupted, the conversation goes on."""
    async with stage(say("never", gate=asyncio.Event()), "next") as on:
        running = on.begin(on.root.message("hi"))
        await on.asked(1)
        running.cancel()
        event = await on.until("turn_aborted")
        assert event.data.reason == "interrupted"
        assert running.cancelled()
        assert (await on.root.message("again")).text == "next"


async def test_giving_up_while_it_waits_for_the_slot_takes_it_out_of_the_queue() -> None:
    async with stage(say("first", gate=(gate := asyncio.Event())), "third") as on:
        first = on.begin(on.root.message("1"))
        await on.asked(1)
        second, third = on.begin(on.root.message("2")), on.begin(on.root.message("3"))
        await ticks(1)
        second.cancel()
        await ticks(1)
        gate.set()
        assert ((await first).text, (await third).text) == ("first", "third")
        assert [entry.text for entry in await on.root.history() if entry.role == "user"] == ["1", "3"]


async def test_one_of_two_who_wait_for_the_same_message_can_give_up() -> None:
    async with stage(say("once", gate=(gate := asyncio.Event()))) as on:
        one, other = (on.begin(on.root.message("hi", message_id="m")) for _ in range(2))
        await on.asked(1)
        one.cancel()
        await ticks()
        gate.set()
        assert (await other).text == "once"
        assert one.cancelled()


# ---- stream


async def test_a_stream_gives_every_event_of_the_answer_and_nothing_else() -> None:
    async with stage(say("hello there", match="hi"), say("other", repeat=True)) as on:
        other = await on.session.open()
        noise = on.begin(other.message("noise"))
        events = [event async for event in on.root.stream("hi")]
        await noise
        assert [event.type for event in events] == [
            "task_started",
            "user_message",
            "agent_message_delta",
            "agent_message_delta",
            "token_count",
            "agent_message",
            "task_complete",
        ]
        assert {event.conversation_id for event in events} == {on.root.id}
        assert "".join(e.data.text for e in events if e.type == "agent_message_delta") == "hello there"


async def test_a_stream_follows_the_whole_chain() -> None:
    replies: list[Any] = []
    async with stage(model=ScriptedModel([lambda request: replies.pop(0)], repeat=True), tools=[Ask()]) as on:
        other = await on.session.open()
        replies += [say("", call("ask", {"to": other.id}, "c1")), "B", "done"]
        types = [(e.type, e.conversation_id) async for e in on.root.stream("go") if e.type.startswith("t")]
        assert types[0] == ("task_started", on.root.id)
        assert ("task_complete", other.id) in types
        assert types[-1] == ("task_complete", on.root.id)


async def test_leaving_a_stream_early_stops_the_task() -> None:
    async with stage(say("never", gate=asyncio.Event()), "next") as on:
        async with aclosing(on.root.stream("hi")) as events:
            async for event in events:
                assert event.type == "task_started"
                await on.asked(1)
                break
        aborted = await on.until("turn_aborted")
        assert aborted.data.reason == "interrupted"
        assert (await on.root.message("again")).text == "next"
        on.check_idle()


async def test_leaving_a_stream_that_another_waits_for_stops_nothing() -> None:
    async with stage(say("once", gate=(gate := asyncio.Event()))) as on:
        waiting = on.begin(on.root.message("hi", message_id="m"))
        await on.asked(1)
        async with aclosing(on.root.stream("hi", message_id="m")) as events:
            streaming = on.begin(anext(events))
            await ticks()
            streaming.cancel()
            await ticks()
        gate.set()
        assert (await waiting).text == "once"


async def test_a_stream_of_an_answered_message_has_ended() -> None:
    async with stage("once") as on:
        await on.root.message("hi", message_id="m")
        assert [event async for event in on.root.stream("hi", message_id="m")] == []
        assert len(on.model.requests) == 1


async def test_a_stream_may_not_wait_either_if_it_says_so() -> None:
    async with stage(say("never", gate=asyncio.Event())) as on:
        running = on.begin(on.root.message("hi"))
        await on.asked(1)
        with pytest.raises(BusyError):
            async for _ in on.root.stream("now?", if_busy="fail"):
                pass
        await on.root.interrupt()
        await running


async def test_a_stream_ends_when_the_session_closes() -> None:
    async with stage(say("never", gate=asyncio.Event())) as on:

        async def listen() -> list[str]:
            return [event.type async for event in on.root.stream("hi")]

        listening = on.begin(listen())
        await on.asked(1)
        await on.session.close()
        assert (await listening)[-1] == "turn_aborted"


# ---- history, tools, context


async def test_history_is_what_people_and_the_model_said() -> None:
    """S004-08, S004-09, S004-10: no calls, no reasoning, nothing injected; the newest, oldest first."""
    async with stage(say("a1", call("note", {"text": "n"}), reasoning="hm"), "a2", "a3", tools=[note]) as on:
        conversation = await on.session.open(user_instructions="Be brief.")
        await conversation.message("q1")
        await conversation.message("q2")
        entries = await conversation.history()
        assert [(entry.role, entry.text) for entry in entries] == [
            ("user", "q1"),
            ("assistant", "a1"),
            ("assistant", "a2"),
            ("user", "q2"),
            ("assistant", "a3"),
        ]
        assert [entry.text for entry in await conversation.history(limit=2)] == ["q2", "a3"]
        assert conversation.info.message_count == 5


@each_row("limit", [0, -1, True, False])
async def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    async with stage() as on:
        with pytest.raises(InvalidParamsError):
            await on.root.history(limit=limit)


async def test_tools_are_listed_in_the_order_in_which_they_are_offered() -> None:
    async with stage("ok", tools=[note]) as on:
        tools = on.root.tools()
        assert [(tool.name, tool.source) for tool in tools] == [
            *((name, "builtin") for name in BUILT_IN),
            *((name, "conv") for name in CONV_TOOLS),
            ("note", "function"),
        ]
        await on.root.message("hi")
        assert on.model.last_request.tools == tuple(tool.name for tool in tools)


async def test_the_context_says_everything_that_decides_what_the_model_sees() -> None:
    """S000-36: the effective context; the cache key is the one that the wire gets."""
    async with stage("ok") as on:
        conversation = await on.session.open(base_instructions="Be kind.", user_instructions="In Spanish.")
        context = await conversation.context()
        assert (context.base_instructions, context.user_instructions) == ("Be kind.", "In Spanish.")
        assert context.tools_prefs["include_plan_tool"] is True
        assert context.limits["max_history_items"] == 10_000
        assert context.prompt_tokens > 0
        await conversation.message("hi")
        assert context.cache_key == on.model.last_request.cache_key


# ---- set_context


async def test_what_is_absent_stays_and_none_goes_back() -> None:
    """S000-34, X-67: absent = keep, null = reset; nothing is rewritten, new instructions are a new message."""
    async with stage(say("ok", repeat=True)) as on:
        conversation = await on.session.open(base_instructions="A", user_instructions="B", title="t")
        await conversation.message("one")
        before = list(on.parts.conversations.find(conversation.id).history.snapshot())
        answer = await conversation.set_context(user_instructions="C")
        assert (answer.context.base_instructions, answer.context.user_instructions) == ("A", "C")
        assert conversation.info.title == "t"
        await conversation.message("two")
        items = list(on.model.last_request.items)
        assert items[: len(before)] == before
        assert "C" in items[len(before)].text
        assert items[-1].text == "two"
        answer = await conversation.set_context(base_instructions=None, title=None)
        assert (answer.context.base_instructions, answer.context.user_instructions) == (None, "C")
        assert conversation.info.title is None


async def test_a_change_is_told_with_the_names_of_what_changed() -> None:
    async with stage() as on:
        await on.root.set_context(title="x", include_plan_tool=False)
        event = on.events.drain()[-1]
        assert event.type == "conversation_context_changed"
        assert sorted(event.data.fields) == ["include_plan_tool", "title"]
        assert event.conversation_id == on.root.id


@each_row(
    "changes",
    [
        {"nonsense": 1},
        {"base_instructions": 5},
        {"base_instructions": "\ud800"},
        {"sandbox": "anything"},
        {"model": "nobody/knows"},
        {"model": 5},
        {"backend": "unknown"},
        {"limits": {"max_bananas": 3}},
        {"limits": {"task_timeout_s": -1}},
        {"storage_policy": {"ttl": -5}},
        {"title": "x" * 201},
        {"cwd": "relative"},
        {"shell_mode": "loud"},
        {"visibility": "nowhere"},
        {"mcp_tool_allowlist": ["not legal!"]},
    ],
)
async def test_a_change_that_cannot_be_made_changes_nothing(changes: dict[str, Any]) -> None:
    async with stage() as on:
        conversation = on.parts.conversations.root
        before = (conversation.terms, conversation.title, on.parts.bus.last_seq, conversation.history.totals.item_count)
        with pytest.raises(InvalidParamsError):
            await on.root.set_context(**{"title": "new", **changes})
        assert (
            conversation.terms,
            conversation.title,
            on.parts.bus.last_seq,
            conversation.history.totals.item_count,
        ) == before


async def test_the_model_can_be_changed_in_the_middle_of_a_conversation() -> None:
    other = ScriptedModel(["from the other"], name="scripted/other")
    async with stage("from the first") as on:
        await on.root.message("one")
        await on.root.set_context(model=other)
        assert (await on.root.message("two")).text == "from the other"
        assert [item.text for item in other.last_request.items][1:] == ["one", "from the first", "two"]
        assert on.root.info.model == "scripted/other"


# ---- fork


async def test_a_fork_shares_the_past_and_not_the_future() -> None:
    async with stage(say("ok", repeat=True)) as on:
        conversation = await on.session.open(base_instructions="Be kind.", title="t")
        await conversation.message("one")
        fork = await conversation.fork()
        await conversation.message("two")
        await fork.message("three")
        assert [e.text for e in await conversation.history()] == ["one", "ok", "two", "ok"]
        assert [e.text for e in await fork.history()] == ["one", "ok", "three", "ok"]
        assert on.model.last_request.instructions == "Be kind."
        info = fork.info
        assert (info.title, info.parent_id, info.depth) == ("t", on.root.id, 1)
        assert "conversation_opened" in on.events.types()


async def test_a_fork_can_begin_at_a_round_or_at_an_item() -> None:
    async with stage(say("ok", repeat=True)) as on:
        for text in ("one", "two", "three"):
            await on.root.message(text)
        by_round = await on.root.fork(at=2)
        assert [e.text for e in await by_round.history()] == ["one", "ok", "two", "ok"]
        item = next(i for i in on.parts.conversations.root.history.snapshot() if i.text == "two")
        by_item = await on.root.fork(at=item.id)
        assert [e.text for e in await by_item.history()] == ["one", "ok", "two"]


@each_row(
    ("at", "error"), [(0, InvalidParamsError), (-1, InvalidParamsError), (9, NotFoundError), ("no item", NotFoundError)]
)
async def test_a_fork_at_a_point_that_is_not_there_is_refused(at: Any, error: type[Exception]) -> None:
    async with stage("ok") as on:
        await on.root.message("one")
        seq = on.parts.bus.last_seq
        with pytest.raises(error):
            await on.root.fork(at=at)
        assert len(on.session.conversations()) == 1
        assert on.parts.bus.last_seq == seq


async def test_a_fork_of_a_running_conversation_ends_before_its_open_call() -> None:
    gate = asyncio.Event()

    @tertulia.tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    async with stage(say("I wait.", call("wait")), "done", "fork goes on", tools=[wait]) as on:
        running = on.begin(on.root.message("go"))
        await on.until("tool_call_begin")
        fork = await on.root.fork()
        assert [e.text for e in await fork.history()] == ["go", "I wait."]
        gate.set()
        await running
        assert (await fork.message("and?")).text == "fork goes on"


# ---- small things


async def test_a_handle_is_a_name_and_keeps_nothing() -> None:
    async with stage() as on:
        again = on.session.conversation(on.root.id)
        other = await on.session.open()
        assert (again == on.root, again == other, again == on.root.id) == (True, False, False)
        assert hash(again) == hash(on.root)
        assert repr(on.root) == f"<Conversation {on.root.id}>"


async def test_a_status_is_idle_running_or_waiting() -> None:
    replies: list[Any] = []
    gate = asyncio.Event()
    async with stage(model=ScriptedModel([lambda request: replies.pop(0)], repeat=True), tools=[Ask()]) as on:
        other = await on.session.open()
        replies += [say("", call("ask", {"to": other.id}, "c1")), say("B", gate=gate), "done"]
        assert (on.root.info.status, other.info.status) == ("idle", "idle")
        running = on.begin(on.root.message("go"))
        await on.asked(2)
        assert (on.root.info.status, other.info.status) == ("waiting", "running")
        gate.set()
        await running
        assert (on.root.info.status, other.info.status) == ("idle", "idle")
