"""A task: what is wanted, in which repository, under which rights; read from the `task.toml` of its folder.

A folder of a task holds

    task.toml     prompt, messages that follow it, kind, rights, times and the reference answer
    repo/         the repository that a run gets a copy of
    check/        `check.py`, which judges the run, and what it needs; no run ever sees it
    solution/     files that are laid over the repository for the reference solution; or `solution.patch`
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.evals.task_files import fingerprint_folder, relative_name
from tertulia.protocol.validation_text import explain_validation
from tertulia.session.settings.config_file import read_config

TASK_FILE = "task.toml"
MAX_PROMPT = 200_000
UNFILLED = "this check is not filled in yet"
"""What a check fails with that was only begun, see `recorded.session_task`."""
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class ReferenceConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation that the reference run opens."""

    title: str = ""
    answer: str = ""


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of the reference solution that is no file: with it the check must pass."""

    answer: str = ""
    delete: tuple[str, ...] = ()
    """Files of the repository that the solution removes."""
    calls: tuple[str, ...] = ()
    """The names of the tools that it calls."""
    conversations: tuple[ReferenceConversation, ...] = ()


class TaskTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`task.toml` as it is written."""

    prompt: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PROMPT)]
    kind: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,40}$")]
    """What is tried out: `fix`, `feature`, `refactor`, `find` and so on. Results are summed up by it."""
    follow_ups: tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PROMPT)], ...] = ()
    """Messages that follow, each after the answer to the one before."""
    sandbox: Literal["read-only", "workspace-write"] = "workspace-write"
    timeout_s: _Seconds = 600.0
    """How long a run may take."""
    check_timeout_s: _Seconds = 30.0
    git: bool = False
    """Whether the workspace is a git repository with one commit."""
    reference: Reference = Reference()


class Task(msgspec.Struct, frozen=True):
    """A task that was read and found usable."""

    id: str
    """The name of its folder."""
    folder: Path
    table: TaskTable
    fingerprint: str
    """Of every file in its folder: results of different versions of a task are never mixed."""

    @property
    def repository(self) -> Path:
        return self.folder / "repo"

    @property
    def check(self) -> Path:
        return self.folder / "check" / "check.py"

    @property
    def solution(self) -> Path:
        return self.folder / "solution"

    @property
    def solution_patch(self) -> Path:
        return self.folder / "solution.patch"


def is_unfilled(task: Task) -> bool:
    """Whether its check was only begun."""
    return f'NotImplementedError("{UNFILLED}' in task.check.read_text(encoding="utf-8", errors="replace")


def load_task(folder: Path) -> Task:
    """Read a task. InvalidParams names the file, the key and what was expected; nothing in the folder is run."""
    path = folder / TASK_FILE
    # Before anything in it is opened: a link could lead elsewhere, and reading a pipe would never end.
    fingerprint = fingerprint_folder(folder)
    table = _read_table(path)
    for place, kind in (("repo", "the repository"), ("check/check.py", "the hidden check")):
        if not (folder / place).exists():
            raise InvalidParamsError(f"{folder / place}: there is none; it is {kind} of the task")
    for name in table.reference.delete:
        relative_name(name, f"{path}: reference.delete")
    task = Task(folder.name, folder, table, fingerprint)
    if not (task.solution.is_dir() or task.solution_patch.is_file() or table.reference != Reference()):
        raise InvalidParamsError(
            f"{path}: the task has no reference solution; add a folder solution/, a file solution.patch or a table "
            "[reference], so that its check can be tried out"
        )
    return task


def _read_table(path: Path) -> TaskTable:
    config = read_config(path)
    if config is None:
        raise InvalidParamsError(f"{path}: there is no such file")
    try:
        return msgspec.convert(config, TaskTable)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(f"{path}: {explain_validation(error, TaskTable)}") from None
