"""Issue 19, item 12: `Settings.load()` reads what the command line reads, `Settings()` reads no file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import tertulia
from tertulia.errors import InvalidParamsError, NoModelError
from tertulia.protocol.storage import HeadersOnly
from tertulia.testing import ScriptedModel

CONFIG = """
model = "scripted/theirs.json"
approval_policy = "never"
[limits]
task_timeout_s = 60
[mcp_servers.time]
command = "no-such-program"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a file of the user's, and a project in it with files of its own; the process is in the project."""
    (tmp_path / ".config/tertulia").mkdir(parents=True)
    (tmp_path / ".config/tertulia/config.toml").write_text(CONFIG)
    project = tmp_path / "project"
    (project / ".tertulia").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".tertulia/config.toml").write_text('storage_policy = "headers_only"\nnetwork = true\n')
    (project / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "no-such-program"}}}')
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TERTULIA_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return project


def test_load_reads_the_users_file_and_lets_the_project_narrow(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings = tertulia.Settings.load()
    rights = settings.rights
    assert (settings.model, settings.cwd, settings.approval_policy) == (
        "scripted/theirs.json",
        str(place),
        rights.approval_policy,
    )
    assert (rights.limits.task_timeout_s, rights.storage_policy, rights.network) == (60, HeadersOnly(), False)
    assert list(settings.mcp_servers) == ["time"]
    assert [server.name for server in settings.project_servers] == ["theirs"]
    assert "network" in caplog.text, "what a project asks for in vain is said"


def test_a_variable_and_then_a_change_win(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERTULIA_MODEL", "ollama/qwen3")
    assert tertulia.Settings.load().model == "ollama/qwen3"
    model = ScriptedModel(["hi"])
    changed = tertulia.Settings.load(place.parent, model=model, mcp_servers={}, sandbox="read-only")
    assert (changed.model, changed.mcp_servers, changed.cwd) == (model, {}, str(place.parent))
    assert changed.rights.storage_policy == tertulia.Full(), "another directory is not in the project"
    assert tertulia.run("hello", changed).text == "hi"


def test_a_change_that_is_no_setting_and_a_place_that_is_no_directory_are_refused(place: Path) -> None:
    with pytest.raises(InvalidParamsError, match="did you mean model"):
        tertulia.Settings.load(modell="x")
    with pytest.raises(InvalidParamsError, match="not a directory"):
        tertulia.Settings.load(place / "nowhere")
    (place.parent / ".config/tertulia/config.toml").write_text("sandbox = 5")
    with pytest.raises(InvalidParamsError, match=r"config\.toml: sandbox"):
        tertulia.Settings.load()


async def test_plain_settings_read_no_file_and_without_a_model_a_message_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTULIA_MODEL", "scripted/tour")
    assert tertulia.Settings() == tertulia.Settings(model=None)
    async with tertulia.Session.start(tertulia.Settings()) as session:
        info = session.info
        assert (info.model, info.mcp, info.policy["storage"]) == ("none", [], "full")
        with pytest.raises(NoModelError, match=r"tertulia login PROVIDER.*tertulia models pull") as refused:
            await session.root.message("Is it safe to ship?")
        assert refused.value.code == "no_model"
        with pytest.raises(NoModelError):
            await anext(session.root.stream("Is it safe to ship?"))
        assert (await session.root.history(), session.activity.tasks) == ([], [])
        other = await session.open(model=ScriptedModel(["yes"]))
        assert (await other.message("And here?")).text == "yes"


def test_plain_settings_take_keys_and_addresses_of_providers_from_the_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    reply = tertulia.run("hello", tertulia.Settings(limits={"task_timeout_s": 0.5}))
    assert reply.status == "failed"
    assert reply.error is not None
    assert reply.error.code in {"model_error", "timeout"}


def test_run_without_a_model_raises_before_anything_is_asked(place: Path) -> None:
    with pytest.raises(NoModelError):
        tertulia.run("hello")
