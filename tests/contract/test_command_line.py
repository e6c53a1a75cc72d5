"""The program at a shell: `exec`, `exec --json`, `demo`, flags and exit codes, each in a process of its own."""

from __future__ import annotations

import importlib.metadata
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import DEADLINE_S, NEVER_MS, surroundings, write_script
from tests.forked import PIPES, ForkedProgram

NEVER = {"text": "never", "delay_ms": NEVER_MS}
HEAVY = ("mcp", "acp", "textual", "starlette", "uvicorn", "rich", "fastapi", "aiohttp.web", "websockets")


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        assert "Traceback" not in err, err

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@contextmanager
def started(folder: Path, *arguments: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    with ForkedProgram(arguments, cwd=folder, env={**surroundings(folder / "home"), **env}, **PIPES) as process:
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
    ["exec", "--colour", "blue", "Go"],
    ["exec", "-s", "sandcastle", "Go"],
    ["exec", "-a", "sometimes", "Go"],
    ["exec", "--storage", "ttl:soon", "Go"],
    ["exec", "-C", "nowhere", "Go"],
    ["exec", "-c", "colour=blue", "Go"],
    ["exec", "--output-schema", "nowhere.json", "Go"],
    ["exec", "-i", "nowhere.png", "Go"],
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
    items = [line["item"] for line in lines if line["type"] == "item.completed"]
    assert {item["type"] for item in items} >= {"agent_message", "reasoning", "todo_list"}
    message = next(item for item in items if item["type"] == "agent_message")
    assert message["text"] == "All done."
    assert message["id"]
    usage = lines[-1]["usage"]
    assert {"input_tokens", "cached_input_tokens", "output_tokens"} <= set(usage)
    assert all(isinstance(number, int) for number in usage.values())
    assert all(line["conversation_id"] for line in lines[1:])
    assert "conversation_id" not in lines[0]
    assert len({line["task_id"] for line in lines[1:]}) == 1
    assert all("seq" in line for line in lines if line["type"] != "item.updated")
    numbers = [line["seq"] for line in lines if line.get("seq") is not None]
    assert numbers == sorted(numbers)
    assert lines[0]["seq"] == 1
    assert lines[-1]["seq"] == numbers[-1]


def test_json_says_how_a_task_failed(tmp_path: Path) -> None:
    model = write_script(tmp_path, [{"error": "The provider is overloaded"}])
    ran = run(tmp_path, "exec", "--json", "-m", model, "Go")
    assert ran.code == 1
    assert ran.lines[0]["type"] == "thread.started"
    assert ran.lines[-1]["type"] == "turn.failed"
    assert "overloaded" in ran.lines[-1]["error"]["message"]
    assert ran.lines[-1]["error"]["code"] == "model_error"
    assert all(line["conversation_id"] for line in ran.lines[1:])


# ---- flags


def test_global_flags_hold_before_and_after_the_verb(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    write_script(tmp_path, [{"match": "Go", "text": "Here."}])
    flags = [
        "-m", f"scripted/{tmp_path / 'script.json'}",
        "-C", str(tmp_path / "work"), "-s", "read_only", "-a", "on_request", "--storage", "headers-only",
        "--add-dir", str(tmp_path),
    ]  # fmt: skip
    for arguments in ([*flags, "exec", "Go"], ["exec", *flags, "Go"]):
        ran = run(tmp_path, *arguments)
        assert (ran.code, ran.out) == (0, "Here.\n"), ran.err


@pytest.mark.parametrize("policy", ["full", "none", "ttl:60"])
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


def test_a_file_of_the_project_may_only_narrow(tmp_path: Path) -> None:
    """.tertulia/config.toml."""
    (tmp_path / ".tertulia").mkdir()
    project = tmp_path / ".tertulia" / "config.toml"
    model = write_script(tmp_path, ["Hi."])
    hello = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}\n'

    def policy() -> Any:
        return run(tmp_path, "app-server", "-m", model, feed=hello).lines[0]["result"]["policy"]

    project.write_text('sandbox = "danger-full-access"\nnetwork = true\napproval_policy = "on-failure"\n')
    assert policy() == {"approval": "on-request", "sandbox": "workspace-write", "network": False, "storage": "full"}
    project.write_text('sandbox = "read-only"\nstorage_policy = "none"\napproval_policy = "untrusted"\n')
    assert policy() == {"approval": "untrusted", "sandbox": "read-only", "network": False, "storage": "none"}


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
    assert run(tmp_path, "exec", "--help").code == 0
    assert run(tmp_path, "--version").code == 0


@pytest.mark.parametrize("arguments", [["--help"], ["exec", "-m", "scripted/script.json", "Go"]], ids=" ".join)
def test_starting_imports_no_heavy_package(tmp_path: Path, arguments: list[str]) -> None:
    """No MCP, ACP, TUI or web package before it is needed."""
    write_script(tmp_path, ["Hi."])
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tertulia", *arguments],
        cwd=tmp_path, env=surroundings(tmp_path / "home"), capture_output=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert process.returncode == 0
    imported = {line.rpartition(b"|")[2].strip().decode() for line in process.stderr.splitlines()}
    assert "tertulia" in imported
    assert not imported & set(HEAVY)


def test_importing_the_library_imports_no_heavy_package() -> None:
    code = f"import sys, tertulia; sys.exit(str([name for name in {HEAVY!r} if name in sys.modules] or ''))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=DEADLINE_S, check=False)
    assert process.stderr.strip() == b""


def test_the_testing_module_is_there_as_the_page_writes_it() -> None:
    """`tertulia.testing.ScriptedModel([...])` and `tertulia.errors`, after nothing but `import tertulia`."""
    code = "import tertulia; tertulia.errors.TertuliaError; tertulia.testing.ScriptedModel(['Hi.'])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=DEADLINE_S, check=False)
    assert process.returncode == 0, process.stderr.decode()


def test_the_extras_of_the_page_exist() -> None:
    extras = importlib.metadata.metadata("tertulia").get_all("Provides-Extra") or []
    assert {"all", "local", "cluster", "postgres"} <= set(extras)
