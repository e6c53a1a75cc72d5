"""The official client of A2A sends tasks to agents at `/a2a`, over a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tertulia.models.scripted.script import call, say
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.items import UserMessage
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.server.served import TOKEN, Place, served
from tests.tables import each_row

sdk = pytest.importorskip("a2a.client", reason="a2a-sdk is not installed; run make setup")
pb = pytest.importorskip("a2a.types.a2a_pb2", reason="a2a-sdk is not installed; run make setup")
proto = pytest.importorskip("a2a.helpers.proto_helpers", reason="a2a-sdk is not installed; run make setup")
errors = pytest.importorskip("a2a.utils.errors", reason="a2a-sdk is not installed; run make setup")

AGENTS = {"reviewer": {"instructions": "You review.", "description": "Reviews code"}}


class Caller:
    """Another agent's program, with the official client."""

    def __init__(self, place: Place, http: httpx.AsyncClient, client: Any, model: ScriptedModel) -> None:
        self.place = place
        self.http = http
        self.client = client
        self.model = model
        self._messages = 0

    def request(self, *parts: Any, **fields: Any) -> Any:
        self._messages += 1
        fields = {"message_id": f"m{self._messages}", "role": pb.Role.ROLE_USER, **fields}
        shown = [proto.new_text_part(part) if isinstance(part, str) else part for part in parts]
        return pb.SendMessageRequest(message=pb.Message(parts=shown, **fields))

    async def send(self, *parts: Any, **fields: Any) -> list[Any]:
        return [update async for update in self.client.send_message(self.request(*parts, **fields))]

    async def rpc(self, method: Any, params: Any, **fields: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **fields}
        answer = await self.http.post(f"http://127.0.0.1:{self.place.port}/a2a", json=body)
        return answer.json()

    @property
    def requested(self) -> list[str]:
        return [item.text for item in self.model.last_request.items if isinstance(item, UserMessage)]


@asynccontextmanager
async def calling(*replies: Any, agent: str = "", streaming: bool = True, **settings: Any) -> AsyncGenerator[Caller]:
    model = ScriptedModel(list(replies) or [say(text) for text in ("one", "two", "three")])
    async with (
        asyncio.timeout(HANG_S),
        served(Settings(model=model, agents=AGENTS, **settings)) as place,
        httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=HANG_S) as http,
    ):
        address = f"http://127.0.0.1:{place.port}" + (f"/a2a/{agent}" if agent else "")
        client = await sdk.create_client(address, sdk.ClientConfig(httpx_client=http, streaming=streaming))
        yield Caller(place, http, client, model)


def states(updates: list[Any]) -> list[str]:
    found = [update.status_update.status.state for update in updates if update.HasField("status_update")]
    return [pb.TaskState.Name(state).removeprefix("TASK_STATE_") for state in found]


def text(updates: list[Any]) -> str:
    artifacts = [update.artifact_update.artifact for update in updates if update.HasField("artifact_update")]
    return "".join(map(proto.get_artifact_text, artifacts))


async def test_a_task_is_streamed_and_its_context_goes_on() -> None:
    async with calling() as caller:
        updates = await caller.send("a")
        task = updates[0].task
        assert (text(updates), states(updates)[-1]) == ("one", "COMPLETED")
        updates = await caller.send("b", context_id=task.context_id)
        assert caller.requested[-2:] == ["a", "b"]
        other = await caller.send("c")
        assert other[0].task.context_id != task.context_id
        assert "a" not in caller.requested
        done = await caller.client.get_task(pb.GetTaskRequest(id=task.id))
        assert (done.status.state, proto.get_artifact_text(done.artifacts[0])) == (
            pb.TaskState.TASK_STATE_COMPLETED,
            "one",
        )
        assert [proto.get_message_text(message) for message in done.history] == ["a", "one"]
        short = await caller.client.get_task(pb.GetTaskRequest(id=task.id, history_length=1))
        assert len(short.history) == 1


