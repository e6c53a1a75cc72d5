"""Flags that hold for every verb, before it or after it."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tests.cli.running import Shell
from tests.tables import each_row


@click.group()
@global_flags
def program() -> None:
    """A program."""


@program.command()
@global_flags
@click.pass_obj
def verb(flags: GlobalFlags) -> None:
    """A verb."""
    seen.append(flags)


seen: list[GlobalFlags] = []


def given(*arguments: str) -> GlobalFlags:
    seen.clear()
    result = CliRunner().invoke(program, arguments)
    assert result.exit_code == 0, result.output
    return seen[0]


@each_row(
    ("flag", "setting"),
    [
        (["-m", "a/b"], {"model": "a/b"}),
        (["--model", "a/b"], {"model": "a/b"}),
        (["-s", "read-only"], {"sandbox": "read-only"}),
        (["--sandbox=read-only"], {"sandbox": "read-only"}),
        (["-a", "never"], {"approval_policy": "never"}),
        (["--ask-for-approval", "never"], {"approval_policy": "never"}),
        (["--storage", "ttl:60"], {"storage_policy": "ttl:60"}),
    ],
)
def test_a_flag_may_stand_on_either_side_of_the_verb(flag: list[str], setting: dict[str, str]) -> None:
    assert given(*flag, "verb").values == given("verb", *flag).values == setting


def test_the_flag_after_the_verb_wins() -> None:
    assert given("-m", "a/b", "verb", "-m", "c/d").values == {"model": "c/d"}


def test_lists_are_added_up() -> None:
    assert given("-c", "a=1", "verb", "-c", "b=2", "-c", "c=3").overrides == ["a=1", "b=2", "c=3"]


def test_directories_are_meant_from_where_the_person_stands(shell: Shell) -> None:
    (shell.folder / "one").mkdir()
    (shell.folder / "two").mkdir()
    flags = given("-C", "one", "--add-dir", "one", "verb", "--add-dir", "two").values
    folder = shell.folder.resolve()
    assert flags == {"cwd": str(folder / "one"), "writable_roots": [str(folder / "one"), str(folder / "two")]}


def test_without_flags_nothing_is_given() -> None:
    assert given("verb").values == {}


def test_the_settings_know_the_flags_they_come_from(shell: Shell) -> None:
    there = shell.folder / "there"
    there.mkdir()
    flags = given("-C", "there", "-s", "read-only", "--add-dir", ".", "-c", "tool_timeout_s=7", "verb")
    loaded = flags.load()
    assert loaded.settings.cwd == str(there.resolve())
    assert loaded.settings.sandbox == "read_only"
    assert loaded.settings.tool_timeout_s == 7
    assert set(map(Path, loaded.settings.writable_roots or ())) >= {shell.folder.resolve()}
    assert loaded.provenance["sandbox"] == "flag --sandbox"
    assert loaded.provenance["cwd"] == "flag --cd"
    assert loaded.provenance["writable_roots"] == "flag --add-dir"
    assert loaded.provenance["tool_timeout_s"] == "-c"
