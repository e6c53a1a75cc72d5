"""The checkpoints of one workspace: a window for each writing task and each restore, in its shadow repository."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tertulia.errors import BusyError, InvalidParamsError
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.session.checkpoints.shadow import CapturedTree, ShadowRepository
from tertulia.session.checkpoints.windows import AFTER, Window
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.held_file import hold_file, release_file
from tertulia.session.worktrees.tree_files import LeftOut

if TYPE_CHECKING:
    # What compares and restores is loaded when it is used: most sessions only record.
    from tertulia.session.checkpoints.plan import RestorePlan, RestoreTarget
    from tertulia.session.merging.journal import TreeJournal
    from tertulia.session.merging.tree_merge import FileDiff


@dataclass(frozen=True)
class RestoreOutcome:
    """What came of a restore, or would."""

    id: str
    conversation_id: str
    plan: RestorePlan
    left_out: tuple[LeftOut, ...]
    window: Window | None = None
    """The restore itself; None: nothing was changed."""


@dataclass(frozen=True)
class StateDiff:
    """The difference between two states of a workspace."""

    id: str
    files: tuple[FileDiff, ...]
    diff: str
    left_out: tuple[LeftOut, ...] = ()


class WorkspaceCheckpoints:
    """Those of one workspace, for one session. Each method holds the repository for as long as it takes."""

    def __init__(
        self,
        shadow: ShadowRepository,
        session_id: str,
        journals: Path,
        variables: Mapping[str, str],
        now: Callable[[], float],
        step: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`journals`: where restores keep their journals; `step` is called before each step of a restore."""
        self.shadow = shadow
        self.step = step
        self._session_id = session_id
        self._journals = journals
        self._variables = variables
        self._now = now
        self._open: set[str] = set()
        """The windows that this session has opened and not closed."""
        self._live: int | None = None
        self.unrecorded: list[Window] = []
        """Windows of tasks in the same workspace of which nothing may be stored."""

    @property
    def _mark(self) -> Path:
        return self.shadow.folder / f"{self._session_id}.live"

    def close(self) -> None:
        """The session is over: windows that it has not closed count as cut."""
        if self._live is not None:
            release_file(self._mark, self._live)
            self._live = None

    # ── windows ──────────────────────────────────────────────────────────────────────────────────────────────

    async def prepare(self, expires: float | None) -> None:
        """Record the present state, so that the first checkpoint is quick."""
        async with self.shadow.held():
            await self._capture(expires)
            self.shadow.manifest.write()

    async def begin(self, window: Window) -> tuple[Window, CapturedTree]:
        """Open a window with the present state, which is recorded when this returns."""
        async with self.shadow.held():
            return await self._begin(window)

    async def end(self, window: Window) -> tuple[Window, CapturedTree] | None:
        """Close a window with the present state; None where it was removed meanwhile."""
        async with self.shadow.held():
            if self.shadow.manifest.find(window.id) is None:
                return None
            return await self._end(window)

    async def _begin(self, window: Window) -> tuple[Window, CapturedTree]:
        captured = await self._capture(window.expires)
        # After the capture: what changed meanwhile may belong to this window.
        window = replace(window, began=self._now(), before=captured.tree)
        self.shadow.manifest.windows.append(window)
        self.shadow.manifest.write()
        self._open.add(window.id)
        return window, captured

    async def _end(self, window: Window) -> tuple[Window, CapturedTree]:
        captured = await self._capture(window.expires)
        files = await _files(await self.shadow.git(), window.before, captured.tree)
        ended = replace(window, ended=self._now(), after=captured.tree, **_counts(files))
        self.shadow.manifest.replace(ended)
        self.shadow.manifest.write()
        self._open.discard(window.id)
        return ended, captured

    async def _capture(self, expires: float | None) -> CapturedTree:
        if self._live is None:
            self._live = hold_file(self._mark)
        captured, manifest = await self.shadow.capture(), self.shadow.manifest
        # The longest time that one of the policies allows.
        latest = None if expires is None or (manifest.used and manifest.expires is None) else expires
        manifest.used, manifest.expires = self._now(), latest
        await self._close_cut(captured.tree)
        return captured

    async def _close_cut(self, tree: str) -> None:
        """Close the windows of processes that were killed."""
        if all(window.after is not None for window in self.shadow.manifest.windows):
            return
        from tertulia.session.merging.journal import merged_ref

        manifest = self.shadow.manifest
        for window in [window for window in manifest.windows if window.after is None]:
            if window.id in self._open or self._is_alive(window.session_id):
                continue
            git = await self.shadow.git()
            if window.cause == "restore" and not await _is_set(git, merged_ref(window.id)):
                # It was taken back.
                manifest.windows.remove(window)
                continue
            files = await _files(git, window.before, tree)
            closed = replace(window, ended=self._now(), after=tree, cut=True, **_counts(files))
            manifest.replace(closed)
            self._mark_undone(closed)

    def _is_alive(self, session_id: str) -> bool:
        if session_id == self._session_id:
            return False
        mark = self.shadow.folder / f"{session_id}.live"
        if not mark.exists():
            return False
        number = hold_file(mark)
        if number is not None:
            release_file(mark, number)
        return number is None

    def _mark_undone(self, restore: Window) -> None:
        """What a restore has undone is not undone again; what it has brought back by undoing a restore can be."""
        manifest = self.shadow.manifest
        for window in list(manifest.windows):
            if window.id in restore.undoes:
                manifest.replace(replace(window, undone=True))
                for again in [other for other in manifest.windows if other.id in window.undoes]:
                    if again.began < restore.back_to:
                        manifest.replace(replace(again, undone=False))

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────

    async def list(self) -> list[Window]:
        """All windows, the oldest first."""
        if not self.shadow.folder.is_dir():
            return []
        async with self.shadow.held():
            return list(self.shadow.manifest.windows)

    async def diff(self, checkpoint_id: str | None, conversation_id: str, *, to_now: bool) -> StateDiff:
        """From the state of a checkpoint to that at the end of its task, or to the present one."""
        from tertulia.session.merging.tree_merge import changed_files, whole_diff

        async with self.shadow.held():
            id = checkpoint_id or self.shadow.manifest.last_message(conversation_id)[0].id
            window, tree = self.shadow.manifest.require(id)
            left_out: tuple[LeftOut, ...] = ()
            later = None if to_now or id.endswith(AFTER) else self.shadow.manifest.end_of(window)
            if later is None:
                captured = await self.shadow.capture()
                later, left_out = captured.tree, captured.left_out
                self.shadow.manifest.write()
            git = await self.shadow.git()
            if tree == later:
                return StateDiff(id, (), "", left_out)
            return StateDiff(id, await changed_files(git, tree, later), await whole_diff(git, tree, later), left_out)

    # ── restoring ────────────────────────────────────────────────────────────────────────────────────────────

    async def restore(
        self,
        checkpoint_id: str | None,
        conversation_id: str | None,
        *,
        paths: Sequence[str],
        force: bool,
        dry_run: bool,
        default: str,
        expires: float | None,
        since: float | None = None,
    ) -> RestoreOutcome:
        """Bring files back. `conversation_id`: None: that of the checkpoint, or without one `default`; `since`: without
        a checkpoint, before the first task after that moment.
        """
        from tertulia.session.checkpoints.plan import plan_restore
        from tertulia.session.merging.journal import TreeJournal

        journal = TreeJournal.of(self._journals, self.shadow.workspace)
        async with journal.held(), self.shadow.held():
            if since is not None:
                checkpoint_id = self.shadow.manifest.first_since(conversation_id or default, since).id
            id, target, undoes = self._target(checkpoint_id, conversation_id, default)
            target = replace(target, paths=_inside(self.shadow.workspace, paths), force=force)
            self._check_idle(target.conversation_id)
            captured = await self._capture(expires)
            git = await self.shadow.git()
            known = [*self.shadow.manifest.windows, *self.unrecorded]
            plan = await plan_restore(git, self.shadow.workspace, known, target, captured)
            if dry_run or not plan.changes:
                self.shadow.manifest.write()
                return RestoreOutcome(id, target.conversation_id, plan, captured.left_out)
            window = Window(
                id=new_checkpoint_id(), cause="restore", session_id=self._session_id,
                conversation_id=target.conversation_id, began=0.0, before="", expires=expires,
                back_to=target.at, undoes=() if paths or plan.left else undoes,
            )  # fmt: skip
            window = await self._write(window, plan, id, journal)
            return RestoreOutcome(id, target.conversation_id, plan, captured.left_out, window)

    async def _write(self, window: Window, plan: RestorePlan, checkpoint_id: str, journal: TreeJournal) -> Window:
        from tertulia.session.checkpoints.restore import RestoreSite, write_restore

        manifest = self.shadow.manifest
        self.step("window")
        window = replace(window, began=self._now(), before=plan.now)
        manifest.windows.append(window)
        manifest.write()
        self._open.add(window.id)
        git = await self.shadow.git()
        site = RestoreSite(
            git, self.shadow.workspace, self.shadow.store, journal, self._variables, dict(manifest.modes)
        )
        try:
            await write_restore(site, plan, window.id, checkpoint_id, self.step)
        except BaseException:
            manifest.windows.remove(window)
            manifest.write()
            raise
        finally:
            self._open.discard(window.id)
        self.step("record")
        ended, _ = await self._end(window)
        self._mark_undone(ended)
        manifest.write()
        return ended

    def _target(
        self, checkpoint_id: str | None, conversation_id: str | None, default: str
    ) -> tuple[str, RestoreTarget, tuple[str, ...]]:
        """The checkpoint, the state to restore, and the windows that it undoes."""
        from tertulia.session.checkpoints.plan import RestoreTarget

        if checkpoint_id is None:
            windows = self.shadow.manifest.last_message(conversation_id or default)
            window, tree = windows[0], windows[0].before
        else:
            window, tree = self.shadow.manifest.require(checkpoint_id)
        owner = conversation_id or (default if checkpoint_id is None else _owner(window))
        is_after = checkpoint_id is not None and checkpoint_id.endswith(AFTER)
        at = window.ended if is_after and window.ended is not None else window.began
        undoes = tuple(
            other.id
            for other in self.shadow.manifest.windows
            if other.belongs_to(owner)
            and not other.undone
            and (other.began > at or (other.id == window.id and not is_after))
        )
        return checkpoint_id or window.id, RestoreTarget(tree, at, owner), undoes

    def _check_idle(self, conversation_id: str) -> None:
        for window in self.shadow.manifest.windows:
            alive = window.id in self._open or self._is_alive(window.session_id)
            if window.after is None and window.belongs_to(conversation_id) and alive:
                raise BusyError("this conversation works in the workspace now; undo when it is done", retry_after_s=1)


