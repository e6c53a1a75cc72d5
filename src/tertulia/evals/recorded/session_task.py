"""Makes a task of a stored session: its first files, its messages, what came of them, and a check to be filled in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tertulia.context.git_repository import find_repository
from tertulia.errors import InvalidParamsError
from tertulia.evals.recorded.first_files import (
    FileChange,
    FirstFiles,
    changes_of,
    copy_changed,
    copy_first_files,
    copy_given_files,
)
from tertulia.evals.recorded.stored_session import RepeatableSession
from tertulia.evals.task import TASK_FILE, UNFILLED, Task, load_task
from tertulia.evals.workspace import move_whole, temporary_place
from tertulia.tools.threads import run_in_thread
from tertulia.view.cells import AssistantCell, BaseCallCell

_MAX_NAMED = 40
_CHECK = '''"""Judges a run of this task; docs/evals.md says how. It passes when it comes to its end."""

from eval_run import answer, calls, changed_files, run_tests, status  # noqa: F401 - what a check can ask

# {changed}
# For example:
#     assert "{example}" in changed_files()
#     run_tests("test_calc")
#     assert "42" in answer

raise NotImplementedError("{unfilled}: say in check.py what must hold, and remove this line")
'''


class SessionTask(msgspec.Struct, frozen=True):
    """The task that was made, and what is not in it."""

    task: Task
    left_out: tuple[str, ...]
    """Files that are not in it, some with the reason."""
    pictures: int
    """Pictures of messages, which a task cannot have."""


async def make_session_task(
    session: RepeatableSession, files: FirstFiles | Path, folder: Path, variables: Mapping[str, str]
) -> SessionTask:
    """Write the folder of a task. It is there whole, or not at all.

    Args:
        session: What was asked and answered.
        files: Where it began; a folder of the user's counts as that as well.
        folder: The folder of the task, which must not be there yet.
        variables: Those of the environment.

    Raises:
        InvalidParamsError: The folder is there, its name is none, or a file cannot be part of a task.
        NotFoundError: The files were removed meanwhile.
        GitError: Git is not there, or failed.
    """
    _check_new(folder)
    async with temporary_place() as place:
        made = place / folder.name
        (made / "check").mkdir(parents=True)
        changes: Sequence[FileChange] = ()
        if isinstance(files, Path):
            left_out = await run_in_thread(copy_given_files, files, made / "repo")
            workspace = str(files)
        else:
            left_out = [*await copy_first_files(files, made / "repo", variables), *files.not_captured]
            changes, workspace = await changes_of(files, variables), files.workspace
            await copy_changed(files, made / "solution", variables)
        (made / "check" / "check.py").write_text(_check(changes), encoding="utf-8")
        removed, unnamed = _split_removed(changes, made / "repo")
        left_out += unnamed
        (made / TASK_FILE).write_text(_table(session, removed, workspace), encoding="utf-8")
        load_task(made)
        # The texts of a session are for its user alone.
        made.chmod(0o700)
        await run_in_thread(move_whole, [made], folder.parent)
    pictures = sum(message.pictures for message in session.messages)
    return SessionTask(load_task(folder), tuple(left_out), pictures)


def _check_new(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise InvalidParamsError(f"{folder}: is there already; choose another name, or remove it")


def _split_removed(changes: Sequence[FileChange], repository: Path) -> tuple[list[str], list[str]]:
    """(removed files that the task can name, the others: a link that was left out, a name that is not UTF-8)."""
    removed = [change.path for change in changes if change.act == "removed"]
    known = [path for path in removed if os.path.lexists(repository / path)]
    return known, [f"{path} (that it was removed)" for path in removed if path not in known]


def _check(changes: Sequence[FileChange]) -> str:
    names = [change.path for change in changes if change.path.isprintable() and '"' not in change.path]
    shown = f"The session changed {', '.join(names[:_MAX_NAMED])}" if names else "The session changed no file"
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    example = names[0].replace("\\", "\\\\") if names else "calc.py"
    return _CHECK.format(changed=f"{shown}{more}.", example=example, unfilled=UNFILLED)


def _table(session: RepeatableSession, removed: Sequence[str], workspace: str) -> str:
    first, *others = (message.text or "(a picture)" for message in session.messages)
    cells = session.board.conversations[session.root_id].cells
    answers = [cell.text for cell in cells if isinstance(cell, AssistantCell)]
    names = dict.fromkeys(cell.name for cell in cells if isinstance(cell, BaseCallCell))
    table = {
        "kind": "session",
        "prompt": first,
        **({"follow_ups": others} if others else {}),
        "sandbox": "read-only" if session.sandbox == "read_only" else "workspace-write",
        "git": find_repository(workspace) is not None,
        "reference": {
            "answer": (answers[-1] if answers else "") or "(it answered nothing)",
            "delete": removed,
            "calls": list(names),
        },
    }
    # Imported here: it is needed for nothing else.
    import tomlkit

    return tomlkit.dumps(table)
