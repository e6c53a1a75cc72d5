"""What a conversation whose work another program does tells on the way, and that the way of a model is untouched."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel
from tests.contract.python_session import past, soon
from tests.deadlines import HANG_S

# Prints the lines of the file `lines`, and goes no further where one of them says so: it has to be ended.
AGENT = """
import signal, sys
sys.stdin.read()
for line in open("lines"):
    if line.startswith("WAIT"):
        signal.pause()
    else:
        sys.stdout.write(line)
        sys.stdout.flush()
"""
SAID = {"type": "item.completed", "item": {"id": "said", "type": "agent_message", "text": "All of it."}}
COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 7, "cached_input_tokens": 2, "output_tokens": 3}}


def settings(folder: Path, model: ScriptedModel, **more: Any) -> tertulia.Settings:
    table = {"command": [sys.executable, "-c", AGENT], "output": "codex-jsonl", "sandbox": {"workspace-write": []}}
    return tertulia.Settings(model=model, cwd=str(folder), executors={"own": table}, **more)


def step(number: int) -> list[dict[str, Any]]:
    """A command of the agent's own, begun and ended."""
    item = {"id": f"i{number}", "type": "command_execution", "command": f"step {number}", "aggregated_output": "ok"}
    return [
        {"type": "item.started", "item": {**item, "status": "in_progress"}},
        {"type": "item.completed", "item": {**item, "status": "completed", "exit_code": 0}},
    ]


def prints(folder: Path, *lines: Any) -> None:
    (folder / "lines").write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))


def commands(events: list[tertulia.Event], type: str) -> list[str]:
    return [json.dumps(event.data["arguments"]) for event in events if event.type == type]


async def test_any_program_that_a_table_describes_does_the_work_and_models_are_asked_as_before(tmp_path: Path) -> None:
    """S003-01: no code for a new tool; a conversation with a model gets the same request, with and without others."""
    alone, beside = ScriptedModel(["Hello.", "Again."]), ScriptedModel(["Hello.", "Again."])
    async with tertulia.Session.start(tertulia.Settings(model=alone, cwd=str(tmp_path))) as session:
        for text in ("one", "two"):
            await soon(session.root.message(text))
    prints(tmp_path, {"type": "thread.started", "thread_id": "t"}, SAID, COMPLETED)
    async with tertulia.Session.start(settings(tmp_path, beside)) as session:
        other = await session.open(backend="command:own")
        for text in ("one", "two"):
            await soon(session.root.message(text))
            reply = await soon(other.message(text))
            assert (reply.status, reply.text, reply.usage.input_tokens) == ("completed", "All of it.", 7)
    for before, now in zip(alone.requests, beside.requests, strict=True):
        assert now.instructions == before.instructions
        assert [item.text for item in now.items] == [item.text for item in before.items]
        assert "Conversation History" not in "".join(item.text for item in now.items)


async def test_steps_are_told_in_order_and_no_reader_of_them_can_fail_the_task(tmp_path: Path) -> None:
    """S003-28: begun and ended with their texts, then the final value; a reader that leaves or never reads is alone."""
    junk = ["", "no JSON", "[]", '{"type": 7}', '{"type": "item.completed"}', '{"type": "news", "item": {}}']
    steps = [line for number in range(6) for line in step(number)]
    prints(tmp_path, {"type": "thread.started", "thread_id": "t"}, *steps, *junk, SAID, COMPLETED)
    async with tertulia.Session.start(settings(tmp_path, ScriptedModel([]))) as session:
        other = await session.open(backend="command:own")
        idle = session.events(after=0, limit=1)
        async with session.events() as leaving:
            running = asyncio.create_task(other.message("go"))
            async with asyncio.timeout(HANG_S):
                await anext(aiter(leaving))
        reply = await soon(running)
        assert (reply.status, reply.text, reply.tool_calls) == ("completed", "All of it.", 6)
        events = await past(session, conversation_id=other.id)
        del idle
    kinds = [event.type for event in events if event.type.startswith("tool_call")]
    assert kinds == ["tool_call_begin", "tool_call_end"] * 6
    assert [f"step {number}" in shown for number, shown in enumerate(commands(events, "tool_call_begin"))] == [True] * 6
    assert [event.data["output"] for event in events if event.type == "tool_call_end"] == ["ok"] * 6
    assert events[-1].type == "task_complete"


@pytest.mark.parametrize("ending", ["completed", "failed", "interrupted"])
async def test_no_end_takes_back_what_was_told(tmp_path: Path, ending: str) -> None:
    """S003-29: numbered without a gap, there after every end and after a resume; a later run adds to it."""
    last: list[Any] = {
        "completed": [SAID, COMPLETED],
        "failed": [{"type": "turn.failed", "error": {"message": "out of quota"}}],
        "interrupted": ["WAIT"],
    }[ending]
    prints(tmp_path, {"type": "thread.started", "thread_id": "t"}, *step(0), *step(1), *last)
    async with tertulia.Session.start(settings(tmp_path, ScriptedModel([]))) as session:
        other = await session.open(backend="command:own")
        seen: list[tertulia.Event] = []
        async with session.events(conversation=other.id) as news:
            running = asyncio.create_task(other.message("go"))
            async with asyncio.timeout(HANG_S):
                async for event in news:
                    seen.append(event)
                    if len([event for event in seen if event.type == "tool_call_end"]) == 2:
                        break
        if ending == "interrupted":
            await other.interrupt()
        assert (await soon(running)).status == ending
        durable = [event for event in seen if event.seq is not None]
        first = await past(session, conversation_id=other.id)
        assert durable == [event for event in first if event.seq in {event.seq for event in durable}]
        prints(tmp_path, {"type": "thread.started", "thread_id": "t"}, SAID, COMPLETED)
        await soon(other.message("again"))
        both = await past(session, conversation_id=other.id)
        assert both[: len(first)] == first
        seqs = [event.seq for event in await past(session)]
        assert seqs == sorted(set(seqs))
        entries = await other.history()
        assert [entry.text for entry in await other.history(limit=1)] == [entries[-1].text], "the last N"
        assert other.info.message_count == len(entries), "and how many there are"
    async with tertulia.Session.resume(session.id, settings(tmp_path, ScriptedModel([]))) as session:
        assert [entry.text for entry in await session.conversation(other.id).history()] == [e.text for e in entries]
