"""A runner whose commands are all kept from the guarded paths: for programs whose own definition knows no masks."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.sandbox.masks import GuardedPaths
from tertulia.sandbox.runner import Command, Finished, OnOutput, Runner, Running, TierReport


class GuardedRunner:
    """Implements `Runner` by another one."""

    def __init__(self, runner: Runner, guarded: GuardedPaths) -> None:
        self._runner = runner
        self._guarded = guarded

    @property
    def not_covered(self) -> tuple[str, ...]:
        """That of the other one."""
        return self._runner.not_covered

    @property
    def is_writing(self) -> bool:
        """That of the other one."""
        return self._runner.is_writing

    async def check(self) -> TierReport:
        """That of the other one."""
        return await self._runner.check()

    async def start(
        self, command: Command, on_output: OnOutput | None = None, on_error: OnOutput | None = None
    ) -> Running:
        """Start it, with the guarded paths added to its confinement."""
        return await self._runner.start(self._guarded_command(command), on_output, on_error)

    async def run(
        self, command: Command, *, timeout_s: float | None = None, on_output: OnOutput | None = None
    ) -> Finished:
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
