"""The runner: one tier, tried out before its first use, and every command that was started in it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, SandboxError, SandboxUnavailableError
from tertulia.events.clock import Clock
from tertulia.sandbox.availability import NEEDS_WSL, lesser_tier, tier_outlook
from tertulia.sandbox.process import CommandProcess
from tertulia.sandbox.runner import (
    MAX_ARGUMENT_BYTES,
    Command,
    CommandResult,
    Confinement,
    OnOutput,
    TierChoice,
    TierName,
    TierReport,
)
from tertulia.sandbox.selftest import try_to_escape
from tertulia.sandbox.tier import Namespace, OutsideTier, Tier


def _bubblewrap() -> Tier:
    from tertulia.sandbox.bubblewrap import BubblewrapTier

    return BubblewrapTier()


def _landlock() -> Tier:
    from tertulia.sandbox.launcher.landlock_tier import LandlockTier

    return LandlockTier()


def _seatbelt() -> Tier:
    from tertulia.sandbox.macos.seatbelt_tier import SeatbeltTier

    return SeatbeltTier()


def _outside() -> OutsideTier:
    if sys.platform == "linux":
        from tertulia.sandbox.launcher.launched_process import UnconfinedTier

        return UnconfinedTier()
    from tertulia.sandbox.macos.seatbelt_tier import GroupTier

    return GroupTier()


_TIERS: Mapping[TierChoice, Callable[[], Tier]] = {
    "auto": _bubblewrap if sys.platform == "linux" else _seatbelt,
    "bubblewrap": _bubblewrap,
    "landlock": _landlock,
    "seatbelt": _seatbelt,
}
"""Each is loaded when it is chosen: one system has none of what another rests on."""
_SELF_TEST_TIMEOUT_S = 30.0
_MAX_ACCOUNTS = 4096

_held: dict[tuple[object, ...], TierReport] = {}
"""Self-tests of this process that succeeded, by all that their result rests on: a second session repeats none."""


class Sandbox:
    """Implements `CommandRunner`. One for each session; used on one loop at a time."""

    def __init__(
        self, *, tier: TierChoice | Tier = "bubblewrap", clock: Clock, on_lesser: Callable[[str], object] = str
    ) -> None:
        """`on_lesser` is called once, with the reason, where `auto` has chosen the lesser tier."""
        self._tier = _TIERS[tier]() if isinstance(tier, str) else tier
        self._lesser: Callable[[], Tier] | None = _landlock if tier == "auto" and sys.platform == "linux" else None
        """The tiers that may be chosen instead, until one is chosen."""
        self._on_lesser = on_lesser
        self._choice: TierChoice | None = tier if isinstance(tier, str) else None
        """None: a tier that was passed in, whose name does not say what it does."""
        self._unconfined = _outside()
        self._clock = clock
        self._report: TierReport | None = None
        self._tested: tuple[object, ...] = ()
        self._testing: asyncio.Event | None = None
        self._running: set[CommandProcess] = set()
        self._written: dict[str, int] = {}
        """Bytes that the commands of an account wrote to disks, the latest account last."""

    @property
    def expected_tier(self) -> TierName | None:
        """The tier that was chosen, or will be as far as is known; None where commands will be refused."""
        if self._report is not None or self._choice is None:
            return self._tier.name
        return tier_outlook(self._choice, waits=False).tier

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the tier cannot hold; before one was chosen, what the expected one cannot."""
        if self._lesser is not None and self.expected_tier == "landlock":
            return self._lesser().not_covered
        return self._tier.not_covered

    async def outside(self) -> Namespace:
        """Try out in what programs outside any sandbox run, those that are to have a namespace of processes."""
        command = Command(
            argv=(sys.executable, "-I", "-S", "-c", ""),
            cwd="/",
            environment={},
            confinement=Confinement(mode="danger_full_access"),
            pid_namespace=True,
        )
        finished = await self.run(command, timeout_s=_SELF_TEST_TIMEOUT_S)
        found = self._unconfined.namespace
        if finished.exit_code != 0 or found is None:
            raise SandboxUnavailableError(f"a program outside the sandbox ended with {finished.exit_code}")
        return found

    async def hide(self, paths: Sequence[str]) -> bool:
        """From now on programs outside any sandbox see nothing at these places either.

        False, and nothing has changed, where the kernel gives no namespace for that.
        """
        found = self._unconfined.namespace or await self.outside()
        if not found.kind:
            return False
        self._unconfined.hidden = tuple(paths)
        return True

    @property
    def is_writing(self) -> bool:
        """Whether one of its commands runs now that may write."""
        return any(process.finished is None and process.writes for process in self._running)

    async def check(self) -> TierReport:
        """Try the tier out until it succeeds, and again when it was replaced; callers that come meanwhile wait too."""
        while self._report is None or self._tested != self._tier.identity():
            if self._testing is not None:
                await self._testing.wait()
                continue
            self._testing = asyncio.Event()
            try:
                self._tested = self._tier.identity()
                self._report = None
                self._report = await self._choose()
            finally:
                self._testing.set()
                self._testing = None
        return self._report

    async def start(
        self, command: Command, on_output: OnOutput | None = None, on_error: OnOutput | None = None
    ) -> CommandProcess:
        """Start it, confined as it says."""
        if sys.platform == "win32":
            raise SandboxUnavailableError(NEEDS_WSL)
        command = _with_proxy(_checked(command))
        if command.confinement.mode == "danger_full_access":
            return self._spawn(command, self._unconfined, on_output, on_error)
        await self.check()
        return self._spawn(command, self._tier, on_output, on_error)

    async def run(
        self, command: Command, *, timeout_s: float | None = None, on_output: OnOutput | None = None
    ) -> CommandResult:
        """Start it and wait; its tree is dead before this returns or raises."""
        return await _see_through(await self.start(command, on_output), timeout_s)

    async def close(self) -> None:
        """Kill all commands that still run."""
        for process in self._running:
            process.strike()
        for process in tuple(self._running):
            await process.kill()
        self._tier.close()
        self._unconfined.close()

    def _spawn(
        self, command: Command, tier: Tier, on_output: OnOutput | None, on_error: OnOutput | None = None
    ) -> CommandProcess:
        self._settle()
        command = self._with_what_is_left(command)
        process = CommandProcess(command, tier, self._clock, on_output, on_error)
        self._running.add(process)
        return process

    def _settle(self) -> None:
        """Put what has ended on its account, and forget it."""
        for process in [process for process in self._running if process.finished is not None]:
            self._running.discard(process)
            if process.account is not None and process.finished is not None:
                before = self._written.pop(process.account, 0)
                self._written[process.account] = before + process.finished.written
        while len(self._written) > _MAX_ACCOUNTS:
            del self._written[next(iter(self._written))]

    def _with_what_is_left(self, command: Command) -> Command:
        limits = command.confinement.limits
        used = 0 if command.account is None else self._written.get(command.account, 0)
        if used == 0 or limits.written_bytes is None:
            return command
        if used >= limits.written_bytes:
            raise SandboxError(
                f"the commands of this task have written {used:,} bytes to disks, of {limits.written_bytes:,} that "
                "written_bytes allows; nothing was run. Go on in another task"
            )
        limits = replace(limits, written_bytes=limits.written_bytes - used)
        return replace(command, confinement=replace(command.confinement, limits=limits))

    async def _choose(self) -> TierReport:
        """Try the tier out; where it does not work and nothing was chosen yet, the lesser one."""
        better, lesser = self._tier, self._lesser
        try:
            report = await self._test()
        except SandboxUnavailableError as why:
            if lesser is None:
                raise
            self._tier = lesser()
            self._tested = self._tier.identity()
            try:
                report = await self._test()
            except SandboxUnavailableError as neither:
                self._tier = better
                raise SandboxUnavailableError(f"{why.message}; and instead of it: {neither.message}") from None
            better.close()
            self._on_lesser(lesser_tier(why.message))
        self._lesser = None
        return report

    async def _test(self) -> TierReport:
        tested = self._tested
        version = await asyncio.to_thread(self._tier.find)
        key = (self._tier.name, version, os.geteuid(), tested)
        if self._choice is not None and key in _held:
            return _held[key]
        attempts = await try_to_escape(self._tier, self._run_untested)
        report = TierReport(self._tier.name, version, attempts, self._tier.not_covered)
        if self._choice is not None:
            _held[key] = report
        return report

    async def _run_untested(self, command: Command) -> CommandResult:
        return await _see_through(self._spawn(command, self._tier, None), _SELF_TEST_TIMEOUT_S)


