"""A person at a Codex client is asked, answers, answers late, or is gone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.testing import call, say
from tests.server.codex_client import codex_stage, scripted

MARK = {"command": ["sh", "-c", "echo done > mark"]}
PATCH = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
ASKER = str(Path(__file__).parents[2] / "mcp" / "fakes" / "plain.py")
COMMAND, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"


def asking(*replies: Any, **settings: Any) -> Any:
    """Every command that is not known to be harmless is asked about; none is confined."""
    return scripted(*replies, approval_policy="untrusted", sandbox="danger_full_access", **settings)


async def test_yes_lets_a_command_run_and_its_item_is_there_before_it_is_asked_about(tmp_path: Path) -> None:
    """Issue 10 (5): item/commandExecution/requestApproval."""
    async with codex_stage(asking(call("shell", MARK, "c1"), "ok"), tmp_path) as at:
        thread = await at.client.start()
        turn = await at.client.turn(thread, "do it")
        (question,) = at.client.all(COMMAND)
        assert (question["threadId"], question["turnId"], question["itemId"]) == (thread, turn["id"], "c1")
        assert "echo done > mark" in question["command"]
        assert (tmp_path / "mark").read_text() == "done\n"
        (item,) = at.client.items("commandExecution")
        assert (item["status"], item["exitCode"], item["cwd"]) == ("completed", 0, str(tmp_path))
        methods = [message.get("method") for message in at.client.messages]
        begun = next(
            n
            for n, message in enumerate(at.client.messages)
            if message.get("params", {}).get("item", {}).get("id") == "c1"
        )
        assert begun < methods.index(COMMAND) < methods.index("serverRequest/resolved")
        flags = [params["status"].get("activeFlags") for params in at.client.all("thread/status/changed")]
        assert flags == [[], ["waitingOnApproval"], [], None]


@pytest.mark.parametrize(
    "expected",
    [{"decision": "decline"}, {"decision": "sideways"}, {}, [], {"decision": {"acceptWithExecpolicyAmendment": {}}}],
)
async def test_no_nonsense_and_a_refusal_are_all_a_no(tmp_path: Path, expected: Any) -> None:
    """HARDENING B6: the turn goes on without it."""
    async with codex_stage(asking(call("shell", MARK, "c1"), "then not"), tmp_path) as at:
        at.client.decisions = [expected if isinstance(expected, dict) else {"code": -32000, "message": "no"}]
        turn = await at.client.turn(await at.client.start(), "do it")
        assert turn["status"] == "completed"
        assert not (tmp_path / "mark").exists()
        assert at.client.items("commandExecution")[0]["status"] == "declined"


async def test_cancel_is_a_no_that_ends_the_turn(tmp_path: Path) -> None:
    """Issue 10 (5): decisions."""
    async with codex_stage(asking(call("shell", MARK, "c1"), "never said"), tmp_path) as at:
        at.client.decisions = [{"decision": "cancel"}]
        turn = await at.client.turn(await at.client.start(), "do it")
        assert turn["status"] == "interrupted"
        assert not (tmp_path / "mark").exists()


async def test_accepted_for_the_session_the_same_command_is_not_asked_about_again(tmp_path: Path) -> None:
    """X-12, issue 10 (5): acceptForSession."""
    script = asking(call("shell", MARK, "c1"), call("shell", MARK, "c2"), "ok")
    async with codex_stage(script, tmp_path) as at:
        at.client.decisions = [{"decision": "acceptForSession"}]
        await at.client.turn(await at.client.start(), "do it twice")
        assert len(at.client.all(COMMAND)) == 1
        assert [item["status"] for item in at.client.items("commandExecution")] == ["completed", "completed"]


@pytest.mark.parametrize(("decision", "status"), [("accept", "completed"), ("decline", "declined")])
async def test_changes_of_files_have_a_question_of_their_own(tmp_path: Path, decision: str, status: str) -> None:
    """Issue 10 (5): item/fileChange/requestApproval."""
    async with codex_stage(asking(call("apply_patch", PATCH, "c1"), "ok"), tmp_path) as at:
        at.client.decisions = [{"decision": decision}]
        await at.client.turn(await at.client.start(), "write it")
        (question,) = at.client.all(CHANGE)
        assert question["itemId"] == "c1"
        (item,) = at.client.items("fileChange")
        assert item["status"] == status
        assert item["changes"] == [{"path": str(tmp_path / "new.txt"), "kind": {"type": "add"}, "diff": "hello\n"}]
        assert (tmp_path / "new.txt").exists() is (decision == "accept")


async def test_what_somebody_else_has_answered_is_not_asked_any_more(tmp_path: Path) -> None:
    """Issue 10 (2): the first answer wins; the client is told that its question is over."""
    async with codex_stage(asking(call("shell", MARK, "c1"), "ok"), tmp_path) as at:
        at.client.decisions = [None]
        thread = await at.client.start()
        begun = await at.client.call("turn/start", threadId=thread, input=[{"type": "text", "text": "do it"}])
        await at.client.told(COMMAND)
        session = at.session(thread)
        (waiting,) = await session.approvals.pending()
        await session.approvals.resolve(waiting.approval_id, "allow", scope="once")
        over = await at.client.told("serverRequest/resolved")
        assert over == {"threadId": thread, "requestId": 0}
        at.client.send({"id": 0, "result": {"decision": "decline"}})
        assert (await at.client.ended(begun["turn"]["id"]))["status"] == "completed"
        assert (tmp_path / "mark").exists()


ELICIT = "mcpServer/elicitation/request"


def with_a_server(tool: str, arguments: dict[str, Any]) -> Any:
    servers = {"asker": {"command": sys.executable, "args": [ASKER, "stdio"]}}
    return asking(call(f"asker__{tool}", arguments, "c1"), say("asked", repeat=True), mcp_servers=servers)


@pytest.mark.parametrize(
    ("form", "heard"),
    [
        ({"action": "accept", "content": {"ok": True}}, "accept"),
        ({"action": "accept", "content": {"ok": "nonsense"}}, "decline"),
        ({"action": "cancel"}, "cancel"),
    ],
)
async def test_a_call_and_what_its_server_asks_are_both_forms(tmp_path: Path, form: Any, heard: str) -> None:
    """Issue 10 (5): mcpServer/elicitation/request is what Codex has for calls too, with a form without a field."""
    async with codex_stage(with_a_server("ask", {}), tmp_path) as at:
        at.client.decisions = [{"action": "accept"}, form]
        await at.client.turn(await at.start(), "do it")
        permitted, filled = at.client.all(ELICIT)
        assert permitted["requestedSchema"] == {"type": "object", "properties": {}}
        assert (filled["serverName"], filled["mode"]) == ("asker", "form")
        (item,) = at.client.items("mcpToolCall")
        assert (item["server"], item["tool"], item["status"]) == ("asker", "ask", "completed")
        assert heard in str(item["result"])
        assert len(at.client.all("serverRequest/resolved")) == 2


async def test_a_page_of_a_server_is_named_and_a_call_that_is_declined_fails(tmp_path: Path) -> None:
    """Issue 10 (5): the other kind of elicitation, and a no."""
    page = {"url": "https://example.com/login"}
    async with codex_stage(with_a_server("visit", page), tmp_path) as at:
        at.client.decisions = [{"action": "accept"}, {"action": "accept"}]
        await at.client.turn(await at.start(), "do it")
        question = at.client.all(ELICIT)[-1]
        assert (question["mode"], question["url"]) == ("url", page["url"])
        assert at.client.items("mcpToolCall")[0]["status"] == "completed"
    async with codex_stage(with_a_server("visit", page), tmp_path) as at:
        at.client.decisions = [{"action": "decline"}]
        await at.client.turn(await at.start(), "do it")
        (item,) = at.client.items("mcpToolCall")
        assert (item["status"], item["result"]) == ("failed", None)
        assert len(at.client.all(ELICIT)) == 1


async def test_what_a_client_is_not_shown_is_said_before_it_can_say_yes(tmp_path: Path) -> None:
    """A1: a request that is too long for an event; it is allowed once at most."""
    long = {"command": ["sh", "-c", f"echo done > mark # {'x' * 100_000}"]}
    async with codex_stage(asking(call("shell", long, "c1"), "ok"), tmp_path) as at:
        at.client.decisions = [{"decision": "accept"}]
        await at.client.turn(await at.start(), "do it")
        (question,) = at.client.all(COMMAND)
        assert question["reason"].startswith("NOT ALL IS SHOWN: 88,")
        assert question["availableDecisions"] == ["accept", "decline", "cancel"]
        assert (tmp_path / "mark").exists()


async def test_what_hides_in_a_command_is_seen_before_anybody_can_say_yes(tmp_path: Path) -> None:
    """A6: in the question itself, whatever part of it the client shows."""
    evil = {"command": ["touch", "a\u202eb\x1b[2J\u200b"]}
    async with codex_stage(asking(call("shell", evil, "c1"), "ok"), tmp_path) as at:
        at.client.decisions = [{"decision": "decline"}]
        await at.client.turn(await at.start(), "do it")
        (question,) = at.client.all(COMMAND)
        shown = "a⟨U+202E⟩b⟨U+001B⟩[2J⟨U+200B⟩"
        assert shown in question["command"]
        assert shown in question["commandActions"][0]["command"]
        assert shown in question["reason"]
        assert not any(sign in str(question) for sign in "\u202e\x1b\u200b")
