"""Programs that an agent has started call back: with the token of their environment, and with nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.session.agents.private_socket import short_path
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel
from tests.cli.running import Ran, Shell
from tests.session.agents_stage import EMPLOYEE, HTML, Porter, bell


@asynccontextmanager
async def agents(*specs: Any, providers: Any = ()) -> AsyncIterator[tuple[Session, list[dict[str, str]]]]:
    """A session with these agents, and the environment of each."""
    settings = tertulia.Settings(model=ScriptedModel(["hi"]), providers=list(providers))
    async with Session.start(settings) as session:
        opened = [await session.open(agent=spec) for spec in specs or (EMPLOYEE,)]
        yield session, [session.parts.agent_registry.environment(conversation.id) for conversation in opened]


@pytest.fixture
def run(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Any:
    async def call(variables: dict[str, str], *arguments: str) -> Ran:
        for name in ("TERTULIA_TOKEN", "TERTULIA_SOCKET"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return await asyncio.to_thread(shell.run, "internal", *arguments)

    return call


async def test_a_program_of_an_agent_draws_on_its_canvas(shell: Shell) -> None:
    """Issue 9, item 6, third delivery: another process, its own pid in the audit."""
    async with agents() as (session, [variables]):
        ran = await asyncio.to_thread(
            shell.spawn, "internal", "canvas_update", json.dumps({"html": HTML, "title": "Hi"}), env=variables
        )
        assert (ran.code, ran.lines, ran.err) == (0, [{"ok": True, "revision": 1}], "")
        (canvas,) = session.parts.agent_registry.canvases.list().values()
        assert (canvas.html, canvas.title) == (HTML, "Hi")
        (record,) = session.parts.agent_registry.audit
        assert (record.source, record.agent_name, record.ok) == ("cli", "ada", True)
        assert record.pid not in (None, os.getpid())


async def test_each_agent_is_whom_its_token_says_and_the_socket_is_found(run: Any) -> None:
    """S001-48: without TERTULIA_SOCKET all sessions of this user are asked whose token it is."""
    specs = (EMPLOYEE, {"name": "eva", "archetype": "service"})
    porter = Porter(tools=[bell()])
    async with (
        agents(*specs, providers=[porter]) as (_, [ada, eva]),
        agents({"name": "bob"}, providers=[porter]) as (_, [bob]),
    ):
        for variables, name in ((ada, "ada"), (eva, "eva"), (bob, "bob")):
            token = {"TERTULIA_TOKEN": variables["TERTULIA_TOKEN"]}
            for source in (variables, token):
                ran = await run(source, "ring", '{"times": 2}')
                assert (ran.code, ran.lines) == (0, [{"by": name, "with": {"times": 2}}])


async def test_arguments_may_come_from_standard_input_and_may_be_left_out(
    shell: Shell, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An argument of a command line has at most 128 KiB, a page 512."""
    async with agents() as (session, [variables]):
        page = json.dumps({"html": "x" * 500_000}).encode()
        ran = await asyncio.to_thread(shell.spawn, "internal", "canvas_update", "-", input=page, env=variables)
        assert (ran.code, ran.lines) == (0, [{"ok": True, "revision": 1}])
        assert (await run(variables, "canvas_clear")).lines == [{"ok": True, "cleared": True}]
        assert session.parts.agent_registry.canvases.list() == {}


@pytest.mark.parametrize("arguments", ["", "[]", "3", "null", "{", '{"html": ', "\udcff", "[" * 2000])
async def test_arguments_that_are_no_object_are_a_usage_error(run: Any, arguments: str) -> None:
    """Exit code 2: nothing is sent."""
    async with agents() as (session, [variables]):
        ran = await run(variables, "canvas_update", arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("tertulia: ARGUMENTS must be one JSON object")
        assert len(ran.err.splitlines()) == 1
        assert list(session.parts.agent_registry.audit) == []


@pytest.mark.parametrize("token", [{}, {"TERTULIA_TOKEN": ""}])
async def test_without_a_token_it_is_a_usage_error(run: Any, token: dict[str, str]) -> None:
    ran = await run(token, "canvas_clear")
    assert (ran.code, ran.out) == (2, "")
    assert "TERTULIA_TOKEN is not set" in ran.err


async def test_the_token_is_taken_from_nowhere_but_the_environment(run: Any) -> None:
    """A command line can be seen by everybody."""
    async with agents() as (session, [variables]):
        token = variables["TERTULIA_TOKEN"]
        ran = await run({"TERTULIA_SOCKET": variables["TERTULIA_SOCKET"]}, "--token", token, "canvas_clear")
        assert (ran.code, ran.out) == (2, "")
        assert list(session.parts.agent_registry.audit) == []


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("canvas_update", "{}", "html"),
        ("no_such_tool", "{}", "has no internal tool"),
        ("canvas_update", '{"html": "x", "agent_name": "eva"}', "agent_name"),
    ],
)
async def test_what_is_refused_is_one_sentence_and_exit_code_1(
    run: Any, tool: str, arguments: str, expected: str
) -> None:
    async with agents() as (session, [variables]):
        ran = await run(variables, tool, arguments)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
        assert expected in ran.err
        assert [record.ok for record in session.parts.agent_registry.audit] == [False]


@pytest.mark.parametrize("spoil", ["another", "upper", "short", "revoked"])
async def test_a_token_that_is_not_valid_is_refused_and_not_shown(run: Any, spoil: str) -> None:
    """HARDENING D6."""
    async with agents() as (session, [variables]):
        token = variables["TERTULIA_TOKEN"]
        field = {"another": "0" * 64, "upper": token.upper(), "short": token[:-1], "revoked": token}[spoil]
        if spoil == "revoked":
            await session.conversations()[-1].close()
        for found in ({}, {"TERTULIA_SOCKET": variables["TERTULIA_SOCKET"]}):
            ran = await run({"TERTULIA_TOKEN": field, **found}, "canvas_clear")
            assert (ran.code, ran.err) == (1, "tertulia: the token is not valid: it is wrong, expired or revoked\n")


@pytest.mark.parametrize("where", ["nowhere", "missing", "deaf", "rude", "folder"])
async def test_where_nobody_answers_it_says_so(run: Any, tmp_path: Path, where: str) -> None:
    """Exit code 1, within a moment."""
    place = tmp_path / "door.sock"
    fields = {"TERTULIA_TOKEN": "0" * 64, **({} if where == "nowhere" else {"TERTULIA_SOCKET": str(place)})}
    if where == "folder":
        place.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        if where in ("deaf", "rude"):
            with short_path(place) as address:
                listening.bind(address)
            listening.listen()
        answer = asyncio.create_task(_answer(listening, b"" if where == "deaf" else b"no JSON\n"))
        ran = await run(fields, "canvas_clear")
        answer.cancel()
    expected = "went away before it answered" if where in ("deaf", "rude") else "no session with agents runs here"
    assert (ran.code, ran.out) == (1, "")
    assert expected in ran.err


async def _answer(listening: socket.socket, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    connection, _ = await loop.sock_accept(listening)
    with connection:
        await loop.sock_sendall(connection, data)


async def test_a_socket_of_somebody_else_is_told_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is not sent to another user."""
    async with agents() as (session, [variables]):
        monkeypatch.setattr("tertulia.cli.internal.is_same_user", lambda connection: False)
        ran = await run(variables, "canvas_clear")
        assert (ran.code, ran.out) == (1, "")
        assert list(session.parts.agent_registry.audit) == []
