"""The hot paths: each opens what it needs, and gives the step that is counted."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

import tertulia
from bench.hot_paths.provider import provider
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.models.catalog import ModelProvider
from tertulia.policy.redaction import Redactor
from tertulia.prompt.request import RequestInputs, build_request
from tertulia.prompt.tool_list import assemble_tools
from tertulia.protocol.events import AgentMessage
from tertulia.protocol.ids import new_conversation_id, new_item_id, new_session_id
from tertulia.protocol.items import AssistantMessage, TextPart, UserMessage
from tertulia.protocol.storage import Full
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.testing import ScriptedModel, ScriptedReply, ScriptedRequest, call, say
from tertulia.tools.update_plan import UpdatePlan

Step = Callable[[], Awaitable[object]]

QUESTION = "What is said at this table? " * 8
SUBSCRIBERS = 8
TURNS_BEFORE = 1_000
TURNS_STORED = 100
UNLIMITED = {"max_history_items": None, "max_history_tokens": None, "max_conversations": None}


class HotPath(msgspec.Struct, frozen=True):
    """One of them, and how often it is walked."""

    name: str
    opened: Callable[[], AbstractAsyncContextManager[Step]]
    """Everything that is no part of the step happens here."""
    steps: int = 8
    """Steps in a round. The figure is that of one step, in the best round."""


# ---- turns over a real wire, without a record: whether an answer or a commit comes first is a matter of the moment


@asynccontextmanager
async def _turn(answer: Literal["short", "long"]) -> AsyncGenerator[Step]:
    with provider() as url:
        settings = tertulia.Settings(
            model="bench/gpt-5.2",
            model_providers={"bench": ModelProvider(base_url=f"{url}/{answer}", wire="chat")},
            limits=UNLIMITED,
        )
        async with tertulia.Session.start(settings, journal=NoJournal()) as session:
            yield lambda: _ask(session.root)


async def _ask(conversation: tertulia.Conversation, text: str = QUESTION) -> None:
    (await conversation.message(text)).raise_for_status()


# ---- the kernel, with a scripted model


@asynccontextmanager
async def _delegation() -> AsyncGenerator[Step]:
    create = say("", call("conv_create", {"user_instruction": "do it"}))
    model = ScriptedModel([lambda request: create if request.last_input == "create" else say("Done.")], repeat=True)
    async with tertulia.Session.start(_scripted(model), journal=NoJournal()) as session:
        yield lambda: _ask(session.root, "create")


@asynccontextmanager
async def _approval() -> AsyncGenerator[Step]:
    touch = say("", call("shell", {"command": ["touch", "made"]}))
    model = ScriptedModel([lambda request: touch if request.last_input == "touch" else say("Done.")], repeat=True)
    settings = tertulia.Settings(model=model, limits=UNLIMITED, approval_policy="untrusted")
    async with tertulia.Session.start(settings, journal=NoJournal()) as session:

        async def step() -> None:
            denied = 0
            async for event in session.root.stream("touch", approver=True):
                if isinstance(event.data, tertulia.ApprovalRequest):
                    await session.approvals.resolve(event.data.approval_id, "deny")
                    denied += 1
            assert denied == 1

        yield step


def _scripted(model: ScriptedModel) -> tertulia.Settings:
    return tertulia.Settings(model=model, limits=UNLIMITED)


@asynccontextmanager
async def _publishing() -> AsyncGenerator[Step]:
    bus = EventBus(new_session_id(), SystemClock(), NoJournal())
    scope, item = EventScope("1", new_conversation_id()), new_item_id()
    subscriptions = [bus.subscribe(after=0) for _ in range(SUBSCRIBERS)]

    async def step() -> None:
        bus.publish(AgentMessage(QUESTION, item), scope)
        for subscription in subscriptions:
            await anext(subscription)

    yield step
    bus.close()


@asynccontextmanager
async def _late_request() -> AsyncGenerator[Step]:
    asking = RequestInputs(new_conversation_id(), ScriptedModel(), None, assemble_tools([UpdatePlan().spec]), Full())
    store = HistoryStore(HistoryLimits())

    async def step() -> None:
        store.append([UserMessage(new_item_id(), (TextPart(QUESTION),))])
        b"".join(build_request(asking, store).chunks)
        store.append([AssistantMessage(new_item_id(), (TextPart(QUESTION),))])

    for _ in range(TURNS_BEFORE):
        await step()
    yield step


@asynccontextmanager
async def _redaction() -> AsyncGenerator[Step]:
    redactor = Redactor(["a-secret-of-the-provider"])
    output = "drwxr-xr-x 2 user group 4096 notes.txt\n" * 20 + "key a-secret-of-the-provider\n"
    event = msgspec.json.encode({"seq": 12, "type": "tool_call_end", "data": {"output": output}})

    async def step() -> None:
        assert b"a-secret-of-the-provider" not in redactor.json(event)

    yield step


# ---- the record and the wire to clients


@asynccontextmanager
async def _stored_turn(*, with_call: bool) -> AsyncGenerator[Step]:
    plan = say("", call("update_plan", {"plan": [{"step": "listen", "status": "in_progress"}]}))

    def answer(request: ScriptedRequest) -> ScriptedReply:
        return plan if with_call and isinstance(request.items[-1], tertulia.UserMessage) else say("word word word word")

    async with tertulia.Session.start(_scripted(ScriptedModel([answer], repeat=True))) as session:
        yield lambda: _ask(session.root)


@asynccontextmanager
async def _resuming() -> AsyncGenerator[Step]:
    settings = _scripted(ScriptedModel(["Done."], repeat=True))
    async with tertulia.Session.start(settings) as session:
        for _ in range(TURNS_STORED):
            await _ask(session.root)
    file = session_files(Path(os.environ["TERTULIA_HOME"]), session.id).db
    original = file.with_suffix(".original")
    shutil.copyfile(file, original)

    async def step() -> None:
        # A session that was resumed says so in its record: every step is to find the same one.
        shutil.copyfile(original, file)
        async with tertulia.Session.resume(session.id, settings) as again:
            assert again.root.info.message_count == 2 * TURNS_STORED

    yield step


class _Client:
    """Drops what it is sent, and knows the answer to a request when it sees one."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def send(self, messages: Sequence[bytes]) -> None:
        if messages and messages[-1].startswith(b'{"jsonrpc":"2.0","id":'):
            self.answered.set()

    async def drain(self) -> None:
        pass


