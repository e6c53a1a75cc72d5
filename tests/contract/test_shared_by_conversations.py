"""What the conversations of a session share, and what stays with a client that knows of one conversation only."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call, say
from tests.contract.app_server import serving
from tests.contract.python_session import becomes, past, soon, start_session
from tests.contract.serving_tools import Voice, ends, offered, offering, until


async def test_a_session_owns_one_of_each_and_its_conversations_share_it(tmp_path: Path) -> None:
    """S002-01: event bus, approvals, record, MCP pool and task registry are the session's; the state is listed."""
    voice = Voice()
    async with voice.session(
        {"a": offering("pid", approval="prompt")}, approval_policy="on-request", cwd=str(tmp_path)
    ) as session:
        other = await session.open(title="other")
        voice.calls("a__pid")
        async with session.events(attend=True) as news:
            asking = asyncio.create_task(session.root.message("go"))
            request = (await until(news, "approval_request")).data
            assert [pending.approval_id for pending in await session.approvals.pending()] == [request.approval_id]
            await session.approvals.resolve(request.approval_id, "allow", scope="session")
            await soon(asking)
            voice.calls("a__pid")
            await soon(other.message("go"))
        (first, own), (second, same) = await ends(session)
        assert (first, second, own) == (True, True, same), "one server process, and one yes for both"
        assert len(await session.approvals.grants()) == 1
        assert {*session.conversations()} >= {session.root, other}
        seqs = [event.seq for event in await past(session)]
        assert seqs == list(range(seqs[0] or 0, (seqs[0] or 0) + len(seqs))), "one bus numbers for all"
        assert session.activity.tasks == [], "and one registry, empty when nothing runs"
    async with tertulia.Session.resume(session.id, tertulia.Settings(model=ScriptedModel([]))) as again:
        assert {conversation.id for conversation in again.conversations()} >= {session.root.id, other.id}, "one record"


async def test_two_conversations_are_one_queue() -> None:
    """S002-01, S002-35: `current_running` is one for the session, whoever asks."""
    gate = asyncio.Event()
    model = ScriptedModel([say("One.", gate=gate), "Two."])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        other = await session.open()
        first = asyncio.create_task(session.root.message("1"))
        await becomes(lambda: bool(model.requests))
        second = asyncio.create_task(other.message("2"))
        await asyncio.sleep(0)
        assert session.activity.current_task is not None
        assert [task.conversation_id for task in session.activity.tasks][:1] == [session.root.id]
        assert len(model.requests) == 1
        gate.set()
        assert [(await soon(first)).text, (await soon(second)).text] == ["One.", "Two."]


# ---- clients from before there were conversations

SHIPPED = Path(tertulia.__file__).parent / "prompt" / "prompt.md"
OLD_FIELDS: dict[str, Any] = {"approval_policy": "never", "sandbox": "read-only"}
"""Of the fields of a new conversation those that are older than instructions, allowlists and switches."""


async def test_without_any_newer_field_a_conversation_is_what_it_always_was(tmp_path: Path) -> None:
    """S000-41, S000-15: built-in prompt, the environment and the words of the user, and every tool of every server."""
    model = ScriptedModel(["root", "old"])
    servers = {"a": offering("echo", "pid"), "b": offering("echo")}
    async with start_session(model=model, mcp_servers=servers, cwd=str(tmp_path)) as session:
        old = await session.open(cwd=str(tmp_path), **OLD_FIELDS)
        await soon(session.root.message("hi"))
        await soon(old.message("hi"))
        root, opened = model.requests
        assert opened.instructions == root.instructions
        assert opened.instructions.startswith(SHIPPED.read_text())
        assert [item.text.split("\n")[0] for item in opened.items] == ["<environment_context>", "hi"]
        assert offered(old) == offered(session.root) == ["a__echo", "a__pid", "b__echo"]
        assert {"a__echo", "a__pid", "b__echo"} <= {tool.name for tool in opened.request.tools}


