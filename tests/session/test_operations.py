"""One operation set for every surface: name, input, answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import (
    BusyError,
    ClosedError,
    InvalidParamsError,
    MethodNotFoundError,
    NotFoundError,
    NotRunningError,
)
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.session.operations import OPERATIONS, OperationResult, call
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel, check_invariants, fail, say
from tertulia.testing import call as tool_call
from tests.sandbox.confined import need
from tests.session.staging import BUILT_IN, Ask, ticks
from tests.tables import each_row


class ClientStage:
    """What a client has: a host and the client's own session."""

    def __init__(self, host: tertulia.Host, session: Session, model: ScriptedModel) -> None:
        self.host = host
        self.session = session
        self.model = model

    async def done(self, name: str, **params: Any) -> OperationResult:
        return await call(self.host, self.session, name, params)

    async def __call__(self, name: str, **params: Any) -> Any:
        """The answer as plain data, as a wire would send it."""
        return msgspec.to_builtins((await self.done(name, **params)).answer)


@asynccontextmanager
async def client_stage(
    *replies: Any, model: ScriptedModel | None = None, **settings: Any
) -> AsyncIterator[ClientStage]:
    model = model or ScriptedModel(replies)
    host = tertulia.Host(tertulia.Settings(model=model, **settings))
    session = await host.start()
    events = session.events(after=0)
    try:
        yield ClientStage(host, session, model)
    finally:
        await host.close()
    check_invariants([event async for event in events])


def test_the_page_has_every_operation_of_the_kernel() -> None:
    """X-70: one core operation set."""
    assert list(OPERATIONS) == [
        "session/start",
        "session/resume",
        "session/list",
        "session/info",
        "session/board",
        "session/close",
        "conversation/open",
        "conversation/set_context",
        "conversation/context",
        "conversation/message",
        "conversation/steer",
        "conversation/take_back",
        "conversation/interrupt",
        "conversation/compact",
        "conversation/list",
        "conversation/history",
        "conversation/tools",
        "conversation/fork",
        "conversation/merge",
        "conversation/close",
        "task/list",
        "task/get",
        "task/cancel",
        "approval/list",
        "approval/get",
        "approval/resolve",
        "approval/grants",
        "approval/revoke",
        "checkpoint/list",
        "checkpoint/diff",
        "checkpoint/restore",
        "rights/explain",
        "mcp/status",
        "mcp/refresh",
        "canvas/get",
        "canvas/list",
        "canvas/clear",
        "internal/validate_token",
        "internal/call",
        "metrics/get",
        "record/list",
        "record/outline",
        "record/page",
        "record/board",
        "record/prompt",
        "record/search",
        "record/fork",
        "record/delete",
    ]


# ---- parameters


@each_row("name", ["", "nonsense", "conversation", "Conversation/open", "conversation/open ", "x" * 10_000])
async def test_an_unknown_operation_is_named(name: str) -> None:
    async with client_stage() as on:
        with pytest.raises(MethodNotFoundError) as refusal:
            await on(name)
        assert len(refusal.value.message) < 200


@each_row("name", sorted(OPERATIONS))
async def test_every_operation_refuses_a_field_that_it_does_not_know_by_name(name: str) -> None:
    """Bad input: unknown fields are refused by name, and nothing happens."""
    async with client_stage() as on:
        seq = on.session.parts.bus.last_seq
        required = {"conversation_id": "root", "task_id": "t", "text": "x"}
        fields = {f: required[f] for f in OPERATIONS[name].kind.__struct_fields__ if f in required}
        with pytest.raises(InvalidParamsError, match="bananas"):
            await on(name, bananas=3, **fields)
        assert on.session.parts.bus.last_seq == seq
        assert len(on.host) == 1


@each_row("name", sorted(n for n in OPERATIONS if n.startswith(("conversation/", "task/"))))
async def test_what_is_addressed_must_be_there(name: str) -> None:
    fields = OPERATIONS[name].kind.__struct_fields__
    async with client_stage() as on:
        params = {"text": "x"} if name in ("conversation/message", "conversation/steer") else {}
        if "conversation_id" in fields:
            with pytest.raises(InvalidParamsError, match="conversation_id"):
                await on(name, **params)
            with pytest.raises(InvalidParamsError):
                await on(name, conversation_id=5, **params)
            with pytest.raises(NotFoundError):
                await on(name, conversation_id="nobody", **params)
        if "task_id" in fields:
            with pytest.raises(NotFoundError):
                await on(name, task_id="nobody", **({"conversation_id": "root"} if "conversation_id" in fields else {}))


