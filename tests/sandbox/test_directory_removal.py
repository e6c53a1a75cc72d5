"""A directory that somebody else filled is gone afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tertulia.sandbox.directory_removal import remove_tree

NOBODY = 65_534


@contextmanager
def as_anybody() -> Iterator[None]:
    """As somebody for whom modes mean something."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_directories_that_may_not_be_written_go_too_and_nothing_outside_is_touched() -> None:
    """DESIGN, storage: an agent's home is gone afterwards, with the caches of packages that it left in it."""
    with as_anybody():
        folder, outside = tempfile.mkdtemp(), Path(tempfile.mkdtemp())
        (outside / "kept").write_text("kept")
        outside.chmod(0o500)
        inner = Path(folder, "go", "mod")
        inner.mkdir(parents=True)
        (inner / "said.txt").write_text("a secret")
        (inner / "link").symlink_to(outside)
        inner.chmod(0o500)
        inner.parent.chmod(0)
        try:
            remove_tree(folder)
            assert not Path(folder).exists()
            assert (outside / "kept").read_text() == "kept"
            assert outside.stat().st_mode & 0o777 == 0o500
        finally:
            outside.chmod(0o700)
            remove_tree(str(outside))
    assert not outside.exists()


def test_what_is_not_there_is_nothing() -> None:
    remove_tree("/no/such/place")
