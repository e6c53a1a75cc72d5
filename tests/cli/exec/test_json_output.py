"""Events as the lines of `codex exec --json`."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tertulia.cli.exec.json_output import ExecJsonLines, JsonView
from tertulia.cli.exec.run_message import MessageOutcome
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import Usage
from tests.cli.made_events import CHILD, CONFIGURED, ROOT, SESSION, EventMaker
from tests.tables import each_row

BEGIN = t.ToolCallBegin(CallId("c1"), "add", {"a": 1})
END = t.ToolCallEnd(CallId("c1"), "add", True, "3", False, 5)
STEPS = [t.PlanStep("one", "completed"), t.PlanStep("two", "in_progress")]

# The keys of the lines that Codex 0.166 wrote, for everything that exists here too.
RECORDED: dict[str, dict[str, Any]] = {
    "thread.started": {"type": 0, "thread_id": 0},
    "turn.started": {"type": 0},
    "item.completed agent_message": {"type": 0, "item": {"id": 0, "type": 0, "text": 0}},
    "item.completed reasoning": {"type": 0, "item": {"id": 0, "type": 0, "text": 0}},
    "item.completed error": {"type": 0, "item": {"id": 0, "type": 0, "message": 0}},
    "item.started todo_list": {"type": 0, "item": {"id": 0, "type": 0, "items": 0}},
    "item.updated todo_list": {"type": 0, "item": {"id": 0, "type": 0, "items": 0}},
    "item.completed todo_list": {"type": 0, "item": {"id": 0, "type": 0, "items": 0}},
    "turn.completed": {
        "type": 0,
        "usage": {
            "input_tokens": 0,
            "cached_input_tokens": 0,
            "cache_write_input_tokens": 0,
            "output_tokens": 0,
            "reasoning_output_tokens": 0,
        },
    },
    "turn.failed": {"type": 0, "error": {"message": 0}},
    "error": {"type": 0, "message": 0},
}


def lines_of(*data: e.EventData, warnings: list[str] | None = None) -> list[dict[str, Any]]:
    lines, tell = ExecJsonLines(warnings or []), EventMaker()
    events = [tell(CONFIGURED, None, None), *(tell(part) for part in data)]
    return [line for event in events for line in lines.take(event)]


def kind(line: dict[str, Any]) -> str:
    return f"{line['type']} {line['item']['type']}" if "item" in line else line["type"]


def has_all_keys(shape: Any, line: Any) -> bool:
    return not isinstance(shape, dict) or all(key in line and has_all_keys(shape[key], line[key]) for key in shape)


def test_every_recorded_shape_is_part_of_ours() -> None:
    plan = t.PlanUpdate(STEPS)
    done = e.TaskComplete("completed", "hi", Usage())
    failed = e.TaskComplete("failed", None, Usage())
    steps = [e.AgentReasoning("hm", ItemId("1")), plan, plan, e.AgentMessage("hi", ItemId("2")), done]
    lines = lines_of(
        e.WarningEvent("careful"), e.TaskStarted("user"), *steps, e.ErrorEvent("model_error", "no"), failed
    )
    assert {kind(line) for line in lines} == set(RECORDED)
    for line in lines:
        assert has_all_keys(RECORDED[kind(line)], line), line


def test_the_order_of_a_plain_task() -> None:
    done = e.TaskComplete("completed", "hi", Usage())
    lines = lines_of(e.TaskStarted("user", "hello"), e.AgentMessage("hi", ItemId("1")), done)
    assert [kind(line) for line in lines] == [
        "thread.started",
        "turn.started",
        "item.completed agent_message",
        "turn.completed",
    ]


def test_the_thread_is_the_session() -> None:
    assert lines_of() == [{"type": "thread.started", "thread_id": SESSION, "seq": 1}]


def test_every_line_but_the_first_names_its_conversation_and_durable_ones_their_number() -> None:
    lines, tell = ExecJsonLines(), EventMaker()
    events = [
        tell(CONFIGURED, None, None),
        tell(e.WarningEvent("of the session"), None, None),
        tell(e.TaskStarted("user")),
        tell(e.TaskStarted("target"), CHILD, "other"),
    ]
    signed = [line for event in events for line in lines.take(event)]
    assert [(line.get("conversation_id"), line.get("task_id"), line.get("seq")) for line in signed] == [
        (None, None, 1),
        (ROOT, None, 2),
        (ROOT, "task", 3),
        (CHILD, "other", 4),
    ]


def test_warnings_from_before_the_session_follow_the_first_line() -> None:
    lines = lines_of(warnings=["a file is odd", "another"])
    assert [line["item"]["message"] for line in lines[1:]] == ["a file is odd", "another"]
    assert {line["conversation_id"] for line in lines[1:]} == {ROOT}


def test_items_are_numbered_through() -> None:
    lines = lines_of(
        e.WarningEvent("w"), e.AgentReasoning("r", ItemId("1")), BEGIN, END, e.AgentMessage("a", ItemId("2"))
    )
    assert [line["item"]["id"] for line in lines[1:]] == ["item_0", "item_1", "item_2", "item_2", "item_3"]


def test_a_tool_call_is_one_item_from_begin_to_end() -> None:
    begun, ended = (line["item"] for line in lines_of(BEGIN, END)[1:])
    assert begun == {
        "id": "item_0",
        "type": "tool_call",
        "call_id": "c1",
        "name": "add",
        "arguments": {"a": 1},
        "output": None,
        "status": "in_progress",
    }
    assert ended == begun | {"output": "3", "status": "completed"}


def test_a_refused_call_has_failed() -> None:
    refused = t.ToolCallEnd(CallId("c1"), "add", False, "there is no tool", False, 0)
    assert lines_of(BEGIN, refused)[-1]["item"]["status"] == "failed"


def test_an_end_without_a_begin_is_still_told() -> None:
    (line,) = lines_of(END)[1:]
    assert (line["type"], line["item"]["name"], line["item"]["arguments"]) == ("item.completed", "add", None)


def test_equal_call_ids_of_two_conversations_are_two_items() -> None:
    lines, tell = ExecJsonLines(), EventMaker()
    events = [tell(BEGIN), tell(BEGIN, CHILD), tell(END, CHILD), tell(END)]
    assert [line["item"]["id"] for event in events for line in lines.take(event)] == [
        "item_0",
        "item_1",
        "item_1",
        "item_0",
    ]


@pytest.mark.parametrize("text", ["{broken", "", "[" * 100_000])
def test_arguments_that_are_not_json_stay_as_they_were_written(text: str) -> None:
    begin = t.ToolCallBegin(CallId("c1"), "add", text)
    assert lines_of(begin)[-1]["item"]["arguments"] == text


def test_a_plan_is_one_list_that_is_updated_and_completed_with_its_turn() -> None:
    later = t.PlanUpdate([t.PlanStep("one", "completed"), t.PlanStep("two", "completed")])
    lines = lines_of(t.PlanUpdate(STEPS), later, e.TaskComplete("completed", None, Usage()), t.PlanUpdate(STEPS))
    plans = [line for line in lines if "item" in line]
    assert [line["type"] for line in plans] == ["item.started", "item.updated", "item.completed", "item.started"]
    assert [line["item"]["id"] for line in plans] == ["item_0", "item_0", "item_0", "item_1"]
    assert plans[0]["item"]["items"] == [{"text": "one", "completed": True}, {"text": "two", "completed": False}]
    assert plans[2]["item"]["items"] == [{"text": "one", "completed": True}, {"text": "two", "completed": True}]


def test_usage_is_that_of_the_whole_thread() -> None:
    spent = e.TokenCount(Usage(10, 4, 5, 1, 15), 128_000, "key")
    lines = lines_of(spent, spent, e.TaskComplete("completed", "hi", Usage(1, 1, 1, 1, 2)))
    assert lines[-1]["usage"] == {
        "input_tokens": 20,
        "cached_input_tokens": 8,
        "cache_write_input_tokens": 0,
        "output_tokens": 10,
        "reasoning_output_tokens": 2,
        "total_tokens": 30,
    }


def test_a_failed_task_says_why_twice_as_codex_does() -> None:
    error, failed = lines_of(e.ErrorEvent("model_error", "no answer"), e.TaskComplete("failed", None, Usage()))[1:]
    assert (error["type"], error["message"], error["code"]) == ("error", "no answer", "model_error")
    assert (failed["type"], failed["error"]) == ("turn.failed", {"code": "model_error", "message": "no answer"})


def test_the_error_of_one_task_is_not_the_failure_of_another() -> None:
    lines, tell = ExecJsonLines(), EventMaker()
    lines.take(tell(e.ErrorEvent("model_error", "mine"), ROOT, "one"))
    (other,) = lines.take(tell(e.TaskComplete("failed", None, Usage()), ROOT, "two"))
    assert other["error"]["code"] == "internal"


def test_an_error_of_the_session_belongs_to_no_task() -> None:
    lines, tell = ExecJsonLines(), EventMaker()
    lines.take(tell(CONFIGURED, None, None))
    (line,) = lines.take(tell(e.ErrorEvent("internal", "the journal failed"), None, None))
    assert (line["type"], line["conversation_id"]) == ("error", ROOT)
    (failed,) = lines.take(tell(e.TaskComplete("failed", None, Usage()), ROOT, "one"))
    assert failed["error"]["message"] != "the journal failed"


@each_row(
    ("reason", "code"),
    [
        ("interrupted", "interrupted"),
        ("shutdown", "interrupted"),
        ("crash", "interrupted"),
        ("timeout", "timeout"),
        ("limit", "limit"),
    ],
)
def test_an_aborted_turn_has_a_terminal_line_too(reason: e.AbortReason, code: str) -> None:
    last = lines_of(e.TaskStarted("user"), e.TurnAborted(reason))[-1]
    assert (last["type"], last["error"]["code"]) == ("turn.failed", code)
    assert last["error"]["message"]


def test_a_task_that_our_own_timeout_stops_is_a_timeout() -> None:
    lines, tell = ExecJsonLines(), EventMaker()
    lines.stopped_by = "timeout"
    (line,) = lines.take(tell(e.TurnAborted("interrupted")))
    assert line["error"]["code"] == "timeout"


def test_handing_over_and_going_on_is_one_turn() -> None:
    """The continuation of a conversation that waited for another one is no turn of its own."""
    lines, tell = ExecJsonLines(), EventMaker()
    events = [
        tell(CONFIGURED, None, None),
        tell(e.TaskStarted("user")),
        tell(e.TurnAborted("replaced", CallId("c1"))),
        tell(e.TaskStarted("target"), CHILD),
        tell(e.TaskComplete("completed", "child", Usage()), CHILD),
        tell(e.TaskStarted("continuation")),
        tell(e.TaskComplete("completed", "root", Usage())),
    ]
    made = [line for event in events for line in lines.take(event)]
    assert [(line["type"], line.get("conversation_id")) for line in made] == [
        ("thread.started", None),
        ("turn.started", ROOT),
        ("turn.started", CHILD),
        ("turn.completed", CHILD),
        ("turn.completed", ROOT),
    ]


def test_a_retry_is_a_line_and_a_narrowed_right_an_item() -> None:
    retry, narrowed = lines_of(e.BackgroundEvent("again", discard_deltas=True), e.BackgroundEvent("less", [{}]))[1:]
    assert (retry["type"], retry["message"]) == ("error", "again")
    assert kind(narrowed) == "item.completed error"
    assert narrowed["item"]["message"] == "less"


def test_deltas_and_the_rest_make_no_lines() -> None:
    delta = e.AgentMessageDelta("h", ItemId("1"), 0)
    assert len(lines_of(delta, e.ConversationClosed(), e.ConversationContextChanged(["model"]))) == 1


@pytest.mark.parametrize(("status", "code"), [("interrupted", "interrupted"), ("timeout", "timeout")])
def test_a_run_that_was_stopped_before_its_turn_owes_a_terminal_line(status: Any, code: str) -> None:
    lines, tell = ExecJsonLines(), EventMaker()
    lines.take(tell(CONFIGURED, None, None))
    (line,) = lines.finish(MessageOutcome(status))
    assert (line["type"], line["error"]["code"], line["conversation_id"]) == ("turn.failed", code, ROOT)


def test_nothing_is_owed_after_a_terminal_line_nor_before_the_first() -> None:
    lines, tell = ExecJsonLines(), EventMaker()
    assert lines.finish(MessageOutcome("interrupted")) == []
    lines.take(tell(CONFIGURED, None, None))
    lines.take(tell(e.TaskComplete("completed", "child", Usage()), CHILD))
    assert lines.finish(MessageOutcome("interrupted")) != []
    lines.take(tell(e.TurnAborted("interrupted")))
    assert lines.finish(MessageOutcome("interrupted")) == []


def test_the_view_writes_a_line_of_utf8_at_once() -> None:
    stream, tell = io.BytesIO(), EventMaker()
    view = JsonView(stream, ["früh"])
    view.show(tell(CONFIGURED, None, None))
    assert [json.loads(line)["type"] for line in stream.getvalue().splitlines()] == ["thread.started", "item.completed"]
    assert "früh".encode() in stream.getvalue()
    view.stopping("timeout")
    view.show(tell(e.TurnAborted("interrupted")))
    view.end(MessageOutcome("timeout"))
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert last["error"]["code"] == "timeout"


def test_commands_and_patches_are_items_of_their_own() -> None:
    """S002-14: in the words of Codex, beside the call that caused them."""
    call_id = CallId("c1")
    lines = lines_of(
        t.ExecCommandBegin(call_id, ["bash", "-c", "echo hi"], "/w"),
        t.ExecCommandEnd(call_id, 3, "hi\n", False, 5),
        t.ExecCommandEnd(CallId("began before"), 0, "", False, 5),
        t.PatchApplyBegin(call_id, [{"kind": "update", "path": "a", "move_to": "b"}]),
        t.PatchApplyEnd(call_id, True, "Success."),
    )[1:]
    assert [kind(line) for line in lines] == [
        "item.started command_execution",
        "item.completed command_execution",
        "item.started file_change",
        "item.completed file_change",
    ]
    began, ended, _, patched = (line["item"] for line in lines)
    assert (began["command"], began["exit_code"], began["status"]) == ("bash -c 'echo hi'", None, "in_progress")
    assert (ended["aggregated_output"], ended["exit_code"], ended["status"]) == ("hi\n", 3, "failed")
    assert ended["id"] == began["id"]
    assert (patched["changes"], patched["status"]) == ([{"path": "a", "kind": "update"}], "completed")
