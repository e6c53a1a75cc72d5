"""What a command has changed among protected files: found when it has ended, told, and put back where it is dangerous.

A tier that holds them by mounts needs this only where a directory was put in the place of another; in one that cannot
hold them it is all there is. Commands that run at once in a root share one state from before: that of the first. A
later one would take for the user's own what an earlier one has written.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.policy.commands.git_repository import settings_that_may_start
from tertulia.sandbox.mounts.root_scan import named_stores
from tertulia.sandbox.protected.program_files import PlaceSnapshot, Role, SavedFile, open_folder
from tertulia.sandbox.protected.restore import keep_copy, remove_empty, restore_file, undo_command
from tertulia.sandbox.runner import Change, Confinement, Watch

_STORE = ("HEAD", "objects", "refs")
_MOVED = "the directory that stood there was moved"
_REPLACED = "what stood in its place was removed, the directory itself was moved"
_HELD = "the sandbox held it, so this was done from outside"
_DATA = "it starts no program"
_GIT = "a git of yours may have written it"
_TOO_LARGE = "it was too large to be kept"


class _Place:
    """One protected name in a root, and what was in it."""

    __slots__ = ("above", "complete", "files", "path", "role")

    def __init__(self, root: int, path: str, role: Role, known: Mapping[str, SavedFile]) -> None:
        self.path = path
        self.role: Role = role
        self.above = _above(root, path)
        """Which directory it lies in."""
        look = PlaceSnapshot(root, path, role, known)
        self.files, self.complete = look.files, look.complete

    def stands(self, root: int) -> bool:
        """Whether it still lies in the same directory."""
        return _above(root, self.path) == self.above

    def now(self, root: int) -> dict[str, SavedFile]:
        return PlaceSnapshot(root, self.path, self.role, self.files, bounded=False).files


class _Root:
    """A root in which commands run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.commands = 0
        self._fd = -1
        """Open on it while there are any."""
        self.places: list[_Place] = []

    def begin(self, wanted: Mapping[str, Role]) -> None:
        with self.lock:
            if self.commands:
                self.commands += 1
                return
            known = {path: saved for place in self.places for path, saved in place.files.items()}
            root = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                self.places = [_Place(root, path, role, known) for path, role in wanted.items()]
            except BaseException:
                os.close(root)
                raise
            # Held until the last command has ended: one can take the right to come here by the path.
            self._fd, self.commands = root, 1

    def end(self, watch: Watch, *, held: bool) -> list[Change]:
        with self.lock:
            changes: list[Change] = []
            try:
                for place in self.places:
                    changes += self._settle(self._fd, place, watch, held=held)
            except OSError as error:
                changes.append(Change(self.path, "changed", f"it could not be looked at: {error.strerror or error}"))
            self.commands -= 1
            if not self.commands:
                os.close(self._fd)
            return changes

    def _settle(self, root: int, place: _Place, watch: Watch, *, held: bool) -> Iterator[Change]:
        if not place.complete:
            # It was read-only: the tier has seen to that, because it could not be saved.
            return
        before, after = place.files, place.now(root)
        is_new = place.path not in before and place.role == "tree"
        differing = [path for path in {**before, **after} if not _same(before.get(path), after.get(path))]
        if not differing:
            return
        reasons = _Reasons(self.path, place, after, held=held and place.stands(root))
        for path in sorted(differing):
            was, became = before.get(path), after.get(path)
            if is_new and path == place.path and became is not None and stat.S_ISDIR(became.mode):
                # What is in it is told, and with the last of that it goes.
                continue
            if reasons.says_nothing(path, was, became):
                _accept(place, path, became)
                continue
            yield self._change(root, place, path, became, watch, reasons.against(path, was, became))
            if is_new:
                remove_empty(root, place.path, path)

    def _change(
        self, root: int, place: _Place, path: str, became: SavedFile | None, watch: Watch, left: str | None
    ) -> Change:
        was = place.files.get(path)
        absolute = os.path.join(self.path, path).rstrip("/")
        copy: str | None = None
        if became is not None and became.content is not None and watch.copies is not None:
            copy = keep_copy(watch.copies, path, became.content)
        if left is None:
            try:
                restore_file(root, place.path, path, None if was is None or stat.S_ISDIR(was.mode) else was)
            except OSError as error:
                # It stays what it should not be: the next command that ends tries again.
                left = f"it could not be put back: {error.strerror or error}"
                return Change(absolute, _how(was, became), left, copy)
        undo = undo_command(absolute, became, copy) if left is None else None
        change = Change(absolute, _how(was, became), left, copy, undo)
        if left is not None:
            _accept(place, path, became)
        elif was is None or stat.S_ISDIR(was.mode):
            _accept(place, path, None)
        else:
            place.files[path] = was._replace(state=None)
        return change if was is None or not stat.S_ISDIR(was.mode) else replace(change, left=left or _REPLACED)


