"""What a lazy server listed when it last ran."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tertulia.mcp.pool.tool_cache import MAX_BYTES, ToolDiskCache
from tertulia.mcp.server_connection import RemoteTool, ToolHints
from tertulia.mcp.toolset import Toolset

KEY, OTHER = "a" * 64, "b" * 64
TOOLS = Toolset.of(
    [
        RemoteTool("read", "Reads.", {"type": "object", "properties": {"path": {}}}, "Read", ToolHints(read_only=True)),
        RemoteTool("write", "Writes.", {"type": "object"}),
    ]
)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    return tmp_path / "mcp-catalogue" / f"{KEY}.json"


def test_what_was_kept_is_recalled_under_its_key_and_no_other(tmp_path: Path) -> None:
    catalogue = ToolDiskCache(tmp_path)
    assert catalogue.recall(KEY) is None
    catalogue.keep(KEY, TOOLS)
    assert catalogue.recall(KEY) == TOOLS
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS
    assert catalogue.recall(OTHER) is None


def test_only_its_owner_can_read_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ToolDiskCache(tmp_path / "home").keep(KEY, TOOLS)
    finally:
        os.umask(before)
    folder = tmp_path / "home" / "mcp-catalogue"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [f"{KEY}.json"]
    assert (folder / f"{KEY}.json").stat().st_mode & 0o777 == 0o600


def test_the_next_list_takes_the_place_of_the_last(tmp_path: Path) -> None:
    catalogue, fewer = ToolDiskCache(tmp_path), Toolset.of(TOOLS.tools[:1])
    catalogue.keep(KEY, TOOLS)
    catalogue.keep(KEY, fewer)
    assert catalogue.recall(KEY) == fewer
    assert len(list((tmp_path / "mcp-catalogue").iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"version":1}', b"[" * 200_000, b"null"])
def test_a_corrupt_file_is_as_good_as_none(tmp_path: Path, page: Path, content: bytes) -> None:
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS
    page.write_bytes(content)
    assert ToolDiskCache(tmp_path).recall(KEY) is None
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS


def test_every_cut_of_the_file_is_as_good_as_none(tmp_path: Path, page: Path) -> None:
    whole = page.read_bytes()
    for length in range(len(whole)):
        page.write_bytes(whole[:length])
        assert ToolDiskCache(tmp_path).recall(KEY) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", 2), ("key", OTHER), ("digest", "0" * 64), ("tools", []), ("more", 1), ("tools", [{"name": 1}])],
)
def test_a_file_that_does_not_agree_with_itself_is_not_believed(
    tmp_path: Path, page: Path, field: str, value: object
) -> None:
    """C1: whoever edits a description in it does not put words before the model."""
    content = msgspec.json.decode(page.read_bytes())
    page.write_bytes(msgspec.json.encode({**content, field: value}))
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_file_of_another_key_cannot_be_put_in_its_place(tmp_path: Path, page: Path) -> None:
    page.rename(page.with_name(f"{OTHER}.json"))
    assert ToolDiskCache(tmp_path).recall(OTHER) is None


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, page: Path) -> None:
    page.write_bytes(page.read_bytes() + b" " * MAX_BYTES)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_list_that_is_too_large_is_not_written(tmp_path: Path) -> None:
    many = [RemoteTool(f"t{number}", "x" * 10_000, {"type": "object"}) for number in range(300)]
    catalogue = ToolDiskCache(tmp_path)
    catalogue.keep(KEY, Toolset.of(many))
    assert catalogue.recall(KEY) is None
    assert not (tmp_path / "mcp-catalogue").exists()


def test_a_link_is_not_followed_to_be_read(tmp_path: Path, page: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    page.rename(elsewhere)
    page.symlink_to(elsewhere)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path, page: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    page.unlink()
    page.symlink_to(victim)
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    assert victim.read_text() == "mine"
    assert ToolDiskCache(tmp_path).recall(KEY) == TOOLS


def test_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path: Path, page: Path) -> None:
    page.unlink()
    os.mkfifo(page)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


def test_a_file_that_others_can_write_is_not_believed(tmp_path: Path, page: Path) -> None:
    page.chmod(0o666)
    assert ToolDiskCache(tmp_path).recall(KEY) is None


@pytest.mark.parametrize("key", ["", "../" + "a" * 61, "A" * 64, "a" * 63])
def test_what_is_no_key_never_becomes_a_path(tmp_path: Path, key: str) -> None:
    catalogue = ToolDiskCache(tmp_path)
    catalogue.keep(key, TOOLS)
    assert catalogue.recall(key) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_logged_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mcp-catalogue").write_text("in the way")
    catalogue = ToolDiskCache(tmp_path)
    catalogue.keep(KEY, TOOLS)
    assert "could not be kept" in caplog.text
    assert catalogue.recall(KEY) is None


def test_a_folder_that_is_a_link_is_not_written_into(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mcp-catalogue").symlink_to(elsewhere)
    ToolDiskCache(tmp_path).keep(KEY, TOOLS)
    assert list(elsewhere.iterdir()) == []
