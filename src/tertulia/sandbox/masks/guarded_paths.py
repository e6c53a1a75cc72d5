"""What commands neither see nor change, whatever root they may write: our own files, credentials, startup files.

A mask hides: what lies there reads as empty and cannot be written. A protected path can be read and not written. Both
hold in every mode below danger_full_access. Which of them exist is looked up when a command starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.policy.commands.command_analysis import analyse_command
from tertulia.sandbox.masks import credentials, startup_files

OWN_FILES = "Tertulia's own settings, tokens and sessions"
_OUR_FOLDERS = (".config/tertulia", ".local/share/tertulia", ".local/state/tertulia", ".cache/tertulia")
"""The usual ones, also where variables name others: the next run may be without the variables."""
_MAX_HINTS = 3


class Mask(msgspec.Struct, frozen=True):
    """A file or directory that reads as empty."""

    path: str
    """Absolute, and with its links unresolved."""
    spelled: str
    """As a setting names it: `~/.npmrc`."""
    holds: str
    programs: tuple[str, ...] = ()
    is_directory: bool = False
    """What it would be where it is missing."""
    also_missing: bool = True
    ours: bool = False
    """No setting takes it away."""
    usual: bool = True
    """False: a setting added it."""

    def refusal(self) -> str:
        """Why something in it is refused, and the way out where there is one."""
        if self.ours:
            return f"{self.spelled} is masked, it holds {self.holds}"
        if not self.usual:
            return f"{self.spelled} is masked by the setting masks.add"
        line = f'masks.unmask = ["{self.spelled}"]'
        return f"{self.spelled} is masked ({self.holds}); the user can show it by the line `{line}` in config.toml"


class ProtectedPath(msgspec.Struct, frozen=True):
    """A file or directory of a home that stays as it is."""

    path: str
    reason: str
    is_directory: bool = False
    also_missing: bool = True


class GuardedPaths(msgspec.Struct, frozen=True, dict=True):
    """All of them, for one user on one machine."""

    masks: tuple[Mask, ...] = ()
    protected: tuple[ProtectedPath, ...] = ()

    def masked_paths(self) -> tuple[str, ...]:
        """The masked paths that exist, and those that a command must not create."""
        return tuple([path for path, always in self._mask_rows if always or os.path.lexists(path)])

    def missing_files(self) -> tuple[str, ...]:
        """What would be a file, of masks and of protected paths; others would be directories."""
        return self._missing_files

    def protected_paths(self, roots: Iterable[str]) -> tuple[str, ...]:
        """The same. A root inside one was named by the user, who means to have it written."""
        named = _with_all_above(roots)
        rows = [row for row in self._protected_rows if row[0] not in named]
        return tuple([path for path, always in rows if always or os.path.lexists(path)])

    def mask_over(self, path: str) -> Mask | None:
        """The mask that an absolute path lies in, as it is spelled or where its links lead."""
        return _first_over(path, self._masks_by_folder)

    def protection_over(self, path: str, roots: Iterable[str]) -> ProtectedPath | None:
        """The protected path that it lies in, in the same way."""
        named = _with_all_above(roots)
        return _first_over(path, [row for row in self._protected_by_folder if row[1] not in named])

    # Hundreds of them are gone through for every command: what does not change is worked out once.

    @cached_property
    def _mask_rows(self) -> list[tuple[str, bool]]:
        return [(mask.path, mask.also_missing) for mask in self.masks]

    @cached_property
    def _protected_rows(self) -> list[tuple[str, bool]]:
        return [(place.path, place.also_missing) for place in self.protected]

    @cached_property
    def _masks_by_folder(self) -> list[tuple[Mask, str, str, str]]:
        return [_by_folder(mask) for mask in self.masks]

    @cached_property
    def _protected_by_folder(self) -> list[tuple[ProtectedPath, str, str, str]]:
        return [_by_folder(place) for place in self.protected]

    @cached_property
    def _missing_files(self) -> tuple[str, ...]:
        return tuple(
            place.path for place in (*self.masks, *self.protected) if place.also_missing and not place.is_directory
        )

    def hint(self, argv: Sequence[str], output: str) -> str | None:
        """One sentence for each mask that may be why a command failed: it names the path, or its program needs it."""
        found = [mask for mask in self.masks if not mask.ours and _may_explain(mask, argv, output)]
        return "\n".join(map(_explained, found[:_MAX_HINTS])) or None


def guarded_paths(
    homes: Sequence[str],
    ours: Iterable[str],
    *,
    add: Iterable[str] = (),
    unmask: Iterable[str] = (),
    is_root: bool = False,
) -> GuardedPaths:
    """What is guarded for a user with these homes, the first of which `~` stands for.

    `ours`: our own folders, wherever variables put them. `add` and `unmask` are the user's, as settings spell them.
    InvalidParams where `unmask` names nothing that is masked, or one of ours.
    """
    home = homes[0]
    own = [*ours, *(os.path.join(place, name) for place in homes for name in _OUR_FOLDERS)]
    masks = [Mask(path, _spelled(path, home), OWN_FILES, is_directory=True, ours=True) for path in dict.fromkeys(own)]
    usual = [_mask(row, place, home) for place in homes for row in credentials.BELOW_HOME]
    usual.append(_mask(credentials.OF_CONTAINERS, "/", home))
    usual += [_mask(row, "/", home) for row in credentials.OF_ROOT] if is_root else []
    for name in unmask:
        usual = _without(name, usual, masks, home)
    added = [Mask(expand_path(name, home), name, "masked by a setting", usual=False) for name in add]
    protected = [
        ProtectedPath(os.path.join(place, row.path.rstrip("/")), row.reason, row.path.endswith("/"), row.also_missing)
        for place in homes
        for row in startup_files.BELOW_HOME
    ]
    return GuardedPaths((*masks, *added, *usual), tuple(protected))


def expand_path(name: str, home: str) -> str:
    """A path as a setting spells it, made absolute; `~` is the user's home."""
    if name == "~" or name.startswith("~/"):
        return os.path.normpath(os.path.join(home, name[2:]))
    return os.path.normpath(name)


