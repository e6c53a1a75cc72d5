"""Removing a directory that another program filled. Standard library only: the launcher does it too."""

from __future__ import annotations

import os
from contextlib import suppress


def remove_tree(path: str) -> None:
    """With directories in it that may not be written, as caches of packages are. What cannot go stays.

    For a directory in which nothing runs any more: nothing is done against a race.
    """
    # Here, because it brings compressors: whatever the launcher has loaded, each command has to get rid of.
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    for folder, folders, _ in os.walk(path):
        for name in folders:
            inner = os.path.join(folder, name)
            # A link is removed, not what it points to.
            if not os.path.islink(inner):
                with suppress(OSError):
                    os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)
