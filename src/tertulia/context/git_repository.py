"""Finds the git repository of a directory and reads its state from a few small files; git itself is not run."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_MAX_LEVELS = 64
_BRANCH = re.compile(r"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]{1,255})\Z")
_COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")
_IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


def find_repository(cwd: str) -> str | None:
    """The nearest directory, upwards from `cwd`, that has a `.git`. A `.git` that is a symbolic link does not count.

    Neither does one that another user owns: any user can create one above a temporary directory, with rules in it.
    """
    return repository_around(os.path.realpath(cwd))


def repository_around(here: str) -> str | None:
    """As `find_repository`, for a path without links. Called before every task: one system call for each level."""
    try:
        trusted = {os.getuid(), os.stat(here).st_uid}
    except OSError:
        return None
    for folder in folders_above(here)[:_MAX_LEVELS]:
        try:
            owner = os.lstat(os.path.join(folder, ".git")).st_uid
        except (OSError, ValueError):
            continue
        if owner in trusted and git_directory(folder) is not None:
            return folder
    return None


def folders_above(here: str) -> list[str]:
    """A directory and all above it, the nearest first."""
    folders = [here]
    while (above := os.path.dirname(here)) != here:
        folders.append(here := above)
    return folders


def git_state(root: str) -> str:
    """One short line: the branch or commit, and the operations that are in progress, such as a merge."""
    place = git_directory(root)
    head = None if place is None else _line(place / "HEAD")
    if place is None or head is None:
        return "unknown"
    if branch := _BRANCH.match(head):
        state = f"branch {branch[1]}"
    elif commit := _COMMIT.match(head):
        state = f"no branch, at commit {commit[1][:12]}"
    else:
        return "unknown"
    under_way = dict.fromkeys(what for file, what in _IN_PROGRESS.items() if os.path.lexists(place / file))
    return ", ".join([state, *(f"{what} is under way" for what in under_way)])


def git_directory(top: str) -> Path | None:
    """The git directory of the repository at this top; None where there is none that can be used."""
    folder = Path(top)
    place = folder / ".git"
    try:
        mode = place.lstat().st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(mode):
        # Imported here, as below: not with the name of a class.
        from tertulia.sandbox.mounts.stubs import is_stub

        return None if is_stub(place) else place
    # A worktree or submodule has a file that names the git directory. Only the state is read there, strictly.
    line = _line(place) if stat.S_ISREG(mode) else None
    if line is None or not line.startswith("gitdir: ") or "\0" in line:
        return None
    return folder / line.removeprefix("gitdir: ")


def _line(path: Path) -> str | None:
    """The content of a small file of one line; None if it is empty or cannot be read."""
    from tertulia.sandbox.mounts.root_scan import read_start

    data = read_start(str(path)) or b""
    return data.decode(errors="replace").rstrip("\n") or None
