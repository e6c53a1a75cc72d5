"""The environment of a command that runs because it only reads: it can neither be renamed nor made to do more."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence

from tertulia.policy.known_git import GIT_ENVIRONMENT

_DROPPED = frozenset(
    {
        "BASHOPTS",
        "CDPATH",
        "ENV",
        "GCONV_PATH",
        "GLOBIGNORE",
        "IFS",
        "LOCPATH",
        "NLSPATH",
        "POSIXLY_CORRECT",
        "SHELLOPTS",
    }
)
_DROPPED_BEGINNINGS = ("BASH_", "GIT_", "LD_", "RIPGREP_")
"""Files and libraries that are read before a command, functions in its place, and settings of git and ripgrep."""
_HOMES = ("HOME", "XDG_CONFIG_HOME")
_NOWHERE = "/nonexistent"


def safe_environment(variables: Mapping[str, str], writable: Sequence[str]) -> dict[str, str]:
    """These variables for a known-safe command: no program of a writable directory, or of the current one, is found.

    Without it an environment, or a configuration file of the workspace, could have a reader start other programs.
    """
    kept = {
        name: value
        for name, value in variables.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_BEGINNINGS)
    }
    # A login shell runs the profile that it finds at home, which it looks up itself where none is named; and git obeys
    # the settings there.
    kept.setdefault("HOME", _NOWHERE)
    kept |= {name: _NOWHERE for name in _HOMES if name in kept and _is_below(kept[name], writable)}
    folders = kept.get("PATH", "").split(":")
    trusted = [folder for folder in folders if folder.startswith("/") and not _is_below(folder, writable)]
    return {**kept, "PATH": ":".join(trusted) or "/usr/bin:/bin", **GIT_ENVIRONMENT}


def _is_below(folder: str, roots: Sequence[str]) -> bool:
    # Roots are canonical; a folder may be a link into one, or be spelled through one.
    if ".." in folder.split("/"):
        return True
    places = (f"{folder}/", f"{os.path.realpath(folder)}/")
    return any(place.startswith(f"{root.rstrip('/')}/") for place in places for root in roots)
