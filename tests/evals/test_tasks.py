"""Issue 24, 7: a task is read once and refused by the name of its file and key; nothing in it leads elsewhere."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.evals.suite import load_suite
from tertulia.evals.task import load_task
from tertulia.evals.task_files import copy_folder
from tertulia.evals.workspace import move_whole
from tests.evals.suites import write_task
from tests.tables import each_row


def _set(text: str) -> Callable[[Path], object]:
    return lambda task: (task / "task.toml").write_text(text)


def _link(name: str, target: str) -> Callable[[Path], object]:
    return lambda task: (task / name).symlink_to(target)


def _chain(task: Path) -> None:
    """`chained` stays inside by its name alone."""
    (task / "repo" / "a").mkdir()
    (task / "repo" / "a" / "up").symlink_to("..")
    (task / "repo" / "chained").symlink_to("a/up/../check")


@each_row(
    "spoil, expected",
    [
        (_set("prompt = 3\nkind = 'fix'"), "task.toml: prompt: expected a text"),
        (_set("prompt = 'x'"), "task.toml: it lacks the key `kind`"),
        (_set("prompt = 'x'\nkind = 'Fix It'"), "task.toml: kind: "),
        (_set("prompt = 'x'\nkind = 'fix'\ntimeout = 3"), "timeout"),
        (_set("prompt = 'x'\nkind = 'fix'\nsandbox = 'danger-full-access'"), "task.toml: sandbox: "),
        (_set("prompt = 'x'\nkind = 'fix'\n[reference]\ndelete = ['../../x']"), "reference.delete: '../../x'"),
        (_set("prompt = 'x'\nkind = 'fix'\n[reference]\ndelete = ['/etc/passwd']"), "reference.delete: '/etc/passwd'"),
        (_set("prompt = "), "task.toml: "),
        (lambda task: (task / "check" / "check.py").unlink(), "check/check.py: there is none"),
        (_link("check/other.py", "/etc/passwd"), "check/other.py: a link"),
        (_link("repo/out", "/etc"), "repo/out: the link leads out"),
        (_link("repo/out", "../check/check.py"), "repo/out: the link leads out"),
        (_chain, "repo/chained: the link leads out"),
        (lambda task: os.mkfifo(task / "repo" / "pipe"), "repo/pipe: neither a file nor a folder"),
    ],
)
def test_a_task_that_cannot_be_used_is_refused_by_file_and_key(
    spoil: Callable[[Path], object], expected: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    task = write_task(tmp_path_factory.mktemp("suite"))
    spoil(task)
    with pytest.raises(InvalidParamsError) as refusal:
        load_task(task)
    assert str(task) in refusal.value.message
    assert expected in refusal.value.message


def test_a_task_without_a_reference_solution_is_refused(tmp_path: Path) -> None:
    task = write_task(tmp_path, solution=None)
    (task / "solution").rmdir()
    with pytest.raises(InvalidParamsError, match="no reference solution"):
        load_task(task)


def test_a_link_inside_the_repository_is_copied_as_a_link_and_caches_are_not(tmp_path: Path) -> None:
    task = write_task(tmp_path / "suite")
    (task / "repo" / "same.py").symlink_to("calc.py")
    before = load_task(task).fingerprint
    (task / "repo" / "__pycache__").mkdir()
    (task / "repo" / "__pycache__" / "calc.pyc").write_bytes(b"x")
    assert load_task(task).fingerprint == before, "what Python writes beside a file is no part of a task"
    copy_folder(task / "repo", tmp_path / "copy")
    assert os.readlink(tmp_path / "copy" / "same.py") == "calc.py"
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["calc.py", "same.py"]


@each_row("name", ["task.toml", "repo/calc.py", "check/check.py", "solution/calc.py"])
def test_every_file_of_a_task_counts_for_its_fingerprint(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    task = write_task(tmp_path_factory.mktemp("suite"))
    before = load_task(task).fingerprint
    with (task / name).open("a") as file:
        file.write("# more\n")
    assert load_task(task).fingerprint != before


def test_a_suite_is_chosen_from_by_name_pattern_and_kind(tmp_path: Path) -> None:
    for name in ("fix-add", "fix-sub", "other"):
        write_task(tmp_path, name)
    chosen = [[task.id for task in load_suite(tmp_path, only).tasks] for only in ((), ("fix-*",), ("fix",), ("other",))]
    assert chosen == [
        ["fix-add", "fix-sub", "other"],
        ["fix-add", "fix-sub"],
        ["fix-add", "fix-sub", "other"],
        ["other"],
    ]
    with pytest.raises(InvalidParamsError, match=r"no task or kind 'fix-ad'.*fix-add"):
        load_suite(tmp_path, ["fix-ad"])
    with pytest.raises(InvalidParamsError, match=r"no folder in it has a task\.toml"):
        load_suite(tmp_path / "other" / "repo")


def test_a_task_is_moved_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between file systems a move is a copy, which can fail in the midst."""
    made, broken = (write_task(tmp_path / "made", name) for name in ("a", "b"))
    os.mkfifo(broken / "repo" / "pipe")
    suite, rename = tmp_path / "suite", os.rename

    def across(source: Path, target: Path) -> None:
        if Path(source).parent == tmp_path / "made":
            raise OSError(errno.EXDEV, "other file system")
        rename(source, target)

    monkeypatch.setattr(os, "rename", across)
    with pytest.raises(shutil.Error, match="named pipe"):
        move_whole([made, broken], suite)
    assert list(suite.iterdir()) == []
    (broken / "repo" / "pipe").unlink()
    made = write_task(tmp_path / "made", "c")
    move_whole([made, broken], suite)
    assert sorted(path.name for path in suite.iterdir()) == ["b", "c"]


def test_a_folder_that_begins_with_a_dot_is_no_task_of_a_suite(tmp_path: Path) -> None:
    for name in ("a", ".new-b"):
        write_task(tmp_path, name)
    assert [task.id for task in load_suite(tmp_path).tasks] == ["a"]
