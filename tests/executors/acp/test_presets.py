"""The ACP agents that need no table."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.executors.acp.presets import ACP_PRESETS, UNTESTED, acp_agents_from_wire
from tests.agents.acp_installed import REAL_ACP
from tests.tables import each_row


def test_every_preset_has_a_program_and_a_way_to_get_it() -> None:
    """Issue 11, 5: presets for the agents of LIBRARIES 2.3, each with its install hint."""
    assert {"codex", "claude", "opencode", "gemini", "qwen", "fast-agent", "vibe"} == set(ACP_PRESETS)
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
