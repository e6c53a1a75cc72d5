"""Tertulia in the place of `codex app-server`: methods, refusals, and lines that nobody should send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import ValidationError

from tertulia.server import client_surface
from tertulia.server.codex.server import METHODS, CodexServer
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.settings.settings import current_environment
from tests.agents.codex_schemas import schemas
from tests.deadlines import HANG_S
from tests.docs.pages import names, table
from tests.server.client import MemorySink
from tests.server.codex_client import codex_stage, scripted


async def test_a_thread_has_a_turn_from_its_start_to_its_end(tmp_path: Path) -> None:
    """Issue 10 (5): a thread is a session's root, a turn its task."""
    async with codex_stage(scripted("hello you"), tmp_path) as at:
        opened = await at.client.call("thread/start")
        thread = opened["thread"]["id"]
        assert thread == at.session(thread).id
        assert (opened["cwd"], opened["approvalPolicy"]) == (str(tmp_path), "on-request")
        assert opened["sandbox"]["type"] == "workspaceWrite"
        turn = await at.client.turn(thread, "hi")
        assert turn["status"] == "completed"
        assert [item["text"] for item in turn["items"]] == ["hello you"]
        methods = [message["method"] for message in at.client.messages if "method" in message]
        assert [method for method in methods if method != "item/agentMessage/delta"] == [
            "thread/started",
            "thread/status/changed",
            "turn/started",
            "item/started",
            "item/completed",
            "item/started",
            "thread/tokenUsage/updated",
            "item/completed",
            "thread/status/changed",
            "turn/completed",
        ]
        assert "".join(params["delta"] for params in at.client.all("item/agentMessage/delta")) == "hello you"


async def test_initialize_comes_first_and_once(tmp_path: Path) -> None:
    """Issue 10 (5), HARDENING D: calls before initialize, two initializes."""
    async with codex_stage(scripted(), tmp_path, hello=False) as at:
        refused = await at.client.fail("thread/start")
        assert (refused["code"], refused["message"]) == (-32600, "Not initialized")
        assert not at.host.sessions
        await at.client.call("initialize", clientInfo={"name": "test", "version": "1"})
        again = await at.client.fail("initialize", clientInfo={"name": "test", "version": "1"})
        assert (again["code"], again["message"]) == (-32600, "Already initialized")


async def test_what_is_not_supported_is_answered_by_its_name(tmp_path: Path) -> None:
    """Issue 10 (5)."""
    async with codex_stage(scripted(), tmp_path) as at:
        for method in ("thread/rollback", "fs/readFile", "nope/nope"):
            refused = await at.client.fail(method)
            assert refused["code"] == -32601
            assert method in refused["message"]


async def test_wrong_parameters_are_named_and_nothing_happens(tmp_path: Path) -> None:
    """HARDENING D."""
    async with codex_stage(scripted("never said"), tmp_path) as at:
        thread = await at.client.start()
        for method, params in (
            ("thread/start", {"cwd": 5}),
            ("thread/start", {"cwd": "relative"}),
            ("thread/start", {"cwd": "/no/such/place"}),
            ("thread/resume", {"threadId": thread, "cwd": "/no/such/place"}),
            ("thread/fork", {"threadId": thread, "cwd": "/no/such/place"}),
            ("turn/start", {"threadId": thread, "input": [{"type": "text", "text": "hi"}], "cwd": "/no/such/place"}),
            ("thread/start", {"approvalPolicy": "sometimes"}),
            ("thread/start", {"model": "nobody/knows"}),
            ("turn/start", {"threadId": thread}),
            ("turn/start", {"threadId": thread, "input": []}),
            ("turn/start", {"threadId": thread, "input": [{"type": "smell"}]}),
            ("turn/start", {"threadId": "other", "input": [{"type": "text", "text": "hi"}]}),
            ("turn/interrupt", {"threadId": thread, "turnId": "other"}),
            ("thread/read", {"threadId": "../../etc/passwd"}),
        ):
            refused = await at.client.fail(method, **params)
            assert refused["code"] == -32600, (method, params)
        assert len(at.host.sessions) == 1
        assert not at.client.all("turn/started")


async def test_a_turn_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    """S004-32: not the terms that it brought along either."""
    async with codex_stage(scripted("never said"), tmp_path) as at:
        thread = await at.client.start()
        (session,) = at.host.sessions
        before = await session.root.context()
        for wrong in ([], [{"type": "text", "text": ""}], [{"type": "localImage", "path": "/no/such/picture"}]):
            fields = {"sandboxPolicy": {"type": "readOnly"}, "approvalPolicy": "never", "cwd": "/"}
            refused = await at.client.fail("turn/start", threadId=thread, input=wrong, **fields)
            assert refused["code"] == -32600
        assert await session.root.context() == before
        assert session.parts.conversations.root.terms.cwd != "/"


async def test_what_a_client_does_not_want_to_hear_is_not_said(tmp_path: Path) -> None:
    """Issue 10 (5): optOutNotificationMethods."""
    muted = ("item/agentMessage/delta", "thread/started", "thread/status/changed")
    async with codex_stage(scripted("hello"), tmp_path, mute=muted) as at:
        await at.client.turn(await at.client.start(), "hi")
        assert not [message for message in at.client.messages if message.get("method") in muted]
        assert at.client.items("agentMessage")


