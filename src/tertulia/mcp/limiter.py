"""The gate before MCP servers: so many calls at once, so many in a second, and everybody gets a turn.

It knows neither tools nor servers but by name. All of it runs on the loop's thread; what waits has no task of its own.
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
"""Lets through whoever may pass."""


class InFlight:
    """Shared by the turnstiles of a host. Fair between them: who let somebody through looks in last the next time.

    All of it runs on the loop's thread, and it has no limit of its own: each who comes says how many are too many.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, int] = {}
        # In the order of turns.
        self._outside: dict[OnCallEnd, None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, nobody waits, and nothing is left of either."""
        return not (self._under_way or self._outside)

    def under_way(self, server: str) -> int:
        """How many calls it has."""
        return self._under_way.get(server, 0)

    def wait(self, look: OnCallEnd) -> None:
        """Have this called whenever a call is over. Twice is once."""
        self._outside.setdefault(look)

    def go_away(self, look: OnCallEnd) -> None:
        """Nobody waits there any more."""
        self._outside.pop(look, None)

    def enter(self, server: str, look: OnCallEnd) -> None:
        """A call begins."""
        self._under_way[server] = self.under_way(server) + 1
        if look in self._outside:
            del self._outside[look]
            self._outside[look] = None

    def leave(self, server: str) -> None:
        """A call is over."""
        if self._under_way[server] > 1:
            self._under_way[server] -= 1
        else:
            del self._under_way[server]
        for look in list(self._outside):
            look()


K = TypeVar("K")

_SESSION = ""
"""Counts all conversations together; no conversation is called so."""


class ServerSlot(NamedTuple):
    """A server, under the name that its calls are counted by."""

    server: str
    most: int | None
    """How many calls it gets at once."""
    doors: InFlight
    key: str

    @property
    def is_free(self) -> bool:
        return self.most is None or self.doors.under_way(self.key) < self.most


class _RateWindow:
    """Starts that still count. A second has so many; where it is less than one, so many seconds have one."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: deque[float] = deque()

    def start(self, now: float, per_s: float) -> None:
        self._until.append(now + max(1.0, 1.0 / per_s))

    def free_at(self, now: float, per_s: float) -> float | None:
        """When the next may start; None: now."""
        while self._until and self._until[0] <= now:
            self._until.popleft()
        # Rounded down: in no second are there more than was said.
        most = max(1, int(per_s))
        return None if len(self._until) < most else self._until[len(self._until) - most]

    def is_over(self, now: float) -> bool:
        return not self._until or self._until[-1] <= now


class _WaitingCall:
    """One call, from the moment at which it comes."""

    __slots__ = ("conversation", "gate", "limits", "passed", "turn")

    def __init__(self, conversation: str, gate: ServerSlot, limits: Limits) -> None:
        self.conversation = conversation
        self.gate = gate
        self.limits = limits
        self.passed = False
        self.turn: asyncio.Future[bool] | None = None
        """True: it is its turn; False: it has waited too long."""


class FairLimiter:
    """Lets calls through within the limits of their conversation, their server and the session.

    Fair: conversations that wait take turns, and inside one the first comes first. Only a call whose server is full
    is overtaken, by calls of its conversation to other servers. Whoever gives up leaves nothing behind.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        ceiling: Limits,
        waited: Callable[[ConversationId, float], object] = lambda of, seconds: None,
        doors: InFlight | None = None,
        leaves_room: bool = False,
    ) -> None:
        """`ceiling` holds for all conversations together; `waited` is told of each wait that is over, and whose.

        `doors`: of the servers that other sessions use too. `leaves_room`: of a server that takes only so many calls a
        conversation gets no second place unless more are left than it has; so there is one for who comes next.
        """
        self._clock = clock
        self._ceiling = ceiling
        self._waited = waited
        self._own, self._shared = InFlight(), doors or InFlight()
        self._leaves_room = leaves_room
        self._places: dict[tuple[str, ServerSlot], int] = {}
        """How many calls each conversation has at each server."""
        self._running: dict[str, int] = {}
        self._paces: dict[str, _RateWindow] = {}
        # Both in the order of turns; the calls of a conversation as the keys of a dict, to leave from anywhere.
        self._waiting: dict[str, dict[_WaitingCall, None]] = {}
        self._gates: dict[ServerSlot, int] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, nothing waits, and nothing is left of either."""
        return self._own.is_idle and not (self._running or self._places or self._waiting or self._gates or self._alarm)

    @asynccontextmanager
    async def passage(
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
        """The call runs inside; how many seconds it had waited.

        `waits` is called once if it has to, with the reason. Limit after `limits.mcp_wait_s`. `shared`: what the server
        is called where other sessions use it too; None: nobody else does. `program`: which of several that have one
        conversation together, and each its limits for itself.
        """
        doors, key = (self._own, server) if shared is None else (self._shared, shared)
        whose = f"{conversation}/{program}" if program else conversation
        call, began = (
            _WaitingCall(whose, ServerSlot(server, server_concurrency, doors, key), limits),
            self._clock.monotonic(),
        )
        self._line_up(call)
        self._serve()
        if not call.passed:
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
        call.turn = loop.create_future()
        # Not asyncio.timeout: it could take back a turn that was just given.
        timer = None if longest is None else loop.call_later(longest, self._give_up, call.turn)
        try:
            waits(self._reason(call))
            if not await call.turn:
                raise LimitError(f"waited {longest:g} s (mcp_wait_s) for an MCP server: {self._reason(call)}")
        finally:
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _give_up(turn: asyncio.Future[bool]) -> None:
        if not turn.done():
            turn.set_result(False)

    def _line_up(self, call: _WaitingCall) -> None:
        self._waiting.setdefault(call.conversation, {})[call] = None
        self._gates[call.gate] = self._gates.get(call.gate, 0) + 1
        call.gate.doors.wait(self._serve)

    def _step_out(self, call: _WaitingCall) -> None:
        own = self._waiting[call.conversation]
        del own[call]
        if not own:
            del self._waiting[call.conversation]
        _count_down(self._gates, call.gate)

    # ── passing ──────────────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        """Let through whoever may pass, one after another."""
        while (call := self._next()) is not None:
            self._step_out(call)
            self._pass(call)
            if (rest := self._waiting.pop(call.conversation, None)) is not None:
                # It had its turn; the others come first now.
                self._waiting[call.conversation] = rest
        for doors in (self._own, self._shared):
            if not any(gate.doors is doors for gate in self._gates):
                doors.go_away(self._serve)
        if self._alarm is not None and not self._waiting:
            self._alarm.cancel()
            self._alarm = None

    def _next(self) -> _WaitingCall | None:
        if not self._has_room(_SESSION, self._ceiling):
            return None
        # Most wait for a server that is full: then there is nobody to look at.
        free = {gate for gate in self._gates if gate.is_free}
        if not free:
            return None
        for calls in self._waiting.values():
            for call in calls:
                if call.turn is not None and call.turn.done():
                    # It gave up, or was cancelled, and has not left yet.
                    continue
                if not self._has_room(call.conversation, call.limits):
                    break
                if call.gate in free and self._has_share(call):
                    return call
        return None

    def _pass(self, call: _WaitingCall) -> None:
        now = self._clock.monotonic()
        self._sweep(now)
        for of, limits in ((_SESSION, self._ceiling), (call.conversation, call.limits)):
            self._running[of] = self._running.get(of, 0) + 1
            if limits.mcp_rate_per_s is not None:
                # The last to have started goes last, see `_sweep`.
                pace = self._paces[of] = self._paces.pop(of, None) or _RateWindow()
                pace.start(now, limits.mcp_rate_per_s)
        place = (call.conversation, call.gate)
        self._places[place] = self._places.get(place, 0) + 1
        call.gate.doors.enter(call.gate.key, self._serve)
        call.passed = True
        if call.turn is not None:
            call.turn.set_result(True)

    def _leave(self, call: _WaitingCall) -> None:
        if call.passed:
            _count_down(self._running, _SESSION)
            _count_down(self._running, call.conversation)
            _count_down(self._places, (call.conversation, call.gate))
            # Whoever waits there may look in: others as well as we.
            call.gate.doors.leave(call.gate.key)
        else:
            self._step_out(call)
        self._serve()

    # ── the limits ───────────────────────────────────────────────────────────────────────────────────────────

    def _has_room(self, of: str, limits: Limits) -> bool:
        if limits.mcp_concurrency is not None and self._running.get(of, 0) >= limits.mcp_concurrency:
            return False
        free_at = self._free_at(of, limits)
        if free_at is None:
            return True
        self._wake(free_at)
        return False

    def _has_share(self, call: _WaitingCall) -> bool:
        """Whether it leaves enough of its server for others; the first call of a conversation always does."""
        if not self._leaves_room or (most := call.gate.most) is None:
            return True
        has = self._places.get((call.conversation, call.gate), 0)
        return not has or has < most - call.gate.doors.under_way(call.gate.key)

    def _free_at(self, of: str, limits: Limits) -> float | None:
        pace = self._paces.get(of)
        if pace is None or limits.mcp_rate_per_s is None:
            return None
        return pace.free_at(self._clock.monotonic(), limits.mcp_rate_per_s)

    def _wake(self, at: float) -> None:
        """Look again at that moment, or before."""
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
        """Forget starts that no longer count. Who started longest ago is looked at first, and mostly is the first."""
        while self._paces and self._paces[first := next(iter(self._paces))].is_over(now):
            del self._paces[first]

    def _reason(self, call: _WaitingCall) -> str:
        for of, limits, whose in (
            (_SESSION, self._ceiling, "the session"),
            (call.conversation, call.limits, "this conversation"),
        ):
            if limits.mcp_concurrency is not None and self._running.get(of, 0) >= limits.mcp_concurrency:
                return f"{whose} has {self._running[of]} calls under way (mcp_concurrency)"
            if self._free_at(of, limits) is not None:
                return f"{whose} may start {limits.mcp_rate_per_s:g} calls in a second (mcp_rate_per_s)"
        if not (gate := call.gate).is_free:
            busy = gate.doors.under_way(gate.key)
            return f"the server {gate.server} has {busy} calls under way (its concurrency is {gate.most})"
        if not self._has_share(call):
            has = self._places[call.conversation, gate]
            return f"{has} of the {gate.most} places of the server {gate.server} are its own, and others get the rest"
        return "others came before it"


def _count_down(counts: dict[K, int], key: K) -> None:
    if counts[key] > 1:
        counts[key] -= 1
    else:
        del counts[key]
