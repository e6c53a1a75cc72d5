"""What is said of agents and of tools in time: by events that name their conversation, before a task fails on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tertulia
from tertulia.testing import ScriptedModel
from tests.contract.app_server import serving
from tests.contract.python_session import past
from tests.contract.serving_tools import define, tool
from tests.contract.test_mcp_app_server import calling, configure, of, ready
from tests.mcp.fakes import bare

PREPARATION = ("session:preparing", "session:context-ready")


async def test_events_of_an_agents_preparation_name_its_conversation(tmp_path: Path) -> None:
    """Issue 17, item 15: also those of a later task, and those that are stored."""
    async with serving(tmp_path, ["one"]) as server:
        ada = (await server.call("conversation/open", agent={"name": "ada"}))["conversation_id"]
        bob = (await server.call("conversation/open", agent={"name": "bob"}))["conversation_id"]
        await server.say("Begin.", ada)
        events = [event for event in server.events if event["type"] in PREPARATION]
        assert [event["conversation_id"] for event in events][:4] == [ada, ada, bob, bob]
        assert {event["conversation_id"] for event in events} == {ada, bob}
        start = len(server.lines)
        await server.call("events/subscribe", after_seq=0, conversation_id=ada)
        await server.call("conversation/list")
        lines = [line["params"] for line in server.lines[start:] if line.get("method") == "event"]
        assert PREPARATION[0] in [event["type"] for event in lines]
        assert {event["conversation_id"] for event in lines} == {ada}


async def test_a_provider_that_fails_is_told_under_the_conversation_that_it_was_asked_for() -> None:
    """Issue 17, item 15: a `warning` too."""

    class Broken(tertulia.ContextProvider):
        id = "broken"
        name = "broken"

        def get_system_context(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("out of order")

    settings = tertulia.Settings(model=ScriptedModel([]), providers=[Broken()])
    async with tertulia.Session.start(settings) as session:
        ada = await session.open(agent={"name": "ada"})
        warnings = await past(session, type="warning")
        assert ada.warnings
        assert {event.conversation_id for event in warnings if "broken" in event.data.message} == {ada.id}


async def test_a_provider_that_fails_before_a_later_task_is_told_there_too() -> None:
    """Issue 17, item 15: providers are asked again before each task."""

    class Failing(tertulia.ContextProvider):
        id = "failing"
        name = "failing"
        count = 0

        def get_system_context(self, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count > 1:
                raise RuntimeError("out of order")
            return None

    settings = tertulia.Settings(model=ScriptedModel(["hello"]), providers=[Failing()])
    async with tertulia.Session.start(settings) as session:
        ada = await session.open(agent={"name": "ada"})
        assert not ada.warnings
        await ada.message("hi")
        warnings = await past(session, type="warning")
        assert {event.conversation_id for event in warnings if "failing" in event.data.message} == {ada.id}


async def test_an_agent_that_no_sandbox_holds_is_told_of_when_its_conversation_is_opened(tmp_path: Path) -> None:
    """Issue 17, item 15: the first task said so. Nothing is refused: the mode may still change."""
    held = {"command": "true", "sandbox": {"workspace-write": {"mode": "auto"}}}
    settings = tertulia.Settings(
        model=ScriptedModel([]),
        cwd=str(tmp_path),
        sandbox="danger-full-access",
        acp={"free": {"command": "true"}, "held": held},
        executors={"free": {"command": ["true"]}},
    )
    async with tertulia.Session.start(settings) as session:
        for backend in ("acp:free", "command:free"):
            conversation = await session.open(backend=backend, sandbox="workspace-write")
            (warning,) = conversation.warnings
            assert backend in warning
            assert "workspace-write" in warning
            changed = await session.root.set_context(backend=backend, sandbox="read-only")
            assert any("read-only" in warning for warning in changed.warnings)
            assert not (await session.open(backend=backend, sandbox="danger-full-access")).warnings
        assert not (await session.open(backend="acp:held", sandbox="workspace-write")).warnings
        assert (await session.open(backend="acp:held", sandbox="read-only")).warnings
        assert not (await session.open(sandbox="read-only")).warnings


async def test_a_definition_that_changed_is_told_when_a_call_is_refused_for_it(tmp_path: Path) -> None:
    """Issue 17, item 15, C1: in the task in which it changes by an event, and by the refusal in every later one."""
    file = tmp_path / "tools.json"
    configure(tmp_path, a={**of(bare("--define", define(file, tool("echo")))), "approval": "prompt"})
    echo = calling("a__echo", text="x")
    async with serving(tmp_path, [echo, "1", echo, "2", calling("a__no_such_tool"), "3"]) as server:
        await ready(server, "a")
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        request = (await server.event("approval_request"))["data"]
        define(file, tool("echo", "Another one."))
        await server.call("mcp/refresh")
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        assert (await server.answer(message))["last_assistant_message"] == "1"
        news = [event for event in server.events if event["type"] == "mcp_tools_changed"]
        events = [event for event in news if event["data"]["withheld"]]
        assert [event["data"]["withheld"] for event in events] == [["a__echo"]]
        assert events[0]["conversation_id"] == request["conversation_id"]
        await server.say("again")
        await server.say("what else?")
        outputs = [event["data"]["output"] for event in server.events if event["type"] == "tool_call_end"]
        assert all("a__echo is withheld: its definition changed" in output for output in outputs[:2])
        assert [json.loads(output)["code"] for output in outputs] == ["mcp_error", "mcp_error", "not_found"]
