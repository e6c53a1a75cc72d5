"""The session as its user has it: started, spoken with, listened to, closed."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.conversation.terms import ConversationContext, ToolsPrefs, TurnContext
from tertulia.errors import ClosedError, InternalError, InvalidParamsError, LimitError, NotFoundError
from tertulia.mcp.view import McpView
from tertulia.prompt.request import builtin_text
from tertulia.protocol.events import Event
from tertulia.session.parts import SessionParts
from tertulia.session.session import Session
from tertulia.testing import FakeClock, ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.session.staging import Disk, stage, ticks
from tests.tables import each_row
from tests.thorough import times


def settings(*replies: Any, **more: Any) -> tertulia.Settings:
    return tertulia.Settings(model=ScriptedModel(replies), **more)


# ---- what a session is


async def test_a_session_without_anything_configured_is_one_conversation() -> None:
    """S002-04, S002-52, S000-15, S000-41: like a single-conversation agent; nothing new has to be known."""
    async with tertulia.Session.start(settings("hello")) as session:
        assert [c.id for c in session.conversations()] == [session.root.id]
        reply = await session.root.message("hi")
        assert reply.text == "hello"
        context = await session.root.context()
        assert (context.base_instructions, context.user_instructions) == (None, None)
        assert context.mcp_tool_allowlist is None


async def test_without_instructions_history_is_the_environment_and_what_was_said() -> None:
    """S000-13, S000-15, S000-09: no user instructions, no base instructions in history; the built-in prompt."""
    async with stage("hello") as on:
        await on.root.message("hi")
        request = on.model.last_request
        assert [item.text.split("\n")[0] for item in request.items] == ["<environment_context>", "hi"]
        assert request.instructions.startswith(builtin_text("prompt"))


async def test_instructions_are_seeded_in_order_and_base_instructions_never_are() -> None:
    """S000-13, S000-33: user instructions first, in their wrapper, then the environment."""
    async with stage("ok") as on:
        conversation = await on.session.open(base_instructions="BASE", user_instructions="USER")
        state = on.parts.conversations.find(conversation.id)
        texts = [item.text for item in state.history.snapshot()]
        assert [text.split("\n")[0] for text in texts] == ["<user_instructions>", "<environment_context>"]
        assert "USER" in texts[0]
        assert "BASE" not in "".join(texts)
        await conversation.message("hi")
        assert on.model.last_request.instructions == "BASE"
        assert "BASE" not in "".join(item.text for item in on.model.last_request.items)
        assert await on.root.history() == []


def test_a_session_holds_no_instructions_and_decides_nothing_about_tools() -> None:
    """S000-01, S000-02, S002-01: settings have no place for instructions; the parts are what a session owns."""
    fields = {field.name: field.type for field in msgspec.structs.fields(tertulia.Settings)}
    assert [name for name in fields if "instruction" in name] == ["project_instructions"]
    assert fields["project_instructions"] is bool, "whether AGENTS.md is read, and no text"
    owned = set(SessionParts.__struct_fields__) | set(vars(SessionParts))
    assert {"bus", "conversations", "scheduler", "registry", "nursery", "toolbox", "settings"} <= owned
    assert not [name for name in owned if "instruction" in name or "prompt" in name]


def test_a_context_has_exactly_four_fields_and_a_turn_repeats_none_of_them() -> None:
    """S000-04, S000-05, S000-06, S000-07: no double writing."""
    assert ConversationContext.__struct_fields__ == (
        "base_instructions",
        "user_instructions",
        "mcp_view",
        "tools_prefs",
    )
    assert set(TurnContext.__struct_fields__) == {
        "client",
        "cwd",
        "approval_policy",
        "sandbox_policy",
        "shell_environment_policy",
        "storage_policy",
    }
    assert "allowlist" in McpView.__struct_fields__
    assert {"include_plan_tool", "include_apply_patch_tool", "web_search_request", "shell_mode"} <= set(
        ToolsPrefs.__struct_fields__
    )


async def test_the_root_has_an_id_of_its_own_that_is_told_first() -> None:
    """X-40: distinct from the session's id, and in session_configured."""
    async with tertulia.Session.start(settings()) as session:
        first = await anext(session.events(after=0))
        assert (first.type, first.seq) == ("session_configured", 1)
        assert first.data.root_conversation_id == session.root.id != session.id
        info = session.info
        assert (info.session_id, info.root_conversation_id) == (session.id, session.root.id)
        assert (info.model, info.version) == ("scripted/inline", tertulia.__version__)
        assert info.policy == {
            "approval": "on-request",
            "sandbox": "workspace-write",
            "network": False,
            "storage": "full",
        }


