"""Which cut tasks go on, and with which rights: hints of MCP servers, agents, policies, backends, clients (26-2)."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.conversation.cut_task import UNKNOWN
from tertulia.protocol.storage import Ttl
from tertulia.server import cut_tasks
from tertulia.server.cut_tasks import continue_cut_tasks
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.testing import FakeClock, ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.executors.acp_stage import acp_table
from tests.scheduler.cut_sessions import (
    Gate,
    cut_in_call,
    hold_to_one_end,
    next_life,
    of,
    outputs,
    settings,
    unfinished,
)
from tests.server.client import Client
from tests.session.lives import Lives, durable_events, until

SERVER = str(Path(__file__).with_name("counting_server.py"))


async def reached(done: Callable[[], bool]) -> None:
    """Wait until another process has come to that."""
    for _ in range(round(HANG_S * 100)):
        if done():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


# ---- MCP servers


async def test_a_call_of_a_server_runs_again_only_by_its_hint(lives: Lives, tmp_path: Path) -> None:
    """26-2: readOnlyHint or idempotentHint of a server that the user configured; a real server of the SDK."""
    names = ["idempotent", "reading", "plain"]
    effects = tmp_path / "effects"
    table = {"command": sys.executable, "args": [SERVER, str(tmp_path)], "approval": "approve", "parallel": True}
    using: dict[str, Any] = {"mcp_servers": {"here": {**table, "required": True, "startup_timeout_sec": HANG_S}}}
    calls = [call(f"here__{name}", {}, name) for name in names]
    (tmp_path / "hold").touch()
    async with Session.start(settings(ScriptedModel([say("", *calls), "never said"]), **using)) as session:
        message = await unfinished(session)
        await reached(lambda: effects.exists() and len(effects.read_text().split()) == 3)
        await session.activity.flush()
        lives.die()
        (tmp_path / "hold").unlink()
        await message
    async with next_life(session.id, settings(ScriptedModel(["done"]), **using)) as again:
        assert (await again.root.message("go", message_id="m")).text == "done"
        assert outputs(again) == ["did idempotent", "did reading", UNKNOWN]
        hold_to_one_end(again)
    assert Counter(effects.read_text().split()) == {"idempotent": 2, "reading": 2, "plain": 1}


# ---- who asks for it


async def test_an_agent_has_a_term_of_its_own(lives: Lives) -> None:
    """26-2: setting and term of a conversation; here nobody else asks for it, and only the agent's task goes on."""
    gate = Gate()

    def respond(request: Any) -> Any:
        return "done" if request.last_input.startswith("did") else call("mark", {"what": request.last_input}, "c1")

    def using() -> tertulia.Settings:
        return settings(ScriptedModel([respond], repeat=True), gate, on_restart=None, slots=2)

    async with Session.start(using()) as session:
        fields = {"name": "ada", "archetype": "employee"}
        agent = await session.open(agent=fields, on_restart="continue")
        assert [one.details.rights.on_restart for one in (agent, session.root)] == ["continue", "close"]
        messages = [asyncio.ensure_future(one.message("go", message_id="m")) for one in (session.root, agent)]
        await until(lambda: len(gate.reached) == 2)
        await session.activity.flush()
        lives.die()
        gate.open.set()
        await asyncio.gather(*messages)
    async with next_life(session.id, using()) as again:
        (submission,) = again.activity.continued
        assert (await submission.reply()).text == "done"
        (there,) = [one for one in again.conversations() if one.id != again.root.id]
        assert (outputs(again, there), gate.effects["go"]) == (["did go"], 3)
        assert "outcome unknown" in outputs(again)[0]
        hold_to_one_end(again)


async def test_rights_are_the_meet_of_what_they_were_and_what_is_allowed_now(lives: Lives, tmp_path: Path) -> None:
    """26-2: the call that had not begun runs with the narrower of both, whichever life that comes from."""
    for number, (then, now) in enumerate((("danger-full-access", "read-only"), ("read-only", "danger-full-access"))):
        gate = Gate()
        path = tmp_path / f"made-{number}"
        calls = [call("mark", {"what": "x"}, "c1"), call("shell", {"command": ["touch", str(path)]}, "c2")]
        id = await cut_in_call(lives, gate, *calls, sandbox=then)
        # The life that was copied went on, and ran it.
        path.unlink(missing_ok=True)
        async with next_life(id, settings(ScriptedModel(["done"]), gate, sandbox=now)) as again:
            assert again.root.details.rights.sandbox == "read_only"
            assert (await again.root.message("go", message_id="m")).text == "done"
            assert outputs(again)[0] == "did x"
            hold_to_one_end(again)
        assert not path.exists(), (then, now)


# ---- what cannot go on


