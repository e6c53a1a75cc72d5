"""Locks of open files: whole, or shared. Other systems: `tests/test_other_systems.py`."""

from __future__ import annotations

from pathlib import Path

from tertulia.policy import file_lock


def test_a_whole_file_is_locked_once_or_shared(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w") as first, path.open("w") as second:
        assert file_lock.try_lock(first.fileno(), shared=True)
        assert file_lock.try_lock(second.fileno(), shared=True)
        assert not file_lock.try_lock(second.fileno())
        first.close()
        file_lock.lock(second.fileno())
        with path.open("w") as third:
            assert not file_lock.try_lock(third.fileno(), shared=True)
