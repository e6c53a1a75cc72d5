"""What a table `[executors.NAME]` may say, and how what it may not say is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.executors.command.definition import (
    CLAUDE,
    CODEX,
    KEYS,
    PRESETS,
    ExecutorDefinition,
    executor_from_wire,
    executors_from_wire,
)
from tertulia.executors.executor import ResumeSettings
from tertulia.protocol.conversation_fields import SANDBOX_MODES
from tests.tables import each_row

FULL: dict[str, Any] = {
    "command": ["agent", "--print"],
    "args": ["-m", "small"],
    "start": ["-"],
    "resume": ["--resume", "{id}"],
    "output": "claude_stream_json",
    "can_ask": True,
    "sandbox": {"read-only": ["--ro"], "workspace_write": []},
    "network": ["--net"],
    "no_shell": [],
    "no_search": ["--no-search"],
    "root": ["--add", "{root}"],
    "system": ["--system", "{text}"],
    "servers": ["--no-mcp"],
    "server": ["--mcp", "{command}"],
    "env": {"MODE": "quiet"},
    "env_vars": ["AGENT_KEY"],
    "isolated_home": True,
    "pid_namespace": False,
    "system_at_start": True,
    "strategy": "transcript",
    "on_resume_failure": "fail",
    "retry": "new-session",
    "version": ["version"],
    "install": "pip install agent",
    "login": "agent login",
}


def test_every_key_is_read_into_one_form() -> None:
    """Issue 11, point 3: an executor is described by data."""
    assert set(FULL) == set(KEYS)
    definition = executor_from_wire("mine", FULL, None)
    assert definition == ExecutorDefinition(
        command=("agent", "--print"),
        args=("-m", "small"),
        start=("-",),
        resume_with=("--resume", "{id}"),
        output="claude-stream-json",
        can_ask=True,
        sandbox={"read_only": ("--ro",), "workspace_write": ()},
        network=("--net",),
        no_shell=(),
        no_search=("--no-search",),
        root=("--add", "{root}"),
        system=("--system", "{text}"),
        servers=("--no-mcp",),
        server=("--mcp", "{command}"),
        env={"MODE": "quiet"},
        env_vars=("AGENT_KEY",),
        isolated_home=True,
        pid_namespace=False,
        system_at_start=True,
        resuming=ResumeSettings(strategy="transcript", on_resume_failure="fail", retry="new_session"),
        version=("version",),
        install="pip install agent",
        login="agent login",
    )


def test_a_table_changes_what_a_preset_says_and_nothing_else() -> None:
    below = ExecutorDefinition(command=("codex",), start=("-",), resuming=ResumeSettings(retry="new_session"))
    changed = executor_from_wire("codex", {"args": ["-m", "x"], "strategy": "transcript", "resume": []}, below)
    assert (changed.command, changed.start, changed.args) == (("codex",), ("-",), ("-m", "x"))
    assert changed.resuming == ResumeSettings(strategy="transcript", retry="new_session")
    assert changed.resume_with is None
    assert executor_from_wire("codex", {}, below) == below


def test_a_program_may_stand_alone_with_its_arguments_beside_it() -> None:
    """As in the tables of MCP servers and ACP agents."""
    made = executor_from_wire("mine", {"command": "agent", "args": ["--print"]}, None)
    assert (made.command, made.args) == (("agent",), ("--print",))


@each_row(
    ("table", "sentence"),
    [
        ({}, "executors.mine.command is missing: the program and its first arguments, as a list"),
        ({"command": []}, "executors.mine.command must name a program"),
        ({"command": [""]}, "executors.mine.command must name a program"),
        ({"command": 3}, "executors.mine.command must be a list of arguments, none of them with a NUL"),
        ({"command": ""}, "executors.mine.command must name a program"),
        ({"command": ["a\0b"]}, "executors.mine.command must be a list of arguments, none of them with a NUL"),
        ({"comand": ["a"]}, "executors.mine has no 'comand'; did you mean command?"),
        ({"command": ["a"], "resume": ["--last"]}, "executors.mine.resume must have a place for {id}"),
        (
            {"command": ["a"], "output": "xml"},
            "executors.mine.output must be one of text, codex-jsonl, claude-stream-json, not 'xml'",
        ),
        ({"command": ["a"], "retry": 3}, "executors.mine.retry must be one of resume, new_session, not 3"),
        ({"command": ["a"], "can_ask": "yes"}, "executors.mine.can_ask must be true or false, not 'yes'"),
        ({"command": ["a"], "install": 3}, "executors.mine.install must be a text, not 3"),
        (
            {"command": ["a"], "sandbox": ["--ro"]},
            "executors.mine.sandbox must be a table: for each sandbox mode the arguments that mean it",
        ),
        (
            {"command": ["a"], "sandbox": {"open": []}},
            "sandbox must be one of read-only, workspace-write, danger-full-access, not 'open'",
        ),
        ({"command": ["a"], "env": ["A=1"]}, "executors.mine.env must be a table of variables"),
        ({"command": ["a"], "env": {"A=B": "1"}}, "executors.mine.env: 'A=B' cannot be the name of a variable"),
        ({"command": ["a"], "env": {"KEY": 5}}, "executors.mine.env.KEY must be a text without NUL"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(table: dict[str, Any], sentence: str) -> None:
    """S002-15: what was wrong, where, and what to do."""
    with pytest.raises(InvalidParamsError) as refused:
        executor_from_wire("mine", table, None)
    assert refused.value.message == sentence


def test_an_unknown_key_that_is_near_to_nothing_gets_the_whole_list() -> None:
    with pytest.raises(InvalidParamsError, match="there are args, can_ask, command"):
        executor_from_wire("mine", {"zzz": 1}, None)


def test_values_of_variables_are_not_shown() -> None:
    """S003-31"""
    definition = executor_from_wire("mine", {"command": ["a"], "env": {"KEY": "sk-very-secret"}}, None)
    assert "sk-very-secret" not in repr(definition)
    assert "KEY" in repr(definition)


def test_presets_need_no_table_and_others_stand_behind_a_prefix() -> None:
    """Issue 11, point 5: native, codex, claude, command:NAME."""
    assert list(executors_from_wire({})) == ["codex", "claude"]
    found = executors_from_wire({"mine": {"command": ["mine"]}, "codex": {"args": ["-m", "x"]}, "history": {}})
    assert list(found) == ["codex", "claude", "command:mine"]
    assert found["codex"].args == ("-m", "x")
    assert found["claude"] == CLAUDE


@each_row("name", ["", "a b", "a:b", "ünder", "../x"])
def test_a_name_is_a_word(name: str) -> None:
    with pytest.raises(InvalidParamsError, match="letters, digits"):
        executors_from_wire({name: {"command": ["mine"]}})


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_words_for_every_sandbox_mode_and_says_how_to_get_it(name: str) -> None:
    """DESIGN fine print: started with the flags that match ours; missing program: how to install it."""
    preset = PRESETS[name]
    assert set(preset.sandbox) == set(SANDBOX_MODES)
    assert preset.install.startswith("npm install")
    assert preset.login
    assert preset.resume_with is not None
    assert not preset.can_ask


def test_keys_are_named_one_by_one() -> None:
    """S003-31: nothing that is called like a secret goes to an agent but what is its own."""
    secret = [name for preset in (CODEX, CLAUDE) for name in preset.env_vars if "KEY" in name or "TOKEN" in name]
    assert secret == [
        *("CODEX_API_KEY", "OPENAI_API_KEY"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    ]
