"""The promises of a submitted message, the same through Python, JSON-RPC, MCP, ACP and Codex."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
from acp import schema

from tertulia.errors import BusyError, InvalidParamsError, TertuliaError
from tertulia.mcp.serve.sources import ServedCall
from tertulia.protocol.inputs import Message
from tertulia.server.acp.editor import EditorCapabilities
from tertulia.server.acp.session import AcpSession
from tertulia.server.codex.params import StartTurn
from tertulia.server.codex.thread import CodexThread
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.mcp.message_call import run_message_call
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.session.resume.past_turns import PastTurns
from tertulia.testing import fail, say
from tests.deadlines import HANG_S
from tests.policy.approval_stage import request
from tests.session.agents_stage import EMPLOYEE
from tests.session.staging import Stage, stage

Surface = Callable[[Stage, str], Awaitable[str]]
"""Sends a text to the root; all that its client was shown, the events before the answer."""


class Client:
    """What a client of ACP or Codex was sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.turn_completed = asyncio.Event()

    def send(self, messages: Sequence[bytes]) -> None:
        self.sent.extend(messages)
        if any(b'"turn/completed"' in message for message in messages):
            self.turn_completed.set()

    async def drain(self) -> None:
        return

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.sent.append(f"{method} {params}".encode())

    def text(self) -> str:
        return b"\n".join(self.sent).decode()


async def python_message(on: Stage, text: str) -> str:
    return str(await on.root.message(text))


async def python_stream(on: Stage, text: str) -> str:
    return "\n".join([event.json().decode() async for event in on.root.stream(text)])


async def json_rpc(on: Stage, text: str) -> str:
    params = {"conversation_id": "root", "text": text}
    result = await operate(Host(on.session.settings), on.session, "conversation/message", params)
    assert result.after_seq == on.session.activity.last_seq
    return str(result.answer)


async def mcp(on: Stage, text: str) -> str:
    steps: list[str | None] = []
    call = ServedCall("", {}, "", False, cast(Any, None), lambda done, total, message: steps.append(message))
    reply = await run_message_call(on.session, Message(conversation_id="root", text=text), call)
    assert steps
    return f"{steps}\n{reply}"


async def acp(on: Stage, text: str) -> str:
    client = Client()
    acp_session = AcpSession(on.session, cast(Peer, client), client, editor=EditorCapabilities())
    acp_session.begin()
    try:
        await acp_session.prompt([schema.TextContentBlock(type="text", text=text)])
    except InvalidParamsError:
        raise
    except TertuliaError as error:
        client.notify("error", {"message": error.message})
    finally:
        await acp_session.close(1)
    return client.text()


async def codex(on: Stage, text: str) -> str:
    client = Client()
    thread = CodexThread(
        on.session, cast(Peer, client), client, muted=frozenset(), past=PastTurns(), created=0.0, origin=None
    )
    thread.begin(new=True)
    try:
        await thread.start(StartTurn(thread_id=on.session.id, input=[{"type": "text", "text": text}]))
        await asyncio.wait_for(client.turn_completed.wait(), HANG_S)
    finally:
        await thread.close(1)
    return client.text()


SURFACES = {f.__name__: f for f in (python_message, python_stream, json_rpc, mcp, acp, codex)}
every_surface = pytest.mark.parametrize("send", SURFACES.values(), ids=SURFACES)


@every_surface
async def test_no_surface_shows_a_session_token(send: Surface) -> None:
    """S001-45: in an answer, in an event, and in the error of a task that failed."""
    token: list[str] = []
    async with stage(lambda request: f"it is {token[0]}", lambda request: fail(f"not {token[0]}")) as on:
        agent = await on.session.open(agent=EMPLOYEE)
        token.append(str(on.parts.agent_registry.token(agent.id)))
        for _ in range(2):
            shown = await send(on, "hi")
            assert token[0] not in shown
            assert "[redacted:token]" in shown


@every_surface
async def test_a_refused_message_leaves_nothing_behind(send: Surface) -> None:
    async with stage() as on:
        before, last = on.root.details.items, on.session.activity.last_seq
        with pytest.raises(InvalidParamsError):
            await send(on, "")
        assert (on.root.details.items, on.session.activity.tasks) == (before, [])
        assert on.session.activity.last_seq == last
        assert not on.model.requests


async def python_approver(on: Stage, text: str) -> str:
    return "\n".join([event.type async for event in on.root.stream(text, approver=True)])


DECLARED = {python_message: False, python_stream: False, json_rpc: False, mcp: False}
"""Whether its client says that it answers approvals: ACP and Codex do by their protocols."""
DECLARED |= {acp: True, codex: True, python_approver: True}


@pytest.mark.parametrize(("send", "declared"), DECLARED.items(), ids=[send.__name__ for send in DECLARED])
async def test_only_a_client_that_says_so_answers_approvals(send: Surface, declared: bool) -> None:
    heard: list[bool] = []

    def reply(model_request: Any) -> str:
        heard.append(on.parts.command_services.approvals.is_heard(request(on.root.id)))
        return "ok"

    async with stage(reply) as on:
        await send(on, "hi")
        assert heard == [declared]
        assert not on.parts.command_services.approvals.is_heard(request(on.root.id))


@pytest.mark.parametrize("method", ["python", "json_rpc", "mcp"])
async def test_the_same_message_id_runs_once_and_a_busy_refusal_leaves_nothing(method: str) -> None:
    gate = asyncio.Event()

    async def send(on: Stage, message_id: str, if_busy: Any = "wait") -> str | None:
        if method == "python":
            return (await on.root.message("hi", message_id=message_id, if_busy=if_busy)).text
        fields: dict[str, Any] = {"conversation_id": "root", "text": "hi", "message_id": message_id, "if_busy": if_busy}
        if method == "json_rpc":
            result = await operate(Host(on.session.settings), on.session, "conversation/message", fields)
            return result.answer.last_assistant_message
        call = ServedCall("", {}, "", False, cast(Any, None), lambda done, total, message: None)
        return (await run_message_call(on.session, Message(**fields), call)).text

    async with stage(say("once", gate=gate), "never") as on:
        first = on.begin(send(on, "m"))
        await on.asked(1)
        with pytest.raises(BusyError):
            await send(on, "other", "fail")
        assert [task.status for task in on.session.activity.tasks] == ["running"]
        gate.set()
        assert [await first, await send(on, "m")] == ["once", "once"]
        assert len(on.model.requests) == 1
