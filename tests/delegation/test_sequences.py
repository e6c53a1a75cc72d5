"""Exactly what is told, and in which order: every durable event of each kind of delegation."""

from __future__ import annotations

import asyncio

import pytest

import tertulia
from tertulia.testing import say
from tests.delegation.delegation_stage import Play, create, destroy, play, send
from tests.tables import each_row


@tertulia.tool
async def note(text: str = "") -> str:
    """Repeat: what stands for a shell here."""
    return f'{{"ok": true, "text": "{text}"}}'


async def test_create() -> None:
    """S004-04, S004-17, S004-18, S004-22, S004-25, S004-35, X-04: replaced, the new one whole, continued, closed."""
    async with play(say("I ask.", create()), say("four"), say("It is four.")) as on:
        reply = await on.root.message("2+2?")
        assert (reply.status, reply.text, reply.tool_calls) == ("completed", "It is four.", 1)
        assert on.score() == [
            "A task_started user",
            "A user_message",
            "A token_count",
            "A agent_message 'I ask.'",
            "A tool_call_begin c1 conv_create",
            "A turn_aborted replaced by c1",
            "B conversation_opened",
            "B task_started target",
            "B user_message delegated",
            "B token_count",
            "B agent_message 'four'",
            "B task_complete completed 'four'",
            "A task_started continuation",
            "A tool_call_end c1 ok",
            "A token_count",
            "A agent_message 'It is four.'",
            "A task_complete completed 'It is four.'",
        ]
        kinds = [type(item).__name__ for item in on.model.last_request.items[-4:]]
        assert kinds == ["UserMessage", "AssistantMessage", "ToolCall", "ToolOutput"]
        on.check_idle()


async def test_nested() -> None:
    """S004-36, X-03: A creates B, B creates C: A✗ → B → B✗ → C → B′ → A′, each with the right payload."""
    async with play(
        say("", create("c1", "b")), say("", create("c2", "c")), say("deep"), say("deeper"), say("deepest")
    ) as on:
        assert (await on.root.message("go")).text == "deepest"
        assert on.score() == [
            "A task_started user",
            "A user_message",
            "A token_count",
            "A tool_call_begin c1 conv_create",
            "A turn_aborted replaced by c1",
            "B conversation_opened",
            "B task_started target",
            "B user_message delegated",
            "B token_count",
            "B tool_call_begin c2 conv_create",
            "B turn_aborted replaced by c2",
            "C conversation_opened",
            "C task_started target",
            "C user_message delegated",
            "C token_count",
            "C agent_message 'deep'",
            "C task_complete completed 'deep'",
            "B task_started continuation",
            "B tool_call_end c2 ok",
            "B token_count",
            "B agent_message 'deeper'",
            "B task_complete completed 'deeper'",
            "A task_started continuation",
            "A tool_call_end c1 ok",
            "A token_count",
            "A agent_message 'deepest'",
            "A task_complete completed 'deepest'",
        ]
        _, b, c = on.session.conversations()
        (to_a,), (to_b,) = on.heard(), on.heard(b)
        assert (to_a["conversation_id"], to_a["last_assistant_message"]) == (b.id, "deeper")
        assert (to_b["conversation_id"], to_b["last_assistant_message"]) == (c.id, "deep")
        on.check_idle()


async def test_two_creates_in_one_answer() -> None:
    """X-12: several interrupting calls are one block, closed in order by one continuation."""
    async with play(say("", create("c1", "one"), create("c2", "two")), say("first"), say("second"), say("both")) as on:
        await on.root.message("go")
        assert on.score() == [
            "A task_started user",
            "A user_message",
            "A token_count",
            "A tool_call_begin c1 conv_create",
            "A tool_call_begin c2 conv_create",
            "A turn_aborted replaced by c1",
            "B conversation_opened",
            "C conversation_opened",
            "B task_started target",
            "B user_message delegated",
            "B token_count",
            "B agent_message 'first'",
            "B task_complete completed 'first'",
            "C task_started target",
            "C user_message delegated",
            "C token_count",
            "C agent_message 'second'",
            "C task_complete completed 'second'",
            "A task_started continuation",
            "A tool_call_end c1 ok",
            "A tool_call_end c2 ok",
            "A token_count",
            "A agent_message 'both'",
            "A task_complete completed 'both'",
        ]
        assert [answer["last_assistant_message"] for answer in on.heard()] == ["first", "second"]
        assert [answer["conversation_id"] for answer in on.heard()] == on.ids()[1:]
        on.check_idle()


