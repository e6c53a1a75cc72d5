"""The table of what programs run by themselves."""

from __future__ import annotations

from pathlib import Path

from tertulia.sandbox.confine import confine
from tertulia.sandbox.masks import startup_files
from tertulia.sandbox.masks.guarded_paths import guarded_paths
from tertulia.sandbox.masks.startup_files import BELOW_HOME, STARTUP_NAMES
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.settings.settings import Settings
from tests.sandbox.confined import DEADLINE_S, Place


def test_each_path_stands_once_and_says_who_runs_it() -> None:
    """S1"""
    paths = [row.path for row in BELOW_HOME]
    assert len(paths) == len(set(paths))
    assert all(row.reason and not row.path.startswith("/") for row in BELOW_HOME)


def test_what_the_finding_planted_is_protected_also_where_it_is_missing() -> None:
    """S1"""
    missing = {row.path for row in BELOW_HOME if row.also_missing}
    assert {".bashrc", ".profile", ".ssh/", ".gitconfig", ".config/autostart/", ".config/systemd/", ".vimrc"} <= missing
    assert {*startup_files._ALSO_MISSING.split()} == missing


def test_names_for_any_depth_are_single_names() -> None:
    """And none that projects have of their own."""
    assert not [name for name in STARTUP_NAMES if "/" in name]
    assert not {".npmrc", ".envrc", "bin", ".config"} & {*STARTUP_NAMES}
    assert {*STARTUP_NAMES} <= {row.path.rstrip("/") for row in BELOW_HOME}


def test_the_page_lists_the_whole_table() -> None:
    """S1: what is read-only can be looked up."""
    words = Path(__file__).parents[3].joinpath("docs", "sandbox.md").read_text().split()
    assert not [row.path for row in BELOW_HOME if row.path not in words]
    assert not [name for name in STARTUP_NAMES if name not in words]


async def test_s1_what_exists_anywhere_in_a_root_can_be_read_and_not_changed(place: Place, sandbox: Sandbox) -> None:
    """S1: also from a command that moves it first; a project's other files are its own."""
    for name in (".bashrc", "homes/ana/.profile", "dotfiles/.vim/plugin"):
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text("mine\n")
    (place.root / ".npmrc").write_text("registry\n")
    script = """
    for name in .bashrc homes/ana/.profile dotfiles/.vim/plugin; do
        cat $name; echo x >> $name; mv $name gone; rm -f $name; done
    mv homes/ana homes/eve; echo x >> homes/eve/.profile; mv homes/eve homes/ana
    echo more >> .npmrc; mkdir new; echo own > new/.zshrc; cat new/.zshrc
    """
    ran = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert ran.output.text().count("mine\n") == 3, ran.output.text()
    assert (await sandbox.run(place.command("sh", "-c", "echo own >> new/.zshrc"), timeout_s=DEADLINE_S)).exit_code == 0
    for name in (".bashrc", "homes/ana/.profile", "dotfiles/.vim/plugin"):
        assert (place.root / name).read_text() == "mine\n"
    assert (place.root / ".npmrc").read_text() == "registry\nmore\n"
    assert (place.root / "new" / ".zshrc").read_text() == "own\nown\n"


async def test_s1_a_home_without_settings_does_not_stop_programs(place: Place, sandbox: Sandbox) -> None:
    """S1: where a file must not be made an empty one stands, and no directory that git would stumble over."""
    guarded = guarded_paths([str(place.root)], [])
    confinement = confine(Settings().rights, str(place.root), guarded=guarded)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place.root)}
    script = (
        "mkdir work && git init -q work && git -C work status && bash -ic 'echo shell' && echo x > top && cat .netrc"
    )
    command = place.command("sh", "-c", script, confinement=confinement, environment=environment)
    ran = await sandbox.run(command, timeout_s=DEADLINE_S)
    assert ran.exit_code == 0, ran.output.text()
    assert "directory" not in ran.output.text().replace("working directory", "")
    assert sorted(path.name for path in place.root.iterdir()) == ["top", "work"]
