"""Tertulia in an editor: ACP's own client, over pipes, and a model that plays a script."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import acp
import pytest
from msgspec.structs import replace

from tertulia.testing import call, say
from tests.server.acp_editor import editor_stage, scripted
from tests.tables import each_row
from tests.tools.test_images import PNG

PICTURE = base64.b64encode(PNG).decode()


async def refused(work: Any) -> tuple[int, str, str]:
    """Number, code and sentence of a refusal."""
    with pytest.raises(acp.RequestError) as caught:
        await work
    return caught.value.code, caught.value.data["code"], str(caught.value)


async def test_a_prompt_is_answered_piece_by_piece_and_then_as_a_whole(tmp_path: Path) -> None:
    """Issue 10 (4): streaming; the answer of the prompt comes after all of its updates."""
    async with editor_stage(scripted(say("One two three four.", reasoning="counting")), tmp_path) as at:
        session = await at.new()
        done = await at.prompt(session, "Count.")
        assert done.stop_reason == "end_turn"
        assert done.usage.total_tokens > 0
        assert at.editor.said(session) == "One two three four."
        assert at.editor.said(session, "agent_thought_chunk") == "counting"
        assert len(at.editor.of(session, "agent_message_chunk")) > 1
        assert at.editor.of(session, "usage_update")[-1]["size"] == 128_000
        assert at.editor.of(session, "session_info_update")[0]["title"] == "Count."


# ── hello ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_promised_at_the_beginning_is_what_there_is(tmp_path: Path) -> None:
    """Issue 10 (4): capabilities are honest: each that is named is tried in a test below, and audio is not named."""
    async with editor_stage(scripted("hi"), tmp_path, hello=False) as at:
        initialized = await at.initialize()
        able = initialized.agent_capabilities
        assert (initialized.protocol_version, initialized.agent_info.name) == (1, "tertulia")
        assert [method.id for method in initialized.auth_methods] == ["provider-key"]
        assert able.load_session
        prompts, servers, sessions = able.prompt_capabilities, able.mcp_capabilities, able.session_capabilities
        assert (prompts.image, prompts.audio, prompts.embedded_context) == (True, False, True)
        assert (servers.http, servers.sse) == (True, False)
        assert all((sessions.list, sessions.fork, sessions.resume, sessions.close, sessions.delete))


@each_row(
    ("can", "ids"),
    [
        ({"auth": {"terminal": True}}, ["provider-key", "login"]),
        ({"_meta": {"terminal-auth": True}}, ["provider-key", "login"]),
        ({"terminal": True, "_meta": {"terminal-auth": "yes"}}, ["provider-key"]),
    ],
)
async def test_a_login_in_a_terminal_is_offered_to_who_has_one(can: dict[str, Any], ids: list[str]) -> None:
    """Issue 25, 2: the ACP registry lists agents with a way to authenticate of type agent or terminal."""
    async with editor_stage(scripted("hi"), Path("/"), hello=False) as at:
        methods = (await at.raw("initialize", {"protocolVersion": 1, "clientCapabilities": can}))["authMethods"]
        assert [method["id"] for method in methods] == ids
        assert [method.get("type", "agent") for method in methods] == ["agent", "terminal"][: len(ids)]
        assert all(method["args"] == ["login"] for method in methods[1:])


async def test_to_authenticate_is_to_look_whether_a_model_can_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 25, 2: it holds nothing and opens nothing; without a key it says what to do."""
    async with editor_stage(scripted("hi"), tmp_path) as at:
        assert await at.raw("authenticate", {"methodId": "provider-key"}) == {}
        number, code, sentence = await refused(at.raw("authenticate", {"methodId": "login"}))
        assert (number, code, sentence) == (-32602, "invalid_params", "methodId must be provider-key, not 'login'")
        at.host.settings = replace(at.host.settings, model=None)
        _, code, sentence = await refused(at.raw("authenticate", {"methodId": "provider-key"}))
        assert code == "no_model"
        assert "tertulia login" in sentence
        assert not at.host.sessions


@pytest.mark.parametrize("version", [0, 1, 2, 65_535, "2024-11-05"])
async def test_whatever_version_is_asked_for_the_answer_names_ours(tmp_path: Path, version: Any) -> None:
    """HARDENING D16: the client decides whether it can go on with that."""
    async with editor_stage(scripted("hi"), tmp_path, hello=False) as at:
        assert (await at.raw("initialize", {"protocolVersion": version}))["protocolVersion"] == 1