@pytest.mark.parametrize("spelling", [{"approvalPolicy": "never", "sandbox": "read-only"}, OLD_FIELDS])
async def test_over_the_wire_the_older_fields_alone_open_one(tmp_path: Path, spelling: dict[str, Any]) -> None:
    """S000-41, S002-43, S002-52: it reads sub_id and event types and nothing else, and misses nothing of a task."""
    planned = [{"name": "update_plan", "arguments": {"plan": []}, "call_id": "c1"}]
    async with serving(tmp_path, [{"tool_calls": planned}, "Hello."]) as server:
        old = (await server.call("conversation/open", **spelling))["conversation_id"]
        start = len(server.lines)
        await server.say("hi", old)
        seen = [(event["sub_id"], event["type"]) for event in map(_event, server.lines[start:]) if event]
        of_task = {sub_id for sub_id, type in seen if type == "task_started"}
        assert len(of_task) == 1
        assert all(of_task), "never empty"
        types = [type for sub_id, type in seen if sub_id in of_task]
        assert (types[0], types[-1]) == ("task_started", "task_complete")
        assert {"tool_call_begin", "tool_call_end", "agent_message"} <= set(types)


def _event(line: Any) -> Any:
    return line["params"] if isinstance(line, dict) and line.get("method") == "event" else None


# ---- the envelope


async def test_every_event_of_two_conversations_says_whose_it_is() -> None:
    """S002-42, S000-46: the target's events have its ids, the continuation's its own, and one trace goes through."""
    create = call("conv_create", {"user_instruction": "look"}, "c1")
    async with start_session(create, "Seen.", "Done.") as session:
        reply = await soon(session.root.message("go"))
        child = session.conversations()[1]
        events = await past(session)
    assert all(event.sub_id for event in events), "there is none without"
    tasks = {event.task_id: event for event in events if event.type == "task_started"}
    assert [event.data.kind for event in tasks.values()] == ["user", "target", "continuation"]
    owners = [event.conversation_id for event in tasks.values()]
    assert owners == [session.root.id, child.id, session.root.id]
    for event in events:
        if event.task_id is not None and event.type != "conversation_opened":
            started = tasks[event.task_id]
            assert event.conversation_id == started.conversation_id
            assert (event.trace_id, event.span_id) == (reply.trace_id, started.span_id)
            assert event.sub_id == started.sub_id
    by = {event.conversation_id: event.task_id for event in events if event.type == "conversation_opened"}
    assert by == {session.root.id: None, child.id: next(iter(tasks))}, "by which task each was opened"
    assert len({event.span_id for event in tasks.values()}) == len({event.sub_id for event in tasks.values()}) == 3
    answers = {event.task_id: event.data.text for event in events if event.type == "agent_message"}
    assert [answers.get(task) for task in tasks] == [None, "Seen.", "Done."]


async def test_a_result_goes_to_the_task_that_asked_for_it() -> None:
    """S004-16, S004-17: call id, name and source travel with the plan: each of two nested calls gets its own answer."""
    inner = call("conv_create", {"user_instruction": "inner"}, "same")
    outer = call("conv_create", {"user_instruction": "outer"}, "same")
    async with start_session(outer, inner, "C says.", "B says.", "A says.") as session:
        reply = await soon(session.root.message("go"))
        assert reply.text == "A says."
        _, b, c = session.conversations()
        events = await past(session)
    started = [event for event in events if event.type == "task_started"]
    assert [(event.conversation_id, event.data.kind) for event in started] == [
        (session.root.id, "user"), (b.id, "target"), (c.id, "target"), (b.id, "continuation"),
        (session.root.id, "continuation"),
    ]  # fmt: skip
    ended = [event for event in events if event.type == "tool_call_end"]
    assert [event.task_id for event in ended] == [started[3].task_id, started[4].task_id]
    assert [(event.data.call_id, event.data.name) for event in ended] == [("same", "conv_create")] * 2
    answers = [json.loads(event.data.output) for event in ended]
    assert [(data["conversation_id"], data["last_assistant_message"]) for data in answers] == [
        (c.id, "C says."),
        (b.id, "B says."),
    ]
    assert {event.trace_id for event in started} == {reply.trace_id}, "one chain"