async def test_both_spellings_are_accepted_one_at_a_time() -> None:
    async with client_stage("ok") as on:
        assert (await on("conversation/message", conversationId="root", text="hi"))["status"] == "completed"
        with pytest.raises(InvalidParamsError, match="twice"):
            await on("conversation/message", conversationId="root", conversation_id="root", text="hi")


# ---- sessions


async def test_sessions_are_started_listed_and_addressed_by_id() -> None:
    async with client_stage(say("ok", repeat=True)) as on:
        started = await on("session/start")
        assert [s["session_id"] for s in (await on("session/list"))["sessions"]] == [
            on.session.id,
            started["session_id"],
        ]
        other = started["session_id"]
        assert (await on("session/info", session_id=other))["session_id"] == other
        assert (await on("session/info"))["session_id"] == on.session.id
        reply = await on("conversation/message", sessionId=other, conversation_id="root", text="hi")
        assert reply["status"] == "completed"
        assert await on("conversation/history", conversation_id="root") == {"entries": []}
        assert await on("session/close", session_id=other) == {"closed": True, "already_closed": False, "forced": False}
        with pytest.raises(ClosedError):
            await on("session/info", session_id=other)
        with pytest.raises(NotFoundError):
            await on("session/info", session_id="nobody")
        for bad in (5, ["x"], {}):
            with pytest.raises(InvalidParamsError):
                await on("session/info", session_id=bad)


async def test_a_client_can_narrow_its_session_and_never_widen_it(tmp_path: Path) -> None:
    """S000-16: what a server was started with is the most that a client gets; told under `narrowed`."""
    async with client_stage(
        sandbox="workspace-write", storage_policy="headers_only", limits={"max_conversations": 5}
    ) as on:
        info = await on(
            "session/start",
            sandbox="danger-full-access",
            network=True,
            storage_policy="full",
            approval_policy="untrusted",
            limits={"max_conversations": 50},
            cwd=str(tmp_path),
        )
        assert info["policy"] == {
            "approval": "untrusted",
            "sandbox": "workspace-write",
            "network": False,
            "storage": "headers_only",
        }
        assert {cut["field"] for cut in info["narrowed"]} == {"sandbox", "network", "storage_policy", "limits"}
        child = on.host[info["session_id"]]
        assert (await child.root.context()).limits["max_conversations"] == 5


async def test_writable_roots_do_not_grow_above_the_workspace(tmp_path: Path) -> None:
    async with client_stage(cwd=str(tmp_path)) as on:
        info = await on("session/start", writable_roots=["/", str(tmp_path / "x")])
        rights = on.host[info["session_id"]].parts.settings.rights
        assert all(root.startswith(str(tmp_path)) for root in rights.writable_roots or ())


@each_row("bad", [{"model": 5}, {"sandbox": "open"}, {"limits": {"x": 1}}, {"model": "nobody/knows"}])
async def test_a_session_that_cannot_be_started_is_not(bad: dict[str, Any]) -> None:
    async with client_stage() as on:
        with pytest.raises(InvalidParamsError):
            await on("session/start", **bad)
        assert len(on.host) == 1


async def test_closing_a_session_twice_says_so() -> None:
    """X-71, S002-48: idempotent."""
    async with client_stage() as on:
        assert (await on("session/close"))["already_closed"] is False
        assert (await on("session/close"))["already_closed"] is True
        with pytest.raises(ClosedError):
            await on("conversation/message", conversation_id="root", text="hi")
        with pytest.raises(ClosedError):
            await on("conversation/open")


async def test_a_session_that_was_closed_can_be_closed_again_by_its_id() -> None:
    async with client_stage() as on:
        other = (await on("session/start"))["session_id"]
        assert (await on("session/close", session_id=other))["already_closed"] is False
        assert (await on("session/close", session_id=other))["already_closed"] is True
        with pytest.raises(NotFoundError):
            await on("session/close", session_id="nobody")


async def test_whose_own_session_is_closed_can_start_another() -> None:
    async with client_stage("ok") as on:
        await on("session/close")
        other = (await on("session/start"))["session_id"]
        assert [s["session_id"] for s in (await on("session/list"))["sessions"]] == [other]
        reply = await on("conversation/message", session_id=other, conversation_id="root", text="hi")
        assert reply["status"] == "completed"


# ---- conversations


