"""`tertulia sandbox`: any command, confined; its streams and its exit code are its own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tertulia.sandbox.availability import install_command
from tests.cli.running import DEADLINE_S, Shell
from tests.sandbox.confined import need


@pytest.mark.parametrize("code", [0, 1, 3, 200])
def test_the_exit_code_passes_through(shell: Shell, code: int) -> None:
    need("bubblewrap")
    assert shell.spawn("sandbox", "--", "sh", "-c", f"exit {code}").code == code


def test_the_workspace_is_the_working_directory_and_nothing_else(shell: Shell, tmp_path: Path) -> None:
    need("bubblewrap")
    (tmp_path / "other").mkdir()
    line = f"echo in; echo out >&2; cat; touch here; touch {tmp_path}/home/there {tmp_path}/other/there"
    (tmp_path / "home").mkdir()
    ran = shell.spawn("sandbox", "--", "sh", "-c", line, input=b"typed\n")
    assert ran.out == "in\ntyped\n"
    assert ran.err.startswith("out\n")
    assert [path.name for path in shell.folder.iterdir()] == ["here"]
    assert not list((tmp_path / "other").iterdir())
    assert not (tmp_path / "home" / "there").exists()


def test_another_directory_and_more_of_them(shell: Shell, tmp_path: Path) -> None:
    need("bubblewrap")
    (tmp_path / "other").mkdir()
    (tmp_path / "more").mkdir()
    line = f"pwd; touch here {tmp_path}/more/here"
    places = ("-C", str(tmp_path / "other"), "--add-dir", str(tmp_path / "more"))
    ran = shell.spawn(*places, "sandbox", "--", "sh", "-c", line)
    assert (ran.code, ran.out) == (0, f"{tmp_path}/other\n")
    assert (tmp_path / "more" / "here").exists()


def test_read_only_writes_nothing(shell: Shell) -> None:
    need("bubblewrap")
    ran = shell.spawn("sandbox", "-s", "read-only", "--", "touch", "here")
    assert ran.code == 1
    assert "Read-only file system" in ran.err
    assert list(shell.folder.iterdir()) == []


def test_full_access_runs_without_a_sandbox(shell: Shell, tmp_path: Path) -> None:
    ran = shell.spawn("sandbox", "-s", "danger-full-access", "--", "sh", "-c", f"touch {tmp_path}/outside; exit 4")
    assert ran.code == 4
    assert (tmp_path / "outside").exists()


def test_the_other_tier_is_a_setting(shell: Shell, tmp_path: Path) -> None:
    need("landlock")
    ran = shell.spawn("sandbox", "-c", 'sandbox_tier="landlock"', "--", "sh", "-c", f"touch here {tmp_path}/outside")
    assert "Permission denied" in ran.err
    assert [path.name for path in shell.folder.iterdir()] == ["here"]
    assert not (tmp_path / "outside").exists()


def test_a15_no_secret_of_ours_is_in_its_environment(shell: Shell) -> None:
    """A15"""
    need("bubblewrap")
    secrets = {"OPENAI_API_KEY": "canary", "MY_TOKEN": "canary", "EDITOR": "vi"}
    assert "canary" not in shell.spawn("sandbox", "--", "env", env=secrets).out
    output = shell.spawn("sandbox", "-c", 'shell_environment.inherit="all"', "--", "env", env=secrets).out
    assert "EDITOR=vi" in output
    assert "canary" not in output


def test_a14_our_own_data_are_masked(shell: Shell, tmp_path: Path) -> None:
    """A14"""
    need("bubblewrap")
    home = tmp_path / "work" / "data"
    home.mkdir()
    (home / "secret").write_text("canary")
    assert "canary" not in shell.spawn("sandbox", "--", "cat", "data/secret", env={"TERTULIA_HOME": str(home)}).out


@pytest.mark.parametrize("mode", ["workspace-write", "danger-full-access"])
def test_a_program_that_is_not_there_is_127(shell: Shell, mode: str) -> None:
    need("bubblewrap")
    assert shell.spawn("sandbox", "-s", mode, "--", "no-such-program").code == 127


def test_a_file_that_is_no_program_is_126(shell: Shell, tmp_path: Path) -> None:
    need("bubblewrap")
    (tmp_path / "work" / "plain").write_text("")
    assert shell.spawn("sandbox", "--", "./plain").code == 126


def test_a_stop_signal_ends_it_all(shell: Shell) -> None:
    need("bubblewrap")
    with shell.start("sandbox", "--", "sh", "-c", "echo up; trap '' TERM; sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 130


def test_a20_without_a_sandbox_nothing_runs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A20"""
    monkeypatch.setattr("tertulia.sandbox.availability.BWRAP", "/no/such/bwrap")
    monkeypatch.setattr("tertulia.sandbox.launcher.landlock.abi", lambda: 0)
    ran = shell.run("sandbox", "--", "touch", "here")
    assert ran.code == 1
    assert f"/no/such/bwrap is missing; {install_command()}" in ran.err
    assert list(shell.folder.iterdir()) == []


def test_the_lesser_tier_is_said_and_used(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN, changed since: bubblewrap, else Landlock, said once."""
    need("landlock")
    monkeypatch.setattr("tertulia.sandbox.availability.BWRAP", "/no/such/bwrap")
    ran = shell.run("sandbox", "--", "touch", "here")
    assert ran.code == 0
    assert ran.err.count("which holds less than bubblewrap") == 1
    assert (shell.folder / "here").exists()


def test_a_home_is_refused_with_the_way_out(shell: Shell, tmp_path: Path) -> None:
    """S1: nothing runs, nothing is made."""
    home = tmp_path / "home"
    home.mkdir()
    ran = shell.run("-C", str(home), "sandbox", "--", "touch", "here")
    assert ran.code == 2
    assert "--allow-home-workspace" in ran.err
    assert list(home.iterdir()) == []
    assert shell.run("-C", str(home), "sandbox", "--allow-home-workspace", "--", "touch", "here").code == 0
    assert shell.run("-C", str(home), "sandbox", "-s", "read-only", "--", "ls").code == 0
    assert [path.name for path in home.iterdir()] == ["here"]


def test_a_failure_names_the_mask_that_the_program_needs(shell: Shell, tmp_path: Path) -> None:
    """S9"""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".git-credentials").write_text("https://ana:canary@example.com")
    ran = shell.spawn("sandbox", "--", "git", "ls-remote", "nowhere")
    assert ran.code != 0
    assert 'masks.unmask = ["~/.git-credentials"]' in ran.err


def test_a_command_is_needed(shell: Shell) -> None:
    assert shell.run("sandbox").code == 2