def new_checkpoint_id() -> str:
    """Short, because people type it."""
    return os.urandom(4).hex()


def _owner(window: Window) -> str:
    """The conversation that the user spoke to."""
    return window.callers[0] if window.callers else window.conversation_id


async def _files(git: Git, before: str, after: str) -> tuple[FileDiff, ...]:
    if before == after:
        return ()
    from tertulia.session.merging.tree_merge import changed_files

    return await changed_files(git, before, after)


def _inside(top: str, paths: Sequence[str]) -> tuple[str, ...]:
    """The paths, relative to the workspace. InvalidParamsError for one outside."""
    found: list[str] = []
    for path in paths:
        # The name itself may be a link, and is meant then.
        folder, name = os.path.split(os.path.normpath(os.path.join(top, path)))
        place = os.path.join(os.path.realpath(folder), name)
        if not is_inside(place, top):
            raise InvalidParamsError(f"{path!r:.200} lies outside the workspace {top}, and only that is recorded")
        found.append(os.path.relpath(place, top))
    return tuple(found)


def _counts(files: Sequence[FileDiff]) -> dict[str, int]:
    return {
        "files": len(files),
        "added": sum(file.added or 0 for file in files),
        "removed": sum(file.removed or 0 for file in files),
    }


async def _is_set(git: Git, ref: str) -> bool:
    return bool(await git.run("rev-parse", "--verify", "--quiet", ref, accepted=(0, 1)))
