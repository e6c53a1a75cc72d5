"""The environment of a command that runs because it only reads: it can neither be renamed nor made to do more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tertulia.policy.known_git import GIT_ENVIRONMENT

_DROPPED = frozenset({"BASHOPTS", "CDPATH", "ENV", "GLOBIGNORE", "IFS", "POSIXLY_CORRECT", "SHELLOPTS"})
_DROPPED_BEGINNINGS = ("BASH_", "GIT_", "RIPGREP_")
"""Files that are read before a command, functions in its place, and settings of git."""


def safe_environment(variables: Mapping[str, str], writable: Sequence[str]) -> dict[str, str]:
    """These variables for a known-safe command: no program of a writable directory, or of the current one, is found.

    Without it an environment, or a configuration file of the workspace, could have a reader start other programs.
    """
    kept = {
        name: value
        for name, value in variables.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_BEGINNINGS)
    }
    folders = kept.get("PATH", "").split(":")
    trusted = [folder for folder in folders if folder.startswith("/") and not _is_below(folder, writable)]
    return {**kept, "PATH": ":".join(trusted) or "/usr/bin:/bin", **GIT_ENVIRONMENT}


def _is_below(folder: str, roots: Sequence[str]) -> bool:
    return any(f"{folder}/".startswith(f"{root.rstrip('/')}/") for root in roots) or ".." in folder.split("/")
