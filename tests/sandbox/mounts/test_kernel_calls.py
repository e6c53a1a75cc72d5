"""Files and mounts by descriptor: nothing is opened through a link or outside, and identities are the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import SandboxUnavailableError
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.mounts import kernel_calls
from tertulia.sandbox.mounts.kernel_calls import clone_tree, file_facts, missing_calls, new_tmpfs, open_beneath


@pytest.mark.parametrize(
    ("path", "refused"),
    [("folder/file", False), ("link", False), ("through/file", True), ("../outside", True), ("/etc", True)],
)
def test_s2_nothing_is_opened_through_a_link_or_outside(tmp_path: Path, path: str, refused: bool) -> None:
    """S2: a link on the way, an absolute path and `..` are refused; a link at the end is itself."""
    (tmp_path / "outside").touch()
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").touch()
    (root / "link").symlink_to("folder")
    (root / "through").symlink_to("folder")
    parent = os.open(root, os.O_PATH)
    try:
        if refused:
            with pytest.raises(OSError, match=r"symbolic links|cross-device"):
                open_beneath(parent, path)
            return
        fd = open_beneath(parent, path)
        assert os.path.samestat(os.fstat(fd), (root / path).lstat())
        os.close(fd)
    finally:
        os.close(parent)


def test_the_facts_of_a_file_are_those_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    status, known = (tmp_path / "link").lstat(), file_facts(str(tmp_path / "link"))
    assert (known.device, known.inode) == (status.st_dev, status.st_ino)
    assert known.born_ns == 0 or known.born_ns <= status.st_ctime_ns
    assert not known.is_mount_root
    assert file_facts("/proc").is_mount_root
    with pytest.raises(FileNotFoundError):
        file_facts(str(tmp_path / "missing"))


@pytest.mark.skipif(os.getuid() == 0, reason="root may mount")
def test_who_may_not_mount_is_told_so() -> None:
    with pytest.raises(PermissionError):
        new_tmpfs("0555")
    with pytest.raises(PermissionError):
        clone_tree(os.open("/", os.O_PATH))


def test_a20_a_kernel_without_these_calls_refuses_the_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A20, S2: fails closed, with the version that is needed."""
    assert not missing_calls()
    monkeypatch.setattr(kernel_calls, "_NEEDED", (100_000,))
    assert missing_calls()
    with pytest.raises(SandboxUnavailableError, match=r"Linux 5\.12 or newer"):
        BubblewrapTier().find()