async def test_open_answers_with_the_effective_context() -> None:
    """S000-33, S000-36, S002-46: built in the same request, before the response."""
    async with client_stage(sandbox="read-only") as on:
        opened = await on("conversation/open", baseInstructions="Be kind.", sandbox="workspace-write", title="t")
        assert set(opened) == {"conversation_id", "context", "narrowed", "warnings"}
        assert opened["context"]["base_instructions"] == "Be kind."
        assert [(c["field"], c["asked"], c["given"], c["because"]) for c in opened["narrowed"]] == [
            ("sandbox", "workspace-write", "read-only", "session")
        ]
        changed = await on(
            "conversation/set_context", conversation_id=opened["conversation_id"], base_instructions=None
        )
        assert changed["conversation_id"] == opened["conversation_id"]
        assert changed["context"]["base_instructions"] is None
        context = await on("conversation/context", conversation_id=opened["conversation_id"])
        assert context == changed["context"]


async def test_a_list_has_the_root_first_then_by_creation() -> None:
    """S004-07: deterministic order."""
    async with client_stage() as on:
        ids = [(await on("conversation/open", title=f"t{n}"))["conversation_id"] for n in range(3)]
        listed = (await on("conversation/list"))["conversations"]
        assert [c["id"] for c in listed] == [on.session.root.id, *ids]
        assert set(listed[1]) == {
            "id",
            "parent_id",
            "title",
            "status",
            "depth",
            "message_count",
            "last_active_at",
            "model",
            "backend",
        }
        assert (listed[1]["parent_id"], listed[1]["depth"], listed[0]["parent_id"]) == (on.session.root.id, 1, None)


async def test_a_message_is_answered_with_its_statistics() -> None:
    """S002-47; DESIGN, Shapes."""
    async with client_stage("hello", fail("no luck")) as on:
        done = await on.done("conversation/message", conversation_id="root", text="hi")
        answer = msgspec.to_builtins(done.answer)
        assert set(answer) == {
            "task_id",
            "status",
            "last_assistant_message",
            "usage",
            "tool_calls",
            "duration_ms",
            "trace_id",
        }
        assert (answer["status"], answer["last_assistant_message"]) == ("completed", "hello")
        assert set(answer["usage"]) == {
            "input_tokens",
            "cached_input_tokens",
            "output_tokens",
            "reasoning_output_tokens",
            "total_tokens",
        }
        assert done.after_seq == on.session.parts.bus.last_seq
        failed = await on("conversation/message", conversation_id="root", text="hi")
        assert (failed["status"], failed["error"]) == ("failed", {"code": "model_error", "message": "no luck"})


async def test_a_message_can_be_left_to_itself() -> None:
    """`detach`: {task_id} at once; the task goes on and can be asked for."""
    async with client_stage(say("at last", gate=(gate := asyncio.Event()))) as on:
        left = await on("conversation/message", conversation_id="root", text="hi", detach=True, message_id="m")
        assert set(left) == {"task_id"}
        task_id = left["task_id"]
        assert (await on("task/get", task_id=task_id))["status"] in ("queued", "running")
        await ticks()
        assert (await on("task/get", task_id=task_id))["status"] == "running"
        # Somebody who waits for it and gives up does not stop it.
        waiting = asyncio.create_task(on("conversation/message", conversation_id="root", text="hi", message_id="m"))
        await ticks()
        waiting.cancel()
        await asyncio.wait((waiting,))
        gate.set()
        answer = await on("conversation/message", conversation_id="root", text="hi", message_id="m")
        assert (answer["task_id"], answer["last_assistant_message"]) == (task_id, "at last")
        assert len(on.model.requests) == 1


async def test_steer_interrupt_and_compact_answer_as_promised() -> None:
    async with client_stage(say("never", gate=asyncio.Event())) as on:
        with pytest.raises(NotRunningError):
            await on("conversation/steer", conversation_id="root", text="faster")
        assert await on("conversation/interrupt", conversation_id="root") == {"interrupted": False}
        running = asyncio.create_task(on("conversation/message", conversation_id="root", text="hi"))
        await ticks()
        assert await on("conversation/steer", conversation_id="root", text="faster") == {}
        with pytest.raises(BusyError):
            await on("conversation/message", conversation_id="root", text="now?", if_busy="fail")
        assert await on("conversation/interrupt", conversation_id="root") == {"interrupted": True}
        assert (await running)["status"] == "interrupted"
        compacted = await on("conversation/compact", conversation_id="root")
        assert set(compacted) == {"compacted", "before_tokens", "after_tokens", "reason"}
        assert compacted["compacted"] is False


