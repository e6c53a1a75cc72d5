"""A place to run the program in."""

from pathlib import Path

import pytest

from tests.cli.running import Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """An empty home, an empty working directory, and no key."""
    for name in ("NO_COLOR", "TERTULIA_HOME", "TERTULIA_MODEL", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TERM", "xterm")
    # Never the keyring of the person who runs the tests.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Shell(folder, capsys)
