"""`exec --experimental-json` beside what Codex 0.166 wrote for the same turns: the same lines, with all their keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import surroundings, write_script
from tests.deadlines import HANG_S
from tests.forked import run_program
from tests.mcp.fakes import bare
from tests.sandbox.confined import need

USAGE = {"input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "reasoning_output_tokens"}
FIRST = ("thread.started", "turn.started")
COMMAND = {"command": "bash -c 'echo hi'", "aggregated_output": "", "exit_code": None, "status": "in_progress"}
CALL = {"server": "tiny", "tool": "echo", "arguments": {"text": "3"}, "result": None, "error": None}


def called(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def run(folder: Path, replies: list[Any], *flags: str) -> tuple[int, list[dict[str, Any]]]:
    """As the SDK runs it: the prompt comes on standard input."""
    words = ("exec", "--experimental-json", "--skip-git-repo-check", "--model", write_script(folder, replies), *flags)
    ran = run_program(*words, cwd=folder, env=surroundings(folder / "home"), input="go")
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


def codex_lines(lines: list[dict[str, Any]]) -> list[Any]:
    """The lines as Codex would have written them: what is ours alone is left out, and so are ids and numbers."""
    code: list[Any] = []
    for line in lines:
        item = {key: value for key, value in line.get("item", {}).items() if key != "id"}
        code.append((line["type"], item.pop("type"), item) if item else line["type"])
    return code


def test_a_plain_turn(tmp_path: Path) -> None:
    """Issue 10 (5), CODEX.md exec: four lines, and the usage has every key."""
    code, lines = run(tmp_path, ["ok 1"])
    assert code == 0
    assert codex_lines(lines) == [*FIRST, ("item.completed", "agent_message", {"text": "ok 1"}), "turn.completed"]
    assert set(lines[-1]["usage"]) >= USAGE
    assert all(type(count) is int for count in lines[-1]["usage"].values())


def test_a_thread_that_goes_on_counts_what_it_cost_before(tmp_path: Path) -> None:
    """CODEX.md exec: the usage is that of the whole thread, over its runs, so that differences are those of turns."""
    _, first = run(tmp_path, ["one"])
    thread = first[0]["thread_id"]
    _, second = run(tmp_path, ["two"], "resume", thread)
    assert (second[0]["thread_id"], codex_lines(second)[2]) == (
        thread,
        ("item.completed", "agent_message", {"text": "two"}),
    )
    once, twice = (lines[-1]["usage"] for lines in (first, second))
    assert twice["output_tokens"] == 2 * once["output_tokens"] > 0
    assert twice["input_tokens"] > 2 * once["input_tokens"]


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("echo hi", {"aggregated_output": "hi\n", "exit_code": 0, "status": "completed"}),
        ("exit 3", {"aggregated_output": "", "exit_code": 3, "status": "failed"}),
    ],
)
def test_a_command_is_one_item(tmp_path: Path, script: str, end: dict[str, Any]) -> None:
    """CODEX.md exec: command_execution, begun and completed, and no other item besides."""
    need("bubblewrap")
    code, lines = run(tmp_path, [called("shell", command=["bash", "-c", script]), "done"])
    begun = COMMAND | {"command": f"bash -c '{script}'"}
    assert code == 0
    assert codex_lines(lines) == [
        *FIRST,
        ("item.started", "command_execution", begun),
        ("item.completed", "command_execution", begun | end),
        ("item.completed", "agent_message", {"text": "done"}),
        "turn.completed",
    ]
    assert lines[2]["item"]["id"] == lines[3]["item"]["id"]


@pytest.mark.parametrize("approval", ["approve", "prompt"])
def test_a_call_of_an_mcp_server_is_one_item_also_where_it_is_refused(tmp_path: Path, approval: str) -> None:
    """CODEX.md exec: mcp_tool_call with its result, or with the message of why not."""
    argv = bare("--tools", "echo")
    # `required`: on a busy machine it may start after the first task.
    words = f"command={json.dumps(argv[0])}, args={json.dumps(argv[1:])}, approval={approval!r}, required=true"
    tiny = f"mcp_servers.tiny={{{words}, startup_timeout_sec={HANG_S:.0f}}}"
    code, lines = run(tmp_path, [called("tiny__echo", text="3"), "done"], "-c", tiny)
    assert code == 0
    # On a busy machine a note says that the server is waited for.
    _, _, begun, ended, message, last = codex_lines([line for line in lines if "waiting up to" not in json.dumps(line)])
    assert begun == ("item.started", "mcp_tool_call", CALL | {"status": "in_progress"})
    assert (message, last) == (("item.completed", "agent_message", {"text": "done"}), "turn.completed")
    kind, item, fields = ended
    assert (kind, item) == ("item.completed", "mcp_tool_call")
    if approval == "approve":
        assert fields["result"]["content"][0] == {"type": "text", "text": "3"}
        assert "structured_content" in fields["result"]
        assert (fields["error"], fields["status"]) == (None, "completed")
    else:
        assert "mcp_servers.tiny" in fields["error"]["message"]
        assert (fields["result"], fields["status"]) == (None, "failed")


def test_a_turn_that_fails_says_so_and_so_does_the_program(tmp_path: Path) -> None:
    """CODEX.md exec: `error`, then `turn.failed` with the message."""
    code, lines = run(tmp_path, [{"error": {"message": "no answer", "code": "model_error"}}])
    assert code == 1
    assert codex_lines(lines) == [*FIRST, "error", "turn.failed"]
    assert lines[-2]["message"] == lines[-1]["error"]["message"] == "no answer"
