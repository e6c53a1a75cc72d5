"""What A2A clients may not lose: what a slow one reads, contexts, and the meaning of an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tertulia.models.scripted.script import call, say
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.items import ToolOutput
from tertulia.scheduler.nursery import Nursery
from tertulia.server.a2a.requests import MessageInput, Part, SendParams
from tertulia.server.a2a.task import A2aTask
from tertulia.server.a2a.tasks import A2aTasks
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tertulia.tools.function import tool
from tests.contract.python_session import becomes
from tests.contract.serving_tools import modern
from tests.deadlines import HANG_S
from tests.server.a2a.test_a2a_clients import calling, errors, proto, states
from tests.tables import each_row


@each_row("moment", ["task", "artifactUpdate", "statusUpdate"])
async def test_a_slow_reader_misses_nothing_of_what_comes_meanwhile(moment: str) -> None:
    """The task ends while the client is sent its first update of this kind."""
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    nursery = Nursery()
    host = Host(Settings(model=ScriptedModel([say("one", call("wait", {})), "two"]), tools=[wait]))
    try:
        async with asyncio.timeout(HANG_S):
            tasks = A2aTasks(host, nursery.start)
            task = await tasks.send(SendParams(MessageInput("m", [Part(text="a")])), "")
            updates = await _read_slowly(task, moment, gate)
        texts = [update["artifactUpdate"]["artifact"] for update in updates if "artifactUpdate" in update]
        seen = updates[0]["task"].get("artifacts", [])
        shown = "".join(part["text"] for artifact in [*seen, *texts] for part in artifact["parts"])
        assert [shown] == [part["text"] for part in task.as_json()["artifacts"][0]["parts"]]
        assert shown.startswith("one")
        assert shown.endswith("two")
        assert updates[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    finally:
        await host.close()
        await nursery.close(2)


async def _read_slowly(task: A2aTask, moment: str, gate: asyncio.Event) -> list[dict[str, Any]]:
    updates: list[dict[str, Any]] = []
    async for update in task.updates():
        updates.append(update)
        if moment in update:
            gate.set()
            await becomes(lambda: task.is_over)
    assert gate.is_set()
    return updates


@each_row(
    "answer, action",
    [
        ({"decision": "deny", "content": {"ok": True}}, "decline"),
        ({"decision": "allow", "content": {"ok": True}}, "accept"),
        ({"content": {"ok": True}}, "accept"),
    ],
)
async def test_a_form_that_is_denied_is_denied_whatever_else_is_sent(answer: Any, action: str) -> None:
    """C16: the MCP server gets nothing of it."""
    servers = {"a": modern()}
    replies = (call("a__ask", {"question": "Really?"}), "done")
    async with calling(*replies, approval_policy="on-request", mcp_servers=servers) as caller:
        updates = await caller.send("go")
        status = updates[-1].status_update
        assert states(updates)[-1] == "INPUT_REQUIRED"
        with pytest.raises(errors.A2AError, match="one word"):
            wrong = proto.new_data_part({"decision": "perhaps", "content": {"ok": True}})
            await caller.send(wrong, task_id=status.task_id)
        updates = await caller.send(proto.new_data_part(answer), task_id=status.task_id)
        assert states(updates)[-1] == "COMPLETED"
        outcomes = [item.text for item in caller.model.last_request.items if isinstance(item, ToolOutput)]
        assert json.loads(outcomes[-1])["action"] == action


async def test_a_refused_message_leaves_no_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    async with calling() as caller:
        await caller.send("a")
        (session,) = caller.place.host.sessions
        before = [one.id for one in session.conversations()]
        with pytest.raises(errors.A2AError):
            await caller.send("")
        monkeypatch.setattr("tertulia.server.a2a.tasks.MAX_TASKS", 0)
        with pytest.raises(errors.UnsupportedOperationError):
            await caller.send("b")
        assert [one.id for one in session.conversations()] == before
        monkeypatch.undo()
        assert states(await caller.send("c"))[-1] == "COMPLETED"


async def test_a_context_outlives_the_close_of_its_session_and_belongs_to_one_agent() -> None:
    async with calling() as caller:
        context = (await caller.send("a"))[0].task.context_id
        (session,) = caller.place.host.sessions
        url = f"http://127.0.0.1:{caller.place.port}/a2a/reviewer"
        message = {"messageId": "x", "role": "ROLE_USER", "contextId": context, "parts": [{"text": "b"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        refused = (await caller.http.post(url, json=body)).json()
        assert "there is no context" in refused["error"]["message"]
        assert len(caller.model.requests) == 1
        await session.close()
        assert states(await caller.send("c", context_id=context))[-1] == "COMPLETED"
        assert caller.requested[-2:] == ["a", "c"]


async def test_a_word_to_a_task_that_waits_for_its_turn_reaches_no_other() -> None:
    began, gate = asyncio.Event(), asyncio.Event()

    async def slowly(request: Any) -> str:
        began.set()
        await gate.wait()
        return "at last"

    async with calling(slowly, "second") as caller:
        running = caller.client.send_message(caller.request("a"))
        first = (await anext(running)).task
        await began.wait()
        waiting = caller.client.send_message(caller.request("b", context_id=first.context_id))
        second = (await anext(waiting)).task
        with pytest.raises(errors.UnsupportedOperationError):
            await caller.send("to the second", task_id=second.id)
        with pytest.raises(errors.A2AError, match="text alone"):
            await caller.send("look", proto.new_data_part({"x": 1}), task_id=first.id)
        gate.set()
        assert states([update async for update in running])[-1] == "COMPLETED"
        assert states([update async for update in waiting])[-1] == "COMPLETED"
        assert caller.requested[-2:] == ["a", "b"]


async def test_a_refused_message_is_no_failure_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The client hears of it, and may send it again under its id."""
    async with calling() as caller:
        for _ in range(2):
            with pytest.raises(errors.A2AError, match="no context"):
                await caller.send("a", context_id="x", message_id="same")
        assert states(await caller.send("a", message_id="same"))[-1] == "COMPLETED"
    assert "background task failed" not in caplog.text
