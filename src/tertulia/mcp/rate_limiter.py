"""Limits calls to MCP servers: how many at once and how many in a second, fair between conversations and sessions.

It knows servers by name only. All of it runs on the loop's thread; a call that waits has no task of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from tertulia.errors import LimitError
from tertulia.events.clock import Clock
from tertulia.policy.limits import Limits
from tertulia.protocol.ids import ConversationId

OnCallEnd = Callable[[], object]
"""Called when a call has ended: starts those that may run now."""


class InFlight:
    """Calls in progress by server, shared by the limiters of a host.

    Fair between limiters: one that has started a call comes last the next time. It has no limit of its own: each
    limiter knows the concurrency of the server.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, int] = {}
        # In the order of turns.
        self._waiting: dict[OnCallEnd, None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no call runs, no limiter waits, and nothing is left of either."""
        return not (self._under_way or self._waiting)

    def under_way(self, server: str) -> int:
        """How many calls the server has in progress."""
        return self._under_way.get(server, 0)

    def wait(self, on_call_end: OnCallEnd) -> None:
        """Call this whenever a call has ended. Idempotent."""
        self._waiting.setdefault(on_call_end)

    def stop_waiting(self, on_call_end: OnCallEnd) -> None:
        """The limiter waits no more."""
        self._waiting.pop(on_call_end, None)

    def begin_call(self, server: str, on_call_end: OnCallEnd) -> None:
        """A call to the server begins, of the limiter with that callback."""
        self._under_way[server] = self.under_way(server) + 1
        if on_call_end in self._waiting:
            del self._waiting[on_call_end]
            self._waiting[on_call_end] = None

    def end_call(self, server: str) -> None:
        """A call to the server has ended."""
        if self._under_way[server] > 1:
            self._under_way[server] -= 1
        else:
            del self._under_way[server]
        for on_call_end in list(self._waiting):
            on_call_end()


K = TypeVar("K")

_SESSION = ""
"""The key of all conversations together; no conversation has this id."""


class ServerSlot(NamedTuple):
    """A server, and the name by which its calls are counted."""

    server: str
    most: int | None
    """Its concurrency; None: there is no limit."""
    in_flight: InFlight
    key: str

    @property
    def is_free(self) -> bool:
        return self.most is None or self.in_flight.under_way(self.key) < self.most


class _RateWindow:
    """Starts that still count for a rate: `per_s` in a second, or one in 1 / `per_s` seconds."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: deque[float] = deque()

    def start(self, now: float, per_s: float) -> None:
        self._until.append(now + max(1.0, 1.0 / per_s))

    def free_at(self, now: float, per_s: float) -> float | None:
        """When the next call may start; None: now."""
        while self._until and self._until[0] <= now:
            self._until.popleft()
        # Rounded down: no second has more than the limit.
        most = max(1, int(per_s))
        return None if len(self._until) < most else self._until[len(self._until) - most]

    def is_over(self, now: float) -> bool:
        return not self._until or self._until[-1] <= now


class _WaitingCall:
    """One call, waiting or running."""

    __slots__ = ("admitted", "conversation", "limits", "runs", "slot")

    def __init__(self, conversation: str, slot: ServerSlot, limits: Limits) -> None:
        self.conversation = conversation
        self.slot = slot
        self.limits = limits
        self.runs = False
        self.admitted: asyncio.Future[bool] | None = None
        """The result: True, it may run; False, it has waited too long."""


class FairLimiter:
    """Lets calls run within the limits of their conversation, their server and the session.

    Fair: conversations that wait take turns, and the calls of one run in their order. Only a call whose server is full
    is overtaken, by calls of its conversation to other servers. A cancelled call leaves nothing behind.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        ceiling: Limits,
        waited: Callable[[ConversationId, float], object] = lambda conversation, seconds: None,
        shared: InFlight | None = None,
        leaves_room: bool = False,
    ) -> None:
        """`ceiling` holds for all conversations together; `waited` is called after each wait, with its seconds.

        `shared`: the calls in progress of servers that other sessions use too. `leaves_room`: a conversation gets no
        second call to a server with a concurrency unless more are free than it has, so that some are left for others.
        """
        self._clock = clock
        self._ceiling = ceiling
        self._waited = waited
        self._own, self._shared = InFlight(), shared or InFlight()
        self._leaves_room = leaves_room
        self._places: dict[tuple[str, ServerSlot], int] = {}
        """How many calls each conversation has running at each server."""
        self._running: dict[str, int] = {}
        self._rates: dict[str, _RateWindow] = {}
        # In the order of turns; the calls of a conversation are the keys of a dict, so that any of them can be removed.
        self._waiting: dict[str, dict[_WaitingCall, None]] = {}
        self._slots: dict[ServerSlot, int] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many calls wait to be started."""
        return sum(map(len, self._waiting.values()))

    def waiting(self, server: str) -> int:
        """How many of them are for the server of that name."""
        return sum(count for slot, count in self._slots.items() if slot.server == server)

    @property
    def is_idle(self) -> bool:
        """Whether no call runs or waits, and nothing is left of any."""
        return self._own.is_idle and not (self._running or self._places or self._waiting or self._slots or self._alarm)

    @asynccontextmanager
    async def admit(
        self,
        conversation: ConversationId,
        server: str,
        limits: Limits,
        *,
        server_concurrency: int | None,
        waits: Callable[[str], object],
        shared: str | None = None,
        program: str = "",
    ) -> AsyncGenerator[float]:
        """The call runs inside the block; yields how many seconds it has waited.

        `waits` is called once with the reason if it has to wait. LimitError after `limits.mcp_wait_s`. `shared`: the
        name of the server among all sessions that share it; None: it is not shared. `program`: one of several programs
        that use one conversation; the limits of the conversation hold for each of them.
        """
        in_flight, key = (self._own, server) if shared is None else (self._shared, shared)
        counted_as = f"{conversation}/{program}" if program else conversation
        call, began = (
            _WaitingCall(counted_as, ServerSlot(server, server_concurrency, in_flight, key), limits),
            self._clock.monotonic(),
        )
        self._enqueue(call)
        self._serve()
        if not call.runs:
            try:
                await self._wait(call, waits)
            except BaseException:
                self._leave(call)
                raise
            finally:
                self._waited(conversation, self._clock.monotonic() - began)
        try:
            yield self._clock.monotonic() - began
        finally:
            self._leave(call)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _wait(self, call: _WaitingCall, waits: Callable[[str], object]) -> None:
        loop, longest = asyncio.get_running_loop(), call.limits.mcp_wait_s
        call.admitted = loop.create_future()
        # Not asyncio.timeout: it could cancel a call that was just let through.
        timer = None if longest is None else loop.call_later(longest, self._give_up, call.admitted)
        try:
            waits(self._reason(call))
            if not await call.admitted:
                raise LimitError(f"waited {longest:g} s (mcp_wait_s) for an MCP server: {self._reason(call)}")
        finally:
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _give_up(admitted: asyncio.Future[bool]) -> None:
        if not admitted.done():
            admitted.set_result(False)

    def _enqueue(self, call: _WaitingCall) -> None:
        self._waiting.setdefault(call.conversation, {})[call] = None
        self._slots[call.slot] = self._slots.get(call.slot, 0) + 1
        call.slot.in_flight.wait(self._serve)

    def _dequeue(self, call: _WaitingCall) -> None:
        own = self._waiting[call.conversation]
        del own[call]
        if not own:
            del self._waiting[call.conversation]
        _count_down(self._slots, call.slot)

    # ── admitting ─────────────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        """Start the calls that may run, one after another."""
        while (call := self._next()) is not None:
            self._dequeue(call)
            self._admit(call)
            if (rest := self._waiting.pop(call.conversation, None)) is not None:
                # The other conversations come first now.
                self._waiting[call.conversation] = rest
        for in_flight in (self._own, self._shared):
            if not any(slot.in_flight is in_flight for slot in self._slots):
                in_flight.stop_waiting(self._serve)
        if self._alarm is not None and not self._waiting:
            self._alarm.cancel()
            self._alarm = None

    def _next(self) -> _WaitingCall | None:
        if not self._has_room(_SESSION, self._ceiling):
            return None
        # Mostly calls wait for a server that is full: then none need be looked at.
        free = {slot for slot in self._slots if slot.is_free}
        if not free:
            return None
        for calls in self._waiting.values():
            for call in calls:
                if call.admitted is not None and call.admitted.done():
                    # It timed out or was cancelled, and is not removed yet.
                    continue
                if not self._has_room(call.conversation, call.limits):
                    break
                if call.slot in free and self._has_share(call):
                    return call
        return None

    def _admit(self, call: _WaitingCall) -> None:
        now = self._clock.monotonic()
        self._sweep(now)
        for key, limits in ((_SESSION, self._ceiling), (call.conversation, call.limits)):
            self._running[key] = self._running.get(key, 0) + 1
            if limits.mcp_rate_per_s is not None:
                # The latest start comes last, see `_sweep`.
                rate = self._rates[key] = self._rates.pop(key, None) or _RateWindow()
                rate.start(now, limits.mcp_rate_per_s)
        place = (call.conversation, call.slot)
        self._places[place] = self._places.get(place, 0) + 1
        call.slot.in_flight.begin_call(call.slot.key, self._serve)
        call.runs = True
        if call.admitted is not None:
            call.admitted.set_result(True)

    def _leave(self, call: _WaitingCall) -> None:
        if call.runs:
            _count_down(self._running, _SESSION)
            _count_down(self._running, call.conversation)
            _count_down(self._places, (call.conversation, call.slot))
            # Other limiters that wait for the server are called too.
            call.slot.in_flight.end_call(call.slot.key)
        else:
            self._dequeue(call)
        self._serve()

    # ── the limits ───────────────────────────────────────────────────────────────────────────────────────────

    def _has_room(self, key: str, limits: Limits) -> bool:
        if limits.mcp_concurrency is not None and self._running.get(key, 0) >= limits.mcp_concurrency:
            return False
        free_at = self._free_at(key, limits)
        if free_at is None:
            return True
        self._wake(free_at)
        return False

    def _has_share(self, call: _WaitingCall) -> bool:
        """Whether it leaves enough of its server for others, as the first call of a conversation always does."""
        if not self._leaves_room or (most := call.slot.most) is None:
            return True
        has = self._places.get((call.conversation, call.slot), 0)
        return not has or has < most - call.slot.in_flight.under_way(call.slot.key)

    def _free_at(self, key: str, limits: Limits) -> float | None:
        rate = self._rates.get(key)
        if rate is None or limits.mcp_rate_per_s is None:
            return None
        return rate.free_at(self._clock.monotonic(), limits.mcp_rate_per_s)

    def _wake(self, at: float) -> None:
        """Serve again at that time at the latest."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(0.0, at - self._clock.monotonic())
        if self._alarm is not None:
            if self._alarm.when() <= due:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._serve()

    def _sweep(self, now: float) -> None:
        """Forget rates whose starts no longer count; the oldest come first."""
        while self._rates and self._rates[first := next(iter(self._rates))].is_over(now):
            del self._rates[first]

    def _reason(self, call: _WaitingCall) -> str:
        for key, limits, owner in (
            (_SESSION, self._ceiling, "the session"),
            (call.conversation, call.limits, "this conversation"),
        ):
            if limits.mcp_concurrency is not None and self._running.get(key, 0) >= limits.mcp_concurrency:
                return f"{owner} has {self._running[key]} calls under way (mcp_concurrency)"
            if self._free_at(key, limits) is not None:
                return f"{owner} may start {limits.mcp_rate_per_s:g} calls in a second (mcp_rate_per_s)"
        if not (slot := call.slot).is_free:
            busy = slot.in_flight.under_way(slot.key)
            return f"the server {slot.server} has {busy} calls under way (its concurrency is {slot.most})"
        if not self._has_share(call):
            has = self._places[call.conversation, slot]
            return f"{has} of the {slot.most} places of the server {slot.server} are its own, and others get the rest"
        return "others came before it"


def _count_down(counts: dict[K, int], key: K) -> None:
    if counts[key] > 1:
        counts[key] -= 1
    else:
        del counts[key]