class _Reasons:
    """Why a change is not put back, or not even told, in one place."""

    def __init__(self, root: str, place: _Place, after: Mapping[str, SavedFile], *, held: bool) -> None:
        self._before, self._after, self._place = dict(place.files), after, place
        self._root = root
        here, there = self._before.get(place.path), after.get(place.path)
        self._held = held
        self._was_folder = here is not None and stat.S_ISDIR(here.mode)
        self._is_folder = there is not None and stat.S_ISDIR(there.mode)
        self._git: bool | None = None

    def says_nothing(self, path: str, was: SavedFile | None, became: SavedFile | None) -> bool:
        """Whether the change of the place as a whole says it already, or it is of no interest."""
        if path == self._place.path:
            return False
        if self._was_folder and not self._is_folder:
            return True
        data = not any(file is not None and file.starts for file in (was, became))
        return data and (self._held or not self._was_folder)

    def against(self, path: str, was: SavedFile | None, became: SavedFile | None) -> str | None:
        """The reason to leave it; None: put it back."""
        if self._held:
            return _HELD
        if path == self._place.path and self._was_folder and not self._is_folder:
            return _MOVED if became is None else self._unless_git()
        if not any(file is not None and file.starts for file in (was, became)):
            return _DATA
        if was is not None and was.content is None:
            return _TOO_LARGE
        if os.path.basename(path) in ("config", "config.worktree") and self._is_harmless(was, became):
            return _DATA
        return self._unless_git()

    def _is_harmless(self, was: SavedFile | None, became: SavedFile | None) -> bool:
        """Whether a configuration of git starts nothing that it did not start before."""
        if self._place.role != "store" or became is None or became.content is None or not stat.S_ISREG(became.mode):
            return False
        starting = settings_that_may_start(became.content)
        return not starting or (was is not None and starting == settings_that_may_start(was.content or b""))

    def _unless_git(self) -> str | None:
        if self._place.role != "store":
            return None
        if self._git is None:
            self._git = is_users_git_in(self._root, os.path.join(self._root, self._place.path))
        return _GIT if self._git else None


class ChangeWatch:
    """Over one command, from before it begins."""

    def __init__(self, watch: Watch, roots: Iterable[str], confinement: Confinement, found: Iterable[str]) -> None:
        """Reads what is there now; blocks. `found`: protected names deeper down, absolute.

        What cannot be kept is `unkept`, and must not be writable. What is masked or protected by its path is not
        looked at: the tiers hold it, and it is more.
        """
        self._watch, self._ended = watch, False
        self._roots: list[_Root] = []
        paths = list(roots)
        masked = (path for path in confinement.masked if not any(_lies_in(seen, path) for seen in confinement.shown))
        apart = (*masked, *confinement.protected_paths)
        places = [*(f"{root}/{name}" for root in paths for name in confinement.protected), *found]
        wanted = _wanted(paths, [place for place in places if not any(_lies_in(place, path) for path in apart)])
        try:
            for path in paths:
                root = _known(path)
                root.begin(wanted[path])
                self._roots.append(root)
        except OSError as error:
            self.end(held=True)
            raise SandboxError(f"protected files cannot be looked at: {error.strerror}; nothing was run") from None

    @property
    def unkept(self) -> list[str]:
        """The places that could not be read or kept as a whole."""
        return [
            os.path.join(root.path, place.path).rstrip("/")
            for root in self._roots
            for place in root.places
            if not place.complete
        ]

    def end(self, *, held: bool) -> tuple[Change, ...]:
        """Nothing of the command runs any more: what changed. `held`: the tier kept commands from writing there.

        Blocks. Again is nothing.
        """
        if self._ended:
            return ()
        self._ended = True
        return tuple(change for root in self._roots for change in root.end(self._watch, held=held))


_roots: dict[str, _Root] = {}
"""Of all sessions in this process."""
_lock = threading.Lock()


