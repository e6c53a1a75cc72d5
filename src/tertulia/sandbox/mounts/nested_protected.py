"""Protected names deeper in a writable root: the repositories, settings and hooks of whatever else lies in it.

What is there when a root is first looked at is the user's, and so is what appears while no command runs. It is known by
its identity, which a command can neither change nor copy: moved or hidden behind anything else, it is found again, or
no command begins. What came into being while a command ran that could write there is that command's own: else
no model could begin a repository with one command and commit to it with the next.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import NamedTuple

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts.kernel_calls import file_facts
from tertulia.sandbox.mounts.root_scan import RootScan, is_protected_name, kernel_time

_LOOKS = 40
_PAUSE_S = 0.005
"""Between two looks at a root that changes all the time."""
_EVERYWHERE_NS = 60_000_000_000
"""How long the directories of package managers are taken to be as they were, as long as nothing is missing."""
_FOR_EVER = 1 << 63

_Identity = tuple[int, int, int]


def protected_part(path: str) -> str | None:
    """The first part of a relative path that some disk could take for a protected name."""
    return next((part for part in path.split("/") if part and is_protected_name(part)), None)


class ProtectedEntry(NamedTuple):
    """Something that is the user's."""

    path: str
    """The absolute path of the place."""
    device: int
    inode: int


class _ScanResult(NamedTuple):
    found: dict[_Identity, str]
    closed: set[_Identity]
    """What could not be looked into."""
    stable: bool
    """Whether it is certain that all of it was there at one moment."""
    began: int
    """When, if it was a look at everything."""


class _Root:
    __slots__ = ("lives", "lock", "look", "looked", "own", "users")

    def __init__(self, look: RootScan) -> None:
        self.look = look
        self.lock = threading.Lock()
        """Of two commands that begin at once the second waits for the look of the first."""
        self.looked = 0
        """When it was last looked at everywhere."""
        self.users: set[_Identity] | None = None
        """What was there before; None until the first look is complete."""
        self.own: set[_Identity] = set()
        """What commands have made in it."""
        self.lives: list[list[int]] = []
        """When commands ran that could write here: [from, to]."""


class NestedProtectedPaths:
    """What was found so far, for each root. A command may end on another thread than the next one begins."""

    def __init__(self, left_out: Iterable[str] = ()) -> None:
        """`left_out`: directories that no command can write to, wherever they lie."""
        self._left_out = tuple(left_out)
        self._roots: dict[str, _Root] = {}
        self._lock = threading.Lock()

    def before(self, root: str) -> list[ProtectedEntry]:
        """A command is about to begin: what it must not change in the root. Blocks; the first time for longer."""
        known = self._known(root)
        with known.lock:
            for number in range(_LOOKS):
                if number > 1:
                    threading.Event().wait(_PAUSE_S)
                everywhere = number > 0 or known.users is None or kernel_time() - known.looked > _EVERYWHERE_NS
                seen = _look(known.look, everywhere)
                # The first time; and when something is missing, which may be gone, or be moved around while we look.
                if seen.stable or (known.users is not None and known.users <= seen.found.keys()):
                    return self._sort(known, seen)
            changing = os.path.join(root, *known.look.changed[:1]).rstrip("/")
            raise SandboxError(
                f"directories in {root} change all the time ({changing}), so it cannot be looked at as a whole for "
                "repositories that a command must not change; nothing was run: try again when that is over"
            )

    def began(self, roots: Iterable[str]) -> None:
        """From now on a command can write there."""
        now = kernel_time()
        for root in roots:
            self._known(root).lives.append([now, _FOR_EVER])

    def ended(self, roots: Iterable[str]) -> None:
        """One of them cannot any more."""
        now = kernel_time()
        for root in roots:
            # Which of those that run it was does not matter: what was made until now was made by one of them.
            life = next(life for life in self._known(root).lives if life[1] == _FOR_EVER)
            life[1] = now

    def close(self) -> None:
        """Forget what was seen of all roots."""
        with self._lock:
            self._roots.clear()

    def _known(self, root: str) -> _Root:
        with self._lock:
            if root not in self._roots:
                below = f"{root.rstrip('/')}/"
                left_out = {path.removeprefix(below) for path in self._left_out if path.startswith(below)}
                self._roots[root] = _Root(RootScan(root, left_out))
            return self._roots[root]

    def _sort(self, known: _Root, seen: _ScanResult) -> list[ProtectedEntry]:
        with self._lock:
            users, first = known.users or set(), known.users is None
            known.looked = seen.began or known.looked
            own = {identity for root in self._roots.values() for identity in root.own}
            for identity, place in seen.found.items():
                if identity not in users and (identity in own or self._made_by_a_command(place, identity[2], first)):
                    known.own.add(identity)
            known.own &= seen.found.keys()
            # What cannot be looked into may hold what is missing, and be made by any process.
            hidden = users - seen.found.keys() if seen.closed else set[_Identity]()
            known.users = ({*seen.found} - known.own) | hidden
            users = known.users | (seen.closed if hidden else set[_Identity]())
            found = {identity: place for identity, place in seen.found.items() if identity in users}
            return [ProtectedEntry(place, device, inode) for (device, inode, *_), place in found.items()]

    def _made_by_a_command(self, place: str, born: int, first: bool) -> bool:
        lives = (
            life for path, root in self._roots.items() if f"{place}/".startswith(f"{path}/") for life in root.lives
        )
        # Where the disk does not say when it was made, whatever is new once a command has run is taken for its own.
        return any((born == 0 and not first) or began <= born <= ended for began, ended in lives)


def _look(look: RootScan, everywhere: bool) -> _ScanResult:
    found: dict[_Identity, str] = {}
    closed: set[_Identity] = set()
    gone = False
    began = kernel_time()
    for path in look.look(everywhere=everywhere):
        place = os.path.join(look.root, path).rstrip("/")
        try:
            known = file_facts(place)
        except OSError:
            gone = True
            continue
        identity = known.device, known.inode, known.born_ns
        found[identity] = place
        if path in look.closed:
            closed.add(identity)
    # Nothing had changed since it was read, up to when it was looked at again: so that was how it was in between.
    return _ScanResult(found, closed, everywhere and not (gone or look.changed), began if everywhere else 0)