async def test_models_are_listed_with_the_settings_own_first(tmp_path: Path) -> None:
    """Issue 10 (5)."""
    async with codex_stage(scripted(), tmp_path) as at:
        listed = await at.client.call("model/list")
        assert all(isinstance(model["id"], str) for model in listed["data"])


async def test_a_client_that_leaves_in_mid_turn_leaves_nothing_behind(tmp_path: Path) -> None:
    """HARDENING D: disconnect. The stage itself checks that no session is left."""
    arrived, never = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> str:
        arrived.set()
        await never.wait()
        return "too late"

    async with codex_stage(scripted(slow), tmp_path) as at:
        thread = await at.client.start()
        at.client.ask("turn/start", threadId=thread, input=[{"type": "text", "text": "hi"}])
        await asyncio.wait_for(arrived.wait(), HANG_S)
        at.hang_up()


@pytest.mark.parametrize(
    "line", [b"garbage", b"[]", b"5", b'{"id": null, "method": "model/list"}', b"\xff", b'{"id": 7}']
)
async def test_a_line_that_cannot_be_read_is_logged_and_nobody_is_answered(
    line: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """HARDENING D: an answer without an id is none to these clients, as with Codex itself."""
    async with codex_stage(scripted(), tmp_path) as at:
        before = len(at.client.messages)
        at.client.send(line)
        await at.client.call("thread/loaded/list")
        assert len(at.client.messages) == before + 1
        assert ("could not be read" in caplog.text) is (line != b'{"id": 7}')


async def test_messages_may_have_the_member_that_codex_leaves_out(tmp_path: Path) -> None:
    """Issue 10 (5): JSON-RPC 2.0 without its `jsonrpc` member, or with it; another version is refused."""
    async with codex_stage(scripted(), tmp_path) as at:
        at.client.send({"jsonrpc": "2.0", "id": 50, "method": "nope/nope"})
        assert (await at.client.answer(50))["error"]["code"] == -32601
        at.client.send({"jsonrpc": "1.0", "id": 51, "method": "nope/nope"})
        assert (await at.client.answer(51))["error"]["code"] == -32600


def test_every_message_of_these_tests_is_held_against_codexs_own_schemas() -> None:
    """Issue 10: validating every message we send on the Codex surface."""
    known = schemas()
    if known is None:
        pytest.skip("codex is not installed; `make agents` fetches it")
    assert set(METHODS) <= known.client_methods
    before = known.checked
    known.check({"method": "thread/archived", "params": {"threadId": "t"}}, None)
    assert known.checked == before + 1
    for wrong in ({"method": "thread/archived", "params": {}}, {"id": 1, "result": {"turnId": 5}}):
        with pytest.raises(ValidationError):
            known.check(wrong, "turn/steer")


def test_the_page_lists_every_method_there_is() -> None:
    """Docs and code are one."""
    listed = [name for row in table("codex-clients.md", "Method", "What is different here") for name in names(row[0])]
    assert listed == ["initialize", *METHODS]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_REQUESTS = st.fixed_dictionaries(
    {"method": st.sampled_from([*METHODS, "initialize", "initialized", "nope"]) | st.text()},
    optional={"id": st.integers() | st.text() | _VALUES, "params": _VALUES, "jsonrpc": st.just("2.0") | _VALUES},
)
_LINES = st.binary(max_size=80) | st.builds(lambda value: json.dumps(value).encode(), _REQUESTS | _VALUES)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(_LINES, max_size=6), hello=st.booleans())
async def test_whatever_is_sent_each_request_gets_one_answer(lines: list[bytes], hello: bool, tmp_path: Path) -> None:
    """HARDENING D: the reader, with lines of every kind."""
    own = scripted()
    host, sink = Host(own), MemorySink()
    server = CodexServer(SessionFactory(host, lambda cwd: DirectorySettings(own), current_environment()), sink)
    if hello:
        await server.receive(b'{"id":"hello","method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}')
    for line in lines:
        if b"\n" not in line:
            await server.receive(line)
    await server.receive(b'{"id":"last","method":"nope/nope"}')
    await asyncio.wait_for(server.idle(), HANG_S)
    ids = [json.dumps(message["id"]) for message in sink.messages if "id" in message]
    assert ids.count('"last"') == 1
    assert all(message.get("id", "") is not None for message in sink.messages)
    assert len(ids) <= len(lines) + 2
    await server.close(5)
    await host.close()


class Wall:
    """A client that takes nothing."""

    def send(self, messages: Sequence[bytes]) -> None: ...

    async def drain(self) -> None:
        await asyncio.Event().wait()


async def test_a_client_that_reads_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """HARDENING H7: however long the settings let things take."""
    monkeypatch.setattr(client_surface, "PATIENCE_S", 0.01)
    terms = scripted()
    host = Host(terms)
    server = CodexServer(SessionFactory(host, lambda cwd: DirectorySettings(terms), current_environment()), Wall())
    async with asyncio.timeout(HANG_S):
        assert not await server.close(3600)
        await host.close()
