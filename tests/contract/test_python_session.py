"""The session as the public page shows it to a Python program: start, open, find, list, close."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import ScriptedModel, call, say
from tests.contract.python_session import becomes, past, soon, start_session
from tests.deadlines import HANG_S
from tests.tables import each_row


async def test_the_example_of_the_public_page_runs() -> None:
    """S002-04, S002-46, S002-47: the root is there, others are opened beside it, an answer has its statistics."""
    async with start_session("It holds notes.", "Fine.") as session:
        reply = await session.root.message("What does this repository do?")
        assert reply.text == "It holds notes."
        assert reply.usage.total_tokens > 0

        reviewer = await session.open(
            base_instructions="You review Python code. Be brief.",
            storage_policy=tertulia.HeadersOnly(),
        )
        types = [event.type async for event in reviewer.stream("Review src/app.py")]
        assert types[0] == "task_started"
        assert types[-1] == "task_complete"
        await reviewer.close()


async def test_which_calls_are_plain_and_which_are_awaited_is_as_the_page_says() -> None:
    manager = tertulia.Session.start(tertulia.Settings(model=ScriptedModel([])))
    assert not inspect.isawaitable(manager) or hasattr(manager, "__aenter__")
    assert hasattr(manager, "__aenter__")
    async with manager as session:
        assert isinstance(session.conversations(), list)
        assert session.conversation(session.root.id).id == session.root.id
        assert isinstance(session.root.tools(), list)
        for name in ("open", "close"):
            assert inspect.iscoroutinefunction(getattr(session, name)), name
        for name in ("message", "steer", "interrupt", "compact", "set_context", "history", "fork", "context", "close"):
            assert inspect.iscoroutinefunction(getattr(session.root, name)), name


def test_every_field_of_config_toml_is_a_field_of_settings() -> None:
    settings = tertulia.Settings(model=ScriptedModel([]))
    for name in (
        "model", "model_providers", "approval_policy", "sandbox", "network", "writable_roots", "storage_policy",
        "mcp_servers", "limits", "shell_environment", "retention", "notify", "executors", "providers", "tools",
    ):  # fmt: skip
        assert hasattr(settings, name), name


async def test_the_defaults_are_those_of_the_page() -> None:
    """Sandbox workspace_write, approval on_request, network off, storage full."""
    async with start_session() as session:
        context = await session.root.context()
        assert context.policy == {
            "approval": "on-request", "sandbox": "workspace-write", "network": False, "storage": "full",
        }  # fmt: skip
        assert context.base_instructions is None
        assert context.user_instructions is None
        assert context.additions == []
        assert context.narrowed == []
        assert context.mcp_tool_allowlist is None
        assert context.limits["max_interrupt_chain_depth"] == 8
        assert context.limits["max_chain_conversations"] == 64
        assert context.limits["max_task_interrupts"] == 64


async def test_the_conversations_are_the_root_and_then_the_others_as_they_were_opened() -> None:
    async with start_session() as session:
        opened = [await session.open(title=str(number)) for number in range(3)]
        assert [conversation.id for conversation in session.conversations()] == [
            session.root.id,
            *(conversation.id for conversation in opened),
        ]


async def test_the_root_is_not_called_like_the_session() -> None:
    """X-40: distinct ids, and the root's is told by session_configured."""
    async with start_session() as session:
        first = (await past(session))[0]
        assert first.type == "session_configured"
        assert first.seq == 1
        assert first.session_id != session.root.id
        assert first.data.root_conversation_id == session.root.id


async def test_a_conversation_is_found_by_its_id_and_the_root_by_its_name() -> None:
    async with start_session() as session:
        conversation = await session.open()
        assert session.conversation(conversation.id).id == conversation.id
        assert session.conversation("root").id == session.root.id


