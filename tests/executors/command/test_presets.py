"""`codex`, `claude`, and whatever a user adds."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.executors.command.presets import CLAUDE, CODEX, PRESETS, executors_from_wire
from tertulia.policy.sandbox_mode import SANDBOX_MODES
from tests.tables import each_row


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