@pytest.mark.parametrize("params", [{}, {"protocolVersion": -1}, {"protocolVersion": 70_000}])
async def test_a_version_that_is_none_is_refused_and_another_try_is_free(tmp_path: Path, params: Any) -> None:
    """HARDENING D16."""
    async with editor_stage(scripted("hi"), tmp_path, hello=False) as at:
        number, code, sentence = await refused(at.raw("initialize", params))
        assert (number, code) == (-32602, "invalid_params")
        assert "protocolVersion" in sentence
        await at.initialize()


async def test_before_initialize_nothing_is_done_and_a_second_one_changes_nothing(tmp_path: Path) -> None:
    """HARDENING D16."""
    async with editor_stage(scripted("hi"), tmp_path, hello=False) as at:
        for method in ("session/new", "session/prompt", "session/list", "no/such"):
            assert (await refused(at.raw(method, {})))[:2] == (-32600, "not_initialized")
        assert not at.host.sessions
        await at.initialize()
        session = await at.new()
        assert (await refused(at.initialize()))[:2] == (-32600, "invalid_request")
        assert (await at.prompt(session, "still there?")).stop_reason == "end_turn"


async def test_what_is_not_there_is_refused_by_name_and_repeats_no_secret(tmp_path: Path) -> None:
    """Issue 10 (4): errors are JSON-RPC errors with data.code; -32000 would ask the user to log in."""
    async with editor_stage(scripted("hi"), tmp_path) as at:
        assert (await refused(at.raw("nes/start", {})))[:2] == (-32601, "method_not_found")
        assert (await refused(at.raw("_vendor/thing", {})))[:2] == (-32601, "method_not_found")
        assert (await refused(at.prompt("nobody", "hi")))[:2] == (-32002, "not_found")
        assert (await refused(at.conn.close_session(session_id="nobody")))[:2] == (-32002, "not_found")
        assert (await refused(at.raw("authenticate", {"methodId": "x"})))[:2] == (-32602, "invalid_params")
        number, code, sentence = await refused(at.raw("session/new", {"cwd": {"key": "hunter2"}, "mcpServers": []}))
        assert (number, code) == (-32602, "invalid_params")
        assert "hunter2" not in sentence
        for cwd in ("relative", str(tmp_path / "missing")):
            assert (await refused(at.conn.new_session(cwd=cwd)))[:2] == (-32602, "invalid_params")
        assert not at.host.sessions


# ── sessions side by side ────────────────────────────────────────────────────────────────────────────────────


async def test_two_sessions_never_wait_for_each_other(tmp_path: Path) -> None:
    """Issue 10 (4): an ACP session is a Session; one answers while another's model is silent."""
    gate = asyncio.Event()
    script = scripted(say("At last.", match="slow", gate=gate), say("Here.", match="quick", repeat=True))
    async with editor_stage(script, tmp_path) as at:
        slow, quick = await at.new(), await at.new()
        assert slow != quick
        waiting = asyncio.create_task(at.prompt(slow, "the slow one"))
        for _ in range(3):
            assert (await at.prompt(quick, "the quick one")).stop_reason == "end_turn"
        assert not waiting.done()
        gate.set()
        assert (await waiting).stop_reason == "end_turn"
        assert (at.editor.said(slow), at.editor.said(quick)) == ("At last.", "Here." * 3)


async def test_a_second_prompt_in_one_session_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    """Issue 10 (4): one prompt at a time, and the refused one leaves nothing behind."""
    gate = asyncio.Event()
    async with editor_stage(scripted(say("First.", gate=gate), "Second."), tmp_path) as at:
        session = await at.new()
        first = asyncio.create_task(at.prompt(session, "one"))
        await at.editor.until(lambda: at.editor.of(session, "session_info_update"))
        assert (await refused(at.prompt(session, "two")))[:2] == (-32001, "busy")
        gate.set()
        await first
        assert at.editor.said(session) == "First."
        await at.prompt(session, "two, again")
        assert at.editor.said(session) == "First.Second."


# ── prompts ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_cancelled_prompt_is_answered_once_and_the_session_goes_on(tmp_path: Path) -> None:
    """Issue 10 (4): stop_reason cancelled; also when the cancellation comes in the same breath."""
    script = scripted(say("never", match="work", gate=asyncio.Event()), say("again", match="now"))
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        await at.conn.cancel(session_id=session)  # of nothing
        running = asyncio.create_task(at.prompt(session, "work"))
        await at.editor.until(lambda: at.editor.of(session, "session_info_update"))
        await at.conn.cancel(session_id=session)
        await at.conn.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        assert not at.editor.said(session)
        assert (await at.prompt(session, "and now?")).stop_reason == "end_turn"
        assert at.editor.said(session) == "again"


