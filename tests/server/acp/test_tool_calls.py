"""Tool calls from their beginning to their end, as an editor is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tertulia.protocol.events import Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId, SessionId
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    McpToolCallBegin,
    PatchApplyBegin,
    ToolCallBegin,
    ToolCallEnd,
    WebSearchBegin,
    WebSearchEnd,
)
from tertulia.server.acp.tool_calls import MAX_OUTPUT, AcpToolCalls
from tertulia.server.acp.updates import SessionUpdates
from tertulia.testing import call
from tests.server.acp_editor import editor_stage, scripted

CONVERSATION = ConversationId("talk")
ONE = CallId("one")


def calls(*, terminal: bool = False) -> AcpToolCalls:
    return AcpToolCalls(CONVERSATION, lambda conversation: "/work", lambda conversation: "", terminal=terminal)


def event(data: EventData, conversation: ConversationId = CONVERSATION) -> Event:
    return Event(1, None, "", data.type, SessionId("s"), "sub", conversation, None, None, None, data)


def tell(made: AcpToolCalls, data: EventData, conversation: ConversationId = CONVERSATION) -> list[dict[str, Any]]:
    return SessionUpdates(CONVERSATION, made).of(event(data, conversation))


def asked_about(made: AcpToolCalls) -> str | None:
    request = ApprovalRequest("q", "exec", CONVERSATION, [], "run: ls", "ls", [], ["once"])
    about = made.about(event(request), request)
    return None if about is None else about.id


def begun(
    made: AcpToolCalls, name: str = "shell", id: CallId = ONE, conversation: ConversationId = CONVERSATION
) -> str:
    (update,) = tell(made, ToolCallBegin(id, name, {"command": ["ls"]}), conversation)
    return update["toolCallId"]


def output(made: AcpToolCalls, text: str, offset: int = 0) -> list[dict[str, Any]]:
    return tell(made, ExecCommandOutputDelta(ONE, "stdout", text, ItemId("i"), offset))


def end(made: AcpToolCalls, text: str = "out", *, success: bool = True, id: CallId = ONE) -> dict[str, Any]:
    (update,) = tell(made, ToolCallEnd(id, "shell", success, text, False, 7))
    return update


def test_an_id_that_a_model_uses_again_gets_a_new_name() -> None:
    """Issue 10 (4): ids are unique in a session, also over its conversations."""
    made = calls()
    assert begun(made) == "one"
    assert begun(made, conversation=ConversationId("other")) == "one#2"
    assert asked_about(made) == "one"
    assert end(made)["toolCallId"] == "one"
    assert asked_about(made) is None
    assert begun(made) == "one#3"


def test_output_is_shown_as_it_comes_and_costs_no_more_than_it_is_worth() -> None:
    """Issue 10 (4): exec output as content; an update repeats what is shown, so not every byte makes one."""
    made = calls()
    begun(made)
    (first,) = output(made, "a line\n")
    assert first["content"] == [{"type": "content", "content": {"type": "text", "text": "```\na line\n```"}}]
    sent = sum(len(str(update)) for n in range(20_000) for update in output(made, "x", n))
    assert sent < 20_000 * MAX_OUTPUT / 100
    assert len(str(output(made, "y" * 100_000))) < 2 * MAX_OUTPUT


def test_an_editor_with_a_terminal_gets_each_piece_once() -> None:
    """Issue 10 (4): exec output as terminal, where the editor says that it shows one."""
    made = calls(terminal=True)
    begun(made)
    (running,) = tell(made, ExecCommandBegin(ONE, ["ls"], "/work"))
    assert running["content"] == [{"type": "terminal", "terminalId": "one"}]
    assert running["_meta"] == {"terminal_info": {"terminal_id": "one", "cwd": "/work"}}
    assert output(made, "x")[0]["_meta"] == {"terminal_output": {"terminal_id": "one", "data": "x"}}
    (ran,) = tell(made, ExecCommandEnd(ONE, 3, "x", False, 7))
    assert ran["_meta"]["terminal_exit"]["exit_code"] == 3
    ended = end(made, success=False)
    assert (ended["status"], ended["rawOutput"]["exitCode"]) == ("failed", 3)
    assert ended["content"] == running["content"], "not once more as text"


def test_without_a_terminal_the_output_stands_in_the_end() -> None:
    """Issue 10 (4)."""
    made = calls()
    begun(made)
    assert tell(made, ExecCommandBegin(ONE, ["ls"], "/work"))[0]["status"] == "in_progress"
    assert tell(made, ExecCommandEnd(ONE, 0, "x", False, 7)) == []
    ended = end(made, "```")
    assert ended["content"][0]["content"]["text"] == "````\n```\n````"
    assert ended["rawOutput"] == {"success": True, "truncated": False, "durationMs": 7, "exitCode": 0}


def test_a_patch_in_a_command_shows_its_files_too() -> None:
    """Issue 10 (4): locations."""
    made = calls()
    begun(made)
    changes = [{"kind": "update", "path": "a", "move_to": "b"}, {"kind": "add", "path": "/c"}]
    (update,) = tell(made, PatchApplyBegin(ONE, changes))
    assert update["locations"] == [{"path": "/work/b"}, {"path": "/c"}]


def test_a_search_of_the_providers_own_is_a_call_as_well() -> None:
    """Issue 10 (4)."""
    made = calls()
    (began,) = tell(made, WebSearchBegin(ONE))
    assert (began["sessionUpdate"], began["kind"], began["status"]) == ("tool_call", "search", "in_progress")
    (ended,) = tell(made, WebSearchEnd(ONE, "tertulia"))
    assert (ended["title"], ended["status"]) == ("Search the web: tertulia", "completed")
    begun(made, "web_search", CallId("two"))
    assert tell(made, WebSearchBegin(CallId("two")))[0]["sessionUpdate"] == "tool_call_update"
    assert tell(made, WebSearchEnd(CallId("two"), ""))[0]["title"] == "Search the web"


def test_what_nobody_was_told_of_is_not_told_further_and_nothing_is_left_open() -> None:
    """Issue 10 (4): the plan shows as a plan; a reader who missed an end sees that nothing runs."""
    made = calls()
    assert tell(made, ToolCallBegin(ONE, "update_plan", {})) == []
    assert tell(made, McpToolCallBegin(ONE, "server", "tool")) == output(made, "x") == []
    assert tell(made, ExecCommandBegin(ONE, [], "/")) == tell(made, ExecCommandEnd(ONE, 0, "", False, 0)) == []
    assert tell(made, PatchApplyBegin(ONE, [])) == tell(made, WebSearchEnd(ONE, "")) == []
    assert tell(made, ToolCallEnd(ONE, "x", True, "", False, 0)) == []
    begun(made)
    assert [update["status"] for update in made.abandon()] == ["failed"]
    assert made.abandon() == []


async def test_a_patch_is_applied_and_shown_as_a_diff(tmp_path: Path) -> None:
    """Issue 10 (4): the real tool, on a real file."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+three\n*** End Patch"
    script = scripted(call("apply_patch", patch, "c1"), "patched", sandbox="danger_full_access")
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "change it")
        shown = at.editor.call(session, "c1")
        assert (tmp_path / "a.txt").read_text() == "one\nthree\n"
        assert shown["status"] == "completed"
        assert shown["locations"] == [{"path": str(tmp_path / "a.txt")}]
        old, new = "one\ntwo\n", "one\nthree\n"
        assert shown["content"] == [{"type": "diff", "path": str(tmp_path / "a.txt"), "oldText": old, "newText": new}]


async def test_an_editor_that_shows_terminals_gets_the_output_of_a_command_in_one(tmp_path: Path) -> None:
    """Issue 10 (4): a real command; every update is in the schema's words."""
    script = scripted(
        call("shell", {"command": ["sh", "-c", "echo out; exit 3"]}, "c1"), "ran", sandbox="danger_full_access"
    )
    async with editor_stage(script, tmp_path, hello=False) as at:
        await at.initialize(_meta={"terminal_output": True})
        session = await at.new()
        await at.prompt(session, "run it")
        updates = [update["_meta"] for update in at.editor.of(session, "tool_call_update") if "_meta" in update]
        assert updates[0] == {"terminal_info": {"terminal_id": "c1", "cwd": str(tmp_path)}}
        assert "".join(meta["terminal_output"]["data"] for meta in updates if "terminal_output" in meta) == "out\n"
        assert updates[-1]["terminal_exit"]["exit_code"] == 3
        assert at.editor.call(session, "c1")["content"] == [{"type": "terminal", "terminalId": "c1"}]
