"""What an ACP agent asks of its client: the words of ACP, and the host's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError, MethodNotFoundError, NoApproverError, NotFoundError
from tertulia.executors.acp import client_requests
from tertulia.executors.acp.client_requests import AgentTerminal, ClientRequests, permission_question
from tertulia.executors.acp.task import AcpTask
from tertulia.executors.executor import PermissionAnswer, Step, ToolUseBegin, ToolUseEnd
from tests.executors.acp_hosts import RecordingHost, acp_crew
from tests.loop_steps import MOST_S, loop_steps
from tests.tables import each_row

YES, NO, ALWAYS = (
    {"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once", "allow_always")
)


def requests(host: RecordingHost | None) -> tuple[ClientRequests, list[Step]]:
    steps: list[Step] = []
    return ClientRequests(host, steps.append), steps


@each_row(
    ("consent", "options", "chosen"),
    [
        (PermissionAnswer(allowed=True), [ALWAYS, YES, NO], "allow_once"),
        (PermissionAnswer(allowed=True, lasting=True), [ALWAYS, YES, NO], "allow_once"),
        (PermissionAnswer(allowed=True, lasting=True), [ALWAYS, NO], "allow_always"),
        (PermissionAnswer(allowed=True), [ALWAYS, NO], None),
        (PermissionAnswer(allowed=False), [ALWAYS, YES, NO], "reject_once"),
        (PermissionAnswer(allowed=False), [ALWAYS, YES], None),
        (PermissionAnswer(allowed=True), "nonsense", None),
    ],
)
async def test_a_yes_is_for_once_and_never_more_than_was_said(
    consent: PermissionAnswer, options: Any, chosen: str | None
) -> None:
    """Strictest wins: an agent that could only be allowed for ever is not, unless somebody said so."""
    host = RecordingHost()
    host.consent = consent
    asking, _ = requests(host)
    call = {"title": "do", "kind": "execute", "rawInput": {"command": "ls -l"}}
    answer = await asking.serve("session/request_permission", {"toolCall": call, "options": options})
    expected = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
    assert answer == {"outcome": expected}
    assert [question.words for question in host.asked] == [("ls", "-l")]


def test_a_question_holds_all_that_a_grant_is_bound_to() -> None:
    """Another input is another question; an unknown kind is the strictest."""
    one, two = (permission_question({"title": "t", "kind": "fetch", "rawInput": {"url": url}}) for url in "ab")
    assert one.words != two.words
    assert permission_question({"kind": "fly"}).doing == "other"
    assert permission_question({"kind": "read", "rawInput": {"command": "cat a > b"}}).doing == "execute"
    assert permission_question({"kind": "execute", "title": "rm x"}).words == ("rm x",)
    assert permission_question({"kind": "edit", "locations": [{"path": "/a"}]}).paths == ("/a",)


def diff(new: str, old: str = "") -> dict[str, Any]:
    return {"type": "diff", "path": "/a", "oldText": old, "newText": new}


def test_a_question_shows_the_whole_of_a_change() -> None:
    """A1: a change that an agent tells as a diff was not shown at all, and a yes for one held for any other."""
    lines = [f"line {number}" for number in range(5_000)]
    question = permission_question({"kind": "edit", "title": "t", "content": [diff("\n".join(lines))]})
    assert all(f"+{line}" in question.detail.splitlines() for line in lines)
    other = permission_question({"kind": "edit", "title": "t", "content": [diff("another")]})
    assert question.words != other.words
    same = "\n".join([*lines[:2_000], "new", *lines[2_001:]])
    short = permission_question({"kind": "edit", "title": "t", "content": [diff(same, "\n".join(lines))]})
    assert [line for line in short.detail.splitlines() if line.startswith(("+", "-"))][2:] == [
        "-line 2000",
        "+new",
    ]
    assert permission_question({"kind": "read", "title": "t", "content": [diff("x")]}).doing == "edit"


def test_a_question_is_cut_nowhere() -> None:
    """A1: a command in a title was cut at 300 characters, and of paths the first 100 were judged."""
    command = "echo " + "x" * 1_000
    assert permission_question({"kind": "execute", "title": command}).words == (command,)
    places = [{"path": f"/work/{number}"} for number in range(150)]
    question = permission_question(
        {"kind": "edit", "locations": places, "rawInput": {"path": "/etc/passwd", "note": "n" * 30_000}}
    )
    assert len(question.paths) == 151
    assert question.paths[-1] == "/etc/passwd"
    assert "n" * 30_000 in question.detail
    shown_question = permission_question({"kind": "execute", "rawInput": {"command": "ls", "workdir": "/etc"}})
    assert "/etc" in shown_question.detail


async def test_a_question_knows_what_was_told_of_its_call_before() -> None:
    """A1: many agents tell the change first, and then ask by the id of that call."""
    host = RecordingHost()
    task = AcpTask(host)
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "kind": "edit", "content": [diff("new")]}
    task.hear(update)
    await task.serve("session/request_permission", {"toolCall": {"toolCallId": "c", "title": None}, "options": []})
    (question,) = host.asked
    assert (question.call, question.title, question.doing, question.paths) == ("c", "T", "edit", ("/a",))
    assert "+new" in question.detail


async def test_a_large_change_is_made_ready_beside_the_loop() -> None:
    """L6, A1: and shown whole."""
    host = RecordingHost()
    asking, _ = requests(host)
    content = [diff("x\n" * 300_000, "y\n" * 300_000)]
    async with loop_steps() as steps:
        await asking.serve("session/request_permission", {"toolCall": {"kind": "edit", "content": content}})
    assert len(host.asked[0].detail) > 1_800_000
    assert steps.longest_s < MOST_S


async def test_parts_of_files_are_read_by_line() -> None:
    """ACP: lines count from 1."""
    host = RecordingHost()
    host.files["/a"] = "one\ntwo\nthree\n"
    asking, _ = requests(host)
    assert await asking.serve("fs/read_text_file", {"path": "/a", "line": 2, "limit": 1}) == {"content": "two\n"}
    assert await asking.serve("fs/read_text_file", {"path": "/a", "limit": 2}) == {"content": "one\ntwo\n"}
    assert await asking.serve("fs/read_text_file", {"path": "/a", "line": "x"}) == {"content": "one\ntwo\nthree\n"}
    with pytest.raises(InvalidParamsError):
        await asking.serve("fs/read_text_file", {"path": 3})


async def test_a_write_is_told_whether_or_not_it_was_done() -> None:
    """Everything that is done for the agent is told."""
    host = RecordingHost()
    asking, steps = requests(host)
    await asking.serve("fs/write_text_file", {"path": "/a", "content": "x"})
    with pytest.raises(NotFoundError):
        await asking.serve("fs/write_text_file", {"path": "/forbidden", "content": "x"})
    assert host.files == {"/a": "x"}
    assert [step.success for step in steps if isinstance(step, ToolUseEnd)] == [True, False]
    assert sum(isinstance(step, ToolUseBegin) for step in steps) == 2


async def test_a_terminal_lives_until_it_is_released_or_the_task_is_over(tmp_path: Path) -> None:
    """Issue 11, 4."""
    async with acp_crew(tmp_path) as crew:
        asking, steps = requests(RecordingHost(crew.sandbox))
        made = await asking.serve("terminal/create", {"command": "printf", "args": ["héllo"], "outputByteLimit": 4})
        assert await asking.serve("terminal/wait_for_exit", made) == {"exitCode": 0}
        shown = await asking.serve("terminal/output", made)
        assert shown == {"output": "llo", "truncated": True, "exitStatus": {"exitCode": 0}} or shown["output"] == "llo"
        await asking.serve("terminal/release", made)
        with pytest.raises(NotFoundError):
            await asking.serve("terminal/output", made)
        still = await asking.serve("terminal/create", {"command": "sleep 1000"})
        assert "exitStatus" not in await asking.serve("terminal/output", still)
        await asking.serve("terminal/kill", still)
        assert "exitStatus" in await asking.serve("terminal/output", still)
        await asking.serve("terminal/create", {"command": "sleep", "args": ["1000"]})
        await asking.close()
        assert [step.exit_code for step in steps if isinstance(step, ToolUseEnd)] == [0, 137, 137]


async def test_terminals_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can fill the machine."""
    monkeypatch.setattr(client_requests, "MAX_TERMINALS", 1)
    async with acp_crew(tmp_path) as crew:
        asking, _ = requests(RecordingHost(crew.sandbox))
        await asking.serve("terminal/create", {"command": "true"})
        with pytest.raises(InvalidParamsError, match="release one"):
            await asking.serve("terminal/create", {"command": "true"})
        await asking.close()
        with pytest.raises(InvalidParamsError, match="args"):
            await asking.serve("terminal/create", {"command": "true", "args": [3]})