async def test_a_cancellation_right_behind_its_prompt_is_not_missed(tmp_path: Path) -> None:
    """Issue 10 (4): both lines come at once, and the task has not begun yet."""
    async with editor_stage(scripted(say("never", gate=asyncio.Event())), tmp_path) as at:
        session = await at.new()
        running = asyncio.create_task(at.prompt(session, "work"))
        await asyncio.sleep(0)
        await at.conn.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"


async def test_a_task_that_fails_is_an_error_with_its_own_code(tmp_path: Path) -> None:
    """Issue 10 (4): ACP has no stop reason for a failure."""
    async with editor_stage(scripted({"error": "the model is ill"}, "better"), tmp_path) as at:
        session = await at.new()
        number, code, sentence = await refused(at.prompt(session, "hello"))
        assert (number, code) == (-32603, "model_error")
        assert "the model is ill" in sentence
        assert (await at.prompt(session, "and now?")).stop_reason == "end_turn"


async def test_pictures_files_and_links_reach_the_model(tmp_path: Path) -> None:
    """Issue 10 (4): images in prompts, embedded resources and resource links as text."""
    settings = scripted("seen")
    model: Any = settings.model
    async with editor_stage(settings, tmp_path) as at:
        session = await at.new()
        await at.prompt(
            session,
            "Look:",
            acp.image_block(PICTURE, "image/png"),
            acp.resource_block(acp.embedded_text_resource("file:///a.py", "x = '```'")),
            acp.resource_link_block("b.py", "file:///b.py"),
        )
        root = at.session(session).root
        (question, _answer) = await root.history()
        assert question.attachments == [{"type": "image", "image_url": f"data:image/png;base64,{PICTURE}"}]
        assert question.text == "Look:\nfile:///a.py:\n````\nx = '```'\n````\n[b.py](file:///b.py)"
        assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("block", "about"),
    [
        (acp.image_block("%%%", "image/png"), "base64"),
        (acp.image_block(PICTURE, "image/tiff"), "image/png"),
        (acp.image_block("", "image/png"), "not a PNG"),
        (acp.image_block(base64.b64encode(b"MZ, a program").decode(), "image/png"), "not a PNG"),
        (acp.image_block(base64.b64encode(PNG + b"x" * 16 * 1024 * 1024).decode(), "image/png"), "limit"),
        (acp.resource_block(acp.embedded_blob_resource("file:///a", "AAAA", mime_type="image/gif")), "not a PNG"),
        (acp.audio_block(PICTURE, "audio/wav"), "audio"),
    ],
)
async def test_what_no_model_could_read_is_refused_before_anything_happens(
    tmp_path: Path, block: Any, about: str
) -> None:
    """Issue 10 (4)."""
    async with editor_stage(scripted("hi"), tmp_path) as at:
        session = await at.new()
        number, code, sentence = await refused(at.prompt(session, "see", block))
        assert (number, code) == (-32602, "invalid_params")
        assert about in sentence
        assert not await at.session(session).root.history()


async def test_a_plan_is_shown_as_a_plan_and_not_as_a_call(tmp_path: Path) -> None:
    """Issue 10 (4): plan updates."""
    steps = [{"step": "look", "status": "completed"}, {"step": "leap", "status": "in_progress"}]
    async with editor_stage(scripted(call("update_plan", {"plan": steps}), "done"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "plan it")
        (plan,) = at.editor.of(session, "plan")
        assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
            ("look", "completed"),
            ("leap", "in_progress"),
        ]
        assert not at.editor.of(session, "tool_call")


async def test_a_delegation_shows_as_a_call_and_its_words_stay_its_own(tmp_path: Path) -> None:
    """Issue 10 (4): only the root speaks to the editor."""
    script = scripted(
        call("conv_create", {"user_instruction": "help"}),
        say("The helper's words.", match="help"),
        "It is done.",
    )
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        assert (await at.prompt(session, "delegate")).stop_reason == "end_turn"
        (begun,) = at.editor.of(session, "tool_call")
        assert begun["title"] == "Ask a new conversation"
        assert at.editor.call(session, begun["toolCallId"])["status"] == "completed"
        assert at.editor.said(session) == "It is done."


# ── sessions come and go ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_closed_session_stops_what_runs_and_is_not_there_any_more(tmp_path: Path) -> None:
    """Issue 10 (4): session/close."""
    async with editor_stage(scripted(say("never", gate=asyncio.Event())), tmp_path) as at:
        session, other = await at.new(), await at.new()
        running = asyncio.create_task(at.prompt(session, "work"))
        await at.editor.until(lambda: at.editor.of(session, "session_info_update"))
        await at.conn.close_session(session_id=session)
        assert (await running).stop_reason == "cancelled"
        assert (await refused(at.prompt(session, "hello?")))[:2] == (-32002, "not_found")
        assert [session.id for session in at.host.sessions] == [other]


