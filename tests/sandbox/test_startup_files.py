"""The table of what programs run by themselves."""

from __future__ import annotations

from pathlib import Path

from tertulia.sandbox import startup_files
from tertulia.sandbox.startup_files import BELOW_HOME, STARTUP_NAMES


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
    words = Path(__file__).parents[2].joinpath("docs", "sandbox.md").read_text().split()
    assert not [row.path for row in BELOW_HOME if row.path not in words]
    assert not [name for name in STARTUP_NAMES if name not in words]