async def test_create_and_an_ordinary_call_in_one_answer() -> None:
    """X-12: ordinary siblings, earlier and later ones, run before the switch; all checks come before any run."""
    first, between = create("c1"), tertulia.testing.call("note", {"text": "x"}, "c2")
    async with play(say("", first, between), say("B"), say("done"), tools=[note]) as on:
        assert (await on.root.message("go")).tool_calls == 2
        assert on.score() == [
            "A task_started user",
            "A user_message",
            "A token_count",
            "A tool_call_begin c1 conv_create",
            "A tool_call_begin c2 note",
            "A tool_call_end c2 ok",
            "A turn_aborted replaced by c1",
            "B conversation_opened",
            "B task_started target",
            "B user_message delegated",
            "B token_count",
            "B agent_message 'B'",
            "B task_complete completed 'B'",
            "A task_started continuation",
            "A tool_call_end c1 ok",
            "A token_count",
            "A agent_message 'done'",
            "A task_complete completed 'done'",
        ]
        assert sorted(output.call_id for output in on.outputs(on.root)) == ["c1", "c2"]


async def test_what_a_chain_causes_comes_before_what_users_have_queued() -> None:
    """S004-15, X-03: plans of an interrupt go to the head as a block, one after another; users queue behind."""
    async with play() as on:
        b = await on.session.open()
        gate = asyncio.Event()
        on.mark()
        on.write(say("", send(b, "c1"), create("c2")), say("B", gate=gate), "C", "A", "for B", "for A")
        running = on.begin(on.root.message("go"))
        await on.asked(2)
        queued = [on.begin(conversation.message("and I?")) for conversation in (b, on.root)]
        gate.set()
        assert (await running).text == "A"
        assert [(await reply).text for reply in queued] == ["for B", "for A"]
        started = [line for line in on.score() if "task_started" in line]
        assert [f"{line[0]} {line.split()[2]}" for line in started] == [
            *("A user", "B target", "C target", "A continuation"),
            *("B user", "A user"),
        ]


async def test_a_silent_target() -> None:
    """X-14: who says nothing has not answered, whatever it said on earlier occasions."""
    async with play(say("", create()), say(""), say("silence")) as on:
        await on.root.message("go")
        assert on.score()[5:] == [
            "B conversation_opened",
            "B task_started target",
            "B user_message delegated",
            "B token_count",
            "B task_complete completed None",
            "A task_started continuation",
            "A tool_call_end c1 model_error",
            "A token_count",
            "A agent_message 'silence'",
            "A task_complete completed 'silence'",
        ]
        (answer,) = on.heard()
        assert (answer["status"], answer["last_assistant_message"]) == ("completed", None)
        assert "without an answer" in answer["reason"]


async def until_asked(on: Play, count: int, text: str = "go") -> asyncio.Task[tertulia.Reply]:
    running = on.begin(on.root.message(text))
    await on.asked(count)
    return running


async def test_a_cancelled_target() -> None:
    """X-14, X-15: `task/cancel` of the target's task ends the chain, and every call of it is closed without a model."""
    async with play(say("", create()), say("never", gate=asyncio.Event())) as on:
        running = await until_asked(on, 2)
        (task,) = on.parts.registry.running()
        assert on.parts.scheduler.cancel(task.task_id)
        assert (await running).status == "interrupted"
        assert on.score()[4:] == [
            "A turn_aborted replaced by c1",
            "B conversation_opened",
            "B task_started target",
            "B user_message delegated",
            "B turn_aborted interrupted",
            "A tool_call_end c1 cancelled",
        ]
        (answer,) = on.heard()
        assert (answer["status"], answer["conversation_id"]) == ("cancelled", on.ids()[1])
        assert len(on.model.requests) == 2
        on.check_idle()


