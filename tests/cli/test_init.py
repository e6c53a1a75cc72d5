"""`tertulia init`: what it writes holds, and it writes over nothing."""

from __future__ import annotations

from tests.cli.running import Shell


def test_both_files_are_written_and_the_settings_are_sound(shell: Shell) -> None:
    ran = shell.run("init")
    assert ran.code == 0
    assert "Next:" in ran.out
    config = shell.folder / ".tertulia" / "config.toml"
    config.write_text(config.read_text().replace("# sandbox", "sandbox").replace("# approval", "approval"))
    assert "# How to work here" in (shell.folder / "AGENTS.md").read_text()
    doctor = shell.run("doctor", "-m", shell.script("x"))
    assert "read-only" in doctor.out
    assert "untrusted" in doctor.out


def test_a_file_that_is_there_stays_and_the_other_is_written(shell: Shell) -> None:
    (shell.folder / "AGENTS.md").write_text("mine")
    ran = shell.run("init")
    assert ran.code == 0
    assert "left as it is" in ran.out
    assert (shell.folder / "AGENTS.md").read_text() == "mine"
    again = shell.run("init")
    assert again.code == 2
    assert "nothing was changed" in again.err


def test_a_link_is_no_way_to_write_elsewhere(shell: Shell) -> None:
    target = shell.folder.parent / "target"
    (shell.folder / "AGENTS.md").symlink_to(target)
    assert shell.run("init", "--only", "agents").code == 2
    assert not target.exists()


def test_a_home_is_no_project(shell: Shell) -> None:
    (shell.folder.parent / "home").mkdir(exist_ok=True)
    ran = shell.run("-C", str(shell.folder.parent / "home"), "init")
    assert ran.code == 2
    assert "is your home" in ran.err
    assert not (shell.folder.parent / "home" / "AGENTS.md").exists()
