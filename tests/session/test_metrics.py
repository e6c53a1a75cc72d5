"""`metrics/get` and `Session.metrics`: the same numbers, per conversation and for the session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import ClosedError, InvalidParamsError, ModelError, NotFoundError
from tertulia.protocol.items import Usage
from tertulia.testing import RecordedEvents, ScriptedModel, ScriptedReply, call, fail, say
from tests.session.test_operations import client_stage
from tests.tables import each_row

SPENT = Usage(10, 4, 5, 2, 15)
NOTHING = {
    "tasks": {
        "started": 0,
        "completed": 0,
        "failed": 0,
        "aborted": dict.fromkeys(("replaced", "interrupted", "timeout", "shutdown", "crash", "limit"), 0),
        "cancel_rate": 0.0,
        "failure_rate": 0.0,
    },
    "model_requests": 0,
    "usage": msgspec.to_builtins(Usage()),
    "cost_usd": None,
    "tool_calls": 0,
    "tools": {},
    "mcp": {"calls": 0, "failures": 0, "duration_ms": 0, "mean_ms": 0, "max_ms": 0},
    "mcp_waits": 0,
    "mcp_waited_ms": 0,
    "network": {},
    "network_bytes": 0,
    "compactions": 0,
}
KEYS = [
    "sk-proj-a1B2c3D4e5F6g7H8i9J0",
    "sk-ant-api03-a1B2c3D4e5F6g7H8",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github_pat_11ABCDEFG0a1B2c3D4e5F6",
    "glpat-a1B2c3D4e5F6g7H8i9J0",
    "xoxb-123456789012-a1B2c3D4e5F6",
    "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "hf_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7",
    "npm_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "eyJhbGciOiJIUzI1NiJ9-eyJzdWIiOiIxIn0-a1B2c3",
    "pypi-AgEIcHlwaS5vcmcCJDU0",
]


@tertulia.tool
def repeat(text: str) -> str:
    """Say it again."""
    return text


@tertulia.tool
def broken(text: str) -> str:
    """Fail."""
    raise ValueError(text)


def spending(text: str, *calls: Any) -> ScriptedReply:
    return ScriptedReply(text=text, tool_calls=calls, usage=SPENT)


async def test_a_conversation_is_counted_apart_from_the_others() -> None:
    """S002-44."""
    replies = [spending("", call("repeat", {"text": "a"}), call("broken", {"text": "b"})), spending("done")]
    async with client_stage(*replies, fail("no luck"), "fine", tools=[repeat, broken]) as ask:
        other = (await ask("conversation/open"))["conversation_id"]
        assert await ask("metrics/get") == {"session": NOTHING, "conversations": []}
        await ask("conversation/message", conversation_id="root", text="go")
        await ask("conversation/message", conversation_id=other, text="go")
        await ask("conversation/message", conversation_id=other, text="go")
        answer = await ask("metrics/get")
        root, second = answer["conversations"]
        root_id = ask.session.root.id
    assert (root["conversation_id"], root["closed"], second["conversation_id"]) == (root_id, False, other)
    assert (root["model_requests"], root["usage"]) == (2, msgspec.to_builtins(SPENT + SPENT))
    counted = {name: (tool["calls"], tool["failures"]) for name, tool in root["tools"].items()}
    assert (root["tool_calls"], counted) == (2, {"repeat": (1, 0), "broken": (1, 1)})
    assert root["tasks"] == {**NOTHING["tasks"], "started": 1, "completed": 1}
    assert second["tasks"] == {**NOTHING["tasks"], "started": 2, "completed": 1, "failed": 1, "failure_rate": 0.5}
    session = answer["session"]
    assert (session["tasks"]["started"], session["tasks"]["failure_rate"], session["tool_calls"]) == (3, 1 / 3, 2)


async def test_what_was_stopped_is_cancelled_and_what_ran_out_of_time_has_failed() -> None:
    """S002-44: the rates speak as a reply's status does."""
    model = ScriptedModel([lambda _: say("never", gate=asyncio.Event())], repeat=True)
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session, RecordedEvents(session) as events:
        hasty = await session.open(limits={"task_timeout_s": 0.01})
        assert (await hasty.message("quick")).status == "failed"
        await events.until("turn_aborted")
        stopping = asyncio.create_task(session.root.message("slow"))
        await events.until("task_started")
        await session.root.interrupt()
        assert (await stopping).status == "interrupted"
        by_id = {
            conversation.conversation_id: conversation.tasks for conversation in (await session.metrics()).conversations
        }
        assert (by_id[hasty.id].aborted["timeout"], by_id[hasty.id].failure_rate) == (1, 1.0)
        assert by_id[hasty.id].cancel_rate == 0.0
        assert (by_id[session.root.id].aborted["interrupted"], by_id[session.root.id].cancel_rate) == (1, 1.0)
        assert (
            (await session.metrics()).session.tasks.cancel_rate,
            (await session.metrics()).session.tasks.failure_rate,
        ) == (0.5, 0.5)


