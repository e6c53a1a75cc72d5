"""A suite: a folder with a folder for each task."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.evals.task import TASK_FILE, Task, load_task
from tertulia.protocol.name_hints import name_hint


class Suite(msgspec.Struct, frozen=True):
    """The tasks of a folder, by their names."""

    folder: Path
    """Without links in its path."""
    tasks: tuple[Task, ...]

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the fingerprints of all tasks."""
        lines = "".join(f"{task.id} {task.fingerprint}\n" for task in self.tasks)
        return hashlib.sha256(lines.encode()).hexdigest()


def load_suite(folder: Path, only: Sequence[str] = ()) -> Suite:
    """Read the tasks of a folder, or the one task that the folder is.

    Args:
        folder: The suite.
        only: Names, kinds or patterns such as `fix-*`; none: all tasks.

    Raises:
        InvalidParamsError: There is no task, one cannot be used, or a name of `only` fits none.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise InvalidParamsError(f"{folder}: there is no such folder; name the folder of a suite")
    if (folder / TASK_FILE).exists():
        return Suite(folder.parent, (load_task(folder),))
    found = (path for path in folder.iterdir() if not path.name.startswith("."))
    folders = sorted(path for path in found if (path / TASK_FILE).exists())
    tasks = tuple(load_task(path) for path in folders)
    if not tasks:
        raise InvalidParamsError(f"{folder}: no folder in it has a {TASK_FILE}; see docs/evals.md")
    return Suite(folder, tasks if not only else _chosen(tasks, only))


def _chosen(tasks: Sequence[Task], only: Sequence[str]) -> tuple[Task, ...]:
    for pattern in only:
        if not any(_fits(task, pattern) for task in tasks):
            names = [*(task.id for task in tasks), *(task.table.kind for task in tasks)]
            raise InvalidParamsError(f"there is no task or kind {pattern!r:.80}; {name_hint(pattern, names)}")
    return tuple(task for task in tasks if any(_fits(task, pattern) for pattern in only))


def _fits(task: Task, pattern: str) -> bool:
    return fnmatchcase(task.id, pattern) or task.table.kind == pattern