@asynccontextmanager
async def _json_rpc() -> AsyncGenerator[Step]:
    host, client = tertulia.Host(_scripted(ScriptedModel(["Done."], repeat=True))), _Client()
    connection = RpcConnection(host, client)

    async def request(method: str, **params: str) -> None:
        client.answered.clear()
        await connection.receive(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        await client.answered.wait()

    await request("initialize")
    yield lambda: request("conversation/message", conversation_id="root", text=QUESTION)
    await connection.close(1)
    await host.close()


HOT_PATHS = (
    HotPath("a turn over a wire", lambda: _turn("short")),
    HotPath("a turn of 300 streamed deltas", lambda: _turn("long"), steps=3),
    HotPath("a turn with the default record", lambda: _stored_turn(with_call=False)),
    HotPath("a turn with one tool call", lambda: _stored_turn(with_call=True)),
    HotPath(f"an event for {SUBSCRIBERS} subscribers", _publishing, steps=50),
    HotPath(f"the request of turn {TURNS_BEFORE:,}", _late_request, steps=50),
    HotPath("a delegation by conv_create", _delegation),
    HotPath("an approval", _approval),
    HotPath(f"resume of {2 * TURNS_STORED} items", _resuming, steps=1),
    HotPath("a redaction pass over an event", _redaction, steps=50),
    HotPath("a message over JSON-RPC", _json_rpc),
)