@each_row("id", ["nobody", "", "../x", "\0", "x" * 4096, "00000000-0000-0000-0000-000000000000"])
async def test_an_id_that_never_existed_is_not_found(id: str) -> None:
    """E9: whatever it looks like."""
    async with start_session() as session:
        with pytest.raises(errors.TertuliaError) as caught:
            session.conversation(id)
        assert caught.value.code in {"not_found", "invalid_params"}
        assert [conversation.id for conversation in session.conversations()] == [session.root.id]


async def test_a_closed_conversation_says_closed_and_not_that_it_never_was() -> None:
    async with start_session("unheard") as session:
        conversation = await session.open()
        await conversation.close()
        with pytest.raises(errors.ClosedError) as found:
            session.conversation(conversation.id)
        with pytest.raises(errors.ClosedError) as refusal:
            await conversation.message("Still there?")
        assert found.value.code == refusal.value.code == "closed"


async def test_a_second_close_is_harmless_and_says_so() -> None:
    """S002-48, X-71, H2."""
    async with start_session() as session:
        conversation = await session.open()
        first, second = await conversation.close(), await conversation.close()
        assert (first.closed, first.already_closed, first.forced) == (True, False, False)
        assert (second.closed, second.already_closed) == (True, True)
        assert len(await past(session, type="conversation_closed")) == 1


async def test_two_closes_at_once_agree() -> None:
    """H2: one of them closes, both say closed."""
    async with start_session() as session:
        conversation = await session.open()
        answers = await soon(asyncio.gather(conversation.close(), conversation.close(), conversation.close()))
        assert all(answer.closed for answer in answers)
        assert [answer.already_closed for answer in answers].count(False) == 1


async def test_the_root_cannot_be_closed_alone() -> None:
    async with start_session("I am still here.") as session:
        with pytest.raises(errors.InvalidParamsError) as caught:
            await session.root.close()
        assert caught.value.code == "invalid_params"
        assert (await session.root.message("Hello?")).text == "I am still here."


async def test_closing_a_running_conversation_ends_its_task_as_interrupted() -> None:
    """S002-48: turn_aborted{interrupted}, and the message answers interrupted."""
    model = ScriptedModel([say("never", gate=asyncio.Event()), "The root is free."])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        conversation = await session.open()
        waiting = asyncio.create_task(conversation.message("Go"))
        await becomes(lambda: len(model.requests) == 1)
        await soon(conversation.close())
        reply = await soon(waiting)
        assert reply.status == "interrupted"
        ends = [event for event in await past(session) if event.type in {"task_complete", "turn_aborted"}]
        assert [(event.type, event.data.reason) for event in ends] == [("turn_aborted", "interrupted")]
        assert (await soon(session.root.message("And you?"))).text == "The root is free."


@tertulia.tool
async def stubborn() -> str:
    """Does not hear that it was cancelled, until the loop itself ends."""
    over = asyncio.get_running_loop().create_future()
    for _ in range(3):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(over)
    return "at last"


async def close_in_the_middle_of(tool: object, name: str, timeout: float) -> tuple[Any, list[str], str]:
    """What closing answers while a tool runs, the types of the conversation's events, and how the message ended."""
    model = ScriptedModel([call(name, {}), "The root is free."])
    async with tertulia.Session.start(tertulia.Settings(model=model, tools=[tool], approval_policy="never")) as session:
        conversation = await session.open()
        running = asyncio.create_task(conversation.message("Go"))
        await soon(anext(event async for event in session.events(after=0) if event.type == "tool_call_begin"))
        answer = await soon(conversation.close(timeout=timeout))
        reply = await soon(running)
        types = [event.type for event in await past(session, conversation_id=conversation.id)]
        assert (await soon(session.root.message("And you?"))).text == "The root is free."
        return answer, types, reply.status