@pytest.mark.parametrize(("later", "goes_on"), [(10.0, True), (61.0, False)])
async def test_texts_of_a_ttl_that_have_expired_close_the_task_and_that_is_said(
    lives: Lives, later: float, goes_on: bool
) -> None:
    """26-2: what it was asked is not there any more."""
    gate, clock = Gate(), FakeClock(1_000_000.0)
    model = ScriptedModel([say("I begin", call("mark", {"what": "x"}, "c1")), "never said"])
    fields: dict[str, Any] = {"storage_policy": Ttl(60)}
    async with Session.start(settings(model, gate, **fields), clock=clock) as session:
        assert session.root.details.rights.on_restart == "continue"
        message = await unfinished(session)
        await until(lambda: bool(gate.reached))
        await session.activity.flush()
        lives.die()
        gate.open.set()
        await message
    now = FakeClock(1_000_000.0 + later)
    async with next_life(session.id, settings(ScriptedModel(["done"]), gate, **fields), clock=now) as again:
        assert len(again.activity.continued) == goes_on
        warnings = [e.data.code for e in of(durable_events(again), "warning")]  # type: ignore[union-attr]
        assert ("cannot_continue" in warnings) is not goes_on
        for submission in again.activity.continued:
            assert (await submission.reply()).text == "done"
        hold_to_one_end(again)


async def test_a_session_that_keeps_no_texts_says_when_it_opens_that_it_cannot_go_on() -> None:
    """26-2: said when it is opened; by the session's own policy as well as by a conversation's."""
    async with Session.start(settings(ScriptedModel(["hi"]), storage_policy="headers_only")) as session:
        cuts = [(cut.field, cut.given, cut.because) for cut in (await session.root.context()).narrowed]
        assert ("on_restart", "close", "storage_policy") in cuts


async def test_an_acp_agent_that_was_at_work_is_not_asked_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """26-2: what it has done is not known; the caller is told so and decides."""
    monkeypatch.setenv("HOME", str(tmp_path))
    plans: list[Any] = []
    with_agent: dict[str, Any] = {"acp": {"fake": acp_table()}, "sandbox": "danger-full-access"}
    model = ScriptedModel([lambda request: plans.pop(0)], repeat=True)
    async with Session.start(settings(model, **with_agent)) as session:
        agent = await session.open(backend="acp:fake")
        pid = tmp_path / "pid"
        plans += [call("conv_send", {"conversation_id": agent.id, "text": f"hang {pid}"}, "c1"), "x"]
        message = await unfinished(session)
        await reached(pid.exists)
        await session.activity.flush()
        lives.die()
        await session.root.interrupt()
        await message
    pid.unlink()
    async with next_life(session.id, settings(ScriptedModel(["I look"]), **with_agent)) as again:
        assert (await again.root.message("go", message_id="m")).text == "I look"
        assert ("outcome_unknown" in outputs(again)[0], UNKNOWN in outputs(again)[0]) == (True, True)
        hold_to_one_end(again)
    assert not pid.exists(), "it was asked again"


# ---- clients and servers


async def test_a_connection_resumes_with_what_goes_on_and_asks_again_under_the_same_message_id(lives: Lives) -> None:
    """26-2: `session/resume {continue_tasks}`; without it the task is closed, and the message may be sent anew."""
    gate = Gate()
    id = await cut_in_call(lives, gate, call("mark", {"what": "x"}, "c1"))
    client = Client(host := Host(settings(ScriptedModel(["seven"]), gate)))
    try:
        await client.initialize()
        await client.call("session/resume", session_id=id, continue_tasks=True)
        about = {"session_id": id, "conversation_id": "root", "message_id": "m"}
        reply = await client.call("conversation/message", text="go", **about)
        assert (reply["last_assistant_message"], gate.effects["x"]) == ("seven", 2)
        assert [event["data"]["attempt"] for event in client.events(id) if event["type"] == "task_continued"] == [1]
        again = await client.call("conversation/message", text="go", **about)
        assert (again["task_id"], gate.effects["x"]) == (reply["task_id"], 2)
    finally:
        await client.connection.close(5)
        await host.close(5)


async def test_a_server_continues_no_more_sessions_than_it_may_and_says_how_far_it_is(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """26-2: `serve` at its start, bounded and with a line of progress; the newest first."""
    gate = Gate()
    ids = [await cut_in_call(lives, gate, call("mark", {"what": "x"}, "c1"))]
    gate.open.clear()
    ids.append(await cut_in_call(lives, gate, call("mark", {"what": "x"}, "c1")))
    monkeypatch.setattr(cut_tasks, "MAX_SESSIONS", 1)
    lines: list[str] = []
    host = Host(settings(ScriptedModel(["done"]), gate))
    try:
        await continue_cut_tasks(host, lives.home, lines.append)
        assert lines == [
            f"1/2 session {ids[1]}: 1 go on",
            "tasks that a crash cut go on: 1 in 1 of 1 sessions; 1 more is left: `tertulia resume ID --continue`",
        ]
        (session,) = host.sessions
        assert (await session.activity.continued[0].reply()).text == "done"
    finally:
        await host.close()
