"""A folder is watched without being looked at again and again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tertulia.server.sockets import folder_watch
from tertulia.server.sockets.folder_watch import FolderWatch
from tests.deadlines import HANG_S


async def test_each_change_is_told_and_silence_is_not(tmp_path: Path) -> None:
    """Issue 23: an observer that sleeps costs the server nothing but its socket."""
    with FolderWatch(tmp_path) as watch:
        waiting = asyncio.ensure_future(watch.wait())
        loop = asyncio.get_running_loop()
        assert not loop._scheduled  # type: ignore[attr-defined]  # no timer runs
        (tmp_path / "one").touch()
        async with asyncio.timeout(HANG_S):
            await waiting
        (tmp_path / "two").touch()
        (tmp_path / "one").unlink()
        async with asyncio.timeout(HANG_S):
            await watch.wait()


async def test_changes_while_nobody_waits_are_told_at_the_next_wait(tmp_path: Path) -> None:
    with FolderWatch(tmp_path) as watch:
        (tmp_path / "one").touch()
        async with asyncio.timeout(HANG_S):
            await watch.wait()


async def test_where_there_is_no_watch_to_be_had_it_is_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "_LOOK_EVERY_S", 0.0)
    with FolderWatch(tmp_path / "missing") as watch:
        async with asyncio.timeout(HANG_S):
            await watch.wait()
