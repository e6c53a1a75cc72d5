"""A person at an editor is asked, answers, answers late, or is gone."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import schema as s

from tertulia.session.settings.settings import Settings
from tertulia.testing import ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.server.acp_editor import EditorStage, editor_stage

MARK = {"command": ["sh", "-c", "echo done > mark"]}
ASKER = str(Path(__file__).parents[2] / "mcp" / "fakes" / "plain.py")


def asking(*replies: Any, **settings: Any) -> Settings:
    """Every command that is not known to be harmless is asked about; none is confined."""
    return Settings(
        model=ScriptedModel(list(replies)),
        approval_policy="untrusted",
        sandbox="danger_full_access",
        close_timeout_s=5,
        **settings,
    )


async def test_yes_lets_a_command_run_and_the_call_says_so(tmp_path: Path) -> None:
    """Issue 10 (4): a permission request is an approval; the call is there before it is asked about."""
    async with editor_stage(asking(call("shell", MARK, "c1"), "ok"), tmp_path) as at:
        session = await at.new()
        at.editor.answers = ["once"]
        assert (await at.prompt(session, "do it")).stop_reason == "end_turn"
        (question,) = at.editor.asked
        assert question["session"] == session
        assert question["options"][0] == "once"
        assert question["options"][-1] == "reject"
        assert question["call"]["toolCallId"] == "c1"
        assert (tmp_path / "mark").read_text() == "done\n"
        shown = at.editor.call(session, "c1")
        assert (shown["title"], shown["kind"], shown["status"]) == ("echo done > mark", "execute", "completed")
        states = [update["status"] for update in at.editor.of(session) if "status" in update]
        assert states == ["pending", "in_progress", "completed"]


@pytest.mark.parametrize("answer", ["reject", None, "no such option", ValueError("broken")])
async def test_no_a_cancellation_nonsense_and_an_error_are_all_a_no(tmp_path: Path, answer: Any) -> None:
    """HARDENING B6: the task goes on without it."""
    async with editor_stage(asking(call("shell", MARK, "c1"), "then not"), tmp_path) as at:
        session = await at.new()
        at.editor.answers = [answer]
        assert (await at.prompt(session, "do it")).stop_reason == "end_turn"
        assert not (tmp_path / "mark").exists()
        assert at.editor.call(session, "c1")["status"] == "failed"
        assert at.editor.said(session) == "then not"


@pytest.mark.parametrize(("scope", "times"), [("once", 2), ("conversation", 1), ("session", 1)])
async def test_what_is_allowed_for_longer_is_not_asked_again(tmp_path: Path, scope: str, times: int) -> None:
    """Issue 10 (4): allow once, for the conversation, for the session."""
    twice = [call("shell", MARK, "c1"), "one", call("shell", MARK, "c2"), "two"]
    async with editor_stage(asking(*twice), tmp_path) as at:
        session = await at.new()
        at.editor.answers = [scope, scope]
        await at.prompt(session, "do it")
        await at.prompt(session, "again")
        assert len(at.editor.asked) == times
        assert at.editor.call(session, "c2")["status"] == "completed"


async def test_the_first_answer_counts_and_a_late_one_changes_nothing(tmp_path: Path) -> None:
    """HARDENING B6: somebody else says no while the editor still shows the question; its yes comes after that."""
    async with editor_stage(asking(call("shell", MARK, "c1"), "then not"), tmp_path) as at:
        session = await at.new()
        late: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        at.editor.answers = [late]
        running = asyncio.create_task(at.prompt(session, "do it"))
        await at.editor.until(lambda: at.editor.asked)
        approvals = at.session(session).approvals
        (pending,) = await approvals.pending()
        assert await approvals.resolve(pending.approval_id, "deny")
        assert (await running).stop_reason == "end_turn"
        late.set_result("once")
        assert (await at.conn.list_sessions()).sessions, "the connection took it and goes on"
        assert not (tmp_path / "mark").exists()
        assert not await approvals.grants()


async def test_a_cancelled_prompt_takes_its_question_back(tmp_path: Path) -> None:
    """Issue 10 (4): everything is answered once: the call, the prompt, the question."""
    async with editor_stage(asking(call("shell", MARK, "c1"), "never said"), tmp_path) as at:
        session = await at.new()
        late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        at.editor.answers = [late]
        running = asyncio.create_task(at.prompt(session, "do it"))
        await at.editor.until(lambda: at.editor.asked)
        await at.conn.cancel(session_id=session)
        late.set_result(None)
        assert (await running).stop_reason == "cancelled"
        assert not await at.session(session).approvals.pending()
        assert at.editor.call(session, "c1")["status"] == "failed"
        assert not (tmp_path / "mark").exists()


async def test_a_client_that_is_gone_has_said_no(tmp_path: Path) -> None:
    """HARDENING B9: and nothing is left running."""
    async with editor_stage(asking(call("shell", MARK, "c1"), "never said"), tmp_path) as at:
        session = await at.new()
        at.editor.answers = [asyncio.get_running_loop().create_future()]
        running = asyncio.create_task(at.prompt(session, "do it"))
        await at.editor.until(lambda: at.editor.asked)
        at.hang_up()
        async with asyncio.timeout(HANG_S):
            await at.serving
        assert not at.host.sessions
        assert not (tmp_path / "mark").exists()
        running.cancel()
        await asyncio.wait((running,))


# ── MCP servers ask ──────────────────────────────────────────────────────────────────────────────────────────


async def _asked_by_a_server(at: EditorStage) -> str:
    server = s.McpServerStdio(name="asker", command=sys.executable, args=[ASKER, "stdio"], env=[])
    session = await at.new(mcp_servers=[server])
    at.editor.answers = ["once"]
    await at.prompt(session, "ask")
    return session


@pytest.mark.parametrize(
    ("form", "heard"),
    [
        (s.AcceptElicitationResponse(action="accept", content={"ok": True}), "accept"),
        (s.AcceptElicitationResponse(action="accept", content={"ok": "nonsense"}), "decline"),
        (s.DeclineElicitationResponse(action="decline"), "decline"),
    ],
)
async def test_a_form_of_an_mcp_server_is_filled_in_at_the_editor(tmp_path: Path, form: Any, heard: str) -> None:
    """Issue 10: elicitations are answered by the person who caused them."""
    script = asking(call("asker__ask", {}, "c1"), say("asked", repeat=True))
    async with editor_stage(script, tmp_path, hello=False) as at:
        await at.initialize(elicitation=s.ElicitationCapabilities(form=s.ElicitationFormCapabilities()))
        at.editor.forms = [form]
        session = await _asked_by_a_server(at)
        assert at.editor.asked[-1]["message"].startswith("asker: ")
        assert heard in str(at.editor.call(session, "c1")["content"])


@pytest.mark.parametrize(("action", "heard"), [("accept", "accept"), ("cancel", "cancel")])
async def test_a_page_of_an_mcp_server_is_visited_from_the_editor(tmp_path: Path, action: Any, heard: str) -> None:
    """Issue 10: the other kind of elicitation."""
    page = {"url": "https://example.com/login"}
    script = asking(call("asker__visit", page, "c1"), say("asked", repeat=True))
    async with editor_stage(script, tmp_path, hello=False) as at:
        await at.initialize(elicitation=s.ElicitationCapabilities(url=s.ElicitationUrlCapabilities()))
        kinds = {"accept": s.AcceptElicitationResponse, "cancel": s.CancelElicitationResponse}
        at.editor.forms = [kinds[action](action=action)]
        session = await _asked_by_a_server(at)
        assert at.editor.asked[-1]["mode"]["url"] == page["url"]
        assert heard in str(at.editor.call(session, "c1")["content"])


async def test_an_editor_without_forms_declines_at_once(tmp_path: Path) -> None:
    """Issue 10: nobody waits for an answer that cannot come."""
    async with editor_stage(asking(call("asker__ask", {}, "c1"), say("asked", repeat=True)), tmp_path) as at:
        session = await _asked_by_a_server(at)
        assert "decline" in str(at.editor.call(session, "c1")["content"])
        assert len(at.editor.asked) == 1, "only for permission"


async def test_what_an_editor_is_not_shown_is_said_before_it_can_say_yes(tmp_path: Path) -> None:
    """A1: a request that is too long for an event; and who answered is told by the editor's name."""
    long = {"command": ["sh", "-c", f"echo done > mark # {'x' * 100_000}"]}
    async with editor_stage(asking(call("shell", long, "c1"), "ok"), tmp_path) as at:
        session = await at.new()
        at.editor.answers = ["once"]
        await at.prompt(session, "do it")
        (question,) = at.editor.asked
        hidden, shown = (block["content"]["text"] for block in question["call"]["content"])
        assert hidden.startswith("NOT ALL IS SHOWN: 88,")
        assert "characters are not shown here" in shown
        assert question["options"] == ["once", "reject"]
        assert question["names"][0].startswith("Allow once (88,")
        assert (tmp_path / "mark").exists()
