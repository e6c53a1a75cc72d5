"""What can happen to the files of a running session, for real."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tertulia.rollout.sqlite.session_files import SessionFiles

Harm = Callable[[SessionFiles], None]


def delete(name: str) -> Harm:
    return lambda files: getattr(files, name).unlink()


def move(name: str) -> Harm:
    return lambda files: getattr(files, name).rename(files.home.parent / "elsewhere")


def replace(name: str) -> Harm:
    """Another file of the same content: what is written to the one that is open is not in it."""

    def act(files: SessionFiles) -> None:
        path: Path = getattr(files, name)
        shutil.copyfile(path, path.with_suffix(".copy"))
        path.with_suffix(".copy").replace(path)

    return act


def truncate(name: str, left: float) -> Harm:
    """Cut to a part of its size. Not opened and closed in this process, whose locks would go with that.

    But for the journal, which has no locks: the room in it that is made for commits to come is no part of it.
    """

    def act(files: SessionFiles) -> None:
        path: Path = getattr(files, name)
        size = len(path.read_bytes().rstrip(b"\0")) if name == "wal" else path.stat().st_size
        os.truncate(path, int(size * left))

    return act


def overwrite(name: str) -> Harm:
    """The same size, and nothing of what was there: as a copy of another file over it leaves it."""

    def act(files: SessionFiles) -> None:
        path: Path = getattr(files, name)
        size = path.stat().st_size
        os.truncate(path, 0)
        os.truncate(path, size)

    return act


def _delete_folder(files: SessionFiles) -> None:
    shutil.rmtree(files.db.parent)


def _replace_folder(files: SessionFiles) -> None:
    shutil.copytree(files.db.parent, files.home / "copy")
    files.db.parent.rename(files.home / "old")
    (files.home / "copy").rename(files.db.parent)


def _move_folder(files: SessionFiles) -> None:
    files.db.parent.rename(files.home / "moved")


def _delete_home(files: SessionFiles) -> None:
    shutil.rmtree(files.home)


def _move_home(files: SessionFiles) -> None:
    files.home.rename(files.home.with_suffix(".moved"))


HARMS: dict[str, Harm] = {
    "db deleted": delete("db"),
    "db moved": move("db"),
    "db replaced": replace("db"),
    "db emptied": truncate("db", 0),
    "db cut": truncate("db", 0.5),
    "db overwritten": overwrite("db"),
    "journal deleted": delete("wal"),
    "journal replaced": replace("wal"),
    "journal emptied": truncate("wal", 0),
    "journal cut": truncate("wal", 0.9),
    "journal overwritten": overwrite("wal"),
    "lock deleted": delete("lock"),
    "lock replaced": replace("lock"),
    "folder deleted": _delete_folder,
    "folder moved": _move_folder,
    "folder replaced": _replace_folder,
    "home deleted": _delete_home,
    "home moved": _move_home,
}