async def test_conversations_are_found_by_id_and_the_root_by_its_name_too() -> None:
    async with stage() as on:
        one, two = await on.session.open(), await on.session.open()
        assert [c.id for c in on.session.conversations()] == [on.root.id, one.id, two.id]
        assert on.session.conversation(one.id) == one
        assert on.session.conversation("root") == on.root
        assert len({one, on.session.conversation(one.id), two}) == 2


@each_row("bad", ["no-such-id", "", "Root", "\x00", "\ud800", "x" * 1_000_000, "../../etc"])
async def test_malformed_and_unknown_ids_are_not_found(bad: str) -> None:
    """X-38; bad input: a typed error with its code, and nothing is touched."""
    async with stage() as on:
        with pytest.raises(NotFoundError) as refusal:
            on.session.conversation(bad)
        assert refusal.value.code == "not_found"
        assert len(refusal.value.message) < 200


async def test_a_closed_conversation_is_closed_and_not_unknown() -> None:
    """DESIGN, Answers: closed id → closed, never existed → not_found."""
    async with stage() as on:
        gone = await on.session.open()
        await gone.close()
        for use in (lambda: on.session.conversation(gone.id), lambda: gone.info, gone.tools):
            with pytest.raises(ClosedError):
                use()
        for use in (gone.history, gone.context, gone.interrupt, gone.compact, gone.fork, gone.set_context):
            with pytest.raises(ClosedError):
                await use()
        with pytest.raises(ClosedError):
            await gone.message("hello?")
        with pytest.raises(ClosedError):
            await gone.steer("hello?")
        with pytest.raises(ClosedError):
            async for _ in gone.stream("hello?"):
                pass


# ---- listening


async def test_events_carry_their_ids_and_old_consumers_need_only_the_submission() -> None:
    """S000-46, S002-42, S002-43: conversation and task ids, trace and span, and sub_id always filled."""
    async with tertulia.Session.start(settings(say("one", repeat=True))) as session:
        events = session.events(after=0)
        other = await session.open()
        replies = {c.id: await c.message("hi") for c in (session.root, other)}
        await session.close()
        received = [event async for event in events]
        assert all(event.sub_id and event.session_id for event in received)
        assert [event.seq for event in received if event.seq] == list(range(1, 1 + len([e for e in received if e.seq])))
        for event in received:
            if event.task_id is not None:
                reply = replies[event.conversation_id]
                assert (event.task_id, event.trace_id) == (reply.task_id, reply.trace_id)
                assert event.span_id
        # An old consumer groups by sub_id alone and sees each submission whole.
        by_sub: dict[str, list[str]] = {}
        for event in received:
            by_sub.setdefault(event.sub_id, []).append(event.type)
        submissions = [types for sub_id, types in by_sub.items() if sub_id.startswith("sub/")]
        assert [(types[0], types[-1]) for types in submissions] == [("task_started", "task_complete")] * 2


async def test_events_can_be_replayed_from_a_number_and_narrowed_to_a_conversation() -> None:
    async with tertulia.Session.start(settings(say("ok", repeat=True))) as session:
        await session.root.message("one")
        mark = session.parts.bus.last_seq
        other = await session.open()
        await other.message("two")
        replay, everything, narrow = session.events(after=mark), session.events(after=0), session.events(0, other.id)
        by_name = session.events(after=0, conversation="root")
        await session.close()
        later = [event async for event in replay]
        all_of_them = [event async for event in everything]
        assert [event.seq for event in later] == [e.seq for e in all_of_them if (e.seq or 0) > mark]
        assert {event.conversation_id async for event in narrow} == {other.id}
        assert {event.conversation_id async for event in by_name} == {session.root.id}


async def test_listening_begins_with_the_call_and_ends_with_the_session() -> None:
    async with tertulia.Session.start(settings("ok")) as session:
        events = session.events()
        await session.root.message("hi")
        listening = asyncio.create_task(_types(events))
        await ticks()
        assert not listening.done()
        await session.close()
        assert (await listening)[:3] == ["task_started", "user_message", "agent_message_delta"]


async def _types(events: Any) -> list[str]:
    return [event.type async for event in events]


async def test_a_cursor_or_a_conversation_that_is_not_there_is_refused_at_once() -> None:
    async with stage() as on:
        with pytest.raises(InvalidParamsError):
            on.session.events(after=10_000)
        with pytest.raises(NotFoundError):
            on.session.events(conversation="nobody")