async def test_history_tools_and_fork() -> None:
    async with client_stage("hello") as on:
        await on("conversation/message", conversation_id="root", text="hi")
        entries = (await on("conversation/history", conversation_id="root"))["entries"]
        assert entries == [
            {"role": "user", "attachments": [], "text": "hi"},
            {"role": "assistant", "attachments": [], "text": "hello"},
        ]
        for limit in (0, -1, 1.5, "two", True):
            with pytest.raises(InvalidParamsError):
                await on("conversation/history", conversation_id="root", limit=limit)
        tools = await on("conversation/tools", conversation_id="root")
        assert [tool["name"] for tool in tools["tools"]] == [*BUILT_IN, *CONV_TOOLS]
        assert tools["cache_key"] == on.model.last_request.cache_key
        fork = await on("conversation/fork", conversation_id="root", at=1)
        assert (await on("conversation/history", conversation_id=fork["conversation_id"]))["entries"] == entries


async def test_closing_a_conversation_twice_says_so_and_the_root_stays() -> None:
    """X-71, S002-48; DESIGN: closing root → invalid_params."""
    async with client_stage("ok") as on:
        opened = await on("conversation/open")
        conversation_id = opened["conversation_id"]
        first = await on("conversation/close", conversation_id=conversation_id, timeout_s=1)
        again = await on("conversation/close", conversation_id=conversation_id)
        assert first == {"closed": True, "already_closed": False, "forced": False}
        assert again == {"closed": True, "already_closed": True, "forced": False}
        for root in ("root", on.session.root.id):
            with pytest.raises(InvalidParamsError, match="root"):
                await on("conversation/close", conversation_id=root)
        assert (await on("conversation/message", conversation_id="root", text="hi"))["status"] == "completed"


# ---- tasks


async def test_tasks_are_listed_asked_for_and_cancelled_wherever_they_are() -> None:
    """S002-09: queued and running."""
    async with client_stage(say("never", gate=asyncio.Event()), "second") as on:
        running = asyncio.create_task(on("conversation/message", conversation_id="root", text="1"))
        waiting = asyncio.create_task(on("conversation/message", conversation_id="root", text="2"))
        third = asyncio.create_task(on("conversation/message", conversation_id="root", text="3"))
        await ticks()
        tasks = (await on("task/list"))["tasks"]
        assert [(t["status"], t["kind"], t["chain"]) for t in tasks] == [
            ("running", "user", [on.session.root.id]),
            ("queued", "user", [on.session.root.id]),
            ("queued", "user", [on.session.root.id]),
        ]
        assert tasks[0]["started_at"]
        assert await on("task/get", task_id=tasks[1]["task_id"]) == tasks[1]
        assert await on("task/cancel", task_id=tasks[1]["task_id"]) == {"cancelled": True}
        assert (await waiting)["status"] == "interrupted"
        assert await on("task/cancel", task_id=tasks[0]["task_id"]) == {"cancelled": True}
        assert await on("task/cancel", taskId=tasks[0]["task_id"]) == {"cancelled": False}
        assert ((await running)["status"], (await third)["status"]) == ("interrupted", "completed")
        ended = await on("task/get", task_id=tasks[2]["task_id"])
        assert (ended["status"], ended["last_assistant_message"]) == ("completed", "second")
        assert await on("task/cancel", task_id=tasks[2]["task_id"]) == {"cancelled": False}
        assert (await on("task/list")) == {"tasks": []}


async def test_a_task_whose_chain_goes_on_is_still_running() -> None:
    """A client that detached knows only the first task's id; while a target speaks it can ask and cancel by it."""
    replies: list[Any] = []
    model = ScriptedModel([lambda request: replies.pop(0)], repeat=True)
    async with client_stage(model=model, tools=[Ask()]) as on:
        other = (await on("conversation/open"))["conversation_id"]
        replies += [say("", tool_call("ask", {"to": other}, "c1")), say("never", gate=asyncio.Event())]
        left = await on("conversation/message", conversation_id="root", text="go", detach=True)
        while len(model.requests) < 2:
            await ticks(1)
        (running,) = (await on("task/list"))["tasks"]
        assert (running["kind"], running["conversation_id"]) == ("target", other)
        assert running["chain"] == [on.session.root.id, other]
        first = await on("task/get", task_id=left["task_id"])
        assert (first["status"], first["task_id"]) == ("running", left["task_id"])
        assert first["chain"] == [on.session.root.id, other]
        assert await on("task/cancel", task_id=left["task_id"]) == {"cancelled": True}
        while (await on("task/get", task_id=left["task_id"]))["status"] == "running":
            await ticks(1)
        assert (await on("task/get", task_id=left["task_id"]))["status"] == "interrupted"


