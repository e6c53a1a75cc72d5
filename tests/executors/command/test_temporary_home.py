"""A home for one run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tertulia.executors.command import agent_home
from tertulia.executors.command.agent_home import TemporaryHome, agent_home_folder, memory_file, memory_folder
from tertulia.executors.command.definition import AgentHome

FAKE = AgentHome(variable="FAKE_HOME", folder=".fake", files=("auth.json", "none.json"))


def mode(path: str) -> int:
    return os.stat(path).st_mode & 0o777


def test_only_its_owner_can_read_what_is_in_it(tmp_path: Path) -> None:
    """S003-31: auth files 0600, HOME 0700."""
    (tmp_path / ".fake").mkdir()
    (tmp_path / ".fake" / "auth.json").write_text("secret")
    home = TemporaryHome()
    moved = home.furnish(FAKE, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "/x", "PATH": "/bin"})
    places = {"HOME": home.path, "FAKE_HOME": f"{home.path}/.fake", "TMPDIR": f"{home.path}/tmp"}
    assert moved == {**places, "PATH": "/bin"}
    assert [mode(place) for place in places.values()] == [0o700] * 3
    assert os.listdir(moved["FAKE_HOME"]) == ["auth.json"]
    assert mode(f"{home.path}/.fake/auth.json") == 0o600
    assert Path(f"{home.path}/.fake/auth.json").read_text() == "secret"
    home.remove()
    home.remove()
    assert not os.path.exists(home.path)


def test_an_agent_of_which_nothing_is_known_gets_an_empty_home() -> None:
    home = TemporaryHome()
    moved = home.furnish(None, {"HOME": "/root", "TMPDIR": "/var/tmp"})
    assert moved == {"HOME": home.path, "TMPDIR": f"{home.path}/tmp"}
    assert os.listdir(home.path) == ["tmp"]
    home.remove()


def test_the_usual_place_is_what_the_variable_says_or_below_home() -> None:
    assert agent_home_folder(FAKE, {"HOME": "/h"}) == "/h/.fake"
    assert agent_home_folder(FAKE, {"HOME": "/h", "FAKE_HOME": "/f"}) == "/f"
    assert agent_home_folder(None, {"HOME": "/h"}) == "/h"


def test_another_program_can_read_it_more_than_once_and_not_afterwards() -> None:
    """X-63: and no other user."""
    with memory_folder() as folder:
        path = memory_file(folder, "system", "told\ud800 ü")
        for _ in range(2):
            assert subprocess.check_output(["/bin/cat", path]).decode() == "told? ü"
        assert (Path(folder).stat().st_mode & 0o777, Path(path).stat().st_mode & 0o777) == (0o700, 0o600)
        assert memory_file(folder, "nothing", "") == memory_file("", "nowhere", "told") == ""
        assert memory_file(folder, "system", "twice") == ""
    assert not Path(folder).exists()


def test_where_there_is_no_memory_for_files_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told before the prompt then."""
    monkeypatch.setattr(agent_home, "_MEMORY", "/nonexistent")
    with memory_folder() as folder:
        assert folder == ""
