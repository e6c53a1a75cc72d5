"""What a restore would do: which files it brings back, and which it leaves because others have changed them.

A file belongs to a conversation where only the windows of that conversation, and of those that worked for it, changed
it. Everything is decided by comparing trees; nothing is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.validation_text import is_encodable
from tertulia.session.checkpoints.shadow import CapturedTree
from tertulia.session.checkpoints.windows import Window
from tertulia.session.merging.tree_merge import FileDiff, TreeChange, changed_files, names_of, tree_changes
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.tree_files import LeftOut
from tertulia.tools.patch.disk_program import RefusedError, digest
from tertulia.tools.patch.disk_undo import folders_above, open_root
from tertulia.tools.threads import run_in_thread

CHANGED_SINCE = "changed since, and not by this conversation"
CHANGED_BESIDE = "changed while another task wrote here"


class RestoreTarget(msgspec.Struct, frozen=True):
    """The state that is to be brought back, and for which conversation."""

    tree: str
    at: float
    """When the workspace was in that state."""
    conversation_id: str
    paths: tuple[str, ...] = ()
    """Only these files, and those below these directories; empty: all."""
    force: bool = False
    """Whether files are restored, too, that others have changed."""


class RestorePlan(msgspec.Struct, frozen=True):
    """The changes of a restore, from the present state."""

    now: str
    target: str
    changes: tuple[TreeChange, ...]
    files: tuple[FileDiff, ...]
    left: tuple[LeftOut, ...]


class _Interval(msgspec.Struct, frozen=True):
    """Windows of one conversation that overlap, as one."""

    began: float
    before: str
    ended: float
    after: str


async def plan_restore(
    git: Git, top: str, windows: Sequence[Window], target: RestoreTarget, now: CapturedTree
) -> RestorePlan:
    """Plan it. `windows`: all of the workspace; `now`: its present state. InvalidParamsError for an unknown path."""
    changes, _ = await tree_changes(git, now.tree, target.tree)
    if target.paths:
        changes = [change for change in changes if _is_named(change.path, target.paths)]
        _check_named(target.paths, changes, top)
    own, reasons = await _owned(git, windows, target, now.tree)
    left: dict[str, str] = {}
    chosen: list[TreeChange] = []
    for change in changes:
        if (change.path in own and (target.force or change.path not in reasons)) or (target.force and target.paths):
            chosen.append(change)
        elif change.path in own:
            left[change.path] = reasons[change.path]
        elif target.paths:
            left[change.path] = CHANGED_SINCE
    unrecorded = {entry.path: entry.reason for entry in now.left_out}
    obstacles = await run_in_thread(_obstacles, top, chosen, unrecorded)
    left |= obstacles
    taken = tuple(change for change in chosen if change.path not in obstacles)
    names = {change.path for change in taken}
    listed = await changed_files(git, now.tree, target.tree, "--no-renames") if names else ()
    files = tuple(file for file in listed if file.path in names)
    return RestorePlan(
        now.tree, target.tree, taken, files, tuple(LeftOut(path, reason) for path, reason in left.items())
    )


async def _owned(
    git: Git, windows: Sequence[Window], target: RestoreTarget, now: str
) -> tuple[set[str], dict[str, str]]:
    """The paths that the conversation has changed since, and of those the ones that others have changed as well."""
    since = [window for window in windows if window.ended is None or window.ended > target.at]
    mine = [window for window in since if window.belongs_to(target.conversation_id)]
    others = [window for window in since if not window.belongs_to(target.conversation_id)]
    own: set[str] = set()
    reasons: dict[str, str] = {}
    last = target.tree
    for interval in _intervals(mine, target, now):
        for path in await _between(git, last, interval.before):
            reasons[path] = CHANGED_SINCE
        changed = await _between(git, interval.before, interval.after)
        for other in others:
            if other.began <= interval.ended and (other.ended is None or other.ended >= interval.began):
                beside = await _between(git, other.before, other.after or now) if other.before else changed
                for path in changed & beside:
                    reasons[path] = CHANGED_BESIDE
        own |= changed
        last = interval.after
    for path in await _between(git, last, now):
        reasons.setdefault(path, CHANGED_SINCE)
    return own, reasons


def _intervals(mine: Iterable[Window], target: RestoreTarget, now: str) -> list[_Interval]:
    merged: list[_Interval] = []
    for window in sorted(mine, key=lambda window: window.began):
        ended = float("inf") if window.ended is None else window.ended
        after = window.after or now
        if merged and window.began <= merged[-1].ended:
            last = merged[-1]
            merged[-1] = last if ended <= last.ended else _Interval(last.began, last.before, ended, after)
        else:
            before = target.tree if window.began < target.at else window.before
            merged.append(_Interval(window.began, before, ended, after))
    return merged


async def _between(git: Git, one: str, other: str) -> set[str]:
    return set() if one == other else await names_of(git, "diff-tree", "-r", one, other)


def _is_named(path: str, named: Iterable[str]) -> bool:
    return any(path == name or name in ("", ".") or path.startswith(f"{name}/") for name in named)


def _check_named(paths: Iterable[str], changes: Sequence[TreeChange], top: str) -> None:
    for name in paths:
        if not any(_is_named(change.path, [name]) for change in changes) and not os.path.lexists(
            os.path.join(top, name)
        ):
            raise InvalidParamsError(f"there is no {name!r:.200} in the workspace or in the checkpoint")


# ── the disk ─────────────────────────────────────────────────────────────────────────────────────────────────


def _obstacles(top: str, changes: Sequence[TreeChange], unrecorded: dict[str, str]) -> dict[str, str]:
    """By path, why a file cannot be restored although no other task has changed it."""
    found: dict[str, str] = {}
    with open_root(top) as root:
        while True:
            rest = [change for change in changes if change.path not in found]
            going = {change.path for change in rest if change.new is None}
            reasons = {change.path: _obstacle(root, top, change, going, unrecorded) for change in rest}
            more = {path: reason for path, reason in reasons.items() if reason is not None}
            if not more:
                return found
            # Where one file stays, another may have no room.
            found |= more


def _obstacle(root: int, top: str, change: TreeChange, going: set[str], unrecorded: dict[str, str]) -> str | None:
    path = change.path
    if not is_encodable(path):
        return "its name is not UTF-8"
    if path in unrecorded:
        return f"what is there now is not recorded: {unrecorded[path]}"
    for above in folders_above(path):
        if above in going:
            break
        if not _may_hold(Path(top, above)):
            return f"{above} is no directory now"
    if change.old is not None:
        try:
            digest(root, path)
        except RefusedError as refused:
            return refused.reason
    elif change.new is not None and not _is_free(Path(top, path), path, going):
        return "something that is not recorded is there now"
    return None


def _may_hold(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _is_free(place: Path, path: str, going: set[str]) -> bool:
    """Whether nothing is in the way: no file, or a directory of which everything goes."""
    try:
        mode = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    if not stat.S_ISDIR(mode):
        return False
    for folder, folders, names in os.walk(place):
        inside = os.path.relpath(folder, place)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            if os.path.normpath(os.path.join(path, inside, name)) not in going:
                return False
    return True
