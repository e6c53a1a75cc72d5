"""Lists the files of a directory for completion: those that git would track, or all but hidden ones without git.

Blocks: call it in a thread. The number of files is bounded, because the directory may be a home directory.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from pathlib import Path

from tertulia.policy.commands.git_repository import FORCED
from tertulia.policy.display_text import printable

MAX_FILES = 20_000
MAX_BYTES = 8 * 1024 * 1024
_TIMEOUT_S = 5.0


def list_files(directory: Path) -> list[str]:
    """Paths below a directory, relative to it, sorted. Names with control characters are left out."""
    names = _from_git(directory)
    found = _walk(directory) if names is None else names
    return sorted(name for name in found[:MAX_FILES] if printable(name) == name and "\n" not in name)


def _from_git(directory: Path) -> list[str] | None:
    """What git lists; None: there is no git, or no repository. No program that the repository names is started."""
    options = [word for key, value in FORCED.items() for word in ("-c", f"{key}={value}")]
    words = ["git", *options, "ls-files", "-z", "-c", "-o", "--exclude-standard", "--deduplicate"]
    try:
        listing = subprocess.run(
            words, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if listing.returncode != 0:
        return None
    output = listing.stdout[:MAX_BYTES].decode("utf-8", "surrogateescape")
    return [name for name in output.split("\0") if name]


def _walk(directory: Path) -> list[str]:
    found: list[str] = []
    waiting = deque([directory])
    while waiting and len(found) < MAX_FILES:
        try:
            entries = sorted(os.scandir(waiting.popleft()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                found.append(os.path.relpath(entry.path, directory))
    return found
