"""What is remembered of servers that were not ready in time."""

from __future__ import annotations

from pathlib import Path

from tertulia.mcp.pool.startup_wait import USUAL, LateServers


def test_a_server_that_is_late_in_every_run_is_known_until_it_is_ready_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for _ in range(USUAL):
        assert not LateServers(home).is_usual("a")
        LateServers(home).add(["a", "b"])
    late = LateServers(home)
    assert late.is_usual("a")
    late.forget("a")
    late.forget("stranger")
    assert (LateServers(home).is_usual("a"), LateServers(home).is_usual("b")) == (False, True)
    assert (home / "mcp-late.json").stat().st_mode & 0o777 == 0o600


def test_only_the_newest_are_remembered(tmp_path: Path) -> None:
    late = LateServers(tmp_path)
    for _ in range(USUAL):
        late.add(["first"])
    late.add([str(number) for number in range(200)])
    assert not late.is_usual("first")


def test_without_a_place_or_with_a_file_that_is_none_nothing_is_known(tmp_path: Path) -> None:
    nowhere = LateServers(None)
    nowhere.add(["a"])
    nowhere.add(["a"])
    assert not nowhere.is_usual("a")
    (tmp_path / "mcp-late.json").write_text("nonsense")
    late = LateServers(tmp_path)
    assert not late.is_usual("a")
    late.add(["a"])
    late.add(["a"])
    assert late.is_usual("a")
    (tmp_path / "file").write_text("in the way")
    LateServers(tmp_path / "file").add(["a"])