async def test_a_listener_that_fails_or_never_reads_disturbs_nobody() -> None:
    """H6, G2, S002-45: a subscriber's exception is its own; one that stops reading makes nobody wait."""
    async with stage(say("word " * 50, repeat=True)) as on:
        stuck = on.session.events()

        async def fails() -> None:
            async for _ in on.session.events():
                raise ValueError("a listener's own fault")

        failing = on.begin(fails())
        for _ in range(60):
            assert (await on.root.message("hi")).status == "completed"
        with pytest.raises(ValueError, match="own fault"):
            await failing
        on.events.drain()
        await on.session.close()
        late = [event async for event in stuck]
        assert "subscriber_lagged" in [event.type for event in late]
        assert [event.type for event in late].count("task_complete") == 60


# ---- starting and closing


async def test_nothing_runs_before_a_session_is_entered() -> None:
    session = tertulia.Session.start(settings())
    assert not session.closed
    for use in (lambda: session.id, lambda: session.root, lambda: session.info, session.conversations, session.events):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(ClosedError):
        await session.open()


async def test_without_a_model_a_message_is_refused_and_the_ways_to_get_one_are_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    async with tertulia.Session.start() as session:
        with pytest.raises(tertulia.errors.NoModelError, match="OPENAI_API_KEY") as refused:
            await session.root.message("who are you?")
        assert refused.value.code == "no_model"
        assert await session.root.history() == []


async def test_closing_twice_at_once_or_later_is_the_same() -> None:
    """H2: twice, concurrently; the second says that it was closed already."""
    async with tertulia.Session.start(settings()) as session:
        first, second = await asyncio.gather(session.close(), session.close())
        assert [(a.closed, a.already_closed, a.forced) for a in (first, second)] == [
            (True, False, False),
            (True, True, False),
        ]
        assert (await session.close()).already_closed
        assert session.closed


async def test_a_session_that_was_never_entered_can_be_closed_and_then_not_entered() -> None:
    """H2: closed before it was started."""
    session = tertulia.Session.start(settings())
    assert (await session.close()).closed
    with pytest.raises(ClosedError):
        async with session:
            pass
    assert (await session.close()).already_closed


async def test_a_session_closed_while_it_starts_does_not_start() -> None:
    """H2: during start."""
    disk = Disk()
    disk.holding = True
    session = Session.start(settings(), journal=disk)
    starting = asyncio.create_task(session.__aenter__())
    await ticks(3)
    assert not starting.done()
    closing = asyncio.create_task(session.close())
    await ticks(3)
    disk.commit()
    assert (await closing).closed
    with pytest.raises(ClosedError):
        await starting


async def test_a_session_whose_first_words_cannot_be_written_does_not_start_and_leaves_nothing() -> None:
    disk = Disk()
    disk.holding = True
    session = Session.start(settings(), journal=disk)
    starting = asyncio.create_task(session.__aenter__())
    await ticks(3)
    disk.fail(OSError("the disk is full"))
    with pytest.raises(InternalError):
        await starting
    assert session.closed


async def test_a_caller_that_gives_up_starting_leaves_nothing() -> None:
    disk = Disk()
    disk.holding = True
    session = Session.start(settings(), journal=disk)
    starting = asyncio.create_task(session.__aenter__())
    await ticks(3)
    starting.cancel()
    await ticks(3)
    disk.commit()
    await asyncio.wait((starting,), timeout=HANG_S)
    assert starting.cancelled()
    assert session.closed


@each_row("timeout", [-1, float("nan"), float("inf"), 100_000])
async def test_a_timeout_that_is_none_is_refused_and_closes_nothing(timeout: float) -> None:
    async with stage("still here") as on:
        conversation = await on.session.open()
        with pytest.raises(InvalidParamsError):
            await on.session.close(timeout=timeout)
        with pytest.raises(InvalidParamsError):
            await conversation.close(timeout=timeout)
        assert not on.session.closed
        assert (await conversation.message("hello?")).text == "still here"


async def test_closing_goes_on_when_whoever_asked_for_it_gives_up() -> None:
    gate = asyncio.Event()
    async with stage(say("never", gate=gate)) as on:
        running = on.begin(on.root.message("hi"))
        await on.asked(1)
        closing = asyncio.create_task(on.session.close())
        await ticks(1)
        closing.cancel()
        assert (await running).status == "interrupted"
        assert (await on.session.close()).already_closed


