"""What an ACP agent reports, as steps; whatever shape it has."""

from __future__ import annotations

from itertools import product
from time import thread_time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.acp import updates
from tertulia.executors.acp.updates import AgentUpdates, act_of, paths_of, shown_diff
from tertulia.executors.executor import (
    AgentDelta,
    AgentPlan,
    AgentText,
    CommandAct,
    FileChangeAct,
    ForeignOutput,
    McpCallAct,
    PatchAct,
    Step,
    Thought,
    ThoughtDelta,
    ToolUseBegin,
    ToolUseEnd,
)


def text(kind: str, message: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": f"agent_{kind}_chunk", "content": {"type": "text", "text": message}, **fields}


def call(update: str = "tool_call_update", /, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": update, "toolCallId": "t", **fields}


def steps(*updates: dict[str, Any]) -> list[Step]:
    """All of a task."""
    reader = AgentUpdates()
    return [step for update in updates for step in reader.understand(update)] + reader.end()


def test_pieces_are_one_message_until_something_else_comes() -> None:
    """Issue 11, 4: deltas, and then the whole; ids are those of the deltas."""
    assert steps(text("thought", "h"), text("thought", "m"), text("message", "a"), text("message", "b")) == [
        ThoughtDelta("thought-1", "h"),
        ThoughtDelta("thought-1", "m"),
        Thought("thought-1", "hm"),
        AgentDelta("message-2", "a"),
        AgentDelta("message-2", "b"),
        AgentText("message-2", "ab"),
    ]
    updates = steps(text("message", "a", messageId="1"), text("message", "b", messageId="2"))
    assert [step.text for step in updates if isinstance(step, AgentText)] == ["a", "b"]


def test_a_message_is_bounded(monkeypatch: Any) -> None:
    """Nobody can fill our memory."""
    monkeypatch.setattr(updates, "MAX_TEXT", 3)
    assert steps(text("message", "ab"), text("message", "cd"), text("message", "e"))[-1] == AgentText(
        "message-1", "abc"
    )


def test_a_call_is_begun_when_it_is_known_and_ends_once() -> None:
    """Told a little more each time."""
    updates = steps(
        call("tool_call", title="?", kind="execute", status="pending"),
        call(rawInput={"command": ["ls", "-l"]}),
        call(status="in_progress"),
        call(status="failed", rawOutput={"exitCode": 2, "output": "no"}),
    )
    assert [type(step) for step in updates] == [ToolUseBegin, ToolUseEnd]
    begun, done = updates
    assert isinstance(begun, ToolUseBegin)
    assert isinstance(done, ToolUseEnd)
    assert (begun.act, begun.name) == (CommandAct(("ls", "-l")), "execute")
    assert (done.success, done.exit_code) == (False, 2)


def test_a_change_is_told_with_its_files_and_its_difference() -> None:
    """Issue 11, 4: diffs and locations."""
    new = {"type": "diff", "path": "/a", "newText": "x\n"}
    old = {"type": "diff", "path": "/b", "oldText": "x\n", "newText": "y\n"}
    _, done = steps(call("tool_call", title="Edit", kind="edit", status="completed", content=[new, old]))
    assert isinstance(done, ToolUseEnd)
    assert done.act == PatchAct((FileChangeAct("/a", "add"), FileChangeAct("/b", "update")))
    assert "+++ /b" in done.output
    gone = act_of({"kind": "delete", "locations": [{"path": "/c"}]})
    assert gone == PatchAct((FileChangeAct("/c", "delete"),))
    assert act_of({"kind": "edit"}) is None
    assert shown_diff("/a", "", "x" * 300_000) == "/a: 0 characters became 300,000"


def test_calls_of_mcp_servers_are_told_as_such() -> None:
    """Each agent says it in its own way."""
    assert act_of({"title": "mcp__tertulia__clock__now", "kind": "other"}) == McpCallAct("tertulia", "clock__now")
    assert act_of({"_meta": {"claudeCode": {"toolName": "mcp__a__b"}}}) == McpCallAct("a", "b")
    assert act_of({"rawInput": {"server": "a", "tool": "b"}, "kind": "execute"}) == McpCallAct("a", "b")
    begun, *_ = steps(call("tool_call", title="mcp__a__b", status="in_progress", rawInput={}))
    assert isinstance(begun, ToolUseBegin)
    assert begun.name == "a__b"


def test_a_command_in_a_terminal_of_ours_is_told_by_us() -> None:
    """Once."""
    assert act_of({"kind": "execute", "title": "ls", "content": [{"type": "terminal", "terminalId": "1"}]}) is None
    assert act_of({"kind": "execute", "title": "ls -a"}) == CommandAct(("ls", "-a"))


def test_a_plan_is_told_and_what_is_no_step_is_left_out() -> None:
    """Plans."""
    entries = [{"content": "one", "status": "pending"}, {"content": 3, "status": "pending"}, {"content": "x"}]
    (plan,) = steps({"sessionUpdate": "plan", "entries": entries})
    assert isinstance(plan, AgentPlan)
    assert [step.step for step in plan.steps] == ["one"]


def test_what_says_nothing_about_the_task_is_passed_over_and_the_rest_is_kept() -> None:
    """Issue 11, 3: unknown kept as foreign_event."""
    assert steps({"sessionUpdate": "usage_update", "used": 1, "size": 2}, {"sessionUpdate": "user_message_chunk"}) == []
    strange = {"sessionUpdate": "new_thing", "a": 1}
    assert steps(strange, {}) == [ForeignOutput(strange), ForeignOutput({})]
    picture = {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}}
    assert steps(picture) == [ForeignOutput(picture)]
    assert steps({"sessionUpdate": "tool_call"}) == [ForeignOutput({"sessionUpdate": "tool_call"})]


def test_calls_under_way_are_bounded(monkeypatch: Any) -> None:
    """Nobody can fill our memory."""
    monkeypatch.setattr(updates, "MOST_OPEN", 1)
    other = {"sessionUpdate": "tool_call", "toolCallId": "u", "title": "x"}
    assert steps(call("tool_call", title="x"), other) == [ForeignOutput(other)]


def test_a_path_is_looked_for_where_agents_put_it() -> None:
    """Locations, diffs, or the input."""
    assert paths_of({"rawInput": {"file_path": "/a"}}) == ("/a",)
    assert paths_of({"locations": [{"path": "/b"}, {"path": "/b"}, {"line": 1}]}) == ("/b",)


_NAMES = st.sampled_from(
    ["sessionUpdate", "toolCallId", "content", "type", "text", "title", "kind", "status", "rawInput", "rawOutput",
     "locations", "path", "entries", "_meta", "claudeCode", "toolName", "command", "oldText", "newText"]
)  # fmt: skip
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_KINDS = st.sampled_from(["tool_call", "tool_call_update", "plan", "agent_message_chunk", "agent_thought_chunk", "x"])
_STATUS = st.sampled_from(["pending", "in_progress", "completed", "failed", None, 3])


@given(st.lists(st.tuples(_KINDS, _STATUS, st.dictionaries(_NAMES, _VALUES)), max_size=8))
def test_no_update_breaks_it(updates: list[tuple[str, Any, dict[str, Any]]]) -> None:
    """Issue 11: hypothesis; nothing of its shape is trusted, and every call ends at most once."""
    seen = steps(
        *({**rest, "sessionUpdate": kind, "toolCallId": "t", "status": status} for kind, status, rest in updates)
    )
    begun = sum(isinstance(step, ToolUseBegin) for step in seen)
    assert 0 <= begun - sum(isinstance(step, ToolUseEnd) for step in seen) <= 1


def test_a_change_is_shown_in_linear_time_whatever_it_is() -> None:
    """L6: the finest difference of 250 kB of short lines took the loop long."""
    rows = ["".join(pair) for pair in product("abcdefghijk", repeat=2)]
    old, new = ("\n".join(rows[number * step % len(rows)] for number in range(42_000)) for step in (7, 12))
    began = thread_time()
    shown = shown_diff("/a", old, new)
    assert thread_time() - began < 0.5
    assert shown.count("\n-") > 41_000
    assert shown_diff("/a", "x\r\ny\n", "x\ny\n") == "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n-x\r\n+x\n y"
    assert shown_diff("/a", "x", "x\n") == "--- /a\n+++ /a\n@@ -1,1 +1,2 @@\n x\n+"