@each_row(
    ("expected", "tail"),
    [
        (1, ["A task_started user", "A user_message", "A turn_aborted interrupted"]),
        (
            2,
            [
                "B conversation_opened",
                "B task_started target",
                "B user_message delegated",
                "B turn_aborted interrupted",
                "A tool_call_end c1 cancelled",
            ],
        ),
        (
            3,
            [
                "C conversation_opened",
                "C task_started target",
                "C user_message delegated",
                "C turn_aborted interrupted",
                "B tool_call_end c2 cancelled",
                "A tool_call_end c1 cancelled",
            ],
        ),
        (4, ["B tool_call_end c2 ok", "B turn_aborted interrupted", "A tool_call_end c1 cancelled"]),
        (5, ["A task_started continuation", "A tool_call_end c1 ok", "A turn_aborted interrupted"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("member", ["first", "running"])
async def test_a_user_interrupt_at_each_step(expected: int, tail: list[str], member: str) -> None:
    """X-15: abort what runs, close every pending call of the chain in history without a model run, drop the chain."""
    gate = asyncio.Event()
    replies = [say("", create("c1")), say("", create("c2")), say("C"), say("B"), say("A")]
    reply = replies[expected - 1]
    replies[expected - 1] = say(reply.text, *reply.tool_calls, gate=gate)
    async with play(*replies) as on:
        running = await until_asked(on, expected)
        (task,) = on.parts.registry.running()
        stopped = on.root if member == "first" else on.session.conversation(task.conversation_id)
        assert await stopped.interrupt()
        assert (await running).status == "interrupted"
        assert on.score()[-len(tail) :] == tail
        assert len(on.model.requests) == expected
        on.check_idle()
        on.replies.clear()
        on.write(say("still here"))
        assert (await on.root.message("hello?")).text == "still here"


async def test_the_depth_limit() -> None:
    """S004-20, S004-32, X-16: with depth 2 there are two children below the first caller; the third is refused."""
    async with play(
        *(say("", create(f"c{n}")) for n in (1, 2, 3)), say("too deep"), say("second"), say("first"),
        limits={"max_interrupt_chain_depth": 2},
    ) as on:  # fmt: skip
        assert (await on.root.message("go")).text == "first"
        assert on.score()[-22:-8] == [
            "B token_count",
            "B tool_call_begin c2 conv_create",
            "B turn_aborted replaced by c2",
            "C conversation_opened",
            "C task_started target",
            "C user_message delegated",
            "C token_count",
            "C tool_call_begin c3 conv_create",
            "C tool_call_end c3 depth_exceeded",
            "C token_count",
            "C agent_message 'too deep'",
            "C task_complete completed 'too deep'",
            "B task_started continuation",
            "B tool_call_end c2 ok",
        ]
        assert len(on.ids()) == 3
        assert "max_interrupt_chain_depth = 2" in on.heard(on.session.conversations()[2])[0]["reason"]
        on.check_idle()


async def test_the_breadth_limit() -> None:
    """G5: of three conversations that one answer opens, a chain that may open two gets two."""
    limits = {"max_chain_conversations": 2}
    async with play(
        say("", create("c1"), create("c2"), create("c3")), say("B"), say("C"), say("two will do"), limits=limits
    ) as on:
        await on.root.message("go")
        assert on.score() == [
            "A task_started user",
            "A user_message",
            "A token_count",
            "A tool_call_begin c1 conv_create",
            "A tool_call_begin c2 conv_create",
            "A tool_call_begin c3 conv_create",
            "A tool_call_end c3 limit",
            "A turn_aborted replaced by c1",
            "B conversation_opened",
            "C conversation_opened",
            "B task_started target",
            "B user_message delegated",
            "B token_count",
            "B agent_message 'B'",
            "B task_complete completed 'B'",
            "C task_started target",
            "C user_message delegated",
            "C token_count",
            "C agent_message 'C'",
            "C task_complete completed 'C'",
            "A task_started continuation",
            "A tool_call_end c1 ok",
            "A tool_call_end c2 ok",
            "A token_count",
            "A agent_message 'two will do'",
            "A task_complete completed 'two will do'",
        ]
        refused = next(answer for answer in on.heard() if not answer["ok"])
        assert "max_chain_conversations" in refused["reason"]


async def test_self_destroy_of_a_target() -> None:
    """X-10: {ok: true} is recorded, the turn ends interrupted, and whoever waits for it gets success=false."""
    async with play() as on:
        b = await on.session.open()
        conversation = on.parts.conversations.find(b.id)
        on.mark()
        on.write(say("", send(b)), say("Goodbye.", destroy(b, "d1"), send("root", "s1")), say("B is gone"))
        assert (await on.root.message("go")).text == "B is gone"
        score = on.score()
        closed = score.index("B conversation_closed")
        assert score[:closed] + score[closed + 1 :] == [
            "A task_started user",
            "A user_message",
            "A token_count",
            "A tool_call_begin c1 conv_send",
            "A turn_aborted replaced by c1",
            "B task_started target",
            "B user_message delegated",
            "B token_count",
            "B agent_message 'Goodbye.'",
            "B tool_call_begin d1 conv_destroy",
            "B tool_call_end d1 ok",
            "B tool_call_begin s1 conv_send",
            "B tool_call_end s1 cancelled",
            "B turn_aborted interrupted",
            "A task_started continuation",
            "A tool_call_end c1 closed",
            "A token_count",
            "A agent_message 'B is gone'",
            "A task_complete completed 'B is gone'",
        ]
        assert closed > score.index("B turn_aborted interrupted")
        outputs = [item.text for item in conversation.history.snapshot() if type(item).__name__ == "ToolOutput"]
        assert outputs[0] == '{"ok":true}'
        assert not conversation.history.open_calls
        with pytest.raises(tertulia.errors.ClosedError):
            on.session.conversation(b.id)
        on.check_idle()


async def test_self_destroy_of_the_one_that_was_asked_by_its_user() -> None:
    """X-10: its message is answered as interrupted, what was queued for it too, and the session goes on."""
    async with play() as on:
        b = await on.session.open()
        on.write(say("", destroy(b)))
        first, queued = on.begin(b.message("go")), on.begin(b.message("and then?"))
        assert [(await reply).status for reply in (first, queued)] == ["interrupted", "interrupted"]
        on.write(say("I am here"))
        assert (await on.root.message("anybody?")).text == "I am here"
        assert on.ids() == [on.root.id]