async def test_a_compaction_is_counted_with_its_tokens() -> None:
    async with client_stage(spending("one"), spending("two"), spending("a summary")) as ask:
        for text in ("first " * 500, "second"):
            await ask("conversation/message", conversation_id="root", text=text)
        done = await ask("conversation/compact", conversation_id="root")
        (root,) = (await ask("metrics/get", conversation_id="root"))["conversations"]
        assert (root["compactions"], done["compacted"]) == (1, True)
        assert root["usage"]["total_tokens"] == 3 * SPENT.total_tokens


async def test_one_conversation_can_be_asked_for_also_after_its_end() -> None:
    async with client_stage("hello") as ask:
        opened = [(await ask("conversation/open"))["conversation_id"] for _ in range(2)]
        await ask("conversation/message", conversation_id=opened[0], text="hi")
        for of in opened:
            (before,) = (await ask("metrics/get", conversation_id=of))["conversations"]
            assert (before["closed"], before["tasks"]["started"]) == (False, int(of == opened[0]))
            await ask("conversation/close", conversation_id=of)
        (after,) = (await ask("metrics/get", conversation_id=opened[0]))["conversations"]
        assert (after["closed"], after["tasks"]["completed"]) == (True, 1)
        with pytest.raises(ClosedError):
            await ask("metrics/get", conversation_id=opened[1])
        with pytest.raises(NotFoundError):
            await ask("metrics/get", conversation_id="nobody")
        with pytest.raises(InvalidParamsError):
            await ask("metrics/get", conversation_id=7)
        assert [
            conversation["conversation_id"] for conversation in (await ask("metrics/get"))["conversations"]
        ] == opened[:1]


async def test_python_gets_what_the_operation_answers_and_still_after_the_close() -> None:
    async with client_stage("hello") as ask:
        await ask("conversation/message", conversation_id="root", text="hi")
        answer = await ask("metrics/get")
        assert msgspec.to_builtins(await ask.session.metrics()) == answer
        (root,) = (await ask.session.metrics("root")).conversations
        assert msgspec.to_builtins(root) == answer["conversations"][0]
        assert root["tasks"]["completed"] == root.tasks.completed == 1
        session = ask.session
    assert (await session.metrics()).session.tasks.completed == 1


@each_row("key", KEYS)
async def test_nothing_that_anybody_wrote_is_in_the_numbers(key: str) -> None:
    """HARDENING E6: not in a label, whoever put it wherever there is room for text."""
    replies = [
        say(key, call(key), call("repeat", {"text": key}), call("broken", {"text": key}), call("repeat", key)),
        say(key),
        ModelError(key),
    ]
    async with client_stage(*replies, tools=[repeat, broken]) as ask:
        opened = await ask("conversation/open", title=key, base_instructions=key, user_instructions=key)
        for _ in range(2):
            await ask("conversation/message", conversation_id=opened["conversation_id"], text=key, sender=key)
        answer = await ask("metrics/get")
    assert answer["session"]["tools"].keys() == {"other", "repeat", "broken"}
    assert answer["session"]["tasks"]["failed"] == 1
    assert key not in json.dumps(answer)
