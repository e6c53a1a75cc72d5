"""The surfaces for other programs under attack: each route is behind the guard, and what clients leave is bounded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tertulia.models.scripted.script import call, say
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.session.settings.settings import Settings
from tests.contract.python_session import becomes
from tests.deadlines import HANG_S
from tests.server.served import TOKEN, Place, served

AGENTS = {"reviewer": {"instructions": "You review."}}
POSTED = ("/v1/chat/completions", "/v1/responses", "/ag-ui", "/ag-ui/reviewer", "/a2a", "/a2a/reviewer")
READ = ("/v1/models", "/.well-known/agent-card.json", "/a2a/reviewer/.well-known/agent-card.json")
DEEP = b"[" * 100_000 + b"]" * 100_000


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> Any:
    """The object in an answer, which may come in chunks."""
    return json.loads(answer[answer.index(b"{") : answer.rindex(b"}") + 1])


def run(number: int, thread: str = "t") -> bytes:
    messages = [{"id": "1", "role": "user", "content": f"go {number}"}]
    return json.dumps({"threadId": thread, "runId": f"r{number}", "messages": messages}).encode()


def task(number: int, method: str = "SendMessage") -> bytes:
    message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "go"}]}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {"message": message}}).encode()


async def test_no_route_answers_a_stranger() -> None:
    """D1, D3, D5, D7, D8: no token, another name, a foreign page, what is no JSON or too much of it; nothing begins."""
    async with asyncio.timeout(HANG_S), served(Settings(model=ScriptedModel(["never"]), agents=AGENTS)) as place:
        for path in READ:
            assert status_of(await place.raw(place.head("GET", path, Authorization=None))) == 401, path
            assert status_of(await place.raw(place.head("GET", path, Host="evil.example"))) == 421, path
            assert status_of(await place.raw(place.head("GET", path, Origin="https://evil.example"))) == 403, path
        for path in POSTED:
            attacks: list[tuple[int, bytes]] = [
                (401, place.post(b"{}", path, Authorization=None)),
                (401, place.post(b"{}", path, Authorization="Bearer wrong")),
                (421, place.post(b"{}", path, Host="evil.example")),
                (403, place.post(b"{}", path, Origin="https://evil.example")),
                (403, place.post(b"{}", path, Origin="null")),
                (415, place.post(b"{}", path, Content_Type="text/plain")),
                (413, place.post(b"", path, Content_Length=str(33 * 1024 * 1024))),
                (400, place.post(DEEP, path)),
                (400, place.post(b'{"model": "a", "model": "b"}', path)),
                (405, place.head("GET", path)),
            ]
            for expected, request in attacks:
                assert status_of(await place.raw(request)) == expected, (path, expected, request[:200])
        assert len(place.host) == 0


async def test_bodies_that_make_no_sense_break_nothing() -> None:
    """Whatever stands in them: each is refused in the form of its protocol, and the next request is served."""
    bodies: list[Any] = [
        None,
        [],
        "x",
        3,
        {},
        {"messages": {}},
        {"model": [], "messages": [None]},
        {"message": DEEP.decode()[:90]},
    ]
    async with asyncio.timeout(HANG_S), served(Settings(model=ScriptedModel(["never"]), agents=AGENTS)) as place:
        for path in POSTED:
            for body in bodies:
                answer = await place.raw(place.post(json.dumps(body).encode(), path))
                is_rpc = path.startswith("/a2a")
                assert status_of(answer) == (200 if is_rpc else 400), (path, body)
                error = body_of(answer)["error"]
                assert error["code"] == (-32600 if is_rpc else "invalid_params"), (path, body)
        assert status_of(await place.raw(place.head("GET", "/health"))) == 200


async def test_requests_with_one_id_at_once_run_one_task() -> None:
    model = ScriptedModel([say("one")], repeat=True)
    async with asyncio.timeout(HANG_S), served(Settings(model=model, agents=AGENTS, slots=8)) as place:
        answers = await asyncio.gather(*(place.raw(place.post(run(1), "/ag-ui/reviewer")) for _ in range(5)))
        assert all(b'"success"' in answer for answer in answers)
        assert len(model.requests) == 1
        answers = await asyncio.gather(*(place.raw(place.post(task(1), "/a2a")) for _ in range(5)))
        ids = {body_of(answer)["result"]["task"]["id"] for answer in answers}
        assert len(ids) == 1
        assert len(model.requests) == 2


async def leave(place: Place, request: bytes) -> None:
    """Send a request, read the beginning of its answer, and be gone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(request)
    await reader.read(100)
    writer.close()


@pytest.mark.parametrize("path", ["/ag-ui/reviewer", "/a2a/reviewer"])
async def test_clients_that_leave_in_the_middle_leave_no_running_task(path: str) -> None:
    """An AG-UI client stops its task by that; one of A2A does not, and cancels."""
    gate = asyncio.Event()

    async def wait(request: Any) -> str:
        await gate.wait()
        return "late"

    model = ScriptedModel([wait], repeat=True)
    async with asyncio.timeout(HANG_S), served(Settings(model=model, agents=AGENTS, slots=8)) as place:
        is_run = path.startswith("/ag-ui")
        requests = [run(n, f"t{n}") if is_run else task(n, "SendStreamingMessage") for n in range(8)]
        await asyncio.gather(*(leave(place, place.post(body, path)) for body in requests))
        (session,) = place.host.sessions
        if is_run:
            await becomes(lambda: session.activity.running == 0)
        else:
            await becomes(lambda: session.activity.running == 8)
            gate.set()
            await becomes(lambda: session.activity.running == 0)


async def test_tasks_that_wait_for_front_ends_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: beyond the limit the one that waits longest is stopped."""
    monkeypatch.setattr("tertulia.server.agui.routes.MAX_PAUSED", 2)
    model = ScriptedModel([say("", call("shell", {"command": ["touch", "x"]}))], repeat=True)
    settings = Settings(model=model, agents=AGENTS, slots=8, approval_policy="untrusted")
    async with asyncio.timeout(HANG_S), served(settings) as place:
        for number in range(4):
            answer = await place.raw(place.post(run(number, f"t{number}"), "/ag-ui/reviewer"))
            assert b'"interrupt"' in answer
        (session,) = place.host.sessions
        await becomes(lambda: session.activity.running == 2)
        assert len(await session.approvals.pending()) == 2


async def test_tasks_of_other_agents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: those that are over are forgotten, those that run are not, and no more begin."""
    monkeypatch.setattr("tertulia.server.a2a.tasks.MAX_TASKS", 2)
    gate = asyncio.Event()

    async def wait(request: Any) -> str:
        await gate.wait()
        return "late"

    model = ScriptedModel([say("one"), wait, wait])
    async with asyncio.timeout(HANG_S), served(Settings(model=model, slots=8)) as place:
        first = body_of(await place.raw(place.post(task(0), "/a2a")))
        for number in (1, 2):
            await leave(place, place.post(task(number, "SendStreamingMessage"), "/a2a"))
        refused = body_of(await place.raw(place.post(task(3), "/a2a")))
        assert refused["error"]["code"] == -32004
        wanted = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": first["result"]["task"]["id"]}}
        forgotten = await place.raw(place.post(json.dumps(wanted).encode(), "/a2a"))
        assert b"-32001" in forgotten
        gate.set()
    assert TOKEN.encode() not in forgotten