def _with_proxy(command: Command) -> Command:
    """With the variables by which programs find the proxy, where it reaches hosts by name."""
    network, mode = command.confinement.network, command.confinement.mode
    if isinstance(network, bool) or mode == "danger_full_access":
        return command
    if command.gate is None:
        raise SandboxError("the command may reach hosts by name, and no gate decides which; nothing was run")
    from tertulia.sandbox.proxy.gate import PROXY_VARIABLES

    return replace(command, environment={**command.environment, **PROXY_VARIABLES})


async def _see_through(process: CommandProcess, timeout_s: float | None) -> CommandResult:
    try:
        finished = await process.wait(timeout_s) or await process.kill("timeout")
    except asyncio.CancelledError:
        process.strike()
        await process.kill()
        raise
    if finished.ended == "not_started":
        raise SandboxError(f"the command could not be confined and was not run: {finished.reason}")
    return finished


def _checked(command: Command) -> Command:
    """With its directory in canonical form; InvalidParams for what no program can be given."""
    if not command.argv or not command.argv[0]:
        raise InvalidParamsError("a command needs a program")
    names = [*command.environment]
    texts = (*command.argv, command.cwd, *names, *command.environment.values())
    if any("\0" in text for text in texts):
        raise InvalidParamsError("no part of a command, its directory or its environment may contain a NUL")
    if any(len(os.fsencode(word)) > MAX_ARGUMENT_BYTES for word in command.argv):
        raise InvalidParamsError(f"a word of a command has at most {MAX_ARGUMENT_BYTES:,} bytes")
    if any(not name or "=" in name for name in names):
        raise InvalidParamsError("the name of an environment variable is not empty and contains no `=`")
    if not os.path.isabs(command.cwd) or not os.path.isdir(command.cwd):
        raise InvalidParamsError(f"the working directory {command.cwd!r} is not an absolute path of a directory")
    try:
        return replace(command, cwd=os.path.realpath(command.cwd))
    except OSError as error:
        raise InvalidParamsError(f"the working directory {command.cwd!r} cannot be used: {error.strerror}") from None
