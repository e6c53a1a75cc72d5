"""What a model does, as lines: commands as typed, patches as diffs, long texts folded, failures in one line."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.cli.output.terminal import StyledText
from tertulia.cli.output.work_lines import MAX_WIDTH, Line, WorkLines, command_text, fold, refusal_text
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId, SessionId, TaskId

CALL = CallId("c")


def event(data: e.EventData, conversation: str = "root") -> e.Event:
    where = ConversationId(conversation)
    return e.Event(0, 1, "now", data.type, SessionId("s"), "sub", where, TaskId("t"), None, None, data)


def plain(piece: StyledText) -> str:
    return piece if isinstance(piece, str) else piece[0]


def shown(*data: e.EventData) -> list[str]:
    work = WorkLines()
    lines: list[Line] = []
    for one in data:
        lines += work.take(event(one)) or []
    return ["".join(map(plain, line)) for line in lines]


def begin(name: str, arguments: Any) -> t.ToolCallBegin:
    return t.ToolCallBegin(CALL, name, arguments)


def end(name: str, output: str, *, success: bool = True) -> t.ToolCallEnd:
    return t.ToolCallEnd(CALL, name, success, output, False, 1)


def ran(output: str, code: int | None = 0, ms: int = 5) -> t.ExecCommandEnd:
    return t.ExecCommandEnd(CALL, code, output, False, ms)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["cat", "app.py"], "cat app.py"),
        (["cat", "my file"], "cat 'my file'"),
        (["bash", "-lc", "cat app.py | wc -l"], "cat app.py | wc -l"),
        (["/bin/sh", "-c", "\necho a\necho b\n"], "echo a\necho b"),
        (["bash", "run.sh"], "bash run.sh"),
        (["bash", "-c", "a", "b"], "bash -c a b"),
    ],
)
def test_a_command_stands_as_one_would_type_it(argv: list[str], text: str) -> None:
    """Issue 19, 8."""
    assert command_text(argv) == text


def test_a_command_is_shown_once_with_its_real_lines() -> None:
    command = t.ExecCommandBegin(CALL, ["bash", "-lc", "cat app.py"], "/w", "workspace-write")
    arguments = {"command": ["bash", "-lc", "cat app.py"]}
    lines = shown(begin("shell", arguments), command, ran("one\n\ttwo\n"), end("shell", "one\n\ttwo\n"))
    assert lines == ["$ cat app.py", "  one", "      two"]


def test_a_script_of_several_lines_is_shown_whole() -> None:
    command = t.ExecCommandBegin(CALL, ["bash", "-c", "set -e\nmake"], "/w")
    assert shown(command) == ["$ set -e", "> make"]


def test_a_command_outside_the_sandbox_says_so() -> None:
    assert shown(t.ExecCommandBegin(CALL, ["ls"], "/w", "danger-full-access")) == ["$ ls (outside the sandbox)"]


def test_long_output_is_folded_with_a_count() -> None:
    lines = shown(ran("\n".join(map(str, range(100)))))
    assert lines[:7] == [f"  {number}" for number in range(7)]
    assert lines[7] == "  … 89 more lines …"
    assert lines[8:] == [f"  {number}" for number in range(96, 100)]


def test_one_endless_line_is_cut_with_a_count() -> None:
    (line,) = shown(ran("x" * (MAX_WIDTH + 1_234)))
    assert line == "  " + "x" * MAX_WIDTH + "… 1,234 more characters"


@pytest.mark.parametrize(
    ("ended", "last"),
    [
        (ran("", 3), "  exit code 3"),
        (ran("", 3, 2_500), "  exit code 3 after 2.5 s"),
        (ran("", None), "  stopped"),
        (ran("", 0, 1_500), "  done after 1.5 s"),
    ],
)
def test_how_it_ended_is_told_where_it_is_worth_a_line(ended: t.ExecCommandEnd, last: str) -> None:
    assert shown(ended) == [last]


def test_a_quick_silent_command_is_one_line() -> None:
    assert shown(t.ExecCommandBegin(CALL, ["true"], "/w"), ran("")) == ["$ true"]


PATCH = "*** Begin Patch\n*** Update File: app.py\n@@ def f\n-    return 1\n+    return 2\n*** End Patch"


@pytest.mark.parametrize("arguments", [PATCH, {"input": PATCH}])
def test_a_patch_is_shown_as_a_diff(arguments: Any) -> None:
    changes = [{"path": "app.py", "kind": "update"}]
    work = WorkLines()
    assert work.take(event(begin("apply_patch", arguments))) == []
    lines = work.take(event(t.PatchApplyBegin(CALL, changes)))
    assert lines == [
        (("edit", "cyan"), (" app.py", "bold")),
        (("  @@ def f", "cyan"),),
        (("  -    return 1", "red"),),
        (("  +    return 2", "green"),),
    ]
    assert work.take(event(t.PatchApplyEnd(CALL, True, "Success"))) == []
    assert work.take(event(end("apply_patch", "Success"))) == []


def test_added_moved_and_deleted_files_are_named() -> None:
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n*** Move to: c\n*** Delete File: d"
    lines = shown(begin("apply_patch", patch), t.PatchApplyBegin(CALL, []))
    assert lines == ["add a", "  +x", "edit b", "move to c", "delete d"]


def test_a_patch_whose_text_was_not_stored_names_its_files() -> None:
    assert shown(t.PatchApplyBegin(CALL, [{"path": "app.py", "kind": "update"}])) == ["update app.py"]


def test_a_patch_that_failed_is_one_line() -> None:
    failed = t.PatchApplyEnd(CALL, False, "app.py: the lines\nare not there")
    assert shown(failed, end("apply_patch", "…", success=False)) == ["patch failed app.py: the lines are not there"]


def test_a_refused_command_is_shown_with_the_reason() -> None:
    refusal = '{"ok":false,"code":"no_approver","reason":"no client attends"}'
    lines = shown(begin("shell", {"command": ["rm", "x"]}), end("shell", refusal, success=False))
    assert lines == ["$ rm x", "failed no client attends"]


def test_calls_of_other_tools_keep_their_names_and_arguments() -> None:
    assert shown(begin("add", {"a": 1}), end("add", "3")) == ['call add {"a":1}', "result 3"]


def test_a_call_to_an_mcp_server_names_server_and_tool() -> None:
    lines = shown(begin("fs__read", {"path": "x"}), t.McpToolCallBegin(CALL, "fs", "read"), end("fs__read", "text"))
    assert lines == ['call fs · read {"path":"x"}', "result text"]


def test_a_call_to_an_mcp_server_that_was_refused_is_shown_too() -> None:
    assert shown(begin("fs__read", None), end("fs__read", "no", success=False)) == ["call fs__read", "failed no"]


def test_calls_of_two_conversations_with_one_id_are_told_apart() -> None:
    work = WorkLines()
    for conversation in ("a", "b"):
        work.take(event(begin("shell", {"command": [conversation]}), conversation))
    command = t.ExecCommandBegin(CALL, ["a"], "/w")
    work.take(event(command, "a"))
    work.take(event(ran(""), "a"))
    assert work.take(event(end("shell", ""), "a")) == []
    assert work.take(event(end("shell", "x"), "b")) == [(("$ ", "cyan"), ("b", "bold")), (("result", "green"), " x")]


def test_what_is_no_work_is_left_to_others() -> None:
    assert WorkLines().take(event(e.WarningEvent("careful"))) is None


@pytest.mark.parametrize("output", ["", "no", "{", "[1]", '{"code": 1, "ok": false}', '{"ok": true, "code": "x"}'])
def test_only_a_refusal_is_taken_for_one(output: str) -> None:
    assert refusal_text(output) is None


@pytest.mark.parametrize("count", range(40))
def test_folding_counts_every_line(count: int) -> None:
    lines = [str(number) for number in range(count)]
    folded = fold(lines, 12)
    hidden = [int(line.split()[1]) for line in folded if line.startswith("…")]
    assert len(folded) - len(hidden) + sum(hidden) == count
    assert len(folded) <= 12
