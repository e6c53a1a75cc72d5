"""Derives what commands may touch from the rights of their conversation."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.policy.rights import Rights
from tertulia.protocol.worktree import OwnWorktree
from tertulia.sandbox.masks.guarded_paths import GuardedPaths
from tertulia.sandbox.runner import (
    Command,
    CommandLimits,
    CommandResult,
    CommandRunner,
    Confinement,
    OnOutput,
    RunningCommand,
    TierName,
    TierReport,
)

_USUAL_LIMITS = CommandLimits()


def confine(
    rights: Rights,
    workspace: str,
    *,
    guarded: GuardedPaths,
    limits: CommandLimits = _USUAL_LIMITS,
    worktree: OwnWorktree | None = None,
) -> Confinement:
    """The confinement of these rights. `workspace` is the session's own directory, canonical, and never a model's.

    Where the rights name no roots, the workspace is the one that may be written. In a worktree its places take the
    place of all that it stands for: there the workspace itself is not writable. Which guarded paths exist is looked up
    now.
    """
    roots = (workspace,) if rights.writable_roots is None else rights.writable_roots
    if worktree is not None:
        roots = tuple(dict.fromkeys(worktree.place_of(root) for root in roots))
    return Confinement(
        mode=rights.sandbox,
        writable_roots=tuple(roots),
        network=rights.network,
        masked=guarded.masked_paths(),
        shown=() if worktree is None else (worktree.path, worktree.common),
        readable=() if worktree is None else (worktree.original,),
        protected_paths=guarded.protected_paths(roots),
        missing_files=guarded.missing_files(),
        limits=limits,
    )


class GuardedRunner:
    """Implements `CommandRunner` by another one."""

    def __init__(self, runner: CommandRunner, guarded: GuardedPaths) -> None:
        self._runner = runner
        self._guarded = guarded

    @property
    def not_covered(self) -> tuple[str, ...]:
        """That of the other one."""
        return self._runner.not_covered

    @property
    def expected_tier(self) -> TierName | None:
        """That of the other one."""
        return self._runner.expected_tier

    @property
    def is_writing(self) -> bool:
        """That of the other one."""
        return self._runner.is_writing

    async def check(self) -> TierReport:
        """That of the other one."""
        return await self._runner.check()

    async def start(
        self, command: Command, on_output: OnOutput | None = None, on_error: OnOutput | None = None
    ) -> RunningCommand:
        """Start it, with the guarded paths added to its confinement."""
        return await self._runner.start(self._guarded_command(command), on_output, on_error)

    async def run(
        self, command: Command, *, timeout_s: float | None = None, on_output: OnOutput | None = None
    ) -> CommandResult:
        """Start it in the same way and wait."""
        return await self._runner.run(self._guarded_command(command), timeout_s=timeout_s, on_output=on_output)

    async def close(self) -> None:
        """The other one is closed."""
        await self._runner.close()

    def _guarded_command(self, command: Command) -> Command:
        confinement = command.confinement
        if confinement.mode == "danger_full_access":
            return command
        protected = self._guarded.protected_paths(confinement.writable_roots)
        confinement = replace(
            confinement,
            masked=(*confinement.masked, *self._guarded.masked_paths()),
            protected_paths=(*confinement.protected_paths, *protected),
            missing_files=(*confinement.missing_files, *self._guarded.missing_files()),
        )
        return replace(command, confinement=confinement)