async def test_a_session_can_be_closed_from_inside_one_of_its_tools() -> None:
    @tertulia.tool
    async def leave() -> str:
        """Close the session."""
        await on.session.close()
        return "never said"

    async with stage(say("", call("leave")), tools=[leave]) as on:
        assert (await on.root.message("hi")).status == "interrupted"
        assert (await on.session.close()).already_closed


async def test_after_the_end_nothing_is_accepted_and_what_was_said_can_be_read() -> None:
    async with stage("hello") as on:
        conversation = await on.session.open()
        await on.root.message("hi")
        await on.session.close()
        for refused in (
            on.session.open(),
            on.root.message("more"),
            on.root.fork(),
            on.root.compact(),
            on.root.set_context(title="x"),
        ):
            with pytest.raises(ClosedError):
                await refused
        with pytest.raises(ClosedError):
            on.session.events()
        assert [entry.text for entry in await on.root.history()] == ["hi", "hello"]
        assert len(on.session.conversations()) == 2
        assert (await on.root.interrupt()).interrupted is False
        answer = await conversation.close()
        assert (answer.closed, answer.already_closed) == (True, True)


async def test_a_session_that_runs_is_entered_again_as_it_is() -> None:
    async with tertulia.Session.start(settings("ok")) as session:
        again = await session.__aenter__()
        assert again is session
        assert (await session.root.message("hi")).text == "ok"


async def test_leaving_the_block_by_an_exception_closes_and_lets_it_through() -> None:
    with pytest.raises(ZeroDivisionError):
        async with tertulia.Session.start(settings()) as session:
            raise ZeroDivisionError
    assert session.closed


# ---- size


@pytest.mark.slow
def test_thousands_of_conversations_are_light_and_gone_when_closed() -> None:
    """G1, S000-44: at most 4 KB for an idle conversation, ten thousand of them in `make torture`; counts return."""
    many, measured = times(10_000, 1_500), 1_000

    async def measure() -> float:
        async with tertulia.Session.start(settings("yes", limits={"max_conversations": many})) as session:
            made = [await session.open() for _ in range(many - measured)]
            tracemalloc.start()
            try:
                made += [await session.open() for _ in range(measured)]
                gc.collect()
                # Without the ring of recent events, which is bounded and belongs to no conversation.
                traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, "*/tertulia/events/*")])
                size = sum(trace.size for trace in traces.statistics("filename")) / measured
            finally:
                tracemalloc.stop()
            assert len(session.conversations()) == many + 1
            with pytest.raises(LimitError):
                await session.open()
            for conversation in made:
                await conversation.close()
            assert len(session.conversations()) == 1
            assert (await session.root.message("still there?")).status == "completed"
            return size

    size = asyncio.run(measure())
    assert 500 < size <= 4_096, f"{size:,.0f} bytes a conversation"


# ---- time


async def test_time_is_the_clocks_and_durations_do_not_jump() -> None:
    """X-18: wall time for people, monotonic time for durations."""
    clock = FakeClock(now=1_700_000_000.0)

    def reply(request: Any) -> str:
        clock.advance(2.5)
        clock.set_wall(0)
        return "ok"

    async with stage(model=ScriptedModel([reply]), clock=clock) as on:
        assert on.root.info.last_active_at == "2023-11-14T22:13:20.000Z"
        answer = await on.root.message("hi")
        assert answer.duration == 2.5
        assert on.root.info.last_active_at == "1970-01-01T00:00:00.000Z"
        assert all(isinstance(event, Event) for event in on.events.drain())


# ---- the loop is gone


def test_a_program_that_forgets_to_close_does_not_hang() -> None:
    """H7: the loop is closed under a running session with a stuck tool; the process ends."""
    program = """
import asyncio, tertulia
from tertulia.testing import ScriptedModel, call, say

@tertulia.tool
async def stuck() -> str:
    '''Wait for ever.'''
    await asyncio.Event().wait()
    return ""

async def main():
    model = ScriptedModel([say("", call("stuck"))])
    session = await tertulia.Session.start(tertulia.Settings(model=model, tools=[stuck])).__aenter__()
    events = session.events()
    asyncio.ensure_future(session.root.message("hi"))
    async for event in events:
        if event.type == "tool_call_begin":
            return session

session = asyncio.run(main())
try:
    asyncio.run(session.close(timeout=0.1))
except BaseException as error:
    print(type(error).__name__)
print("done")
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        cwd=Path(__file__).parent,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("done\n")
