"""Tables go in and out of a file that people write, and everything else in it stays."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.cli.mcp.config_edit import add_table, remove_table, toml_value
from tertulia.errors import InvalidParamsError, StorageError

OWN = """# my settings
model = "a/b"  # the good one

# the clock
[mcp_servers.time]
command = "time" # fast
# kept: a comment inside

[mcp_servers.time.env]
A = "1"

# the others
[limits]
mcp_wait_s = 5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "config.toml"


def test_a_table_is_appended_to_what_is_there(file) -> None:
    file.parent.mkdir()
    file.write_text(OWN)
    add_table(file, "mcp_servers", "x", {"command": "c", "args": ["a", 'q"\n'], "env": {"K K": "v"}, "enabled": True})
    text = file.read_text()
    assert text.startswith(OWN)
    added = tomllib.loads(text)["mcp_servers"]["x"]
    assert added == {"command": "c", "args": ["a", 'q"\n'], "env": {"K K": "v"}, "enabled": True}


def test_a_file_that_is_not_there_is_made_for_its_owner(file) -> None:
    add_table(file, "mcp_servers", "x", {"url": "https://x/"})
    assert file.read_text() == '[mcp_servers.x]\nurl = "https://x/"\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_what_was_added_can_be_removed_without_a_trace(file) -> None:
    file.parent.mkdir()
    file.write_text(OWN)
    add_table(file, "mcp_servers", "x", {"command": "c"})
    assert file.read_text() != OWN
    assert remove_table(file, "mcp_servers", "x")
    assert file.read_text() == OWN
    assert not remove_table(file, "mcp_servers", "x")
    assert not remove_table(file.with_name("none"), "mcp_servers", "x")


def test_a_removed_table_leaves_every_comment(file) -> None:
    file.parent.mkdir()
    file.write_text(OWN)
    file.chmod(0o640)
    assert remove_table(file, "mcp_servers", "time")
    text = file.read_text()
    assert tomllib.loads(text) == {"model": "a/b", "limits": {"mcp_wait_s": 5}}
    for comment in ("# my settings", "# the good one", "# the clock", "# kept: a comment inside", "# the others"):
        assert comment in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_lists_over_many_lines_go_with_their_table(file) -> None:
    file.parent.mkdir()
    file.write_text('[mcp_servers.x]\ncommand = "c"\nargs = [\n  ["a"],\n]\n\n[limits]\nmcp_wait_s = 5\n')
    assert remove_table(file, "mcp_servers", "x")
    assert file.read_text() == "[limits]\nmcp_wait_s = 5\n"


def test_a_broken_file_is_refused_and_stays(file) -> None:
    file.parent.mkdir()
    file.write_text("[mcp_servers.x\n")
    for act in (lambda: remove_table(file, "mcp_servers", "x"), lambda: add_table(file, "mcp_servers", "y", {})):
        with pytest.raises(InvalidParamsError, match=r"config\.toml: .*line 1"):
            act()
    assert file.read_text() == "[mcp_servers.x\n"


def test_a_link_stays_a_link(file, tmp_path) -> None:
    file.parent.mkdir()
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    file.symlink_to(real)
    add_table(file, "mcp_servers", "x", {"command": "c"})
    assert file.is_symlink()
    assert "mcp_servers.x" in real.read_text()


def test_the_same_name_twice_is_refused(file) -> None:
    add_table(file, "mcp_servers", "x", {"command": "c"})
    before = file.read_text()
    with pytest.raises(InvalidParamsError, match=r"has \[mcp_servers\.x\] already"):
        add_table(file, "mcp_servers", "x", {"command": "d"})
    assert file.read_text() == before


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { x = { command = "c" } }\n',
        'mcp_servers.x.command = "c"\n',
        'note = """\n[mcp_servers.x]\n"""\n[mcp_servers]\nx.command = "c"\n',
        '[mcp_servers]\nx = { command = "c" }\n',
    ],
)
def test_what_is_written_in_another_way_is_left_to_its_author(file, text) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert tomllib.loads(text)["mcp_servers"]["x"] == {"command": "c"}
    with pytest.raises(InvalidParamsError, match=r"cannot be changed safely; edit \[mcp_servers\] by hand"):
        remove_table(file, "mcp_servers", "x")
    assert file.read_text() == text


def test_an_inline_family_takes_no_other_table(file) -> None:
    file.parent.mkdir()
    file.write_text("mcp_servers = {}\n")
    with pytest.raises(InvalidParamsError, match="by hand"):
        add_table(file, "mcp_servers", "x", {"command": "c"})
    assert file.read_text() == "mcp_servers = {}\n"


def test_a_place_that_cannot_be_written_is_named(tmp_path) -> None:
    (tmp_path / "in-the-way").write_text("")
    with pytest.raises(StorageError, match=r"in-the-way/config\.toml cannot be written: "):
        add_table(tmp_path / "in-the-way" / "config.toml", "mcp_servers", "x", {"command": "c"})
    assert (tmp_path / "in-the-way").read_text() == ""


def test_line_ends_of_another_system_stay(file) -> None:
    file.parent.mkdir()
    file.write_bytes(b'model = "a/b"\r\n[mcp_servers.x]\r\ncommand = "c"\r\n')
    assert remove_table(file, "mcp_servers", "x")
    assert file.read_bytes() == b'model = "a/b"\r\n'


_texts = st.text(st.characters(exclude_categories=["Cs"]))
_values = st.recursive(
    st.one_of(_texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=8,
)


@given(_values)
def test_whatever_is_written_is_read_back(value) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}


def test_what_toml_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidParamsError, match="cannot be written as TOML"):
        toml_value(None)