async def test_a_running_message_blocks_no_other_operation() -> None:
    """Issue 3, 4: list, interrupt, close and the rest answer while a task runs."""
    async with client_stage(say("never", gate=asyncio.Event())) as on:
        running = asyncio.create_task(on("conversation/message", conversation_id="root", text="hi"))
        await ticks()
        other = (await on("conversation/open"))["conversation_id"]
        for name in ("list", "context", "history", "tools"):
            params = {} if name == "list" else {"conversation_id": other}
            assert await on(f"conversation/{name}", **params)
        await on("conversation/set_context", conversation_id="root", title="still running")
        await on("conversation/close", conversation_id=other)
        assert not running.done()
        await on("conversation/interrupt", conversation_id="root")
        assert (await running)["status"] == "interrupted"


async def test_a_directory_that_a_client_names_is_not_writable_for_having_been_named(tmp_path: Path) -> None:
    """A8: only as far as the server's own directory, or the roots that its owner set, go."""
    inside, outside = tmp_path / "own" / "project", tmp_path / "other"
    inside.mkdir(parents=True)
    outside.mkdir()

    async def roots(on: ClientStage, **fields: Any) -> tuple[str, ...] | None:
        info = await on("session/start", **fields)
        return on.host[info["session_id"]].parts.settings.rights.writable_roots

    async with client_stage(cwd=str(tmp_path / "own")) as on:
        assert await roots(on) is None
        assert await roots(on, cwd=str(inside)) == (str(inside),)
        assert await roots(on, cwd=str(outside)) == ()
        assert await roots(on, cwd=str(outside), writable_roots=["/"]) == (str(tmp_path / "own"),)
        with pytest.raises(InvalidParamsError, match="cwd"):
            await on("session/start", cwd="relative")
    async with client_stage(cwd=str(tmp_path / "own"), writable_roots=[str(outside)]) as on:
        assert await roots(on, cwd=str(inside)) == (str(outside),)


async def test_approvals_are_listed_answered_and_taken_back(tmp_path: Path) -> None:
    """Issue 7: the same request can be answered from every surface."""
    need("bubblewrap")
    touch = tool_call("shell", {"command": ["touch", "made"]})
    async with client_stage(touch, "Done.", cwd=str(tmp_path), approval_policy="untrusted") as on:
        (await on("conversation/message", conversation_id="root", text="go", detach=True))["task_id"]
        news = on.session.events(after=0, attend=True)
        event = await anext(event async for event in news if event.type == "approval_request")
        (waiting,) = (await on("approval/list"))["approvals"]
        assert waiting == msgspec.to_builtins(event.data)
        assert (await on("approval/list", conversation_id="root"))["approvals"] == [waiting]
        with pytest.raises(NotFoundError):
            await on("approval/list", conversation_id="nowhere")
        for bad in ({"decision": "maybe"}, {"decision": "allow", "scope": "always"}, {"decision": "allow", "x": 1}):
            with pytest.raises(InvalidParamsError):
                await on("approval/resolve", approval_id=waiting["approval_id"], **bad)
        with pytest.raises(NotFoundError):
            await on("approval/resolve", approval_id="nothing", decision="allow")
        assert len((await on("approval/list"))["approvals"]) == 1
        answer = {"approval_id": waiting["approval_id"], "decision": "allow", "scope": "session", "ttlS": 60}
        assert await on("approval/resolve", **answer) == {"resolved": True, "scope": "session"}
        assert await on("approval/resolve", **answer) == {"resolved": False}
        assert (await on("approval/list"))["approvals"] == []
        await anext(event async for event in news if event.type == "task_complete")
        assert (tmp_path / "made").exists()
        (grant,) = (await on("approval/grants"))["grants"]
        assert (grant["kind"], grant["scope"], grant["matches"]) == ("exec", "session", waiting["matches"])
        assert await on("approval/revoke", grant_id=grant["grant_id"]) == {"revoked": True}
        assert await on("approval/revoke", grant_id=grant["grant_id"]) == {"revoked": False}
        assert (await on("approval/grants"))["grants"] == []
