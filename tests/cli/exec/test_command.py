"""`tertulia exec` from the outside."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from tertulia.sandbox.availability import tier_outlook
from tests.cli.running import DEADLINE_S, NEVER_MS, Shell

PLAN = {"name": "update_plan", "arguments": {"plan": [{"step": "look", "status": "in_progress"}]}}
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


# ---- the prompt


def test_the_answer_and_nothing_else_is_on_standard_output(shell: Shell) -> None:
    ran = shell.run("exec", "-m", shell.script("It works."), "hello")
    assert (ran.code, ran.out) == (0, "It works.\n")
    assert "tokens" in ran.err


def test_a_prompt_argument_never_waits_for_standard_input(shell: Shell) -> None:
    with shell.start("exec", "-m", shell.script("fine"), "hello") as process:
        # Standard input stays open and says nothing.
        assert process.wait(DEADLINE_S) == 0
        process.communicate()


def test_a_dash_reads_the_prompt_from_standard_input(shell: Shell) -> None:
    model = shell.script({"match": {"regex": "^from afar ñ$"}, "text": "heard"}, "not heard")
    ran = shell.spawn("exec", "-m", model, "-", input="from afar ñ\n".encode())
    assert (ran.code, ran.out) == (0, "heard\n")


def test_without_a_prompt_a_pipe_is_told_of_the_dash(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b"ignored")
    ran = shell.run("exec")
    assert ran.code == 2
    assert "`-` reads it from standard input" in ran.err


def test_without_a_prompt_a_terminal_is_told_that_one_is_missing(shell: Shell) -> None:
    primary, secondary = pty.openpty()
    try:
        ran = shell.spawn("exec", stdin=secondary)
    finally:
        os.close(primary)
        os.close(secondary)
    assert ran.code == 2
    assert ran.err == "tertulia exec: there is no PROMPT. See `tertulia exec --help`.\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "empty"), (b" \n", "empty"), (b"ab\xff", "not UTF-8 (at byte 2)")],
)
def test_what_cannot_be_a_prompt_is_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, content: bytes, expected: str
) -> None:
    standard_input(monkeypatch, content)
    ran = shell.run("exec", "-")
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err


def test_more_than_16_mb_of_prompt_is_refused_with_its_real_size(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b"x" * (16 * 1024 * 1024 + 100))
    ran = shell.run("exec", "-")
    assert ran.code == 2
    assert "standard input has 16,777,316 bytes, and a message at most 16,777,216" in ran.err


def test_a_prompt_of_several_arguments_wants_quotes(shell: Shell) -> None:
    ran = shell.run("exec", "say", "hello")
    assert ran.code == 2
    assert "put it in quotes" in ran.err


def test_a_prompt_that_is_no_unicode_is_refused_before_anything_is_printed(shell: Shell) -> None:
    ran = shell.run("exec", "--json", "a\udcff")
    assert (ran.code, ran.out) == (2, "")
    assert "surrogate" in ran.err


def test_closed_standard_input_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in shell.run("exec", "-").err
    assert shell.run("exec").code == 2


# ---- what goes with it


def test_a_picture_goes_along(shell: Shell) -> None:
    (shell.folder / "cat.png").write_bytes(PICTURE)
    ran = shell.run("exec", "-m", shell.script("a cat"), "-i", "cat.png", "What is this?")
    assert (ran.code, ran.out) == (0, "a cat\n")


def test_what_is_no_picture_is_refused_before_anything_is_printed(shell: Shell) -> None:
    (shell.folder / "cat.png").write_text("a cat")
    ran = shell.run("exec", "--json", "-i", "cat.png", "What is this?")
    assert (ran.code, ran.out) == (2, "")
    assert "cat.png" in ran.err


@pytest.mark.parametrize("content", ["[]", "{", "\xff"])
def test_a_schema_that_is_no_json_object_is_refused(shell: Shell, content: str) -> None:
    (shell.folder / "schema.json").write_text(content, encoding="latin-1")
    ran = shell.run("exec", "--output-schema", "schema.json", "hello")
    assert ran.code == 2
    assert "--output-schema" in ran.err


def test_a_schema_is_accepted(shell: Shell) -> None:
    (shell.folder / "schema.json").write_text('{"type": "object"}')
    assert shell.run("exec", "-m", shell.script("{}"), "--output-schema", "schema.json", "hello").out == "{}\n"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_must_be_a_number_of_seconds(shell: Shell, seconds: str) -> None:
    ran = shell.run("exec", f"--timeout={seconds}", "hello")
    assert ran.code == 2
    assert "--timeout" in ran.err


# ---- the answer file


def test_the_answer_goes_to_a_file_as_well(shell: Shell) -> None:
    ran = shell.run("exec", "-m", shell.script("Grüße"), "-o", "answer.txt", "hello")
    assert ran.out == "Grüße\n"
    assert (shell.folder / "answer.txt").read_text(encoding="utf-8") == "Grüße"


def test_a_failed_task_leaves_the_answer_file_alone(shell: Shell) -> None:
    answer = shell.folder / "answer.txt"
    answer.write_text("before")
    assert shell.run("exec", "-m", shell.script({"error": "no"}), "-o", "answer.txt", "hello").code == 1
    assert answer.read_text() == "before"


def test_an_answer_file_that_cannot_be_written_is_refused_before_the_task(shell: Shell) -> None:
    for place in ("nowhere/answer.txt", "."):
        ran = shell.run("exec", "--json", "-o", place, "hello")
        assert (ran.code, ran.out) == (2, "")
        assert "--output-last-message" in ran.err


# ---- endings


@pytest.mark.parametrize("storage", ["full", "none"])
def test_a_backend_that_is_refused_leaves_no_session_behind(shell: Shell, storage: str) -> None:
    """Issue 11 (3): refused before anything is told to anybody."""
    flags = ("-m", shell.script("fine"), "--storage", storage)
    assert shell.run("exec", *flags, "before").code == 0
    before = shell.run("sessions", "ls", "--json").out
    ran = shell.run("exec", *flags, "--backend", "nobody", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert "'nobody' is unknown" in ran.err
    assert shell.run("sessions", "ls", "--json").out == before


def test_a_failed_task_is_exit_code_1(shell: Shell) -> None:
    ran = shell.run("exec", "-m", shell.script({"text": "half", "error": "overloaded"}), "hello")
    assert (ran.code, ran.out) == (1, "")
    assert "error overloaded" in ran.err


def test_our_own_timeout_is_exit_code_124(shell: Shell) -> None:
    ran = shell.run(
        "exec", "--json", "--timeout", "0.05", "-m", shell.script({"text": "x", "delay_ms": NEVER_MS}), "hello"
    )
    assert ran.code == 124
    assert ran.lines[-1]["type"] == "turn.failed"
    assert ran.lines[-1]["error"]["code"] == "timeout"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_task_with_its_terminal_line_and_exit_code_130(shell: Shell, number: signal.Signals) -> None:
    model = shell.script({"text": "one two three", "delay_between_ms": NEVER_MS})
    with shell.start("exec", "--json", "-m", model, "hello", stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "turn.started":
                process.send_signal(number)
                break
        out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["error"]["code"]) == ("turn.failed", "interrupted")
    assert err == b""


# ---- --json


@pytest.mark.parametrize("flags", [["--json"], ["--experimental-json", "--skip-git-repo-check"]], ids=["ours", "codex"])
def test_json_lines_come_in_order_and_each_is_whole(shell: Shell, flags: list[str]) -> None:
    """Issue 25 (1): the Codex SDK is given no field that Codex does not have."""
    model = shell.script({"reasoning": "hm", "text": "Planning.", "tool_calls": [PLAN]}, "Done.")
    ran = shell.run("exec", *flags, "-m", model, "hello")
    assert ran.code == 0
    kinds = [line["type"] + " " + line["item"]["type"] if "item" in line else line["type"] for line in ran.lines]
    assert kinds == [
        "thread.started",
        "turn.started",
        "item.completed reasoning",
        "item.completed agent_message",
        "item.started todo_list",
        "item.completed agent_message",
        "item.completed todo_list",
        "turn.completed",
    ]
    own = {"seq", "conversation_id", "task_id"}
    if "--json" in flags:
        assert [line["seq"] for line in ran.lines] == sorted(line["seq"] for line in ran.lines)
        assert len({line["conversation_id"] for line in ran.lines[1:]}) == 1
    else:
        assert all(own.isdisjoint(line) for line in ran.lines)
        assert "total_tokens" not in ran.lines[-1]["usage"]
    assert ran.err == ""


def test_the_codex_sdk_gives_its_prompt_on_standard_input(shell: Shell) -> None:
    """Issue 10 (5): `exec --experimental-json` as the SDK calls it, in a new thread and in a stored one."""
    model = shell.script("one", "two", repeat=True)
    flags = ("exec", "--experimental-json", "--skip-git-repo-check", "--config", 'approval_policy="never"')
    first = shell.spawn(*flags, "--model", model, input=b"hello")
    assert (first.code, first.err) == (0, "")
    thread = first.lines[0]["thread_id"]
    again = shell.spawn(*flags, "--model", model, "resume", thread, input=b"again")
    assert (again.code, again.lines[0]["thread_id"]) == (0, thread)
    assert [line["type"] for line in again.lines][-1] == "turn.completed"
    assert shell.spawn(*flags, "--model", model, input=b"").code == 2
    assert shell.spawn("exec", "--json", "-m", model, input=b"hello").code == 2, "only the SDK's own flag reads it"


def test_what_a_project_asks_for_in_vain_is_told_in_both_ways(shell: Shell) -> None:
    config = shell.folder / "project" / ".tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('sandbox = "danger-full-access"\n')
    model = shell.script("fine", repeat=True)
    ran = shell.run("-C", "project", "exec", "--json", "-m", model, "hello")
    message = ran.lines[1]["item"]["message"]
    assert str(config) in message
    assert f"warning {message}\n" in shell.run("-C", "project", "exec", "-m", model, "hello").err
    assert str(config) not in shell.run("exec", "-m", model, "hello").err


@pytest.mark.parametrize(
    "arguments", [["exec", "Is it safe to ship?"], ["exec", "--json", "--backend", "native", "hm"]]
)
def test_without_a_model_it_ends_with_2_and_lists_the_ways_to_get_one(shell: Shell, arguments: list[str]) -> None:
    """Issue 19, item 4: nothing is asked, answered, stored or started."""
    ran = shell.run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    ways = ("OPENAI_API_KEY", "tertulia login PROVIDER", "--model local", "tertulia models pull smollm2")
    assert [way for way in ways if way not in ran.err] == []
    assert len(ran.err.splitlines()) == 1
    assert "No session is stored" in shell.run("sessions", "ls").out
    assert shell.run("exec", "-m", "scripted/tour", "hello").code == 0, "on request the tour answers"


# ---- on a terminal


def on_a_terminal(shell: Shell, *arguments: str, **environment: str) -> str:
    primary, secondary = pty.openpty()
    try:
        with shell.start(
            *arguments, stdin=subprocess.DEVNULL, stdout=secondary, stderr=secondary, env=environment
        ) as process:
            os.close(secondary)
            seen = b""
            while piece := _read(primary):
                seen += piece
            assert process.wait(DEADLINE_S) == 0
    finally:
        os.close(primary)
    return seen.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux says when the other side is closed
        return b""


def test_a_terminal_gets_colours_and_a_harmless_answer(shell: Shell) -> None:
    seen = on_a_terminal(shell, "exec", "-m", shell.script("a\x1b]0;gotcha\x07b"), "hello")
    assert "\na⟨U+001B⟩]0;gotcha⟨U+0007⟩b\n" in seen
    assert "\x1b[2mtokens\x1b[0m" in seen


def test_no_color_is_heeded(shell: Shell) -> None:
    assert "\x1b" not in on_a_terminal(shell, "exec", "-m", shell.script("fine"), "hello", NO_COLOR="1")


@pytest.mark.parametrize("flags", [(), ("-q",)])
def test_a_spinner_turns_while_nothing_comes_and_leaves_no_trace(shell: Shell, flags: tuple[str, ...]) -> None:
    """Issue 19, 6"""
    model = shell.script({"text": "one two", "delay_ms": 900})
    seen = on_a_terminal(shell, "exec", *flags, "-m", model, "hello")
    turned = seen.count("\x1b[2m| 0 s\x1b[0m") + seen.count("\x1b[2m/ 0 s\x1b[0m")
    assert bool(turned) is not bool(flags)
    shown = [line.rpartition("\r\x1b[K")[2] for line in seen.removesuffix("\n").split("\n")]
    assert "one two" in shown
    assert len(shown) == (1 if flags else 3), "the header, the answer, the costs"


def test_no_spinner_turns_on_a_terminal_without_colours_or_for_a_pipe(shell: Shell) -> None:
    model = shell.script({"text": "one two", "delay_ms": 900})
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(shell, "exec", "-m", model, "hello", **environment)
    assert "\r" not in shell.spawn("exec", "-m", model, "hello").err


# ---- the header


def test_the_first_line_of_standard_error_says_what_the_session_works_with(shell: Shell) -> None:
    """Issue 19, 6"""
    model = shell.script("one", "two", repeat=True)
    ran = shell.run("exec", "-m", model, "hello")
    (stored,) = shell.run("sessions", "ls", "--json").lines
    header, costs = ran.err.splitlines()
    works_with = f"{model} · {shell.folder} · workspace-write ({tier_outlook('auto').tier})"
    assert header == f"{works_with} · session {stored['session_id']}"
    assert costs.startswith("tokens ")
    assert shell.run("exec", "resume", "--last", "again").err.splitlines()[0] == header
    assert shell.run("resume", "--last").err.splitlines()[-1] == header
    free = shell.run("exec", "-m", model, "-s", "danger-full-access", "hello").err
    assert f"{model} · {shell.folder} · danger-full-access · session " in free


def test_quiet_leaves_the_header_and_the_costs_out_and_json_has_its_own(shell: Shell) -> None:
    model = shell.script("one", repeat=True)
    assert shell.run("exec", "--quiet", "-m", model, "hello").err == ""
    ran = shell.run("exec", "--json", "-m", model, "hello")
    assert (ran.err, ran.lines[0]["type"]) == ("", "thread.started")
    ran = shell.run("exec", "-q", "-m", shell.script({"error": "overloaded"}), "hello")
    assert ran.err == "error overloaded\nfailed\n", "what goes wrong is said"
