"""Finds the pipe that a git waits for without end: one in the place of a file of settings, attributes or patterns.

The search runs only when a git has taken long: a command can make such a pipe in its tree at any time, but most trees
are large and have none.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

_IN_TREE = (".gitattributes", ".gitignore", ".gitmodules")
_NAMED = re.compile(r"^\s*(?:path|attributesfile|excludesfile)\s*=\s*\"?([^\"\n]*?)\"?\s*$", re.I | re.M)
_MAX_CONFIG_BYTES = 1024 * 1024
_MAX_FILES = 200
"""The most configuration files that are looked at: each can include others."""
_MAX_FOLDERS = 200_000


def find_pipe(directory: Path, variables: Mapping[str, str]) -> str | None:
    """The path of a pipe that a git in this directory, with these variables, may wait for; None where none is found.

    Blocks. Of all files only configuration files are read.
    """
    for path in (*_named_files(directory, variables), *_files_of_tree(directory)):
        if _is_pipe(path):
            return str(path)
    return None


def _is_pipe(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and str(path) != os.devnull)


def _named_files(directory: Path, variables: Mapping[str, str]) -> list[Path]:
    """The configuration files that git reads here, and the files that they name."""
    home = Path(variables.get("HOME", "/"))
    own = Path(variables.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    known = [Path(variables["GIT_DIR"])] if "GIT_DIR" in variables else []
    stores = known or [above / ".git" for above in (directory, *directory.parents)]
    stores += [store.parent.parent for store in stores if store.parent.name == "worktrees"]
    names = ("config", "config.worktree", "info/attributes", "info/exclude")
    files = [home / ".gitconfig", *(own / name for name in ("config", "attributes", "ignore")), Path("/etc/gitconfig")]
    files += [Path(variables[name]) for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if name in variables]
    files += [store / name for store in stores for name in names]
    files = [path for path in files if str(path) != os.devnull]
    # The list grows during the loop: included files can include others.
    for path in files:
        if len(files) < _MAX_FILES:
            files += [found for found in _names_in(path, home) if found not in files]
    return files


def _names_in(path: Path, home: Path) -> Iterator[Path]:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with open(number, "rb") as file:
        text = file.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(number).st_mode) else ""
    for name in _NAMED.findall(text):
        if name.startswith("~/"):
            yield home / name[2:]
        elif name and "\0" not in name:
            yield path.parent / name


def _files_of_tree(directory: Path) -> Iterator[Path]:
    for count, (folder, _, names) in enumerate(os.walk(directory)):
        yield from (Path(folder, name) for name in _IN_TREE if name in names)
        if count >= _MAX_FOLDERS:
            return
