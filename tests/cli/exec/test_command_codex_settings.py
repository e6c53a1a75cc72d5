"""What the Codex SDK says, held against the settings that come of it."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.cli.exec.command import load_codex_sdk_settings
from tertulia.cli.global_flags import GlobalFlags
from tertulia.errors import InvalidParamsError
from tests.cli.running import Shell

pytestmark = pytest.mark.usefixtures("shell")


def given(*overrides: str, **flags: Any) -> GlobalFlags:
    global_flags = GlobalFlags()
    global_flags.overrides = list(overrides)
    global_flags.values = flags
    return global_flags


def test_settings_of_codex_are_understood() -> None:
    """Issue 10 (5): options of the official SDK."""
    overrides = ("sandbox_workspace_write.network_access=true", 'web_search="live"', 'model_reasoning_effort="high"')
    settings = load_codex_sdk_settings(given(*overrides, 'approval_policy="never"')).settings
    assert (settings.network, settings.tools_web_search_request) == (True, True)
    assert settings.reasoning_effort == "high"
    assert not settings.rights.approval_policy.may_ask
    off = load_codex_sdk_settings(
        given("sandbox_workspace_write.network_access=false", 'web_search="disabled"')
    ).settings
    assert (off.network, off.tools_web_search_request) == (False, False)


def test_a_setting_that_nobody_knows_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidParamsError, match="show_raw_agent_reasoning"):
        load_codex_sdk_settings(given("show_raw_agent_reasoning=true"))


def test_a_model_without_a_provider_is_one_of_openai() -> None:
    assert load_codex_sdk_settings(given(model="gpt-5-codex")).settings.model == "openai/gpt-5-codex"
    assert load_codex_sdk_settings(given(model="scripted/tour")).settings.model == "scripted/tour"


def test_address_and_key_are_those_that_the_sdk_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key itself stays in its variable."""
    monkeypatch.setenv("CODEX_API_KEY", "k-123")
    settings = load_codex_sdk_settings(given('openai_base_url="http://127.0.0.1:9/v1"')).settings
    openai: Any = settings.model_providers["openai"]
    assert (openai.base_url, openai.env_key) == ("http://127.0.0.1:9/v1", "CODEX_API_KEY")
    assert settings.model == "openai/gpt-5.2"
    assert "k-123" not in repr(openai)


def test_an_address_alone_keeps_the_usual_key_and_names_no_model() -> None:
    settings = load_codex_sdk_settings(given('openai_base_url="http://127.0.0.1:9/v1"')).settings
    openai: Any = settings.model_providers["openai"]
    assert (openai.env_key, settings.model) == ("OPENAI_API_KEY", None)


def test_a_provider_of_the_users_own_changes_only_in_what_was_said(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_API_KEY", "k-123")
    own = 'model_providers.openai={base_url="http://127.0.0.1:8/v1", wire="chat"}'
    settings = load_codex_sdk_settings(given(own, model="scripted/tour")).settings
    openai: Any = settings.model_providers["openai"]
    assert (openai.base_url, openai.wire, openai.env_key) == ("http://127.0.0.1:8/v1", "chat", "CODEX_API_KEY")
    assert settings.model == "scripted/tour"


def test_without_the_sdks_own_flag_they_are_mistakes(shell: Shell) -> None:
    arguments = ("-c", "sandbox_workspace_write.network_access=true", "-m", shell.script("fine"), "hello")
    ran = shell.run("exec", "--json", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "sandbox_workspace_write" in ran.err
    assert shell.run("exec", "--experimental-json", *arguments).code == 0
