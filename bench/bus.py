"""How many deliveries a second the event bus makes to four subscribers, and how far that is from the minimum.

The minimum is the least that any fan-out on this loop must do: a shared object into four deques, four futures woken,
four tasks that take it out. It is measured in the same run, because machines differ and so do moments.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.protocol.events import AgentMessage
from tertulia.protocol.ids import ItemId, new_conversation_id, new_item_id, new_session_id, new_task_id

SUBSCRIBERS = 4
EVENTS = 50_000
ROUNDS = 3
TEXT = "A tertulia is one table where many conversations are held in turn."

Row = tuple[str, float, str, str]
Fanout = Callable[[int], Awaitable[None]]


def run() -> list[Row]:
    """Measure; each row is (name, value, unit, target). The best of three rounds: a hiccup is not a result."""
    rows: list[Row] = []
    for name, burst, target in (("one event a tick", 1, ">= 100,000"), ("bursts of ten", 10, ">= 400,000")):
        ours, minimum = _best(_bus, burst), _best(_minimum, burst)
        rows += [
            (f"bus, {name}", ours, "deliveries/s", target),
            (f"minimum, {name}", minimum, "deliveries/s", ""),
            (f"bus against minimum, {name}", ours / minimum, "x", ""),
        ]
    rows.append(("publish to nobody", _publish_alone(), "us", ""))
    return rows


def _best(fanout: Fanout, burst: int) -> float:
    return max(_rate(fanout, burst) for _ in range(ROUNDS))


def _rate(fanout: Fanout, burst: int) -> float:
    async def timed() -> float:
        begin = time.perf_counter()
        await fanout(burst)
        return EVENTS * SUBSCRIBERS / (time.perf_counter() - begin)

    return asyncio.run(timed())


async def _bus(burst: int) -> None:
    bus = EventBus(new_session_id(), SystemClock(), NoJournal())
    scope = EventScope("1", new_conversation_id(), new_task_id())
    item = new_item_id()
    counts = [0] * SUBSCRIBERS

    async def listen(index: int) -> None:
        async for _ in bus.subscribe(after=0):
            counts[index] += 1

    async with asyncio.TaskGroup() as tasks:
        for index in range(SUBSCRIBERS):
            tasks.create_task(listen(index))
        await asyncio.sleep(0)
        for _ in range(EVENTS // burst):
            for _ in range(burst):
                bus.publish(AgentMessage(TEXT, item), scope)
            await asyncio.sleep(0)
        bus.close()
    if counts != [EVENTS] * SUBSCRIBERS:
        raise AssertionError(f"events were lost: {counts}")


class _Seat:
    def __init__(self) -> None:
        self.queue: deque[object] = deque()
        self.waiter: asyncio.Future[None] | None = None


async def _minimum(burst: int) -> None:
    seats = [_Seat() for _ in range(SUBSCRIBERS)]
    loop = asyncio.get_running_loop()

    async def listen(seat: _Seat) -> None:
        taken = 0
        while taken < EVENTS:
            if not seat.queue:
                seat.waiter = loop.create_future()
                await seat.waiter
            seat.queue.popleft()
            taken += 1

    async with asyncio.TaskGroup() as tasks:
        for seat in seats:
            tasks.create_task(listen(seat))
        await asyncio.sleep(0)
        for _ in range(EVENTS // burst):
            for _ in range(burst):
                event = object()
                for seat in seats:
                    seat.queue.append(event)
                    if seat.waiter is not None:
                        seat.waiter.set_result(None)
                        seat.waiter = None
            await asyncio.sleep(0)


def _publish_alone() -> float:
    bus = EventBus(new_session_id(), SystemClock(), NoJournal())
    scope, data = EventScope("1", new_conversation_id()), AgentMessage(TEXT, ItemId("1"))
    begin = time.perf_counter()
    for _ in range(EVENTS):
        bus.publish(data, scope)
    return (time.perf_counter() - begin) / EVENTS * 1e6


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:40} {value:14,.2f} {unit:14} {target}")
