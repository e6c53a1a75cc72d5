"""Conversations as tools of an MCP server, seen by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import mcp_types as t
import pytest

from tertulia.models.scripted.script import say
from tertulia.server.mcp import conversation_server
from tertulia.session.settings.settings import current_environment
from tests.mcp.connected import until
from tests.sandbox.confined import need
from tests.server.mcp_stage import ERAS, mcp_stage

TOUCH = {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}]}
NAMES = [
    *("conversation_open", "conversation_message", "conversation_steer", "conversation_interrupt", "conversation_list"),
    *("conversation_history", "conversation_tools", "conversation_set_context", "conversation_close"),
    *("codex", "codex-reply"),
]

both_eras = pytest.mark.parametrize("era", ERAS)


@both_eras
async def test_the_tools_are_those_of_the_design_in_an_order_that_never_varies(era: str) -> None:
    """X-69; schemas come from the very types that are parsed."""
    async with mcp_stage(era) as stage:
        listed = (await stage.client.list_tools()).tools
        assert [tool.name for tool in listed] == NAMES
        for tool in listed:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.input_schema["type"] == "object"
            assert tool.output_schema is not None
            assert tool.output_schema["type"] == "object"
            assert tool.description
        assert not stage.host.sessions, "a list needs no session"


@both_eras
async def test_a_conversation_from_its_opening_to_its_end(era: str) -> None:
    """S002-46: all by its id, results as structured content that fits the schema that was promised."""
    async with mcp_stage(era, ["one", "two"]) as stage:
        schemas = {tool.name: tool.output_schema for tool in (await stage.client.list_tools()).tools}

        async def call(tool: str, **arguments: Any) -> Any:
            structured = await stage.call(tool, **arguments)
            jsonschema.validate(structured, schemas[tool])
            return structured

        opened = await call("conversation_open", title="helper", sandbox="danger-full-access")
        assert opened["narrowed"][0]["given"] == "workspace-write"
        id = opened["conversation_id"]
        answer = await call("conversation_message", conversation_id=id, text="hi")
        assert (answer["status"], answer["last_assistant_message"]) == ("completed", "one")
        entries = (await call("conversation_history", conversation_id=id))["entries"]
        assert [entry["text"] for entry in entries] == ["hi", "one"]
        await call("conversation_set_context", conversation_id=id, include_plan_tool=False)
        tools = (await call("conversation_tools", conversation_id=id))["tools"]
        assert "update_plan" not in {tool["name"] for tool in tools}
        assert [one["title"] for one in (await call("conversation_list"))["conversations"]] == [None, "helper"]
        assert (await call("conversation_interrupt", conversation_id=id)) == {"interrupted": False}
        closed = {"closed": True, "already_closed": False, "forced": False}
        assert await call("conversation_close", conversation_id=id) == closed
        assert '"closed"' in await stage.refused("conversation_message", conversation_id=id, text="hi")


@both_eras
async def test_a_refusal_is_an_answer_with_its_code(era: str) -> None:
    """S002-47: and the next call works."""
    async with mcp_stage(era) as stage:
        for tool, arguments, code in [
            ("conversation_message", {"conversation_id": "nobody", "text": "x"}, "not_found"),
            ("conversation_message", {"conversation_id": "root"}, "invalid_params"),
            ("conversation_message", {"conversation_id": "root", "text": "x", "extra": 1}, "invalid_params"),
            ("conversation_message", {"conversation_id": "root", "text": 7}, "invalid_params"),
            ("conversation_steer", {"conversation_id": "root", "text": "x"}, "not_running"),
            ("conversation_close", {"conversation_id": "root"}, "invalid_params"),
            ("conversation_history", {"conversation_id": "root", "session_id": "nobody"}, "not_found"),
            ("conversation_history", {"conversation_id": "root", "session_id": 5}, "invalid_params"),
            ("conversation_message", {"conversation_id": "root", "text": "x", "session_id": "nobody"}, "not_found"),
            ("conversation_message", {"conversation_id": "root", "text": "x", "session_id": 5}, "invalid_params"),
            ("conversation_message", {"conversation_id": "root", "text": "x", "session_id": []}, "invalid_params"),
            ("conversation_open", {"cwd": "/no/such/place"}, "invalid_params"),
            ("conversation_set_context", {"conversation_id": "root", "cwd": "/no/such/place"}, "invalid_params"),
            ("no_such_tool", {}, "method_not_found"),
        ]:
            refusal = json.loads(await stage.refused(tool, **arguments))
            assert (refusal["ok"], refusal["code"]) == (False, code), tool
            assert len((await stage.call("conversation_list"))["conversations"]) == 1, "nothing is left behind"
        assert (await stage.call("conversation_message", conversation_id="root", text="x"))["status"] == "completed"


@both_eras
async def test_events_are_the_progress_of_the_call(era: str) -> None:
    """X-69: what the agent does, in order."""
    plan = {"tool_calls": [{"name": "update_plan", "arguments": {"plan": [{"step": "a", "status": "pending"}]}}]}
    async with mcp_stage(era, [plan, "done"]) as stage:
        await stage.call("conversation_message", conversation_id="root", text="go")
        numbers, words = zip(*stage.progress, strict=True)
        assert list(numbers) == sorted(set(numbers))
        steps = ["the agent begins", "calls update_plan", "has a new plan", "update_plan answered", "done"]
        # A step that the next one has overtaken already need not be told.
        assert [steps.index(str(word)) + 1 for word in words] == list(numbers)
        assert words[-1] == "done"


@both_eras
@pytest.mark.parametrize(("decision", "made"), [("allow", True), ("deny", False)])
async def test_what_has_to_be_approved_is_asked_through_the_client(
    era: str, decision: str, made: bool, tmp_path: Path
) -> None:
    """B6, S002-48: as a request to the client in the old era, in the answer in the new one."""
    need("bubblewrap")

    def answer(params: Any) -> t.ElicitResult:
        assert not (tmp_path / "made").exists()
        return t.ElicitResult(action="accept", content={"decision": decision})

    async with mcp_stage(era, [TOUCH, "done"], answer, cwd=str(tmp_path), approval_policy="untrusted") as stage:
        response = await stage.call("conversation_message", conversation_id="root", text="go")
        assert response["last_assistant_message"] == "done"
        (question,) = stage.asked
        assert "touch made" in question.message
        assert question.requested_schema["properties"]["decision"]["enum"][-1] == "deny"
        assert (tmp_path / "made").exists() == made


@both_eras
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_does_not_answer_has_not_said_yes(era: str, action: Any, tmp_path: Path) -> None:
    """B9."""
    answer = t.ElicitResult(action=action)
    async with mcp_stage(
        era, [TOUCH, "done"], lambda _: answer, cwd=str(tmp_path), approval_policy="untrusted"
    ) as stage:
        await stage.call("conversation_message", conversation_id="root", text="go")
        assert len(stage.asked) == 1
        assert not (tmp_path / "made").exists()


@both_eras
async def test_a_client_that_cannot_ask_is_nobody_to_ask(era: str, tmp_path: Path) -> None:
    """S002-48: denied at once, and the task goes on."""
    async with mcp_stage(era, [TOUCH, "done"], cwd=str(tmp_path), approval_policy="untrusted") as stage:
        answer = await stage.call("conversation_message", conversation_id="root", text="go")
        assert answer["status"] == "completed"
        assert not (tmp_path / "made").exists()


@both_eras
async def test_a_call_that_is_given_up_stops_its_task_and_no_other(era: str) -> None:
    """X-69."""
    async with mcp_stage(era, [say("late", gate=asyncio.Event()), "next"]) as stage:
        running = asyncio.ensure_future(stage.call("conversation_message", conversation_id="root", text="go"))
        await until(lambda: bool(stage.progress))
        listed = (await stage.call("conversation_list"))["conversations"]
        assert listed[0]["status"] == "running"
        running.cancel()
        (session,) = stage.host.sessions
        await until(lambda: session.root.info.status == "idle")
        assert (await stage.call("conversation_message", conversation_id="root", text="x"))["status"] == "completed"


@both_eras
async def test_steering_and_stopping_come_through_while_a_message_runs(era: str) -> None:
    """S000-34."""
    gate = asyncio.Event()
    async with mcp_stage(era, [say("late", gate=gate), "after"]) as stage:
        running = asyncio.ensure_future(stage.call("conversation_message", conversation_id="root", text="go"))
        await until(lambda: bool(stage.progress))
        await stage.call("conversation_steer", conversation_id="root", text="faster")
        assert (await stage.call("conversation_interrupt", conversation_id="root"))["interrupted"]
        assert (await running)["status"] == "interrupted"


async def test_a_message_that_nobody_waits_for_answers_with_its_task() -> None:
    """`detach`."""
    async with mcp_stage("auto") as stage:
        answer = await stage.call("conversation_message", conversation_id="root", text="go", detach=True)
        assert set(answer) == {"task_id"}


async def test_all_calls_are_about_one_session_and_a_closed_one_comes_back_with_its_conversations() -> None:
    """One session a process; what a client opened is there when it comes again."""
    async with mcp_stage("auto") as stage:
        id = (await stage.call("conversation_open", title="kept"))["conversation_id"]
        (session,) = stage.host.sessions
        await stage.host.close_session(session)
        assert not stage.host.sessions
        listed = (await stage.call("conversation_list"))["conversations"]
        assert [one["id"] for one in listed if one["title"] == "kept"] == [id]
        assert [one.id for one in stage.host.sessions] == [session.id]


async def test_a_session_whose_record_is_gone_is_followed_by_a_new_one() -> None:
    """Rather that than no service."""
    async with mcp_stage("auto") as stage:
        await stage.call("conversation_list")
        (session,) = stage.host.sessions
        await stage.host.close_session(session)
        shutil.rmtree(current_environment().home / "sessions")
        assert len((await stage.call("conversation_list"))["conversations"]) == 1
        assert stage.host.sessions[0].id != session.id


def test_every_tool_is_an_operation() -> None:
    """One operation set."""
    assert all(about[0].replace("/", "_") == name for name, about in conversation_server._TOOLS.items())
