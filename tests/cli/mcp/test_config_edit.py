"""Tables go in and out of a file that people write, and everything else in it stays."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.cli.mcp import config_edit
from tertulia.cli.mcp.config_edit import add_table, remove_table
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
    ("text", "left"),
    [
        ('mcp_servers = {y = {}, x = {command = "c"}} # all\n', "mcp_servers = {y = {} } # all\n"),
        ('model = "a/b"\nmcp_servers.x.command = "c"\nsandbox = "s"\n', 'model = "a/b"\nsandbox = "s"\n'),
        (
            'note = """\n[mcp_servers.x]\n"""\n[mcp_servers]\nx.command = "c"\n',
            'note = """\n[mcp_servers.x]\n"""\n[mcp_servers]\n',
        ),
        ('[mcp_servers]\n# mine\nx = { command = "c" }\ny = {}\n', "[mcp_servers]\n# mine\ny = {}\n"),
        (
            '[mcp_servers.x]\ncommand = "c"\n# one\n[limits]\n# two\n[mcp_servers.x.env]\nA = "1"\n# three\n',
            "# one\n[limits]\n# two\n# three\n",
        ),
        (
            '[mcp_servers.a]\nurl = "a"\n\n# one\n[mcp_servers.x]\n# two\n\n[mcp_servers.b]\nurl = "b"\n',
            '[mcp_servers.a]\nurl = "a"\n\n# one\n# two\n[mcp_servers.b]\nurl = "b"\n',
        ),
    ],
)
def test_a_table_is_removed_however_it_is_written(file, text, left) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert remove_table(file, "mcp_servers", "x")
    assert file.read_text() == left
    assert "x" not in tomllib.loads(left).get("mcp_servers", {})


def test_a_table_is_added_to_an_inline_family(file) -> None:
    file.parent.mkdir()
    file.write_text('mcp_servers = {y = {url = "u"}} # all\nmodel = "a/b"\n')
    add_table(file, "mcp_servers", "x", {"command": "c"})
    assert file.read_text() == 'mcp_servers = {y = {url = "u"}, x = {command = "c"}} # all\nmodel = "a/b"\n'


def test_what_would_come_out_otherwise_than_meant_is_left_to_its_author(file, monkeypatch) -> None:
    file.parent.mkdir()
    file.write_text(OWN)
    monkeypatch.setattr(config_edit, "_without_table", lambda text, family, name: text)
    with pytest.raises(InvalidParamsError, match=r"cannot be changed safely; edit \[mcp_servers\] by hand"):
        remove_table(file, "mcp_servers", "time")
    assert file.read_text() == OWN


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
    with TemporaryDirectory() as directory:
        file = Path(directory) / "config.toml"
        add_table(file, "mcp_servers", "x", {"value": value})
        assert tomllib.loads(file.read_text()) == {"mcp_servers": {"x": {"value": value}}}


def test_what_toml_does_not_know_is_refused(file) -> None:
    with pytest.raises(InvalidParamsError, match=r"\[mcp_servers\.x\] has a value that cannot be written as TOML"):
        add_table(file, "mcp_servers", "x", {"env": {"A": None}})
    assert not file.exists()
