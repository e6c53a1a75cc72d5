"""ACP agents as data: a table is taken as it is meant, or refused with the key."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.executors.acp.definition import (
    AcpDefinition,
    AcpSandboxMode,
    acp_from_wire,
    fill_template,
    merge_tables,
)
from tertulia.executors.acp.presets import ACP_PRESETS, UNTESTED, acp_agents_from_wire
from tests.agents.acp_installed import REAL_ACP
from tests.tables import each_row


def test_a_table_says_all_of_an_agent() -> None:
    """DESIGN, executors: `[acp.NAME]` command, args, env; the program as editors write it, or with its arguments."""
    made = acp_from_wire(
        "mine",
        {
            "command": "agent",
            "args": ["--acp"],
            "env": {"KEY": "secret"},
            "retry": "new_session",
            "sandbox": {"read-only": {"mode": "look"}, "workspace_write": {"meta": {"a": 1}}},
            "meta": {"say": "{text}"},
        },
        None,
    )
    assert (made.program.command, made.program.args) == (("agent",), ("--acp",))
    assert made.program.resuming.retry == "new_session"
    assert made.sandbox == {"read_only": AcpSandboxMode(mode="look"), "workspace_write": AcpSandboxMode(meta={"a": 1})}
    assert made.hears_system
    assert "secret" not in repr(made.program)
    assert not acp_from_wire("mine", {"command": ["agent", "--acp"]}, None).hears_system


def test_a_table_changes_a_preset_and_adds_to_its_environment() -> None:
    """Issue 11, 5: presets; what a user adds takes nothing away that the agent needs."""
    below = ACP_PRESETS["gemini"]
    made = acp_from_wire("gemini", {"env": {"A": "b"}, "args": ["--model", "m"]}, below)
    assert made.program.env == {**below.program.env, "A": "b"}
    assert made.program.command == below.program.command
    assert made.sandbox == below.sandbox


@each_row(
    ("table", "words"),
    [
        ({}, "acp.x.command is missing"),
        ({"command": []}, "acp.x.command must name a program"),
        ({"command": ["a"], "comand": 1}, "did you mean command?"),
        ({"command": ["a"], "zzz": 1}, "there are args, command"),
        ({"command": ["a"], "env": {"A": 1}}, "acp.x.env.A must be a text"),
        ({"command": ["a"], "meta": 3}, "acp.x.meta must be a table"),
        ({"command": ["a"], "sandbox": {"read-only": {"mode": 3}}}, "acp.x.sandbox.read-only must be a table"),
        ({"command": ["a"], "sandbox": {"wild": {}}}, "sandbox"),
        ("agent", "acp.x must be a table"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_key(table: Any, words: str) -> None:
    """Issue 11, bad input."""
    with pytest.raises(InvalidParamsError) as refused:
        acp_from_wire("x", table, None)
    assert words in refused.value.message


def test_a_template_is_filled_and_what_would_be_empty_is_left_out() -> None:
    """X-50: a system part that is not there is not told."""
    template = {"a": {"append": "{text}"}, "b": ["{text}", 1], "c": True}
    assert fill_template(template, "x") == {"a": {"append": "x"}, "b": ["x", 1], "c": True}
    assert fill_template(template, "") == {"c": True}


def test_tables_are_merged_and_the_second_counts() -> None:
    """What holds an agent to its rights stands beside what it is told."""
    assert merge_tables({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"b": 3}, "e": 4}) == {
        "a": {"b": 3, "c": 2},
        "d": 1,
        "e": 4,
    }
    assert AcpDefinition(program=ACP_PRESETS["qwen"].program, meta={"x": ["{text}"]}).hears_system


def test_every_preset_has_a_program_and_a_way_to_get_it() -> None:
    """Issue 11, 5: presets for the agents of LIBRARIES 2.3, each with its install hint."""
    assert {"codex", "claude", "opencode", "gemini", "qwen", "copilot", "fast-agent", "vibe"} == set(ACP_PRESETS)
    for preset in ACP_PRESETS.values():
        assert preset.program.command
        assert preset.program.install
        assert preset.program.can_ask
    assert {name for name, preset in ACP_PRESETS.items() if preset.hears_system} == {"codex", "claude"}
    assert {name for name, preset in ACP_PRESETS.items() if preset.sandbox} == {"codex", "claude"}


def test_those_that_no_test_has_run_are_named() -> None:
    """Issue 11, 5: nobody is told that an agent works which nobody has seen at work."""
    assert {f"acp:{name}" for name in ACP_PRESETS.keys() - REAL_ACP.keys()} == UNTESTED


def test_the_users_own_come_after_them() -> None:
    """DESIGN: `acp:NAME`."""
    names = list(acp_agents_from_wire({"mine": {"command": "x"}, "codex": {"args": ["-v"]}}))
    assert names == [*(f"acp:{name}" for name in ACP_PRESETS), "acp:mine"]


@each_row("name", ["", "a b", "a/b", "ä"])
def test_a_name_is_a_plain_word(name: str) -> None:
    """Bad input."""
    with pytest.raises(InvalidParamsError, match="letters, digits"):
        acp_agents_from_wire({name: {"command": "x"}})
