"""Front ends talk to conversations at `/ag-ui`: the protocol's own types read every event, over a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
import pytest
from pydantic import TypeAdapter

from tertulia.models.scripted.script import call, say
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.items import UserMessage
from tertulia.server.agui.routes import RunningTask
from tertulia.session.settings.settings import Settings
from tertulia.tools.function import tool
from tests.contract.python_session import becomes
from tests.deadlines import HANG_S
from tests.server.served import TOKEN, Place, served

agui = pytest.importorskip("ag_ui.core", reason="ag-ui-protocol is not installed; run make setup")

AGENTS = {"reviewer": {"instructions": "You review."}}
_read_event = TypeAdapter(agui.Event).validate_python


@tool
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


class FrontEnd:
    """A page with one thread: it keeps the messages that the events build, as the client of AG-UI does."""

    def __init__(self, place: Place, http: httpx.AsyncClient, model: ScriptedModel, name: str, thread: str) -> None:
        self.place = place
        self.http = http
        self.model = model
        self._url = f"http://127.0.0.1:{place.port}/ag-ui/{name}"
        self._thread = thread
        self.messages: list[dict[str, Any]] = []
        self._runs = 0

    async def say(self, content: Any, **more: Any) -> list[dict[str, Any]]:
        """Add a message of the user and run."""
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": content})
        return await self.run(**more)

    async def run(self, **more: Any) -> list[dict[str, Any]]:
        """One run; its events, each read by the protocol's own types and kept as messages."""
        events = [event async for event in self.events(**more)]
        for event in events:
            self._keep(event)
        return events

    async def events(self, **more: Any) -> AsyncGenerator[dict[str, Any]]:
        self._runs += 1
        fields: dict[str, Any] = {"threadId": self._thread, "runId": f"run-{self._runs}", "messages": self.messages}
        body = agui.RunAgentInput.model_validate({**fields, **more}).model_dump(by_alias=True, mode="json")
        async with self.http.stream("POST", self._url, json=body) as answer:
            assert answer.status_code == 200, await answer.aread()
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    _read_event(event)
                    yield event

    def _keep(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                self.messages.append({"id": event["messageId"], "role": "assistant", "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                self.messages[-1]["content"] += event["delta"]
            case "TOOL_CALL_START":
                function = {"name": event["toolCallName"], "arguments": ""}
                calls = [{"id": event["toolCallId"], "type": "function", "function": function}]
                self.messages.append({"id": event["toolCallId"], "role": "assistant", "toolCalls": calls})
            case "TOOL_CALL_RESULT":
                result = {"role": "tool", "content": event["content"], "toolCallId": event["toolCallId"]}
                self.messages.append({"id": event["messageId"], **result})
            case _:
                pass

    @property
    def requested(self) -> list[str]:
        return [item.text for item in self.model.last_request.items if isinstance(item, UserMessage)]

    @property
    def conversations(self) -> int:
        return len(self.place.host.sessions[0].conversations())

    def beside(self, thread: str, name: str = "conversation:root") -> FrontEnd:
        """Another thread of the same server."""
        return FrontEnd(self.place, self.http, self.model, name, thread)


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


@asynccontextmanager
async def page(*replies: Any, name: str = "conversation:root", **settings: Any) -> AsyncGenerator[FrontEnd]:
    model = ScriptedModel(list(replies) or [say(text) for text in ("one", "two", "three", "four")])
    async with (
        asyncio.timeout(HANG_S),
        served(Settings(model=model, agents=AGENTS, **settings)) as place,
        httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=HANG_S) as http,
    ):
        yield FrontEnd(place, http, model, name, "thread")


async def test_a_run_is_a_message_of_a_conversation_and_only_what_is_new_is_submitted() -> None:
    async with page() as front:
        events = await front.say("a")
        assert types(events) == [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        assert (events[0]["protocolVersion"], events[-1]["outcome"]) == ("1.0", {"type": "success"})
        await front.say("b")
        assert front.requested[-2:] == ["a", "b"]
        assert [message["content"] for message in front.messages] == ["a", "one", "b", "two"]
        assert front.conversations == 1


async def test_calls_and_several_texts_of_a_run_are_one_answer_that_is_found_again() -> None:
    replies = (say("I look.", call("double", {"number": 21})), "It is 42.", "again")
    async with page(*replies, tools=[double]) as front:
        events = await front.say("twice 21?")
        start, arguments, end, result = [event for event in events if event["type"].startswith("TOOL_CALL")]
        assert (start["toolCallName"], start["toolCallId"]) == ("double", "call_1")
        assert arguments == {"type": "TOOL_CALL_ARGS", "toolCallId": "call_1", "delta": '{"number":21}'}
        assert end == {"type": "TOOL_CALL_END", "toolCallId": "call_1"}
        assert (result["content"], result["role"]) == ("42", "tool")
        await front.say("and?")
        assert (front.requested[-2:], front.conversations) == (["twice 21?", "and?"], 1)


async def test_threads_of_an_agent_that_begin_alike_are_conversations_of_their_own() -> None:
    async with page(*["same"] * 4, name="reviewer") as front:
        other = front.beside("other", "reviewer")
        await front.say("a")
        await other.say("a")
        assert "You review." in front.model.last_request.instructions
        await front.say("b")
        await other.say("c")
        assert front.requested[-2:] == ["a", "c"]
        assert front.conversations == 3


async def test_a_message_that_was_edited_gets_a_conversation_without_what_came_after_it() -> None:
    async with page() as front:
        await front.say("a")
        await front.say("b")
        del front.messages[2:]
        await front.say("other")
        assert front.requested[-2:] == ["a", "other"]
        assert front.conversations == 2


async def test_an_approval_interrupts_the_run_and_the_next_one_brings_the_answer() -> None:
    replies = (say("", call("shell", {"command": ["touch", "made"]})), "done", "more")
    async with page(*replies, approval_policy="untrusted") as front:
        events = await front.say("touch it")
        assert types(events)[-2:] == ["CUSTOM", "RUN_FINISHED"]
        assert (events[-2]["name"], events[-2]["value"]["kind"]) == ("tertulia.approval_request", "exec")
        (interrupt,) = events[-1]["outcome"]["interrupts"]
        assert (interrupt["reason"], interrupt["toolCallId"]) == ("approval", "call_1")
        assert "touch made" in interrupt["message"]
        answer = {
            "interruptId": interrupt["id"],
            "status": "resolved",
            "payload": {"decision": "deny", "message": "no"},
        }
        events = await front.run(resume=[answer])
        (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert json.loads(result["content"])["code"] == "approval_denied"
        assert events[-1]["outcome"] == {"type": "success"}
        await front.say("and now?")
        assert (front.requested[-2:], front.conversations) == (["touch it", "and now?"], 1)
        again = await front.http.post(
            f"http://127.0.0.1:{front.place.port}/ag-ui",
            json={"threadId": "thread", "runId": "late", "messages": [], "resume": [answer]},
        )
        assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")


async def test_what_an_answer_may_not_be_is_refused_and_the_question_waits_on() -> None:
    replies = (say("", call("shell", {"command": ["touch", "made"]})), "done")
    async with page(*replies, approval_policy="untrusted") as front:
        (interrupt,) = (await front.say("touch it"))[-1]["outcome"]["interrupts"]
        wrong = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"decision": "maybe"}}
        body = {"threadId": "thread", "runId": "wrong", "messages": [], "resume": [wrong]}
        refused = await front.http.post(f"http://127.0.0.1:{front.place.port}/ag-ui", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_params")
        (session,) = front.place.host.sessions
        assert len(await session.approvals.pending()) == 1
        events = await front.run(resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])
        assert events[-1]["outcome"] == {"type": "success"}


async def test_an_answer_that_is_sent_twice_goes_on_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, gate, first_answer = asyncio.Event(), asyncio.Event(), RunningTask.answer

    async def slowly(task: RunningTask, entries: Any) -> None:
        if arrived.is_set():
            gate.set()
        arrived.set()
        await gate.wait()
        await first_answer(task, entries)

    monkeypatch.setattr(RunningTask, "answer", slowly)
    replies = (say("", call("shell", {"command": ["touch", "made"]})), "done")
    async with page(*replies, approval_policy="untrusted") as front:
        (interrupt,) = (await front.say("touch it"))[-1]["outcome"]["interrupts"]
        answer = {"interruptId": interrupt["id"], "status": "cancelled"}
        going_on = asyncio.ensure_future(front.run(resume=[answer]))
        await arrived.wait()
        body = {"threadId": "thread", "runId": "twice", "messages": [], "resume": [answer]}
        again = await front.http.post(f"http://127.0.0.1:{front.place.port}/ag-ui", json=body)
        assert again.status_code == 404
        gate.set()
        assert (await going_on)[-1]["outcome"] == {"type": "success"}


async def test_a_run_that_is_sent_again_while_it_waits_asks_again() -> None:
    replies = (say("", call("shell", {"command": ["touch", "made"]})), "done")
    async with page(*replies, approval_policy="untrusted") as front:
        interrupts = (await front.say("touch it"))[-1]["outcome"]["interrupts"]
        del front.messages[1:]
        assert (await front.run(runId="run-1"))[-1]["outcome"]["interrupts"] == interrupts
        events = await front.run(resume=[{"interruptId": interrupts[0]["id"], "status": "cancelled"}])
        assert events[-1]["outcome"] == {"type": "success"}
        assert len(front.model.requests) == 2


async def test_tasks_that_wait_are_stopped_only_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that waits longest is stopped; below the limit none is."""
    monkeypatch.setattr("tertulia.server.agui.routes.MAX_PAUSED", 3)
    replies = [say("", call("shell", {"command": ["touch", "made"]}))] * 4
    async with page(*replies, approval_policy="untrusted") as front:
        sessions = [await front.place.host.start() for _ in range(4)]
        fronts = [front.beside("thread", f"conversation:{session.root.id}") for session in sessions]
        for one in fronts[:2]:
            assert (await one.say("touch it"))[-1]["outcome"]["type"] == "interrupt"
        assert [session.activity.questions for session in sessions] == [1, 1, 0, 0]
        for one in fronts[2:]:
            await one.say("touch it")
        await becomes(lambda: [session.activity.questions for session in sessions] == [0, 1, 1, 1])


async def test_a_page_that_goes_away_stops_its_task() -> None:
    began = asyncio.Event()

    async def endless(request: Any) -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    async with page(endless, "next") as front:

        async def leave() -> None:
            async for _ in front.events():
                pass

        front.messages.append({"id": "u", "role": "user", "content": "a"})
        reading = asyncio.ensure_future(leave())
        await began.wait()
        reading.cancel()
        await asyncio.wait([reading])
        (session,) = front.place.host.sessions
        await becomes(lambda: not session.activity.running)
        front.messages.clear()
        assert (await front.say("b"))[-1]["outcome"] == {"type": "success"}


async def test_a_run_that_is_sent_again_runs_nothing_twice() -> None:
    async with page() as front:
        first = await front.say("a")
        del front.messages[1:]
        again = await front.run(runId="run-1")
        assert types(again) == types(first)
        assert len(front.model.requests) == 1


async def test_a_task_that_fails_ends_its_run_with_the_code() -> None:
    async with page(ValueError("broken")) as front:
        events = await front.say("a")
        assert (types(events)[-1], events[-1]["code"]) == ("RUN_ERROR", "internal")


def turn(role: str, content: Any) -> dict[str, Any]:
    return {"messages": [{"id": "1", "role": role, "content": content}]}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("nobody", turn("user", "a"), 404),
        ("conversation:nobody", turn("user", "a"), 404),
        ("conversation:root", {"messages": []}, 400),
        ("conversation:root", turn("assistant", "a"), 400),
        ("conversation:root", turn("user", [{"type": "audio"}]), 400),
        ("conversation:root", turn("user", {"a": 1}), 400),
        ("conversation:root", {"messages": 3}, 400),
        ("conversation:root", {"messages": [], "resume": [{"interruptId": "x", "status": "resolved"}]}, 404),
    ],
)
async def test_what_cannot_be_run_is_refused_and_leaves_nothing_behind(
    path: str, body: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with page() as front:
        url = f"http://127.0.0.1:{front.place.port}/ag-ui/{path}"
        refused = await front.http.post(url, json={"threadId": "t", "runId": "r", **body})
        assert refused.status_code == status
        assert refused.json()["error"]["code"] == {400: "invalid_params", 404: "not_found"}[status]
        assert [len(session.conversations()) for session in front.place.host.sessions] in ([], [1])
        assert front.model.requests == []
    assert "background task failed" not in caplog.text


async def test_pictures_context_and_what_has_no_effect() -> None:
    async with page() as front:
        picture = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
        content = [{"type": "text", "text": "what is it?"}, picture]
        context = [{"description": "page", "value": "/cart"}]
        tools = [{"name": "t", "description": "d", "parameters": {}}]
        await front.say(content, context=context, tools=tools)
        (message,) = [item for item in front.model.last_request.items if isinstance(item, UserMessage)][-1:]
        assert "page: /cart" in message.text
        assert "data:image/png;base64,aGk=" in str(message.parts)
        await front.say("and now?")
        assert front.conversations == 1
