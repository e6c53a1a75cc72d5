"""From what a conversation may do to what its commands may touch."""

from __future__ import annotations

from tertulia.policy.narrowing import Rights
from tertulia.sandbox.masks import GuardedPaths
from tertulia.sandbox.runner import CommandLimits, Confinement

_USUAL_LIMITS = CommandLimits()


def confine(
    rights: Rights, workspace: str, *, guarded: GuardedPaths, limits: CommandLimits = _USUAL_LIMITS
) -> Confinement:
    """The confinement of these rights. `workspace` is the session's own directory, canonical, and never a model's.

    Where the rights name no roots, the workspace is the one that may be written. Which guarded paths exist is looked up
    now.
    """
    roots = (workspace,) if rights.writable_roots is None else rights.writable_roots
    return Confinement(
        mode=rights.sandbox,
        writable_roots=tuple(roots),
        network=rights.network,
        masked=guarded.masked_paths(),
        protected_paths=guarded.protected_paths(roots),
        missing_files=guarded.missing_files(),
        limits=limits,
    )