def is_inside(path: str, above: str) -> bool:
    """Whether a path is another one or lies below it, by their names."""
    return path == above or path.startswith(f"{above.rstrip('/')}/")


def _mask(row: credentials.Credential, home: str, spelled_from: str) -> Mask:
    path = os.path.join(home, row.path.rstrip("/"))
    is_directory = row.path.endswith("/")
    also_missing = row.path in credentials.ALSO_MISSING
    return Mask(path, _spelled(path, spelled_from), row.holds, row.programs, is_directory, also_missing)


def _spelled(path: str, home: str) -> str:
    return f"~/{os.path.relpath(path, home)}" if is_inside(path, home) and home != "/" else path


def _without(name: str, usual: list[Mask], ours: Iterable[Mask], home: str) -> list[Mask]:
    path = expand_path(name, home)
    others = [mask for mask in usual if mask.path != path]
    if len(others) < len(usual):
        return others
    if any(mask.path == path for mask in ours):
        raise InvalidParamsError(f"masks.unmask: {name} holds {OWN_FILES} and is always masked")
    around = [mask.spelled for mask in usual if is_inside(path, mask.path) or is_inside(mask.path, path)]
    near = f"; name one of {', '.join(around[:5])}" if around else "; `tertulia doctor` shows what is"
    raise InvalidParamsError(f"masks.unmask: {name} is not masked by itself{near}")


def _with_all_above(paths: Iterable[str]) -> set[str]:
    """These paths, and all directories that they lie in."""
    found: set[str] = set()
    for path in paths:
        at = path.rstrip("/") or "/"
        while at not in found:
            found.add(at)
            at = os.path.dirname(at)
    return found


_Place = TypeVar("_Place", Mask, ProtectedPath)


def _by_folder(place: _Place) -> tuple[_Place, str, str, str]:
    """The place, its path, the directory that it lies in, and its name there."""
    path = place.path.rstrip("/") or "/"
    return place, path, *os.path.split(path)


def _first_over(path: str, places: Sequence[tuple[_Place, str, str, str]]) -> _Place | None:
    """The first place that the path lies in: as both are spelled, or where their links lead."""
    real = os.path.realpath(path)
    spelled, led = _with_all_above((path, real)), _with_all_above((real,))
    folders: dict[str, str] = {}
    for place, named, above, name in places:
        if named in spelled:
            return place
        # Hundreds of places lie in a few directories: where the links of those lead is found out once.
        folder = folders.get(above)
        if folder is None:
            folder = folders[above] = os.path.realpath(above).rstrip("/") + "/"
        here = folder + name
        if (os.path.realpath(here) if os.path.islink(here) else here) in led:
            return place
    return None


def _may_explain(mask: Mask, argv: Sequence[str], output: str) -> bool:
    if not os.path.lexists(mask.path):
        return False
    names = (mask.path, mask.spelled)
    return any(name in output for name in names) or any(_needs(program, argv) for program in mask.programs)


def _needs(program: str, argv: Sequence[str]) -> bool:
    """Whether one of the commands runs this program. A script that is more than plain words is not guessed at."""
    name, _, verb = program.partition(" ")
    commands = analyse_command(argv).commands or ()
    return any(os.path.basename(words[0]) == name and (not verb or verb in words[1:]) for words in commands if words)


def _explained(mask: Mask) -> str:
    return (
        f"{mask.spelled} ({mask.holds}) is masked: commands see it as empty. If that is why this failed, the user can "
        f'show it to commands by the line `masks.unmask = ["{mask.spelled}"]` in config.toml, or '
        f"`-c 'masks.unmask=[\"{mask.spelled}\"]'`."
    )
