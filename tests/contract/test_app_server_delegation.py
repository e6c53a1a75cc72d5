"""Delegation over JSON-RPC, written from the public page alone: what a client sees of a chain, and can do to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import NEVER_MS, Message, Refused, Server, serving


def create(task: str, call_id: str) -> Message:
    arguments = {"user_instruction": task, "title": task}
    return {"tool_calls": [{"name": "conv_create", "arguments": arguments, "call_id": call_id}]}


NEVER = {"text": "never said", "delay_ms": NEVER_MS}


def tasks(server: Server) -> list[str]:
    """Each begin and end of a task, as a line; the root is A, the others B, C and so on, by age."""
    order: list[str] = []
    lines: list[str] = []
    for event in server.events:
        if event["type"] in ("task_started", "task_complete", "turn_aborted"):
            if event["conversation_id"] not in order:
                order.append(event["conversation_id"])
            data = event["data"]
            what = data.get("kind") or data.get("status") or data["reason"]
            lines.append(f"{'ABCDEF'[order.index(event['conversation_id'])]} {what}")
    return lines


def ends(server: Server) -> dict[str, Message]:
    return {e["data"]["call_id"]: e for e in server.events if e["type"] == "tool_call_end"}


async def waiting(server: Server, depth: int) -> tuple[int, list[str]]:
    """(the id of the request, the conversations from the root down) when a chain so deep has come to its last task."""
    request_id = await server.ask("conversation/message", conversation_id="root", text="go")
    seen: list[str] = []

    def started(line: Any) -> bool:
        if line.get("method") == "event" and line["params"]["type"] == "task_started":
            seen.append(line["params"]["conversation_id"])
        return len(seen) == depth + 1

    await server.until(started)
    return request_id, seen


async def test_a_client_sees_a_chain_in_its_order_before_the_answer(tmp_path: Path) -> None:
    """S004-25, S004-26, S004-36: every event by its conversation, numbered without gaps, all before the answer."""
    script = [create("to B", "outer"), create("to C", "inner"), "c says", "b says", "a says"]
    async with serving(tmp_path, script) as server:
        answer = await server.say("go")
        assert tasks(server) == [
            "A user", "A replaced", "B target", "B replaced", "C target", "C completed", "B continuation",
            "B completed", "A continuation", "A completed",
        ]  # fmt: skip
        assert (answer["status"], answer["last_assistant_message"], answer["tool_calls"]) == ("completed", "a says", 2)
        started = [event for event in server.events if event["type"] == "task_started"]
        assert answer["task_id"] == started[0]["task_id"]
        assert {event["trace_id"] for event in started} == {answer["trace_id"]}
        assert [ends(server)[id]["task_id"] for id in ("inner", "outer")] == [
            started[3]["task_id"], started[4]["task_id"],
        ]  # fmt: skip
        answers = {id: json.loads(event["data"]["output"]) for id, event in ends(server).items()}
        assert [answers[id]["last_assistant_message"] for id in ("inner", "outer")] == ["c says", "b says"]
        numbers = [event["seq"] for event in server.events if event["seq"] is not None]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert all(event["sub_id"] for event in server.events)
        spent = [e["data"]["usage"]["total_tokens"] for e in server.events if e["type"] == "token_count"]
        assert answer["usage"]["total_tokens"] == sum(spent)
        listed = (await server.call("conversation/list"))["conversations"]
        assert [(one["title"], one["depth"], one["status"]) for one in listed] == [
            (None, 0, "idle"), ("to B", 1, "idle"), ("to C", 2, "idle"),
        ]  # fmt: skip
        assert [one["parent_id"] for one in listed] == [None, listed[0]["id"], listed[1]["id"]]


async def test_a_chain_can_be_looked_at_steered_and_queued_behind(tmp_path: Path) -> None:
    slow = {"text": "child", "delay_ms": NEVER_MS}
    async with serving(tmp_path, [create("to B", "c1"), slow]) as server:
        request_id, (root, child) = await waiting(server, 1)
        listed = {one["id"]: one["status"] for one in (await server.call("conversation/list"))["conversations"]}
        assert listed == {root: "waiting", child: "running"}
        (running,) = (await server.call("task/list"))["tasks"]
        assert (running["conversation_id"], running["kind"], running["chain"]) == (child, "target", [root, child])
        await server.call("conversation/steer", conversation_id=root, text="for later")
        with pytest.raises(Refused) as busy:
            await server.say("now", if_busy="fail")
        assert (busy.value.number, busy.value.code) == (-32001, "busy")
        assert (await server.call("task/cancel", task_id=running["task_id"]))["cancelled"]
        assert (await server.answer(request_id))["status"] == "interrupted"
        assert tasks(server)[-1] == "B interrupted"


@pytest.mark.parametrize("member", [0, 1, 2])
async def test_interrupting_any_member_ends_the_chain_for_the_client(member: int, tmp_path: Path) -> None:
    """X-15: each call ends under the task that made it, though that one has ended."""
    script = [create("to B", "outer"), create("to C", "inner"), NEVER, "fine again"]
    async with serving(tmp_path, script) as server:
        request_id, members = await waiting(server, 2)
        assert await server.call("conversation/interrupt", conversation_id=members[member]) == {"interrupted": True}
        answer = await server.answer(request_id)
        assert (answer["status"], answer.get("error")) == ("interrupted", None)
        begun = {e["data"]["call_id"]: e["task_id"] for e in server.events if e["type"] == "tool_call_begin"}
        assert {id: event["task_id"] for id, event in ends(server).items()} == begun
        assert {json.loads(event["data"]["output"])["code"] for event in ends(server).values()} == {"cancelled"}
        assert tasks(server)[-1] == "C interrupted"
        assert await server.call("conversation/interrupt", conversation_id=members[member]) == {"interrupted": False}
        assert (await server.say("again"))["last_assistant_message"] == "fine again"


async def test_closing_a_waiting_conversation_answers_its_caller(tmp_path: Path) -> None:
    script = [create("to B", "outer"), create("to C", "inner"), NEVER, "a goes on"]
    async with serving(tmp_path, script) as server:
        request_id, (root, middle, last) = await waiting(server, 2)
        closed = await server.call("conversation/close", conversation_id=middle)
        assert closed == {"closed": True, "already_closed": False, "forced": False}
        answer = await server.answer(request_id)
        assert (answer["status"], answer["last_assistant_message"]) == ("completed", "a goes on")
        assert json.loads(ends(server)["outer"]["data"]["output"])["ok"] is False
        assert ends(server)["inner"]["task_id"], "an end belongs to a task"
        assert json.loads(ends(server)["inner"]["data"]["output"])["ok"] is False
        listed = [one["id"] for one in (await server.call("conversation/list"))["conversations"]]
        assert listed == [root, last]
        with pytest.raises(Refused) as refused:
            await server.say("?", conversation=middle)
        assert refused.value.code == "closed"


async def test_a_server_that_is_shut_in_the_middle_of_a_chain_answers_and_ends(tmp_path: Path) -> None:
    async with serving(tmp_path, [create("to B", "outer"), create("to C", "inner"), NEVER]) as server:
        request_id, _ = await waiting(server, 2)
        await server.call("session/close")
        assert (await server.answer(request_id))["status"] == "interrupted"
        assert tasks(server)[-1] == "C shutdown"
        assert set(ends(server)) == {"outer", "inner"}
        assert await server.end() == 0
