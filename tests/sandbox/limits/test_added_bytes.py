"""What was added to a directory, in a real one; other people of the same file system are not blamed on a command."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tertulia.sandbox.limits import added_bytes
from tertulia.sandbox.limits.added_bytes import AddedBytes

MEGABYTE = 1 << 20


class Fuller(AddedBytes):
    """Everything is on one file system, which is fuller by as much as the test says."""

    by = 0

    def _used(self) -> dict[int, int]:
        return dict.fromkeys(self._roots, self.by)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root" / "deep").mkdir(parents=True)
    old = tmp_path / "root" / "old"
    old.write_bytes(os.urandom(MEGABYTE))
    # Until the clock that dates changes has moved on: a few milliseconds.
    while time.clock_gettime_ns(added_bytes._COARSE_CLOCK) <= old.stat().st_ctime_ns:
        pass
    return tmp_path / "root"


def test_s8_what_was_changed_since_then_counts_once(folder: Path) -> None:
    """S8: new and rewritten files, however deep, under however many names; what was there before is not blamed."""
    tried = Fuller([str(folder), str(folder / "missing")])
    assert (tried.grown(), tried.found(0)) == (0, 0)
    (folder / "deep" / "new").write_bytes(os.urandom(2 * MEGABYTE))
    os.link(folder / "deep" / "new", folder / "again")
    (folder.parent / "elsewhere").write_bytes(os.urandom(MEGABYTE))
    tried.by = 100 * MEGABYTE
    assert 2 * MEGABYTE <= tried.found(0) < 3 * MEGABYTE


def test_s8_no_more_than_the_file_system_has_grown_counts(folder: Path) -> None:
    """S8: a large file of which a byte was changed."""
    tried = Fuller([str(folder)])
    with (folder / "old").open("r+b") as file:
        file.write(b"x")
    tried.by = 4096
    assert tried.found(0) == 4096


def test_it_looks_again_only_where_the_answer_could_be_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Fuller([str(folder)])
    tried.by = 10 * MEGABYTE
    assert tried.found(20 * MEGABYTE) == 0
    (folder / "new").write_bytes(os.urandom(MEGABYTE))
    first = tried.found(0)
    assert MEGABYTE <= first < 2 * MEGABYTE
    monkeypatch.setattr(tried, "_changed", lambda held: pytest.fail("nothing has grown enough"))
    tried.by += MEGABYTE
    assert tried.found(5 * MEGABYTE) == first


def test_s8_a_file_without_a_name_counts_by_who_has_it_open(folder: Path) -> None:
    """S8"""
    tried = Fuller([str(folder)])
    tried.by = 10 * MEGABYTE
    with (folder / "gone").open("wb") as file:
        file.write(os.urandom(3 * MEGABYTE))
        file.flush()
        (folder / "gone").unlink()
        assert tried.found(0) < MEGABYTE
        tried.by += 1
        assert tried.found(0, held=[os.fstat(file.fileno())]) >= 3 * MEGABYTE


def test_s8_what_cannot_be_looked_at_is_the_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S8: fail closed, for a directory that it closed to us and for more than anybody can look at in time."""
    tried = Fuller([str(folder)])
    tried.by = 10 * MEGABYTE
    (folder / "closed").mkdir()
    real = os.scandir

    def scandir(path: str) -> os._ScandirIterator[str]:
        if path.endswith("closed"):
            raise PermissionError
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        assert tried.found(0) == 10 * MEGABYTE
    monkeypatch.setattr(added_bytes, "MOST_ENTRIES", 0)
    again = Fuller([str(folder)])
    again.by = 10 * MEGABYTE
    assert again.found(0) == 10 * MEGABYTE


def test_a_directory_that_was_closed_before_is_nobodys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir
    tried = Fuller([str(folder)])
    tried._since += 10**9
    tried.by = MEGABYTE

    def scandir(path: str) -> os._ScandirIterator[str]:
        if path.endswith("deep"):
            raise PermissionError
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert tried.found(0) == 0


def test_file_systems_in_memory_are_known() -> None:
    """S8: and a root that is gone has grown by nothing."""
    tried = AddedBytes(["/dev/shm", "/"])
    assert tried.in_memory == {os.stat("/dev/shm").st_dev}
    tried._roots = dict.fromkeys(tried._roots, "/no/such/place")
    assert tried.grown() == 0