def _known(root: str) -> _Root:
    with _lock:
        return _roots.setdefault(root, _Root(root))


def _wanted(roots: list[str], places: list[str]) -> dict[str, dict[str, Role]]:
    """The places of each root, each in the innermost one that it lies in, and what they lead to."""
    stores = [os.path.realpath(store) for place in places for store in named_stores(place)]
    links = [(place, os.path.realpath(place)) for place in places if os.path.islink(place)]
    stores += [target for place, target in links if _is_store(place)]
    wanted: dict[str, dict[str, Role]] = {root: {} for root in roots}
    for place in [*places, *(target for _, target in links), *stores]:
        around = max((root for root in roots if _lies_in(place, root)), key=len, default=None)
        if around is not None:
            inside = place.removeprefix(around).lstrip("/")
            wanted[around][inside] = "store" if place in stores or _is_store(place) else "tree"
    return {
        root: {path: role for path, role in inside.items() if not _is_part(path, inside)}
        for root, inside in wanted.items()
    }


def _is_part(path: str, places: Mapping[str, Role]) -> bool:
    """Whether it is looked at as a part of another store."""
    return any(
        role == "store" and path.startswith((f"{store}/modules/", f"{store}/worktrees/"))
        for store, role in places.items()
    )


def _above(root: int, path: str) -> tuple[int, int] | None:
    above = path.rpartition("/")[0]
    if not above:
        status = os.fstat(root)
        return status.st_dev, status.st_ino
    with open_folder(root, above) as folder:
        if folder is None:
            return None
        status = os.fstat(folder)
        return status.st_dev, status.st_ino


def _how(was: SavedFile | None, became: SavedFile | None) -> Literal["made", "changed", "removed"]:
    return "made" if was is None else "removed" if became is None else "changed"


def _accept(place: _Place, path: str, became: SavedFile | None) -> None:
    """From now on that is how it was; or it would be told of again."""
    if became is None:
        place.files.pop(path, None)
    else:
        place.files[path] = became


def _is_store(place: str) -> bool:
    return os.path.basename(place).lower() == ".git" or all(os.path.lexists(f"{place}/{name}") for name in _STORE)


def _lies_in(place: str, root: str) -> bool:
    return f"{place}/".startswith(f"{root.rstrip('/')}/")


def _same(one: SavedFile | None, other: SavedFile | None) -> bool:
    return one is other or (one is not None and one.same_as(other))


_LET_GO_S = 0.5
_PAUSE_S = 0.02


def is_users_git_in(root: str, store: str) -> bool:
    """Blocks, shortly: a lock in the store that is let go of is one of a git that runs.

    One that stays, and that no such git is seen to hold, was left behind, perhaps by a command: nothing writes.
    """
    return _is_seen(root) or (bool(locks := _locks(store)) and _let_go(store, locks)) or _is_seen(root)


def _let_go(store: str, locks: set[str]) -> bool:
    for _ in range(round(_LET_GO_S / _PAUSE_S)):
        _pause()
        if locks - _locks(store):
            return True
    return False


def _pause() -> None:
    threading.Event().wait(_PAUSE_S)


def _locks(store: str) -> set[str]:
    try:
        return {name for name in os.listdir(store) if name.endswith(".lock")}
    except OSError:
        return set()


def _is_seen(root: str) -> bool:
    ours = _has_given_up("self")
    for process in _processes():
        # Where we have given it up ourselves, nothing tells one from the other.
        if _is_git(process) and (ours or not _has_given_up(process)) and _works_in(process, root):
            return True
    return False


def _processes() -> Iterator[str]:
    return (name for name in os.listdir("/proc") if name.isdigit())


def _is_git(process: str) -> bool:
    name = _text(f"/proc/{process}/comm").rstrip("\n")
    return name == "git" or name.startswith("git-")


def _has_given_up(process: str) -> bool:
    return "\nNoNewPrivs:\t1\n" in _text(f"/proc/{process}/status")


def _works_in(process: str, root: str) -> bool:
    """Whether it works there: by its directory, or by a path among its arguments."""
    try:
        where = os.readlink(f"/proc/{process}/cwd")
    except OSError:
        # Gone, or another user's.
        return False
    below = f"{root.rstrip('/')}/"
    return f"{where}/".startswith(below) or root in _text(f"/proc/{process}/cmdline")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
