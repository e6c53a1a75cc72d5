"""The program at a shell: `exec`, `exec --json`, `demo`, flags and exit codes, each in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.speaking import DEADLINE_S, NEVER_MS, program, surroundings, write_script

NEVER = {"text": "never", "delay_ms": NEVER_MS}
HEAVY = ("mcp", "acp", "textual", "starlette", "uvicorn", "rich", "fastapi", "aiohttp.web", "sqlite3", "websockets")


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        assert "Traceback" not in err, err

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@contextmanager
def started(folder: Path, *arguments: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [program(), *arguments],
        cwd=folder, env={**surroundings(folder / "home"), **env},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def run(folder: Path, *arguments: str, feed: bytes = b"", **env: str) -> Ran:
    with started(folder, *arguments, **env) as process:
        out, err = process.communicate(feed, timeout=DEADLINE_S)
    return Ran(process.returncode, out.decode(), err.decode())


# ---- exec


def test_exec_prints_the_answer_and_ends_with_0(tmp_path: Path) -> None:
    model = write_script(tmp_path, ["It holds notes."])
    ran = run(tmp_path, "exec", "-m", model, "What does this repository do?")
    assert (ran.code, ran.out) == (0, "It holds notes.\n")


def test_a_dash_reads_the_prompt_from_standard_input(tmp_path: Path) -> None:
    model = write_script(tmp_path, [{"match": "from a pipe", "text": "I heard you."}])
    ran = run(tmp_path, "exec", "-m", model, "-", feed=b"from a pipe\n")
    assert (ran.code, ran.out) == (0, "I heard you.\n")


def test_a_prompt_argument_never_waits_on_standard_input(tmp_path: Path) -> None:
    """Standard input stays open and silent for as long as it runs."""
    model = write_script(tmp_path, ["Done."])
    with started(tmp_path, "exec", "-m", model, "Go") as process:
        assert process.wait(DEADLINE_S) == 0
        assert process.stdout
        assert process.stdout.read() == b"Done.\n"


def test_a_task_that_fails_ends_with_1(tmp_path: Path) -> None:
    model = write_script(tmp_path, [{"error": "The provider is overloaded"}])
    ran = run(tmp_path, "exec", "-m", model, "Go")
    assert ran.code == 1
    assert ran.out == ""
    assert "overloaded" in ran.err


USAGE: list[list[str]] = [
    ["exec"],
    ["exec", "-m", "nobody/nothing", "Go"],
    ["exec", "-m", "scripted/missing.json", "Go"],
    ["exec", "-m", "no-provider", "Go"],
    ["exec", "--colour", "blue", "Go"],
    ["exec", "-s", "sandcastle", "Go"],
    ["exec", "-a", "sometimes", "Go"],
    ["exec", "--storage", "attic", "Go"],
    ["exec", "--storage", "ttl:soon", "Go"],
    ["exec", "-C", "nowhere", "Go"],
    ["exec", "-c", "colour=blue", "Go"],
    ["exec", "-c", "no_equals_sign", "Go"],
    ["exec", "--output-schema", "nowhere.json", "Go"],
    ["exec", "-i", "nowhere.png", "Go"],
    ["exec", "Go", "too", "many"],
    ["dance"],
    ["exec", ""],
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_wrong_usage_and_wrong_configuration_end_with_2(tmp_path: Path, arguments: list[str]) -> None:
    """Whatever is wrong is said on standard error; standard output stays clean."""
    model = write_script(tmp_path, ["Unheard."])
    flags = [] if "-m" in arguments else ["-m", model]
    ran = run(tmp_path, *flags, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err


def test_its_own_timeout_ends_with_124(tmp_path: Path) -> None:
    model = write_script(tmp_path, [NEVER])
    ran = run(tmp_path, "exec", "-m", model, "-c", "limits.task_timeout_s=0.2", "Go")
    assert ran.code == 124
    ran = run(tmp_path, "exec", "-m", model, "--json", "-c", "limits.task_timeout_s=0.2", "Go")
    assert ran.code == 124
    assert ran.lines[-1]["type"] == "turn.failed"
    assert ran.lines[-1]["error"]["code"] == "timeout"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_with_130_and_a_terminal_line(tmp_path: Path, number: signal.Signals) -> None:
    model = write_script(tmp_path, [NEVER])
    with started(tmp_path, "exec", "--json", "-m", model, "Go") as process:
        assert process.stdout
        lines = [json.loads(process.stdout.readline())]
        while lines[-1]["type"] != "turn.started":
            lines.append(json.loads(process.stdout.readline()))
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_S)
    lines += [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 130
    assert lines[-1]["type"] == "turn.failed"
    assert lines[-1]["error"]["code"] == "interrupted"
    assert b"Traceback" not in err


def test_the_last_message_goes_to_a_file_as_well(tmp_path: Path) -> None:
    model = write_script(tmp_path, ["Ünïcode.\nTwo lines."])
    ran = run(tmp_path, "exec", "-m", model, "-o", "answer.txt", "Go")
    assert ran.code == 0
    assert (tmp_path / "answer.txt").read_text().rstrip("\n") == "Ünïcode.\nTwo lines."


# ---- exec --json


def test_json_lines_are_those_of_codex_and_a_little_more(tmp_path: Path) -> None:
    """S003-26: thread.started, turn.started, item.*, turn.completed, with conversation, task and number."""
    plan = {"plan": [{"step": "Look", "status": "in_progress"}]}
    first = {"reasoning": "Hm.", "tool_calls": [{"name": "update_plan", "arguments": plan}]}
    model = write_script(tmp_path, [first, "All done."])
    ran = run(tmp_path, "exec", "--json", "-m", model, "Go")
    assert ran.code == 0
    lines = ran.lines
    types = [line["type"] for line in lines]
    assert types[:2] == ["thread.started", "turn.started"]
    assert types[-1] == "turn.completed"
    assert set(types[2:-1]) <= {"item.started", "item.updated", "item.completed"}
    assert lines[0]["thread_id"]
    said = [line["item"] for line in lines if line["type"] == "item.completed"]
    assert {item["type"] for item in said} >= {"agent_message", "reasoning", "todo_list"}
    message = next(item for item in said if item["type"] == "agent_message")
    assert message["text"] == "All done."
    assert message["id"]
    usage = lines[-1]["usage"]
    assert {"input_tokens", "cached_input_tokens", "output_tokens"} <= set(usage)
    assert all(isinstance(number, int) for number in usage.values())
    assert all(line["conversation_id"] for line in lines[1:])
    assert "conversation_id" not in lines[0]
    assert len({line["task_id"] for line in lines[1:]}) == 1
    numbers = [line["seq"] for line in lines if line.get("seq") is not None]
    assert numbers == sorted(numbers)
    assert lines[0]["seq"] == 1
    assert lines[-1]["seq"] == numbers[-1]


def test_json_says_how_a_task_failed(tmp_path: Path) -> None:
    model = write_script(tmp_path, [{"error": "The provider is overloaded"}])
    ran = run(tmp_path, "exec", "--experimental-json", "-m", model, "Go")
    assert ran.code == 1
    assert ran.lines[0]["type"] == "thread.started"
    assert ran.lines[-1]["type"] == "turn.failed"
    assert "overloaded" in ran.lines[-1]["error"]["message"]
    assert ran.lines[-1]["error"]["code"] == "model_error"


# ---- flags


def test_global_flags_hold_before_and_after_the_verb(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    model = write_script(tmp_path, [{"match": "Go", "text": "Here."}])
    flags = [
        "-m", str(tmp_path / model.removeprefix("scripted/")).join(["scripted/", ""]),
        "-C", str(tmp_path / "work"), "-s", "read_only", "-a", "on_request", "--storage", "headers-only",
        "--add-dir", str(tmp_path),
    ]  # fmt: skip
    for arguments in ([*flags, "exec", "Go"], ["exec", *flags, "Go"]):
        ran = run(tmp_path, *arguments)
        assert (ran.code, ran.out) == (0, "Here.\n"), ran.err


@pytest.mark.parametrize("policy", ["full", "headers-only", "none", "ttl:60", "headers_only"])
def test_every_storage_policy_has_a_spelling(tmp_path: Path, policy: str) -> None:
    model = write_script(tmp_path, ["Hi."])
    assert run(tmp_path, "exec", "-m", model, "--storage", policy, "Go").code == 0


def test_the_configuration_of_the_user_holds_and_flags_go_before_it(tmp_path: Path) -> None:
    """$XDG_CONFIG_HOME/tertulia/config.toml."""
    config = tmp_path / "config" / "tertulia"
    config.mkdir(parents=True)
    model = write_script(tmp_path, ["From the file."])
    (config / "config.toml").write_text(f'model = "{model}"\nsandbox = "read-only"\n')
    ran = run(tmp_path, "exec", "Go", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert (ran.code, ran.out) == (0, "From the file.\n")
    (tmp_path / "other.json").write_text('["From the flag."]')
    ran = run(tmp_path, "exec", "-m", "scripted/other.json", "Go", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert ran.out == "From the flag.\n"
    (config / "config.toml").write_text("modle = 3\n")
    ran = run(tmp_path, "exec", "Go", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert ran.code == 2
    assert "modle" in ran.err
    assert "config.toml" in ran.err


# ---- the rest


def test_the_demo_shows_two_isolated_conversations_without_a_key(tmp_path: Path) -> None:
    ran = run(tmp_path, "demo")
    assert ran.code == 0
    assert ran.out.count("\n") > 10
    assert list(tmp_path.iterdir()) == [tmp_path / "home"], "it leaves nothing where it was started"


def test_help_and_version_are_there(tmp_path: Path) -> None:
    ran = run(tmp_path, "--help")
    assert ran.code == 0
    for verb in ("exec", "demo", "app-server"):
        assert verb in ran.out
        assert run(tmp_path, verb, "--help").code == 0
    assert run(tmp_path, "--version").code == 0


@pytest.mark.parametrize("arguments", [["--help"], ["exec", "-m", "scripted/script.json", "Go"]], ids=" ".join)
def test_starting_imports_no_heavy_package(tmp_path: Path, arguments: list[str]) -> None:
    """No MCP, ACP, TUI or web package before it is needed."""
    write_script(tmp_path, ["Hi."])
    code = f"import sys\nsys.argv = {['tertulia', *arguments]!r}\nfrom tertulia.__main__ import main\n"
    code += "try:\n    status = main()\nexcept SystemExit as stop:\n    status = stop.code\n"
    code += f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
    code += "sys.exit(f'imported {found}' if found or status else 0)\n"
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=surroundings(tmp_path / "home"), capture_output=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr.decode()