async def test_a_loaded_session_tells_all_that_was_said_and_goes_on(tmp_path: Path) -> None:
    """Issue 10 (4): session/load replays the history as updates, before it answers."""
    script = scripted(call("update_plan", {"plan": []}), "no plan", call("nothing_of_the_kind"), "one", "two")
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "first", acp.image_block(PICTURE, "image/png"))
        await at.prompt(session, "second")
        await at.conn.close_session(session_id=session)
        at.editor.updates.clear()
        loaded = await at.conn.load_session(cwd=str(tmp_path), session_id=session)
        updates = at.editor.of(session)
        assert loaded.modes.current_mode_id == "workspace-write"
        assert at.editor.said(session, "user_message_chunk") == "firstsecond"
        assert [u["content"]["type"] for u in updates if u["sessionUpdate"] == "user_message_chunk"][1] == "image"
        assert at.editor.said(session) == "no planone"
        (begun,) = at.editor.of(session, "tool_call")
        assert at.editor.call(session, begun["toolCallId"])["status"] == "failed"
        await at.prompt(session, "third")
        assert at.editor.said(session) == "no planonetwo"
        # Open already, it is told once more, and there is still one of it.
        at.editor.updates.clear()
        await at.conn.load_session(cwd=str(tmp_path), session_id=session)
        assert at.editor.said(session, "user_message_chunk") == "firstsecondthird"
        assert len(at.host.sessions) == 1


async def test_a_resumed_session_knows_what_was_said_and_tells_nothing_again(tmp_path: Path) -> None:
    """Issue 10 (4): session/resume."""
    async with editor_stage(scripted("one", "two"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "first")
        await at.conn.close_session(session_id=session)
        at.editor.updates.clear()
        await at.conn.resume_session(cwd=str(tmp_path), session_id=session)
        await at.prompt(session, "second")
        assert at.editor.said(session) == "two"
        assert not at.editor.said(session, "user_message_chunk")
        assert [entry.text for entry in await at.session(session).root.history()] == ["first", "one", "second", "two"]


async def test_a_fork_begins_with_all_that_was_said_and_leaves_the_original_alone(tmp_path: Path) -> None:
    """Issue 10 (4): session/fork, of a session that is open."""
    async with editor_stage(scripted("one", "two", "three"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "first")
        fork = (await at.conn.fork_session(cwd=str(tmp_path), session_id=session)).session_id
        assert fork != session
        await at.prompt(fork, "elsewhere")
        await at.prompt(session, "here")
        texts = {id: [entry.text for entry in await at.session(id).root.history()] for id in (session, fork)}
        assert texts == {session: ["first", "one", "here", "three"], fork: ["first", "one", "elsewhere", "two"]}


async def test_what_was_never_stored_cannot_be_loaded_resumed_or_forked(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    ghost = "01890000-0000-7000-8000-000000000000"
    async with editor_stage(scripted("hi"), tmp_path) as at:
        for method in (at.conn.load_session, at.conn.resume_session, at.conn.fork_session):
            assert (await refused(method(cwd=str(tmp_path), session_id=ghost)))[:2] == (-32002, "not_found")
        assert not at.host.sessions


async def test_sessions_are_listed_by_directory_and_deleted_for_good(tmp_path: Path) -> None:
    """Issue 10 (4): session/list and session/delete; deleting what is not there is no mistake."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with editor_stage(scripted("one", "two"), tmp_path) as at:
        silent = await at.new()
        first = await at.new()
        await at.prompt(first, "What is this?")
        second = (await at.conn.new_session(cwd=str(elsewhere))).session_id
        await at.prompt(second, "And that?")
        everywhere = (await at.conn.list_sessions()).sessions
        assert {(session.session_id, session.cwd, session.title) for session in everywhere} == {
            (first, str(tmp_path), "What is this?"),
            (second, str(elsewhere), "And that?"),
        }
        assert silent not in {session.session_id for session in everywhere}
        here = (await at.conn.list_sessions(cwd=str(tmp_path))).sessions
        assert [session.session_id for session in here] == [first]
        for _ in range(2):
            await at.raw("session/delete", {"sessionId": first})
        await at.raw("session/delete", {"sessionId": "../../etc/passwd"})
        assert [session.session_id for session in (await at.conn.list_sessions()).sessions] == [second]
        assert (await refused(at.conn.load_session(cwd=str(tmp_path), session_id=first)))[1] == "not_found"
        assert (await refused(at.conn.list_sessions(cursor="nonsense")))[1] == "invalid_params"
