"""Slots over JSON-RPC, written from the public page alone: side by side, one branch stopped, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import NEVER_MS, Message, Refused, Server, is_event, serving


def says(question: str, text: str, **rest: Any) -> Message:
    return {"match": {"contains": question}, "text": text, **rest}


def asks(text: str, *tasks: str) -> Message:
    calls = [
        {"name": "conv_create", "arguments": {"user_instruction": task, "title": task}, "call_id": task}
        for task in tasks
    ]
    return {"match": {"contains": text}, "tool_calls": calls}


NEVER = {"delay_ms": NEVER_MS}
SCRIPT = [asks("ask both", "hang", "quick"), says("hang", "never", **NEVER), says("quick", "fine")]


async def begun(server: Server, text: str) -> Message:
    """The event with which a task begins that was asked this; what it was asked has come as well."""
    started = await server.until(lambda line: is_event(line) and line["params"]["data"].get("input_preview") == text)
    task = started["params"]["task_id"]
    await server.until(
        lambda line: is_event(line) and line["params"]["type"] == "user_message" and line["params"]["task_id"] == task
    )
    return started["params"]


@pytest.mark.parametrize("how", ["conversation/interrupt", "task/cancel"])
async def test_one_branch_is_stopped_and_its_caller_goes_on(how: str, tmp_path: Path) -> None:
    """Issue 20, 5 and 9."""
    async with serving(tmp_path, [*SCRIPT, "One answered."]) as server:
        session = (await server.call("session/start", slots=3))["session_id"]
        request_id = await server.ask(
            "conversation/message", session_id=session, conversation_id="root", text="ask both"
        )
        hanging, quick = await begun(server, "hang"), await begun(server, "quick")
        key = "task_id" if how == "task/cancel" else "conversation_id"
        await server.call(how, session_id=session, scope="branch", **{key: hanging[key]})
        answer = await server.answer(request_id)
        assert (answer["status"], answer["last_assistant_message"]) == ("completed", "One answered.")
        ends = [event["data"] for event in server.events if event["type"] == "tool_call_end"]
        codes = {end["call_id"]: json.loads(end["output"]).get("code") for end in ends}
        assert codes == {"hang": "cancelled", "quick": None}
        assert quick["data"]["kind"] == "target"
        assert (await server.call("task/list", session_id=session)) == {"tasks": []}


@pytest.mark.parametrize("scope", ["", "tree", "Branch", 1, True, ["branch"], {}])
async def test_a_scope_that_there_is_not_is_refused_and_stops_nothing(scope: Any, tmp_path: Path) -> None:
    async with serving(tmp_path, [says("hang", "never", **NEVER)]) as server:
        request_id = await server.ask("conversation/message", conversation_id="root", text="hang")
        task = (await server.event("task_started"))["task_id"]
        for method, where in (
            ("conversation/interrupt", {"conversation_id": "root"}),
            ("task/cancel", {"task_id": task}),
        ):
            with pytest.raises(Refused) as caught:
                await server.call(method, scope=scope, **where)
            assert (caught.value.number, caught.value.code) == (-32602, "invalid_params")
            assert "scope" in caught.value.message
        assert [entry["task_id"] for entry in (await server.call("task/list"))["tasks"]] == [task]
        await server.call("task/cancel", task_id=task, scope="chain")
        assert (await server.answer(request_id))["status"] == "interrupted"


@pytest.mark.parametrize("slots", [0, -1, 1_001, 10**9, 1.5, "2", True, [2], {}])
async def test_slots_that_make_no_sense_start_no_session(slots: Any, tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        before = await server.call("session/list")
        with pytest.raises(Refused) as caught:
            await server.call("session/start", slots=slots)
        assert (caught.value.number, caught.value.code) == (-32602, "invalid_params")
        assert "slots" in caught.value.message
        assert await server.call("session/list") == before


async def test_a_person_writes_to_a_child_while_its_parent_works(tmp_path: Path) -> None:
    """Issue 20, 8: side by side where a slot is free; the parent is neither interrupted nor told."""
    script = [
        asks("first", "quick"),
        says("quick", "here"),
        says("hang", "never", **NEVER),
        says("you?", "fine"),
        "Opened.",
    ]
    async with serving(tmp_path, script, "--slots", "2") as server:
        assert (await server.say("first"))["last_assistant_message"] == "Opened."
        root, child = [event["conversation_id"] for event in server.events if event["type"] == "task_started"][:2]
        parent = await server.ask("conversation/message", conversation_id="root", text="hang")
        await begun(server, "hang")
        start = len(server.lines)
        assert (await server.say("and you?", child))["last_assistant_message"] == "fine"
        heard = [line["params"] for line in server.lines[start:] if is_event(line)]
        assert [event["type"] for event in heard if event["conversation_id"] == root] == []
        assert [event["type"] for event in heard][-1] == "task_complete"
        (running,) = (await server.call("task/list"))["tasks"]
        assert running["conversation_id"] == root
        assert "fine" not in json.dumps(await server.call("conversation/history", conversation_id="root"))
        await server.call("conversation/interrupt", conversation_id="root")
        assert (await server.answer(parent))["status"] == "interrupted"
