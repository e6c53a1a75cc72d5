"""Whether a file's disk is this machine's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.rollout.sqlite import session_files
from tertulia.rollout.sqlite.session_files import is_local


@pytest.fixture(autouse=True)
def _forget_devices() -> None:
    session_files._is_local_device.cache_clear()


def mounts(tmp_path: Path, device: str, *kinds: str) -> str:
    lines = [f"36 35 {device} / /at{n} rw,noatime shared:1 - {kind} /dev/x rw" for n, kind in enumerate(kinds)]
    (tmp_path / "mountinfo").write_text("\n".join(["22 1 0:999 / /proc rw - proc proc rw", *lines]) + "\n")
    return str(tmp_path / "mountinfo")


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [(["ext4"], True), (["tmpfs", "tmpfs"], True), (["nfs4"], False), (["ext4", "fuse.sshfs"], False), ([], False)],
)
def test_a_file_system_counts_as_local_where_it_is_known_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: list[str], expected: bool
) -> None:
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    monkeypatch.setattr(session_files, "_MOUNTS", mounts(tmp_path, number, *kinds))
    assert is_local(tmp_path) is expected


def test_what_cannot_be_found_out_is_not_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_local(tmp_path / "missing")
    monkeypatch.setattr(session_files, "_MOUNTS", str(tmp_path / "missing"))
    assert not is_local(tmp_path)
