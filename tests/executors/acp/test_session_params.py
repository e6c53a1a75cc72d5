"""What an ACP agent is started with and told, and when it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.acp.acp_executor import (
    agent_variables,
    build_prompt,
    sandbox_mode_of,
    session_params,
    system_text_in_session,
)
from tertulia.executors.acp.definition import AcpDefinition, AcpSandboxMode
from tertulia.executors.acp.presets import ACP_PRESETS
from tertulia.executors.executor import Assignment
from tertulia.policy.rights import TOP

QWEN, CODEX, CLAUDE = (ACP_PRESETS[name] for name in ("qwen", "codex", "claude"))


def assignment(sandbox: Any = "workspace_write", **fields: Any) -> Assignment:
    return Assignment(prompt="go", cwd="/work", roots=("/work",), rights=replace(TOP, sandbox=sandbox), **fields)


def test_one_is_held_by_what_it_has_for_the_mode() -> None:
    """DESIGN, executors: refused where it has none, but under danger-full-access."""
    assert sandbox_mode_of("x", CODEX, assignment()) == AcpSandboxMode(mode="workspace-write")
    assert sandbox_mode_of("x", CODEX, assignment("read_only")).mode == "read-only"
    assert sandbox_mode_of("x", QWEN, assignment("danger_full_access")) == AcpSandboxMode()
    with pytest.raises(UnsupportedByBackendError, match="sandbox mode read-only"):
        sandbox_mode_of("x", QWEN, assignment("read_only"))


def test_where_it_may_not_write_it_does_not_work() -> None:
    """DESIGN, narrowing: roots."""
    with pytest.raises(UnsupportedByBackendError, match="outside of what may be written"):
        sandbox_mode_of("x", CODEX, replace(assignment(), roots=("/workshop",)))
    assert sandbox_mode_of("x", CODEX, replace(assignment(), roots=("/",))).mode == "workspace-write"


def test_it_gets_exactly_one_server_or_none() -> None:
    """DESIGN: executors get exactly one MCP server, with the variables that it needs in its environment."""
    params = session_params(QWEN, AcpSandboxMode(), assignment(server=("relay", "a", "b"), variables={"T": "x"}))
    assert params == {
        "cwd": "/work",
        "mcpServers": [
            {"name": "tertulia", "command": "relay", "args": ["a", "b"], "env": [{"name": "T", "value": "x"}]}
        ],
    }
    assert session_params(QWEN, AcpSandboxMode(), assignment())["mcpServers"] == []


def test_the_system_part_goes_the_way_that_the_agent_reads() -> None:
    """X-50: `_meta`, a variable, or before the first prompt; never two of them."""
    told_once = assignment(additions=("Be brief.", "Be kind."))
    both = "Be brief.\n\nBe kind."
    meta = session_params(CLAUDE, CLAUDE.sandbox["workspace_write"], told_once)["_meta"]
    assert meta["systemPrompt"] == {"append": both}
    assert meta["claudeCode"]["options"]["strictMcpConfig"] is True
    assert meta["claudeCode"]["options"]["sandbox"]["enabled"] is True
    assert agent_variables(CLAUDE, told_once) == ({}, None)
    variables, in_variable = agent_variables(CODEX, told_once)
    assert json.loads(variables["CODEX_CONFIG"]) == {"developer_instructions": both}
    assert [
        system_text_in_session(program, told_once, text)
        for program, text in ((CLAUDE, None), (CODEX, in_variable), (QWEN, None))
    ] == [
        both,
        both,
        "",
    ]
    assert build_prompt(told_once, both) == "go"
    assert build_prompt(told_once, "") == f"{both}\n\ngo"
    assert build_prompt(assignment(), "something") == "go"


@pytest.mark.parametrize(("definition", "changed"), [(CODEX, ""), (CLAUDE, "new"), (QWEN, "")])
def test_a_session_that_is_taken_up_knows_what_it_was_told(definition: AcpDefinition, changed: str) -> None:
    """X-50: once, in whatever life of the program; settings count for sessions that begin."""
    first = assignment(additions=("old",))
    same = assignment(additions=("old",), resume="s-1", told=first.digest)
    other = assignment(additions=("new",), resume="s-1", told=first.digest)
    assert system_text_in_session(definition, same, "old") == "old"
    assert system_text_in_session(definition, other, "new") == changed


def test_what_is_too_long_for_a_variable_is_told_before_the_prompt() -> None:
    """X-50: the kernel's limit; nothing is cut."""
    long = assignment(additions=("é" * 100_000,))
    variables, in_variable = agent_variables(CODEX, long)
    assert (json.loads(variables["CODEX_CONFIG"]), in_variable) == ({}, "")
    assert build_prompt(long, system_text_in_session(CODEX, long, in_variable)).startswith("é")


def test_without_settings_in_a_variable_there_is_none() -> None:
    """Most have none."""
    assert agent_variables(AcpDefinition(program=QWEN.program), assignment()) == ({}, None)
