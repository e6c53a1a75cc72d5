"""A5: looking is not attending. Who answers approvals says so; who only follows is never taken for an approver."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.session.approvals.callback import ApprovalDecision
from tertulia.testing import ScriptedModel, call
from tests.contract.app_server import DEADLINE_S, Refused, Server, serving
from tests.contract.wire import Published
from tests.deadlines import QuietTime
from tests.sandbox.confined import need

TOUCH = {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}]}
WAYS = ("initialize {attend: true}", "events/subscribe {attend: true}", "on_approval", "approver=True")


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


def settings_in(folder: Path, *replies: Any, **settings: Any) -> tertulia.Settings:
    script = replies or (call("shell", {"command": ["touch", "made"]}), "Done.")
    return tertulia.Settings(
        model=ScriptedModel(list(script)), approval_policy="untrusted", cwd=str(folder), **settings
    )


async def refusal(server: Server) -> dict[str, Any]:
    """The message that says what to do instead, of a call that was refused at once."""
    assert (await server.say("go"))["last_assistant_message"] == "Done."
    assert not [event for event in server.events if event["type"] == "approval_request"]
    output: dict[str, Any] = json.loads((await server.event("tool_call_end"))["data"]["output"])
    assert output["code"] == "no_approver"
    return output


def stored(folder: Path) -> set[str]:
    """The sessions on the disk."""
    return {path.name for path in (folder / "home").rglob("sessions/*.db")}


# ── over JSON-RPC ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_that_only_listens_is_not_asked_and_the_refusal_says_how_to_attend(tmp_path: Path) -> None:
    """A5, B9: `initialize` and `events/subscribe` without `attend` are looking."""
    async with serving(tmp_path, [TOUCH, "Done."], "-a", "untrusted", attend=False) as server:
        await server.call("events/subscribe", after_seq=0)
        output = await refusal(server)
        assert all(way in output["reason"] for way in WAYS)
        assert not (tmp_path / "made").exists()
        assert (await server.call("approval/list"))["approvals"] == []


@pytest.mark.parametrize("declared", ["initialize", "subscribe"])
async def test_a_client_that_declares_it_is_asked(tmp_path: Path, declared: str) -> None:
    """A5"""
    async with serving(tmp_path, [TOUCH, "Done."], "-a", "untrusted", attend=declared == "initialize") as server:
        if declared == "subscribe":
            await server.call("events/subscribe", attend=True)
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        request = (await server.event("approval_request"))["data"]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        assert (await server.answer(message))["status"] == "completed"
        assert (tmp_path / "made").exists()


async def test_a_subscription_can_take_it_back_and_reaches_as_far_as_it_listens(tmp_path: Path) -> None:
    """A5: a narrower subscription keeps what `initialize` declared, for what shows in it."""
    async with serving(tmp_path, [TOUCH, "Done.", TOUCH, "Done."], "-a", "untrusted") as server:
        await server.call("events/subscribe", attend=False)
        await refusal(server)
        other = (await server.call("conversation/open"))["conversation_id"]
        await server.call("events/subscribe", conversation_id=other)
        assert (await server.say("go"))["status"] == "completed"
        await server.call("events/subscribe", after_seq=0)
        await server.call("approval/list")
        assert not [event for event in server.events if event["type"] == "approval_request"]
        assert not (tmp_path / "made").exists()


async def test_an_observer_makes_no_session_and_says_which_one_it_means(tmp_path: Path) -> None:
    """A5: three looks made three stored sessions."""
    published = Published()
    async with serving(tmp_path, [TOUCH, "Done."], "-a", "untrusted", hello=False) as server:
        with pytest.raises(Refused) as both:
            await server.call("initialize", observe=True, session_id="5c7ae9e2-5c50-4d8e-8a5f-4ce2eb2e7d7a")
        assert both.value.code == "invalid_params"
        seen = await published.call(server, "initialize", client={"name": "board"}, observe=True)
        assert (seen["session_id"], seen["server"]["name"]) == (None, "tertulia")
        assert (await server.call("session/list"))["sessions"] == []
        for method, params in (
            ("session/info", {}), ("events/subscribe", {}), ("conversation/open", {}), ("approval/list", {}),
            ("conversation/message", {"conversation_id": "root", "text": "hi"}), ("session/close", {}),
        ):  # fmt: skip
            with pytest.raises(Refused) as refused:
                await server.call(method, **params)
            assert refused.value.code == "invalid_params", method
            assert "session_id is missing" in refused.value.message, method
        with pytest.raises(Refused) as again:
            await server.call("initialize")
        assert again.value.number == -32600
        assert not stored(tmp_path)
        # It can begin one, and is asked there only as it says.
        session = (await server.call("session/start"))["session_id"]
        named = {"session_id": session, "conversation_id": "root"}
        assert (await server.call("conversation/message", **named, text="go"))["status"] == "completed"
        output = json.loads((await server.event("tool_call_end"))["data"]["output"])
        assert output["code"] == "no_approver"
        assert len(stored(tmp_path)) == 1


async def test_wrong_declarations_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    """A5: a word that is no yes or no."""
    async with serving(tmp_path, ["Done."], hello=False) as server:
        for wrong in ({"attend": "yes"}, {"observe": 1}, {"attending": True}):
            with pytest.raises(Refused) as refused:
                await server.call("initialize", **wrong)
            assert refused.value.code == "invalid_params"
        with pytest.raises(Refused) as early:
            await server.call("session/list")
        assert early.value.code == "not_initialized"
        assert not stored(tmp_path)


# ── in Python ────────────────────────────────────────────────────────────────────────────────────────────────


async def ended(session: tertulia.Session, **how: Any) -> dict[str, Any]:
    """What the call came to, followed by a stream."""
    ends = [event.data async for event in session.root.stream("go", **how) if event.type == "tool_call_end"]
    return json.loads(ends[0].output) if not ends[0].success else {"code": "ran"}


async def test_a_stream_and_events_alone_answer_nothing(tmp_path: Path) -> None:
    """A5"""
    async with (
        asyncio.timeout(DEADLINE_S),
        tertulia.Session.start(settings_in(tmp_path)) as session,
        session.events(after=0),
    ):
        assert (await ended(session))["code"] == "no_approver"
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("way", ["stream", "events"])
async def test_a_reader_that_declares_it_answers_by_hand(tmp_path: Path, way: str) -> None:
    """A5"""
    async with asyncio.timeout(DEADLINE_S), tertulia.Session.start(settings_in(tmp_path)) as session:
        attending = session.events(attend=way == "events")
        async with attending, asyncio.TaskGroup() as group:
            task = group.create_task(ended(session, approver=way == "stream"))
            async for event in attending:
                if event.type == "approval_request":
                    await session.approvals.resolve(event.data["approval_id"], "allow")
                    break
        assert task.result()["code"] == "ran"
        assert (tmp_path / "made").exists()


async def _async_yes(request: ApprovalRequest) -> ApprovalDecision:
    return {"decision": "allow", "scope": "session"} if request.kind == "exec" else "deny"


def _plain_yes(request: ApprovalRequest) -> ApprovalDecision:
    assert threading.current_thread() is not threading.main_thread()
    return "allow"


@pytest.mark.parametrize("handler", [_async_yes, _plain_yes])
async def test_a_function_answers_from_the_start_and_again_after_a_resume(
    tmp_path: Path, handler: Callable[[Any], Any]
) -> None:
    """A5: `Session.start(on_approval=…)` and `Session.resume(…, on_approval=…)`."""
    async with asyncio.timeout(DEADLINE_S):
        async with tertulia.Session.start(settings_in(tmp_path), on_approval=handler) as session:
            assert (await session.root.message("go")).text == "Done."
            assert (tmp_path / "made").exists()
        (tmp_path / "made").unlink()
        async with tertulia.Session.resume(session.id, settings_in(tmp_path), on_approval=handler) as again:
            assert (await again.root.message("go")).text == "Done."
            assert (tmp_path / "made").exists()


async def _raises(request: Any) -> Any:
    raise RuntimeError("canary-of-the-callback")


async def _hangs(request: Any) -> Any:
    await asyncio.get_running_loop().create_future()


def _says_nothing(request: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("handler", "why"),
    [(_raises, "failed: RuntimeError"), (_hangs, "did not answer in time"), (_says_nothing, "no answer that can be")],
)
async def test_a_function_that_fails_is_a_no_that_is_told_and_the_session_goes_on(
    tmp_path: Path, handler: Callable[[Any], Awaitable[Any]], why: str
) -> None:
    """A5: never a yes, never a task that hangs, never the words of an exception in what the model reads."""
    settings = settings_in(
        tmp_path, call("shell", {"command": ["touch", "made"]}), "Done.", "Still here.", approval_timeout_s=0.2
    )
    async with asyncio.timeout(DEADLINE_S), tertulia.Session.start(settings, on_approval=handler) as session:
        news = session.events(after=0)
        output = await ended(session)
        assert output["code"] == "approval_denied"
        assert "canary" not in json.dumps(output)
        assert (await session.root.message("and now?")).text == "Still here."
        assert not (tmp_path / "made").exists()
        async for event in news:
            if event.type == "warning" and event.data["code"] == "on_approval":
                assert why in event.data["message"]
                break


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_session_closes_although_its_function_never_answers(tmp_path: Path, kind: str) -> None:
    """A5: a hanging callback is bounded by close."""
    held, reached = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def waits(request: Any) -> Any:
        loop.call_soon_threadsafe(reached.set)
        held.wait(DEADLINE_S)
        return "allow"

    async def waits_async(request: Any) -> Any:
        reached.set()
        await loop.create_future()

    handler = waits if kind == "plain" else waits_async
    try:
        async with asyncio.timeout(DEADLINE_S):
            async with tertulia.Session.start(settings_in(tmp_path), on_approval=handler) as session:
                asking = asyncio.ensure_future(session.root.message("go"))
                await reached.wait()
                time_taken = QuietTime()
                await session.close(timeout=2)
            assert time_taken.seconds < 5
            assert (await asking).status == "interrupted"
    finally:
        held.set()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("wrong", ["allow", 1, object()])
def test_what_is_no_function_is_refused_before_anything_starts(wrong: Any) -> None:
    """A5: not at the first request."""
    with pytest.raises(tertulia.errors.InvalidParamsError, match="must be a function"):
        tertulia.Session.start(tertulia.Settings(), on_approval=wrong)
    with pytest.raises(tertulia.errors.InvalidParamsError, match="must be a function"):
        tertulia.Session.resume("5c7ae9e2-5c50-4d8e-8a5f-4ce2eb2e7d7a", on_approval=wrong)