def test_no_character_is_cut_in_two() -> None:
    """The oldest goes."""
    terminal = AgentTerminal(("x",), 3)
    terminal.hear("aéé".encode())
    assert terminal.shown() == ("é", True)


@each_row(
    "entry",
    [
        {"name": "--split-string", "value": "touch /x"},
        {"name": "-i", "value": ""},
        {"name": "", "value": "x"},
        {"name": "A=B", "value": "x"},
        {"name": "A", "value": "a\0b"},
        {"name": "A", "value": 7},
        {"value": "x"},
    ],
)
async def test_what_is_no_variable_is_refused_and_nothing_runs(entry: dict[str, Any]) -> None:
    """HARDENING A: they become arguments of `env`, and an argument of it can be another command."""
    asking, steps = requests(RecordingHost())
    params = {"command": "ls", "env": [{"name": "GOOD", "value": "x"}, entry]}
    with pytest.raises(InvalidParamsError, match="env"):
        await asking.serve("terminal/create", params)
    assert steps == []


async def test_where_nobody_is_there_nothing_is_allowed() -> None:
    """And what ACP does not know is not there."""
    asking, _ = requests(None)
    for method in ("session/request_permission", "fs/read_text_file"):
        with pytest.raises(NoApproverError):
            await asking.serve(method, {"path": "/a"})
    with pytest.raises(MethodNotFoundError):
        await asking.serve("elicitation/create", {})
