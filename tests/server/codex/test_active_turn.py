"""Where a thread stands, and when."""

from __future__ import annotations

from tertulia.protocol import tool_events as t
from tertulia.protocol.events import AgentMessage, Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId, SessionId, TaskId
from tertulia.server.codex.active_turn import ActiveTurn, CodexNotification, CodexToolCalls, event_time_ms
from tertulia.server.codex.items import turn_object
from tertulia.server.codex.notifications import ThreadNotifications


def event(ts: str = "1970-01-01T00:00:01.234Z") -> Event:
    data = AgentMessage("hi", ItemId("m1"))
    return Event(1, 1, ts, data.type, SessionId("s"), "sub", None, None, None, None, data)


def test_a_thread_is_idle_active_or_waits() -> None:
    """Issue 10 (5): thread/status/changed."""
    active_turn = ActiveTurn(SessionId("s"))
    assert active_turn.state() == {"type": "idle"}
    active_turn.turn_id = TaskId("t")
    assert active_turn.state() == {"type": "active", "activeFlags": []}
    active_turn.waiting = True
    assert active_turn.status()[1]["status"] == {"type": "active", "activeFlags": ["waitingOnApproval"]}


def test_items_carry_the_time_of_their_event() -> None:
    """Issue 10 (5): startedAtMs, completedAtMs."""
    active_turn = ActiveTurn(SessionId("s"))
    assert active_turn.started(event(), {"id": "x"})[1]["startedAtMs"] == event_time_ms(event()) == 1234
    assert active_turn.completed(event(), {"id": "x"})[0] == "item/completed"


def test_a_turn_knows_how_long_it_took_once_it_is_over() -> None:
    """Issue 10 (5)."""
    assert turn_object("t")["durationMs"] is None
    ended = turn_object("t", "completed", began_ms=1_500, ended_ms=3_750)
    assert (ended["startedAt"], ended["completedAt"], ended["durationMs"]) == (1, 3, 2_250)


ROOT, CHILD, C1 = ConversationId("root"), ConversationId("child"), CallId("c1")


def tell(made: CodexToolCalls, data: EventData, conversation: ConversationId = ROOT) -> list[CodexNotification]:
    ts = "2026-01-01T00:00:00.000Z"
    event = Event(1, 1, ts, data.type, SessionId("s"), "sub", conversation, TaskId("t"), None, None, data)
    return ThreadNotifications(made._active_turn, made, ROOT, lambda task: None).of(event)


def calls() -> tuple[CodexToolCalls, ActiveTurn]:
    active_turn = ActiveTurn(SessionId("s"))
    active_turn.turn_id = TaskId("t")
    return CodexToolCalls(active_turn, ROOT, lambda conversation: "/work"), active_turn


def request(id: str, conversation: ConversationId = ROOT) -> t.ApprovalRequest:
    return t.ApprovalRequest(id, "exec", conversation, [], "run: ls", "ls", [], ["once"])


def end(*, success: bool = True) -> t.ToolCallEnd:
    return t.ToolCallEnd(C1, "shell", success, "told", truncated=False, duration_ms=1)


BEGIN = t.ToolCallBegin(C1, "shell", {"command": ["ls"]})


def test_a_command_grows_and_ends_with_all_of_it() -> None:
    """Issue 10 (5): output as it comes, then the whole."""
    made, _ = calls()
    (begun,) = tell(made, BEGIN)
    assert begun[1]["item"]["status"] == "inProgress"
    assert not tell(made, t.ExecCommandBegin(C1, ["bash", "-lc", "ls"], "/work"))
    (piece,) = tell(made, t.ExecCommandOutputDelta(C1, "stdout", "a.txt", ItemId("i"), 0))
    assert (piece[0], piece[1]["delta"]) == ("item/commandExecution/outputDelta", "a.txt")
    assert not tell(made, t.ExecCommandEnd(C1, 0, "a.txt", truncated=False, duration_ms=5))
    (ended,) = tell(made, end())
    item = ended[1]["item"]
    assert (item["command"], item["exitCode"], item["aggregatedOutput"]) == ("bash -lc ls", 0, "a.txt")
    assert not tell(made, end())


def test_calls_of_others_have_names_of_their_own() -> None:
    """Issue 10 (5): two conversations may use the same call id."""
    made, _ = calls()
    (one,) = tell(made, BEGIN)
    (two,) = tell(made, BEGIN, CHILD)
    assert (one[1]["item"]["id"], two[1]["item"]["id"]) == ("c1", "child/c1")
    tell(made, request("q1", CHILD), CHILD)
    question = made.item_of("q1")
    assert question is not None
    assert question["id"] == "child/c1"


def test_the_thread_waits_as_long_as_anybody_is_asked() -> None:
    """Issue 10 (5): waitingOnApproval, told once each way."""
    made, active_turn = calls()
    tell(made, BEGIN)
    assert len(tell(made, request("q1"))) == 1
    assert not tell(made, request("q2"))
    assert not tell(made, t.ApprovalResolved("q1", "deny"))
    assert active_turn.waiting
    assert len(tell(made, t.ApprovalResolved("q2", "allow"))) == 1
    assert not tell(made, t.ApprovalResolved("never asked", "deny"))
    (ended,) = tell(made, end(success=False))
    assert ended[1]["item"]["status"] == "declined"


def test_what_belongs_to_no_call_changes_nothing() -> None:
    """Issue 10 (5): a question without a call, news of a call that is not known, a plan."""
    made, active_turn = calls()
    assert not tell(made, t.ToolCallBegin(C1, "update_plan", {}))
    assert not tell(made, t.ExecCommandOutputDelta(C1, "stdout", "x", ItemId("i"), 0))
    assert not tell(made, t.ExecCommandBegin(C1, ["ls"], "/"))
    assert not tell(made, t.ExecCommandEnd(C1, 0, "", truncated=False, duration_ms=5))
    tell(made, request("q1"))
    assert made.item_of("q1") is None
    made.forget()
    assert not active_turn.waiting


def test_progress_and_searches_are_told() -> None:
    """Issue 10 (5): item/mcpToolCall/progress, webSearch."""
    made, _ = calls()
    tell(made, t.ToolCallBegin(C1, "files__read", {}))
    mcp_tool_call_progress = t.McpToolCallProgress(C1, 0.5, None, "half", ItemId("i"), 0)
    assert [note[1]["message"] for note in tell(made, mcp_tool_call_progress)] == ["half"]
    silent = t.McpToolCallProgress(C1, 0.5, None, None, ItemId("i"), 0)
    assert not tell(made, silent)
    assert [note[0] for note in tell(made, t.WebSearchEnd(C1, "cats"))] == [
        "item/started",
        "item/completed",
    ]


def test_a_patch_that_came_as_a_command_stays_a_patch() -> None:
    """Issue 10 (5): what the shell did with it is not shown."""
    made, _ = calls()
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
    tell(made, t.ToolCallBegin(C1, "shell", {"command": ["apply_patch", patch]}))
    tell(made, t.ExecCommandEnd(C1, 0, "", truncated=False, duration_ms=5))
    (ended,) = tell(made, end())
    assert set(ended[1]["item"]) == {"type", "id", "changes", "status"}
