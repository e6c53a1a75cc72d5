"""What a known-safe command is run with."""

from __future__ import annotations

from pathlib import Path

from tertulia.policy.commands.command_analysis import safe_environment
from tests.tables import each_row


@each_row(
    ("path", "expected"),
    [
        ("/usr/local/bin:/usr/bin", "/usr/local/bin:/usr/bin"),
        (".:/usr/bin::bin:./x", "/usr/bin"),
        ("/work/bin:/work:/usr/bin:/work/../work/x:/workshop", "/usr/bin:/workshop"),
        ("", "/usr/bin:/bin"),
        (".", "/usr/bin:/bin"),
    ],
)
def test_no_program_of_the_workspace_or_the_current_directory_is_found(path: str, expected: str) -> None:
    """B1: `ls` is the system's, also where the workspace has one."""
    assert safe_environment({"PATH": path}, ["/work/", "/other"])["PATH"] == expected


def test_where_everything_is_writable_only_the_system_is_left() -> None:
    assert safe_environment({"PATH": "/opt/bin"}, ["/"])["PATH"] == "/usr/bin:/bin"


def test_what_comes_before_a_command_or_in_its_place_is_dropped_and_the_rest_is_kept() -> None:
    """B1."""
    given = {"HOME": "/h", "LC_ALL": "C", "BASH_ENV": "x", "BASH_FUNC_ls%%": "() { evil; }", "ENV": "x", "GIT_DIR": "x"}
    kept = safe_environment({**given, "SHELLOPTS": "x", "RIPGREP_CONFIG_PATH": "x", "GIT_PAGER": "evil"}, [])
    assert {name: kept.get(name) for name in given} == {
        "HOME": "/h",
        "LC_ALL": "C",
        "BASH_ENV": None,
        "BASH_FUNC_ls%%": None,
        "ENV": None,
        "GIT_DIR": None,
    }
    assert kept["GIT_PAGER"] == "cat"
    assert "SHELLOPTS" not in kept
    assert "RIPGREP_CONFIG_PATH" not in kept


def test_a_home_that_the_agent_can_write_is_no_home(tmp_path: Path) -> None:
    """B1: `bash -lc ls` would first run the profile that lies there."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)
    for given in (str(home), str(home / "sub"), str(link)):
        assert safe_environment({"HOME": given}, [str(home)])["HOME"] == "/nonexistent"
    assert safe_environment({"HOME": str(elsewhere)}, [str(home)])["HOME"] == str(elsewhere)
    kept = safe_environment({"XDG_CONFIG_HOME": str(home), "LD_PRELOAD": "x"}, [str(home)])
    assert kept["XDG_CONFIG_HOME"] == "/nonexistent"
    assert kept["HOME"] == "/nonexistent"
    assert "LD_PRELOAD" not in kept


def test_no_program_is_found_through_a_link_into_the_workspace(tmp_path: Path) -> None:
    """B1."""
    (tmp_path / "work").mkdir()
    link = tmp_path / "bin"
    link.symlink_to(tmp_path / "work")
    assert safe_environment({"PATH": f"{link}:/usr/bin"}, [str(tmp_path / "work")])["PATH"] == "/usr/bin"
