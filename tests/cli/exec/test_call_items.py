"""A call is one item, of the kind that Codex has for it. The shapes are those that Codex 0.166 wrote."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.cli.exec.json_output import ExecJsonLines
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import CallId
from tertulia.protocol.tool_events import (
    ExecCommandBegin,
    ExecCommandEnd,
    McpToolCallBegin,
    McpToolCallEnd,
    PatchApplyBegin,
    PatchApplyEnd,
    PlanStep,
    PlanUpdate,
    ToolCallBegin,
    ToolCallEnd,
    WebSearchBegin,
    WebSearchEnd,
)
from tertulia.protocol.tool_spec import fqn
from tests.cli.made_events import EventMaker
from tests.tables import each_row

ID = CallId("c1")
NO = '{"ok":false,"code":"no_approver","reason":"nobody is there"}'


def items(*data: EventData) -> list[tuple[str, dict[str, Any]]]:
    lines, tell = ExecJsonLines(), EventMaker()
    return [(line["type"], line["item"]) for part in data for line in lines.take(tell(part))]


def begin(name: str, arguments: Any = None) -> ToolCallBegin:
    return ToolCallBegin(ID, name, arguments)


def end(name: str, success: bool = True, output: str = "fine") -> ToolCallEnd:
    return ToolCallEnd(ID, name, success, output, False, 5)


def test_a_command_is_one_item_with_its_output_and_exit_code() -> None:
    ran = items(
        begin("shell", {"command": ["bash", "-c", "exit 3"]}),
        ExecCommandBegin(ID, ["bash", "-c", "exit 3"], "/w"),
        ExecCommandEnd(ID, 3, "", False, 5),
        end("shell", False, "Exit code: 3"),
    )
    item = {"id": "item_0", "type": "command_execution", "command": "bash -c 'exit 3'", "aggregated_output": ""}
    assert ran == [
        ("item.started", item | {"exit_code": None, "status": "in_progress"}),
        ("item.completed", item | {"exit_code": 3, "status": "failed"}),
    ]


@each_row(
    ("arguments", "command"),
    [
        ({"command": ["rm", "a b"]}, "rm 'a b'"),
        ({"cmd": "rm a"}, "rm a"),
        ({"command": [1, None]}, "1 None"),
        ({"command": {}}, ""),
        ("rm", ""),
        (None, ""),
    ],
)
def test_a_command_that_nobody_may_allow_was_declined(arguments: Any, command: str) -> None:
    """Codex has a status for it."""
    (started, _), (completed, item) = items(begin("exec_command", arguments), end("exec_command", False, NO))
    assert (started, completed) == ("item.started", "item.completed")
    assert (item["command"], item["exit_code"], item["status"]) == (command, None, "declined")
    assert item["aggregated_output"] == NO


@each_row("output", ["there is no such tool", "[]", '{"code":"sandbox_error"}', "[" * 100_000])
def test_a_command_that_never_ran_for_another_reason_has_failed(output: str) -> None:
    assert items(begin("shell"), end("shell", False, output))[-1][1]["status"] == "failed"


def test_a_patch_is_a_change_of_files() -> None:
    made = items(
        begin("apply_patch", "*** Begin Patch"),
        PatchApplyBegin(ID, [{"kind": "add", "path": "n.txt"}]),
        PatchApplyEnd(ID, True, "Success."),
        end("apply_patch"),
    )
    assert [item["type"] for _, item in made] == ["file_change"] * 2
    assert made[1][1]["changes"] == [{"path": "n.txt", "kind": "add"}]
    refused = items(begin("apply_patch", "nonsense"), end("apply_patch", False, "no patch"))
    assert [(kind, item["type"]) for kind, item in refused] == [
        ("item.started", "tool_call"),
        ("item.completed", "tool_call"),
    ]


def test_a_plan_is_a_list_and_no_call_unless_it_was_refused() -> None:
    made = items(begin("update_plan"), PlanUpdate([PlanStep("one", "pending")]), end("update_plan"))
    assert [(kind, item["type"]) for kind, item in made] == [("item.started", "todo_list")]
    assert items(begin("update_plan"), end("update_plan", False, "what?"))[-1][1]["output"] == "what?"


@pytest.mark.parametrize(
    ("success", "result", "error"),
    [
        (True, {"content": [{"type": "text", "text": "3"}], "structured_content": None}, None),
        (False, None, {"message": "3"}),
    ],
)
def test_a_call_of_an_mcp_server_has_its_result_or_its_error(success: bool, result: Any, error: Any) -> None:
    made = items(
        begin("tiny__add", {"a": 1}),
        McpToolCallBegin(ID, "tiny", "add"),
        McpToolCallEnd(ID, "tiny", "add", success, 5),
        end("tiny__add", success, "3"),
    )
    item = {"id": "item_0", "type": "mcp_tool_call", "server": "tiny", "tool": "add", "arguments": {"a": 1}}
    assert made == [
        ("item.started", item | {"result": None, "error": None, "status": "in_progress"}),
        (
            "item.completed",
            item | {"result": result, "error": error, "status": "completed" if success else "failed"},
        ),
    ]


def test_a_call_that_was_refused_before_it_went_out_is_one_too() -> None:
    """As in Codex where nobody may be asked."""
    (_, started), (_, ended) = items(begin("tiny__add", {"a": 1}), end("tiny__add", False, NO))
    assert (started["server"], started["tool"], started["status"]) == ("tiny", "add", "in_progress")
    assert (ended["error"], ended["result"], ended["status"]) == ({"message": NO}, None, "failed")


def test_a_tool_with_a_cut_name_is_one_item_of_its_server() -> None:
    """CODEX.md exec: one item each, also where the name does not show the server."""
    server = "a_server_with_quite_a_long_name"
    name = fqn(server, "and_a_tool_that_has_a_long_one_as_well")
    assert "__" not in name
    called = McpToolCallBegin(ID, server, "add"), McpToolCallEnd(ID, server, "add", True, 5)
    made = items(begin(name, {"a": 1}), *called, end(name))
    assert [kind for kind, _ in made] == ["item.started", "item.completed"]
    assert {(item["id"], item["type"], item["server"]) for _, item in made} == {("item_0", "mcp_tool_call", server)}
    refused = items(begin(name), end(name, False, NO))
    assert [(kind, item["type"]) for kind, item in refused] == [
        ("item.started", "tool_call"),
        ("item.completed", "tool_call"),
    ]


@pytest.mark.parametrize(("success", "output"), [(True, "3"), (False, "ValueError: no")])
def test_a_function_that_is_called_like_a_tool_of_a_server_is_none(success: bool, output: str) -> None:
    (_, started), (_, ended) = items(begin("my__function", {"a": 1}), end("my__function", success, output))
    assert (started["type"], started["name"], started["arguments"]) == ("tool_call", "my__function", {"a": 1})
    assert ended == started | {"output": output, "status": "completed" if success else "failed"}


def test_a_search_says_what_was_searched_for() -> None:
    made = items(begin("web_search"), WebSearchBegin(ID), WebSearchEnd(ID, "tertulia"), end("web_search"))
    assert [item["query"] for _, item in made] == ["", "tertulia"]
    assert made[1][1]["action"] == {"type": "search", "query": "tertulia"}


def test_what_began_before_anybody_listened_is_told_as_far_as_it_is_known() -> None:
    assert items(McpToolCallBegin(ID, "tiny", "add"))[0][1]["arguments"] is None
    assert items(end("shell"))[0][1] == {
        "id": "item_0",
        "type": "tool_call",
        "call_id": ID,
        "name": "shell",
        "arguments": None,
        "output": "fine",
        "status": "completed",
    }
