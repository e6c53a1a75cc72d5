"""Erases what may not be stored any more: of all sessions before one begins, of a running one while it runs."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from pathlib import Path

from tertulia.errors import ClosedError, StorageError
from tertulia.events.clock import Clock
from tertulia.protocol.storage import Full, StoragePolicy, Ttl
from tertulia.rollout.sqlite.session_files import sessions_folder
from tertulia.rollout.store import RolloutStore, SweepResult, TtlAction
from tertulia.rollout.sweep.retention import HomeSweepResult, Retention, retention_from_wire
from tertulia.session.settings.settings import Settings

_log = logging.getLogger(__name__)
SHORTEST_S = 1.0
LONGEST_S = 60.0
"""Between two sweeps of a running session."""
_recent_sweeps: list[tuple[Path, Retention, float]] = []
"""What this process swept last, and when: a program that starts hundreds of sessions sweeps once a second."""


async def sweep_before_serving(home: Path, settings: Settings, clock: Clock) -> None:
    """Sweep as `sweep_all` does, unless that was done here less than a second ago (E4, X-31)."""
    swept = (home, retention_of(settings), clock.now())
    if _recent_sweeps and _recent_sweeps[0][:2] == swept[:2] and 0 <= swept[2] - _recent_sweeps[0][2] < SHORTEST_S:
        return
    _recent_sweeps[:] = [swept]
    await sweep_all(home, settings, clock)


async def sweep_all(
    home: Path, settings: Settings, clock: Clock, progress: Callable[[int, int], None] = lambda done, total: None
) -> HomeSweepResult:
    """Sweep every session of a home that no process owns. What could not be swept is logged; it never raises.

    `progress` is told in another thread how many sessions are done, and of how many.
    """
    if not sessions_folder(home).is_dir():
        return HomeSweepResult()
    # With its database, which a process that stores nothing yet does not need.
    from tertulia.rollout.sweep.home_sweep import sweep_home

    swept = await asyncio.to_thread(sweep_home, home, retention_of(settings), clock, progress=progress)
    for problem in swept.troubles:
        _log.warning("a session could not be swept: %s", problem)
    return swept


async def preview_all(
    home: Path, settings: Settings, clock: Clock, progress: Callable[[int, int], None] = lambda done, total: None
) -> HomeSweepResult:
    """What `sweep_all` would do now; nothing is done."""
    if not sessions_folder(home).is_dir():
        return HomeSweepResult()
    from tertulia.rollout.sweep.home_sweep import preview_sweep

    return await asyncio.to_thread(preview_sweep, home, retention_of(settings), clock, progress=progress)


def retention_of(settings: Settings) -> Retention:
    """How long the settings keep sessions."""
    return retention_from_wire(settings.retention) if settings.retention else Retention()


class RetentionSweeper:
    """Sweeps the record of one running session, at the latest a minute after something is due.

    Where nothing can be due it waits, and wakes no process.
    """

    def __init__(
        self,
        store: RolloutStore,
        retention: Retention,
        clock: Clock,
        policies: Callable[[], Iterable[StoragePolicy]],
    ) -> None:
        """`policies` are those of the conversations that are open."""
        self._store = store
        self._action: TtlAction = retention.ttl_action
        self._clock = clock
        self._policies = policies
        self._news = asyncio.Event()
        self._is_settled = True
        """False where something was to be erased, and no sweep has gone well since."""

    def hear(self, policy: StoragePolicy) -> None:
        """Note the new policy of a conversation: its texts may expire before the next planned sweep."""
        if not isinstance(policy, Full):
            self._is_settled = False
            self._news.set()

    async def run(self) -> None:
        """Run until the record or the session is closed."""
        due = None
        while True:
            await self._rest(due)
            try:
                self._is_settled, due = True, (await self.sweep()).next_due
            except ClosedError:
                return
            except StorageError as error:
                self._is_settled = False
                _log.warning("the session could not be swept: %s", error.message)

    async def _rest(self, due: float | None) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.pause(due)
        while True:
            self._news.clear()
            try:
                async with asyncio.timeout_at(None if until == math.inf else until):
                    await self._news.wait()
            except TimeoutError:
                return
            # Never later: changes that keep coming would put it off for ever.
            until = min(until, loop.time() + self.pause(due))

    async def sweep(self) -> SweepResult:
        """Sweep the session once, now."""
        answer: asyncio.Future[SweepResult | StorageError] = asyncio.get_running_loop().create_future()
        self._store.sweep(
            self._clock.now(),
            self._action,
            # The caller that closes the session may have given up waiting.
            lambda swept: None if answer.done() else answer.set_result(swept),
        )
        swept = await answer
        if isinstance(swept, StorageError):
            raise swept
        return swept

    def pause(self, due: float | None) -> float:
        """How long to wait, where the next text is known to expire at `due`; for ever where nothing can expire."""
        waits = [policy.seconds for policy in self._policies() if isinstance(policy, Ttl)]
        if due is not None:
            waits.append(due - self._clock.now())
        if not waits and self._is_settled:
            return math.inf
        return min(max(min(waits, default=LONGEST_S), SHORTEST_S), LONGEST_S)
