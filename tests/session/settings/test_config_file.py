"""Reading TOML that people, and strangers, wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.session.settings.config_file import MAX_BYTES, anchor, anchor_entries, read_config, read_override
from tests.tables import each_row


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_a_file_is_its_tables(file) -> None:
    file.write_text('sandbox = "read-only"\n[limits]\nmcp_wait_s = 5\n')
    assert read_config(file) == {"sandbox": "read-only", "limits": {"mcp_wait_s": 5}}


def test_no_file_is_nothing(file, tmp_path) -> None:
    assert read_config(file) is None
    file.write_text("")
    assert read_config(file) == {}
    assert read_config(file / "config.toml") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            b'model = "a"\nsandbox "b"\n',
            r"config\.toml: not TOML at line 2, column 9: a key without a value; a line is key",
        ),
        (
            b"network = yes\n",
            r"config\.toml: not TOML at line 1, column 11: a value that there is not; a text stands in quotes",
        ),
        (b"a = 1\na = 2\n", r"config\.toml: not TOML at line 2, .*: the same key stands there twice"),
        (b'a = "x"\nb = "\xff"\n', r"config\.toml: expected UTF-8 \(at line 2\)"),
        (b"a = " + b"[" * 100_000, r"config\.toml: nested too deeply"),
        (b"retention" + b".a" * 150 + b" = 1", r"config\.toml: nested too deeply"),
        (b"a" + b".a" * 30_000 + b" = 1", r"config\.toml: a line with more than 200 dots"),
        (b"x = {a" + b".a" * 30_000 + b" = 1}", r"config\.toml: a line with more than 200 dots"),
        (b"a = " + b"9" * 10_000, r"config\.toml: .*digits"),
        (b"a = 1 #" + b"x" * MAX_BYTES, r"config\.toml: larger than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_not_toml_is_refused_with_its_name_the_line_and_what_was_expected(file, text, expected) -> None:
    file.write_bytes(text)
    with pytest.raises(InvalidParamsError, match=expected):
        read_config(file)


def test_what_is_no_file_is_refused_and_never_waited_for(file, tmp_path) -> None:
    """A project may plant a pipe, a device or a directory where its file should be."""
    os.mkfifo(file)
    with pytest.raises(InvalidParamsError, match="expected a file"):
        read_config(file)
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(InvalidParamsError, match="expected a file"):
        read_config(tmp_path / "zero")
    with pytest.raises(InvalidParamsError, match="expected a file"):
        read_config(tmp_path)


def test_a_file_that_cannot_be_read_is_an_error_and_not_an_absence(file) -> None:
    file.symlink_to(file.name)
    with pytest.raises(InvalidParamsError, match=r"config\.toml: cannot be read: "):
        read_config(file)


@each_row(
    ("override", "tables"),
    [
        ("network=true", {"network": True}),
        ("limits.mcp_wait_s = 5", {"limits": {"mcp_wait_s": 5}}),
        ('model="a/b"', {"model": "a/b"}),
        ("model=openai/gpt", {"model": "openai/gpt"}),
        ("model=", {"model": ""}),
        ("model=ñ=😀", {"model": "ñ=😀"}),
        ('notify=["a", "b"]', {"notify": ["a", "b"]}),
        ('mcp_servers."a b".command=x', {"mcp_servers": {"a b": {"command": "x"}}}),
    ],
)
def test_an_override_is_toml_and_what_is_not_is_a_string(override, tables) -> None:
    assert read_override(override) == tables


@each_row("override", ["", "=", "=1", "a b=1", "a..b=1", "[x]=1"])
def test_an_override_without_a_key_is_refused(override) -> None:
    with pytest.raises(InvalidParamsError, match="expected key=value"):
        read_override(override)


def test_an_override_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidParamsError, match="-c network: expected key=value"):
        read_override("network")


def test_a_refused_override_does_not_repeat_its_value() -> None:
    """E6"""
    with pytest.raises(InvalidParamsError) as refusal:
        read_override("mcp servers.env.KEY=canary")
    assert "canary" not in refusal.value.message


def test_directories_are_read_from_the_folder_of_the_file() -> None:
    written = ["src", "../up", "/abs", "~", "~/x", 5]
    assert anchor(written, Path("/w/p"), Path("/h")) == ["/w/p/src", "/w/p/../up", "/abs", "/h", "/h/x", 5]
    assert anchor("src", Path("/w"), Path("/h")) == "src"


def test_directories_of_servers_count_from_the_folder() -> None:
    servers = {"a": {"command": "x", "cwd": "sub"}, "b": {"cwd": "/abs"}, "c": {"cwd": "~"}, "d": {"cwd": 5}, "e": "no"}
    anchored = {**servers, "a": {"command": "x", "cwd": "/conf/sub"}}
    assert anchor_entries(servers, "cwd", Path("/conf")) == anchored
    assert anchor_entries("no table", "cwd", Path("/conf")) == "no table"


def test_files_of_agents_count_from_the_folder_or_the_home() -> None:
    agents = {"a": {"instructions_file": "a.md"}, "b": {"instructions_file": "~/b.md"}, "c": {"model": "m"}}
    anchored = {**agents, "a": {"instructions_file": "/conf/a.md"}, "b": {"instructions_file": "/h/b.md"}}
    assert anchor_entries(agents, "instructions_file", Path("/conf"), Path("/h")) == anchored