async def test_a_close_that_is_not_heard_in_time_is_forced_and_says_so() -> None:
    """S002-48, H3: cancel, wait the timeout, force, tell."""
    answer, types, status = await close_in_the_middle_of(stubborn, "stubborn", 0.05)
    assert (answer.closed, answer.forced, status) == (True, True, "interrupted")
    assert types.count("conversation_close_forced") == types.count("turn_aborted") == 1
    assert types[-1] == "conversation_closed"
    assert types.count("tool_call_begin") == types.count("tool_call_end") == 1


async def test_a_synchronous_tool_that_is_stuck_is_left_behind_by_force() -> None:
    """S002-48, H3: cancel, wait the timeout, force, tell; the function has not ended when this answers."""
    enough = threading.Event()

    @tertulia.tool
    def stuck() -> str:
        """Wait for somebody outside."""
        enough.wait(HANG_S)
        return "at last"

    try:
        answer, types, _ = await close_in_the_middle_of(stuck, "stuck", 0.05)
    finally:
        enough.set()
    assert answer.forced is True
    assert "conversation_close_forced" in types


async def test_leaving_the_session_stops_what_runs_and_a_second_close_is_harmless() -> None:
    """H2, H4: shutdown is a turn_aborted, its message answers interrupted."""
    async with start_session(say("never", gate=asyncio.Event())) as session:
        events = session.events(after=0)
        waiting = asyncio.create_task(session.root.message("Go"))
        await soon(anext(event async for event in session.events(after=0) if event.type == "task_started"))
    reply = await soon(waiting)
    assert reply.status == "interrupted"
    seen = await soon(collect(events))
    assert [event.data.reason for event in seen if event.type == "turn_aborted"] == ["shutdown"]
    again = await session.close()
    assert again.already_closed
    with pytest.raises(errors.ClosedError):
        await session.root.message("Hello?")
    with pytest.raises(errors.ClosedError):
        await session.open()


async def collect(events: object) -> list[tertulia.Event]:
    return [event async for event in events]


async def test_closing_a_parent_leaves_its_children() -> None:
    async with start_session("I am well.") as session:
        parent = await session.open()
        child = await session.open(parent_id=parent.id)
        await parent.close()
        assert (await child.message("How are you?")).text == "I am well."


async def test_open_refuses_what_it_does_not_know_by_name_and_leaves_nothing_behind() -> None:
    """S000-32: a misspelt field is an error, never ignored."""
    async with start_session() as session:
        before = len(await past(session))
        with pytest.raises((errors.InvalidParamsError, TypeError), match="base_instruction"):
            await session.open(base_instruction="typo")
        with pytest.raises(errors.NotFoundError):
            await session.open(parent_id="nobody")
        with pytest.raises(errors.InvalidParamsError):
            await session.open(mcp_tool_allowlist=["nobody__nothing"])
        with pytest.raises(errors.InvalidParamsError):
            await session.open(sandbox="wide-open")
        with pytest.raises(errors.TertuliaError):
            await session.open(model="nobody/nothing")
        with pytest.raises(errors.TertuliaError):
            await session.open(backend="nobody")
        assert len(session.conversations()) == 2  # the root, and the mark of `past`
        assert len(await past(session)) == before + 1


def test_every_code_of_the_page_is_an_error_of_that_name() -> None:
    """S002-06, X-38."""
    codes = (
        "not_found invalid_params busy closed depth_exceeded tool_conflict parse_error invalid_request "
        "method_not_found awaiting_result approval_denied no_approver not_initialized sandbox_error "
        "sandbox_unavailable mcp_error model_error storage_policy_violation not_running "
        "unsupported_by_backend cancelled timeout internal"
    )
    for code in codes.split():
        words = "".join(word.capitalize() for word in code.removesuffix("_error").split("_"))
        cls = getattr(errors, {"Cancelled": "TaskCancelled", "Timeout": "TaskTimeout"}.get(words, words) + "Error")
        assert issubclass(cls, errors.TertuliaError)
        assert cls.code == code
        assert cls("why").code == code
    assert tertulia.TertuliaError is errors.TertuliaError
