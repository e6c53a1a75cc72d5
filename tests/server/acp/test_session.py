"""One session: its title, its news, and a reader that does not keep up."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tertulia.protocol.ids import ConversationId
from tertulia.scheduler.reply import Failure
from tertulia.server.acp.editor import EditorCapabilities
from tertulia.server.acp.session import AcpSession, _task_error
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult
from tertulia.session.host import Host
from tertulia.testing import call, say
from tests.server.acp.test_agent import PICTURE, refused
from tests.server.acp_editor import editor_stage, scripted
from tests.server.client import MemorySink


async def test_the_title_is_told_once_with_the_first_prompt(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    async with editor_stage(scripted("one", "two"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "word " * 100)
        await at.prompt(session, "again")
        (updates,) = at.editor.of(session, "session_info_update")
        assert len(updates["title"]) == 80


async def test_nothing_is_told_before_the_client_knows_the_session() -> None:
    """Issue 10 (4): and what has to be said about it is said once."""

    async def serve(method: str, params: object) -> MethodResult:
        return MethodResult()

    host, sink = Host(scripted("hi")), MemorySink()
    session = await host.start()
    peer = Peer(sink, serve)
    acp_session = AcpSession(session, peer, sink, editor=EditorCapabilities(), remarks=["a remark"])
    assert not sink.sent
    acp_session.begin()
    acp_session.begin()
    updates = [message["params"]["update"] for message in sink.messages]
    assert [update["sessionUpdate"] for update in updates].count("agent_thought_chunk") == 1
    assert acp_session._label(session.root.id) == ""
    assert acp_session._label(ConversationId("0123456789")) == "[01234567] "
    await host.close()
    await acp_session.close(1)


async def test_what_a_child_does_carries_its_name(tmp_path: Path) -> None:
    """Issue 10 (4): calls of other conversations of the session are shown, with whose they are."""
    script = scripted(
        call("conv_create", {"user_instruction": "help"}, "c1"),
        say("", call("nothing_of_the_kind", {}, "c1"), match="help"),
        "child done",
        "root done",
    )
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "delegate")
        first, second = at.editor.of(session, "tool_call")
        assert (first["toolCallId"], second["toolCallId"]) == ("c1", "c1#2")
        assert second["title"].startswith("[")
        assert second["title"].endswith("] nothing_of_the_kind")
        assert at.editor.said(session) == "root done"


async def test_a_word_is_put_into_a_prompt_that_runs(tmp_path: Path) -> None:
    """X-70: `steer` on this surface, by the extension that other agents have; the prompt is answered once."""
    gate = asyncio.Event()
    script = scripted(say("", call("nothing_of_the_kind"), match="go", gate=gate), say("Turned.", match="left"))
    async with editor_stage(script, tmp_path, hello=False) as at:
        assert (await at.initialize()).field_meta == {"steering": {"supported": True}}
        session = await at.new()
        running = asyncio.create_task(at.prompt(session, "go"))
        await at.editor.until(lambda: at.editor.of(session, "session_info_update"))
        word = {"sessionId": session, "prompt": [{"type": "text", "text": "no, left"}]}
        assert await at.raw("_session/steering", word) == {"outcome": "injected"}
        picture = {"type": "image", "mimeType": "image/png", "data": PICTURE}
        refusal = await refused(at.raw("_session/steering", {**word, "prompt": [picture]}))
        assert refusal[:2] == (-32602, "invalid_params")
        gate.set()
        assert (await running).stop_reason == "end_turn"
        assert at.editor.said(session) == "Turned."


async def test_where_nothing_runs_a_word_begins_nothing(tmp_path: Path) -> None:
    """X-70: nobody would own what it began; the client is told in words that it knows."""
    async with editor_stage(scripted("never"), tmp_path) as at:
        session = await at.new()
        word = {"sessionId": session, "prompt": [{"type": "text", "text": "left"}]}
        assert await at.raw("_session/steering", word) == {"outcome": "failed"}
        for meta in ({"steering": {"idleBehavior": "startNewTurn"}}, {"steering": 7}, {}):
            assert await at.raw("_session/steering", {**word, "_meta": meta}) == {"outcome": "failed"}
        fields = {**word, "_meta": {"steering": {"idleBehavior": "promptRequired"}}}
        params = {"outcome": "promptRequired", "reason": "noRunningTurn"}
        assert await at.raw("_session/steering", fields) == params
        assert (await refused(at.raw("_session/steering", {**word, "sessionId": "nobody"})))[1] == "not_found"
        assert not await at.session(session).root.history()


def test_a_failure_keeps_its_code() -> None:
    """Issue 10 (4): data.code."""
    assert _task_error(Failure("timeout", "too slow")).code == "timeout"
    assert (_task_error(None).code, _task_error(None).message) == ("internal", "the task failed")


async def test_a_prompt_that_is_refused_leaves_neither_a_title_nor_a_word(tmp_path: Path) -> None:
    """Issue 10 (4): an empty one, and one that is too long."""
    async with editor_stage(scripted("hi"), tmp_path) as at:
        session = await at.new()
        for blocks in ((), ("",), ("x" * (16 * 1024 * 1024 + 1),)):
            assert (await refused(at.prompt(session, *blocks)))[:2] == (-32602, "invalid_params")
        assert not at.editor.of(session, "session_info_update")
        assert (await at.prompt(session, "hello")).stop_reason == "end_turn"
