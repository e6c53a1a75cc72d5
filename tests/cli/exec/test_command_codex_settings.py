"""What the Codex SDK says, held against the settings that come of it."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.cli.exec.codex_sdk import load_codex_sdk_settings
from tertulia.cli.global_flags import GlobalFlags
from tertulia.errors import InvalidParamsError
from tests.cli.running import Shell
from tests.tables import each_row

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


def test_a_setting_that_is_not_known_is_ignored_with_a_warning() -> None:
    """Issue 25 (1): Codex ignores what it does not know. A feature that is switched off needs no warning."""
    loaded = load_codex_sdk_settings(given("retry_budget=3", 'tool_rules.allow=["git diff"]', "features.plugins=false"))
    assert [warning.split(" is ")[0] for warning in loaded.warnings] == ["retry_budget", "tool_rules.allow"]


@each_row(
    "override",
    [
        'history.persistence="none"',
        'shell_environment_policy.inherit="none"',
        "sandbox_workspace_write.exclude_slash_tmp=true",
        'approvals_reviewer="auto_review"',
    ],
)
def test_a_setting_that_takes_rights_away_is_never_ignored(override) -> None:
    with pytest.raises(InvalidParamsError, match=override.partition(".")[0].partition("=")[0]):
        load_codex_sdk_settings(given(override))


def test_a_permission_profile_is_followed_or_refused() -> None:
    """Issue 25 (1): less than it says would be safe, more would not."""
    chosen = 'default_permissions="mine"'
    files = 'permissions.mine.filesystem={":root"="read","/tmp/there"="write"}'
    settings = load_codex_sdk_settings(given(chosen, files)).settings
    assert (settings.sandbox, settings.writable_roots) == ("workspace_write", ("/tmp/there",))
    assert load_codex_sdk_settings(given(chosen, 'permissions.mine.filesystem={":root"="read"}')).settings.sandbox == (
        "read_only"
    )
    for wrong in (
        'permissions.mine.filesystem={":root"="read","/etc/secrets"="none"}',
        'permissions.mine.filesystem={":root"="write"}',
        'permissions.mine.filesystem="all"',
        "permissions.mine.network={enabled=false}",
        'permissions.other.filesystem={":root"="read"}',
        'permissions="mine"',
    ):
        with pytest.raises(InvalidParamsError, match="permissions"):
            load_codex_sdk_settings(given(chosen, wrong))


def test_a_provider_of_codex_is_one_of_ours() -> None:
    """Issue 25 (1): what the SDK's own tests say of their provider, an override for each key."""
    overrides = [
        'model_provider="mock"',
        'model_providers.mock.name="Mock provider"',
        'model_providers.mock.base_url="http://127.0.0.1:9"',
        'model_providers.mock.wire_api="responses"',
        "model_providers.mock.supports_websockets=false",
    ]
    settings = load_codex_sdk_settings(given(*overrides)).settings
    mock: Any = settings.model_providers["mock"]
    assert (settings.model, mock.base_url, mock.wire) == ("mock/gpt-5.2", "http://127.0.0.1:9", "responses")
    assert load_codex_sdk_settings(given(*overrides, model="other")).settings.model == "mock/other"
    assert load_codex_sdk_settings(given(*overrides, model="scripted/tour")).settings.model == "scripted/tour"


def test_a_directory_to_write_that_does_not_exist_is_left_out(shell: Shell) -> None:
    flags = given(writable_roots=[str(shell.folder), "/nowhere/at/all"])
    loaded = load_codex_sdk_settings(flags)
    assert "/nowhere/at/all" not in (loaded.settings.writable_roots or ())
    assert [warning for warning in loaded.warnings if "/nowhere/at/all" in warning] != []
    ran = shell.run("exec", "--add-dir", "/nowhere/at/all", "-m", shell.script("fine"), "hello")
    assert ran.code == 2
    assert "'/nowhere/at/all' does not exist" in ran.err


def test_outside_of_a_repository_the_sdk_has_to_say_so(shell: Shell) -> None:
    """Issue 25 (1): and nothing is stored of a run that is refused."""
    model = shell.script("fine", repeat=True)
    ran = shell.run("exec", "--experimental-json", "-m", model, "hello")
    assert (ran.code, ran.out) == (2, "")
    assert "Not inside a trusted directory" in ran.err
    assert "No session is stored" in shell.run("sessions", "ls").out
    assert shell.run("exec", "--experimental-json", "--skip-git-repo-check", "-m", model, "hello").code == 0
    (shell.folder / ".git").mkdir()
    assert shell.run("exec", "--experimental-json", "-m", model, "hello").code == 0


def test_a_file_that_is_no_picture_becomes_a_sentence(shell: Shell) -> None:
    (shell.folder / "broken.png").write_text("no picture")
    flags = ("-m", shell.script("fine", repeat=True), "-i", "broken.png", "hello")
    assert shell.run("exec", "--experimental-json", "--skip-git-repo-check", *flags).code == 0
    assert "is not a PNG" in shell.run("exec", *flags).err


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
    assert shell.run("exec", "--experimental-json", "--skip-git-repo-check", *arguments).code == 0
