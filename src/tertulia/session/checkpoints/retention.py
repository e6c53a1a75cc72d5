"""Removes what checkpoints may not be kept any more: by the policy of their conversations, by age and by size."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from tertulia.errors import BusyError, GitError
from tertulia.rollout.sweep.retention import CheckpointRetention
from tertulia.session.checkpoints.shadow import ShadowRepository
from tertulia.session.checkpoints.windows import Manifest, Window
from tertulia.tools.threads import run_in_thread

_log = logging.getLogger(__name__)
_MAX_LOOSE = 2_000
"""Files of objects above which they are packed together."""
_BRIEFLY_S = 1.0
Dropped = Callable[[Window], bool]


class SweptCheckpoints(msgspec.Struct, frozen=True):
    """What sweeping the repositories of a home came to."""

    checkpoints: int = 0
    """How many checkpoints were removed."""
    workspaces: int = 0
    """How many workspaces have nothing recorded any more."""
    troubles: tuple[str, ...] = ()
    """What could not be swept, and why."""


async def sweep_shadow(
    shadow: ShadowRepository, limits: CheckpointRetention, now: float, dropped: Dropped = lambda _: False
) -> None:
    """Remove the windows that have expired, are too old or are `dropped`, with their objects. The shadow is held."""
    manifest, age = shadow.manifest, limits.max_age_s
    stay = [w for w in manifest.windows if not (_is_over(w, age, now) or dropped(w))]
    over = manifest.expires is not None and manifest.expires <= now
    unused = age is not None and manifest.used + age <= now
    if not stay and (over or unused or (len(manifest.windows) > 0 and manifest.expires is not None)):
        await run_in_thread(_remove, shadow)
        return
    is_less = len(stay) < len(manifest.windows)
    manifest.windows = stay
    if over:
        manifest.tree = manifest.expires = None
        (shadow.store / "index").unlink(missing_ok=True)
    if is_less or over:
        manifest.write()
    size, count = await run_in_thread(_size, shadow.store / "objects")
    if is_less or over or count > _MAX_LOOSE:
        await _repack(shadow)
        size, _ = await run_in_thread(_size, shadow.store / "objects")
    if limits.max_bytes is not None:
        await _fit(shadow, size, limits.max_bytes)


async def _fit(shadow: ShadowRepository, size: int, most: float) -> None:
    """Drop the oldest windows until the rest has room."""
    manifest = shadow.manifest
    while size > most:
        if not manifest.windows:
            await run_in_thread(_remove, shadow)
            return
        manifest.windows = manifest.windows[(len(manifest.windows) + 1) // 2 :]
        manifest.write()
        await _repack(shadow)
        size, _ = await run_in_thread(_size, shadow.store / "objects")


async def _repack(shadow: ShadowRepository) -> None:
    """Write one pack of what is needed, and remove all other objects."""
    from tertulia.session.merging.journal import merged_ref

    manifest = shadow.manifest
    trees = {tree for window in manifest.windows for tree in (window.before, window.after) if tree}
    trees |= set() if manifest.tree is None else {manifest.tree}
    git = await shadow.git()
    packs = shadow.store / "objects" / "pack"
    packs.mkdir(exist_ok=True)
    needed = {merged_ref(window.id) for window in manifest.windows}
    refs = (await git.run("for-each-ref", "--format=%(refname)", "refs/tertulia/merged")).decode().split()
    if gone := [f"delete {ref}\n" for ref in refs if ref not in needed]:
        await git.run("update-ref", "--stdin", stdin="".join(gone).encode())
    stdin = "".join(f"{tree}\n" for tree in sorted(trees)).encode()
    words = ("pack-objects", "--quiet", "--revs", "--no-reuse-delta", "--window=0", str(packs / "pack"))
    name = (await git.run(*words, stdin=stdin)).decode().split()[-1] if trees else ""
    await run_in_thread(_remove_objects, shadow.store, f"pack-{name}")


def _is_over(window: Window, age: float | None, now: float) -> bool:
    return (window.expires is not None and window.expires <= now) or (age is not None and window.began + age <= now)


def _remove(shadow: ShadowRepository) -> None:
    """Remove everything but the lock, which is held."""
    shutil.rmtree(shadow.store, ignore_errors=True)
    for path in shadow.folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != "lock" and path.suffix != ".live":
            path.unlink(missing_ok=True)
    shadow.manifest.load(shadow.workspace)


def _remove_objects(store: Path, pack: str) -> None:
    for folder in (store / "objects").iterdir():
        if folder.name == "pack":
            for file in folder.iterdir():
                if file.stem != pack:
                    file.unlink(missing_ok=True)
        elif folder.name != "info":
            shutil.rmtree(folder)
    for crash in store.glob("fast_import_crash_*"):
        crash.unlink(missing_ok=True)


def _size(folder: Path) -> tuple[int, int]:
    size = count = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(here, name)).st_size
                count += 1
    return size, count


async def sweep_shadows(
    folder: Path,
    limits: CheckpointRetention,
    now: float,
    variables: Mapping[str, str],
    dropped: Dropped = lambda _: False,
) -> SweptCheckpoints:
    """Sweep the repositories of all workspaces; those of workspaces that are gone are removed. Logs what it cannot."""
    checkpoints = workspaces = 0
    troubles: list[str] = []
    for place in await run_in_thread(_places, folder):
        shadow = _shadow_at(folder, place, variables)
        try:
            # One that is in use is swept by those who use it.
            async with shadow.held(_BRIEFLY_S):
                had = len(shadow.manifest.windows)
                if await run_in_thread(_has_workspace, shadow.manifest):
                    await sweep_shadow(shadow, limits, now, dropped)
                else:
                    await run_in_thread(_remove, shadow)
                checkpoints += had - len(shadow.manifest.windows)
                workspaces += await run_in_thread(_remove_empty, shadow)
        except (BusyError, GitError, OSError) as error:
            troubles.append(f"the checkpoints in {place} could not be swept: {error}")
            _log.warning("%s", troubles[-1])
    await run_in_thread(_remove_folder, folder)
    return SweptCheckpoints(checkpoints, workspaces, tuple(troubles))


def preview_shadows(folder: Path, limits: CheckpointRetention, now: float) -> SweptCheckpoints:
    """What a sweep would remove by policy and age, and of workspaces that are gone; nothing is done. Blocks.

    What is too large is not counted: how much would have to go is known only when the rest is packed anew.
    """
    checkpoints = workspaces = 0
    for place in _places(folder):
        manifest = Manifest(place / "windows.json")
        manifest.load()
        over = [w for w in manifest.windows if _is_over(w, limits.max_age_s, now) or not _has_workspace(manifest)]
        checkpoints += len(over)
        workspaces += not _has_workspace(manifest)
    return SweptCheckpoints(checkpoints, workspaces)


def _shadow_at(folder: Path, place: Path, variables: Mapping[str, str]) -> ShadowRepository:
    manifest = Manifest(place / "windows.json")
    manifest.load()
    return ShadowRepository(folder, manifest.workspace, variables, place=place)


def _places(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _has_workspace(manifest: Manifest) -> bool:
    return bool(manifest.workspace) and os.path.isdir(manifest.workspace)


def _remove_empty(shadow: ShadowRepository) -> bool:
    if shadow.store.exists():
        return False
    shutil.rmtree(shadow.folder, ignore_errors=True)
    return True


def _remove_folder(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def next_expiry(manifest: Manifest, max_age_s: float | None = None) -> float | None:
    """When something expires next, by its policy or by its age; None: nothing does."""
    times = [window.expires for window in manifest.windows if window.expires is not None]
    times += [] if manifest.expires is None else [manifest.expires]
    if max_age_s is not None:
        times += [window.began + max_age_s for window in manifest.windows]
    return min(times, default=None)