async def test_a_client_that_does_not_stream_gets_the_whole_task() -> None:
    async with calling(streaming=False, agent="reviewer") as caller:
        (answer,) = await caller.send("a")
        assert proto.get_artifact_text(answer.task.artifacts[0]) == "one"
        assert "You review." in caller.model.last_request.instructions


async def test_cards_are_those_of_the_agents() -> None:
    async with calling() as caller:
        url = f"http://127.0.0.1:{caller.place.port}"
        card = (await caller.http.get(f"{url}/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"] == f"{url}/a2a"
        assert [skill["name"] for skill in card["skills"]] == ["tertulia", "reviewer"]
        assert card["capabilities"] == {"streaming": True, "pushNotifications": False, "extendedAgentCard": False}
        card = (await caller.http.get(f"{url}/a2a/reviewer/.well-known/agent-card.json")).json()
        assert (card["name"], card["skills"][0]["description"]) == ("reviewer", "Reviews code")
        missing = await caller.http.get(f"{url}/a2a/nobody/.well-known/agent-card.json")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


@each_row(
    "answer, allowed",
    [
        ("deny", False),
        ("Yes.", True),
        ({"decision": "deny", "message": "not now"}, False),
        ({"decision": "allow"}, True),
    ],
)
async def test_an_approval_is_asked_of_the_client_and_the_task_goes_on(answer: Any, allowed: bool) -> None:
    replies = (say("", call("shell", {"command": ["touch", "made"]})), "done")
    async with calling(*replies, approval_policy="untrusted") as caller:
        updates = await caller.send("touch it")
        assert states(updates)[-1] == "INPUT_REQUIRED"
        status = updates[-1].status_update
        assert "touch made" in proto.get_message_text(status.status.message)
        part = answer if isinstance(answer, str) else proto.new_data_part(answer)
        updates = await caller.send(part, task_id=status.task_id, context_id=status.context_id)
        assert (text(updates), states(updates)[-1]) == ("done", "COMPLETED")
        (session,) = caller.place.host.sessions
        entries = await session.conversation(status.context_id).history()
        assert [entry.text for entry in entries][-1] == "done"
        outputs = [item.text for item in caller.model.last_request.items if hasattr(item, "success")]
        assert ("approval_denied" not in outputs[0]) == allowed


async def test_an_answer_that_says_nothing_is_refused_and_the_question_waits_on() -> None:
    replies = (say("", call("shell", {"command": ["touch", "made"]})), "done")
    async with calling(*replies, approval_policy="untrusted") as caller:
        task = (await caller.send("touch it"))[0].task
        with pytest.raises(errors.A2AError, match="one word"):
            await caller.send("perhaps", task_id=task.id)
        now = await caller.client.get_task(pb.GetTaskRequest(id=task.id))
        assert now.status.state == pb.TaskState.TASK_STATE_INPUT_REQUIRED
        cancelled = await caller.client.cancel_task(pb.CancelTaskRequest(id=task.id))
        assert cancelled.status.state == pb.TaskState.TASK_STATE_CANCELED
        with pytest.raises(errors.TaskNotCancelableError):
            await caller.client.cancel_task(pb.CancelTaskRequest(id=task.id))


async def test_a_client_that_leaves_stops_nothing_and_finds_its_task_again() -> None:
    began, gate = asyncio.Event(), asyncio.Event()

    async def slowly(request: Any) -> str:
        began.set()
        await gate.wait()
        return "at last"

    async with calling(slowly) as caller:
        stream = caller.client.send_message(caller.request("a"))
        task = (await anext(stream)).task
        await began.wait()
        await stream.aclose()
        listening = caller.client.subscribe(pb.SubscribeToTaskRequest(id=task.id))
        assert (await anext(listening)).task.id == task.id
        gate.set()
        updates = [update async for update in listening]
        assert (text(updates), states(updates)[-1]) == ("at last", "COMPLETED")
        with pytest.raises(errors.UnsupportedOperationError):
            await anext(caller.client.subscribe(pb.SubscribeToTaskRequest(id=task.id)))
        with pytest.raises(errors.UnsupportedOperationError):
            await caller.send("more", task_id=task.id)


async def test_a_running_task_is_cancelled_and_its_end_is_told() -> None:
    async def endless(request: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async with calling(endless, "next") as caller:
        stream = caller.client.send_message(caller.request("a"))
        task = (await anext(stream)).task
        cancelled = await caller.client.cancel_task(pb.CancelTaskRequest(id=task.id))
        assert cancelled.status.state == pb.TaskState.TASK_STATE_CANCELED
        assert states([update async for update in stream])[-1] == "CANCELED"
        assert states(await caller.send("b", context_id=task.context_id))[-1] == "COMPLETED"


async def test_a_message_that_is_sent_again_begins_nothing_twice() -> None:
    async with calling(streaming=False) as caller:
        (first,) = await caller.send("a", message_id="same")
        (again,) = await caller.send("a", message_id="same")
        assert first.task.id == again.task.id
        assert len(caller.model.requests) == 1


async def test_tasks_are_listed_in_pages() -> None:
    async with calling(streaming=False) as caller:
        tasks: list[Any] = [(await caller.send(word))[0].task for word in "abc"]
        page = await caller.client.list_tasks(pb.ListTasksRequest(page_size=2))
        assert [task.id for task in page.tasks] == [tasks[2].id, tasks[1].id]
        rest = await caller.client.list_tasks(pb.ListTasksRequest(page_size=2, page_token=page.next_page_token))
        assert [task.id for task in rest.tasks] == [tasks[0].id]
        own = await caller.client.list_tasks(pb.ListTasksRequest(context_id=tasks[1].context_id))
        assert (own.total_size, own.tasks[0].id) == (1, tasks[1].id)


async def test_a_task_that_fails_says_why() -> None:
    async with calling(ValueError("broken"), streaming=False) as caller:
        (answer,) = await caller.send("a")
        assert answer.task.status.state == pb.TaskState.TASK_STATE_FAILED
        assert "broken" in proto.get_message_text(answer.task.status.message)


async def test_what_there_is_not_has_the_error_of_the_protocol() -> None:
    """And leaves nothing behind."""
    async with calling() as caller:
        with pytest.raises(errors.TaskNotFoundError):
            await caller.client.get_task(pb.GetTaskRequest(id="x"))
        with pytest.raises(errors.TaskNotFoundError):
            await caller.send("a", task_id="x")
        with pytest.raises(errors.A2AError, match="no context"):
            await caller.send("a", context_id="x")
        with pytest.raises(errors.PushNotificationNotSupportedError):
            config = pb.TaskPushNotificationConfig(task_id="x", url="https://a.example")
            await caller.client.create_task_push_notification_config(config)
        assert caller.model.requests == []
        assert [len(session.conversations()) for session in caller.place.host.sessions] in ([], [1])


@each_row(
    "method, params, fields, number",
    [
        ("Nothing", {}, {}, -32601),
        ("SendMessage", {}, {}, -32602),
        ("SendMessage", {"message": {"messageId": "1", "parts": []}}, {}, -32602),
        ("SendMessage", {"message": {"messageId": "1", "parts": [{"url": "https://a/b.pdf"}]}}, {}, -32005),
        ("ListTasks", {"pageSize": 1_000}, {}, -32602),
        ("ListTasks", {"pageToken": "x"}, {}, -32602),
        ("GetTask", [], {}, -32602),
        ("GetTask", {"id": "x"}, {"jsonrpc": "1.0"}, -32600),
        ("GetExtendedAgentCard", {}, {}, -32007),
        (3, {"id": "x"}, {}, -32600),
    ],
)
async def test_requests_that_make_no_sense_are_refused(method: Any, params: Any, fields: Any, number: int) -> None:
    async with calling() as caller:
        answer = await caller.rpc(method, params, **fields)
        assert answer["error"]["code"] == number, json.dumps(answer)
        assert caller.model.requests == []


async def test_another_version_is_refused() -> None:
    async with calling() as caller:
        caller.http.headers["a2a-version"] = "0.3"
        assert (await caller.rpc("GetTask", {"id": "x"}))["error"]["code"] == -32009
