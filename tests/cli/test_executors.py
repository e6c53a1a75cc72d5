"""`tertulia executors`: which there are, and whether one works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tertulia.executors.acp.presets import ACP_PRESETS
from tertulia.executors.command.definition import PRESETS
from tests.cli.running import Shell
from tests.executors.agents import PROGRAM

ECHO = f'executors.echo={{command=["python3", "-S", "{PROGRAM}", "echo"], sandbox={{workspace-write=[]}}}}'
CODEX = (
    f'executors.fake={{command=["python3", "-S", "{PROGRAM}", "codex"], sandbox={{workspace-write=[]}}, '
    'output="codex-jsonl", resume=["resume", "{id}"]}'
)
GONE = 'executors.gone={command=["no-such-agent"]}'
OTHER = 'executors.other={command=["no-such-agent"], install="pip install other"}'


@pytest.fixture
def program(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A `codex` of our own, and nothing else that is called like an agent."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "codex").write_text('#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 9.9.9 && echo more\n')
    (place / "codex").chmod(0o755)
    (place / "broken").write_text("#!/bin/sh\nexit 3\n")
    (place / "broken").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    return place / "codex"


def test_the_list_shows_versions_and_how_to_get_what_is_missing(shell: Shell, program: Path) -> None:
    """Issue 11, point 5; bad input: program missing (which one, how to install)."""
    ran = shell.run("executors", "ls", "-c", GONE, "-c", OTHER, "-c", 'executors.broken={command=["broken"]}')
    assert ran.code == 0
    rows = [line.split(maxsplit=2) for line in ran.out.splitlines()[1:]]
    others = [row[0] for row in rows if not row[0].startswith("acp:")]
    assert others == ["codex", "claude", "command:gone", "command:other", "command:broken"]
    assert {"acp:codex", "acp:claude", "acp:gemini", "acp:opencode", "acp:qwen"} <= {row[0] for row in rows}
    assert f"codex-cli 9.9.9  {program}; proved with 0.166.0" in ran.out
    assert "not installed; get it with `npm install -g @anthropic-ai/claude-code`" in ran.out
    assert rows[others.index("command:gone")][1:] == ["-", "not installed"]
    assert rows[others.index("command:broken")][1] == "?"
    assert [row[0] for row in rows if row[2].endswith("; untested")] == ["acp:fast-agent", "acp:vibe"]


def test_the_version_that_was_proved_is_no_news(shell: Shell, program: Path) -> None:
    """Issue 25, 5: the installed version is held against the one that was seen to work."""
    program.write_text("#!/bin/sh\necho codex-cli 0.166.0\n")
    assert f"codex-cli 0.166.0  {program}\n" in shell.run("executors", "ls").out
    program.write_text("#!/bin/sh\necho codex-cli 10.166.0\n")
    assert f"codex-cli 10.166.0  {program}; proved with 0.166.0\n" in shell.run("executors", "ls").out


def test_what_was_proved_is_what_the_tests_install() -> None:
    """Issue 25, 5: the locks of the tests' agents and the presets name the same versions."""
    agents = Path(__file__).parents[1] / "agents"
    pinned: dict[str, str] = {}
    for lock in (agents / "package.json", agents / "more" / "package.json"):
        pinned |= json.loads(lock.read_text())["dependencies"]
    named = {"codex": "@openai/codex", "claude": "@anthropic-ai/claude-code"}
    assert {name: PRESETS[name].proved for name in named} == {name: pinned[where] for name, where in named.items()}
    named = {"codex": "@agentclientprotocol/codex-acp", "claude": "@agentclientprotocol/claude-agent-acp"}
    named |= {"gemini": "@google/gemini-cli", "opencode": "opencode-linux-x64", "copilot": "@github/copilot"}
    proved = {name: ACP_PRESETS[name].program.proved for name in named}
    assert proved == {name: pinned[where] for name, where in named.items()}


def test_the_list_as_json(shell: Shell, program: Path) -> None:
    ran = shell.run("executors", "ls", "--json")
    first, second, *_ = json.loads(ran.out)
    assert first == {
        "backend": "codex",
        "program": str(program),
        "version": "codex-cli 9.9.9",
        "install": "npm install -g @openai/codex",
        "tested": True,
        "proved": "0.166.0",
    }
    assert (second["program"], second["version"]) == (None, None)
    assert [executor["backend"] for executor in json.loads(ran.out) if not executor["tested"]] == [
        "acp:fast-agent",
        "acp:vibe",
    ]


def test_one_that_answers_works_and_leaves_no_session(shell: Shell) -> None:
    ran = shell.run("executors", "test", "-c", ECHO, "command:echo", "parrot")
    assert ran.code == 0
    answer, verdict = ran.out.splitlines()
    assert answer == "parrot"
    assert verdict.startswith("command:echo works: ")
    assert shell.run("sessions", "ls", "--json").out.strip() in ("", "[]")


def test_one_that_does_not_is_named_with_the_reason(shell: Shell) -> None:
    ran = shell.run("executors", "test", "-s", "danger-full-access", "-c", GONE, "command:gone")
    assert ran.code == 1
    assert ran.err == "command:gone does not work: command:gone is not installed: there is no `no-such-agent` in PATH\n"
    ran = shell.run("executors", "test", "nobody")
    assert (ran.code, ran.out) == (2, "")
    assert "backend 'nobody' is unknown" in ran.err


def test_without_a_verb_it_explains_itself(shell: Shell) -> None:
    assert "Usage: tertulia executors" in shell.run("executors").out


def test_exec_has_an_executor_do_the_task_and_resume_goes_on_with_it(shell: Shell) -> None:
    """Issue 11, point 5: `tertulia exec --backend`."""
    ran = shell.run("exec", "-c", ECHO, "--backend", "command:echo", "first")
    assert (ran.code, ran.out) == (0, "first\n")
    assert "no model is set up" not in ran.err
    ran = shell.run("exec", "-c", ECHO, "resume", "--last", "second")
    assert ran.code == 0
    assert "User: first" in ran.out
    ran = shell.run("exec", "-c", ECHO, "--backend", "command:ecko", "third")
    assert (ran.code, ran.err) == (2, "tertulia: backend 'command:ecko' is unknown; did you mean command:echo?\n")


@pytest.mark.parametrize("again", [[], ["--backend", "command:fake"]])
def test_resume_goes_on_with_what_the_agent_remembers(
    shell: Shell, again: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """S003-25, S003-32: from one process to the next, also where the same agent is named again."""
    (tmp_path / "agent").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "agent"))
    shell.run("exec", "-c", CODEX, "--backend", "command:fake", "first")
    ran = shell.run("exec", "-c", CODEX, *again, "resume", "--last", "second")
    assert ran.code == 0
    assert json.loads(ran.out)["heard"] == ["first", "second"]


@pytest.mark.parametrize(("words", "line"), [((), "executors test`"), (("codex",), "executors test codex`")])
def test_trying_out_programs_under_agents_names_the_new_place(shell: Shell, words: tuple[str, ...], line: str) -> None:
    ran = shell.run("agents", "test", *words)
    assert ran.code == 2
    assert f"try `tertulia {line}" in ran.err
