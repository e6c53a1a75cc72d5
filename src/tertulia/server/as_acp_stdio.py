"""An ACP client over standard input and output, one JSON text a line. Standard error is for logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tertulia.scheduler.nursery import Nursery
from tertulia.server.as_acp import Agent
from tertulia.server.house import House
from tertulia.server.pipes import PATIENCE_S, abandoned, open_sink, stuck
from tertulia.server.standard_streams import hear, on_standard_streams


async def serve_acp(house: Callable[[], House]) -> int:
    """Serve until the input ends, the client is gone, or a SIGTERM or SIGINT comes. The exit code, which is 0."""
    return await on_standard_streams(lambda source, target, stop: serve(house(), source, target, stop))


async def serve(house: House, source: int, target: int, stop: asyncio.Event) -> None:
    """Serve one client on a pair of descriptors, which stay open, until its input ends or `stop` is set.

    When the input ends every prompt is cancelled, since nobody could do that any more, and what was asked has the
    settings' close timeout to be answered, unless the client reads no answers. In the end every session is closed, and
    every server that was started.
    """
    grace_s = house.host.settings.close_timeout_s
    sink = await open_sink(target, stop.set)
    agent, nursery = Agent(house, sink), Nursery()
    reading = nursery.start(hear(source, agent.peer), "reader")
    stopping = nursery.start(stop.wait(), "stop")
    left = nursery.start(abandoned(source, sink, PATIENCE_S), "a client that is gone")
    done, _ = await asyncio.wait((reading, stopping, left), return_when=asyncio.FIRST_COMPLETED)
    agent.leave()
    deaf = nursery.start(stuck(sink, PATIENCE_S), "a client that does not read")
    if not (stop.is_set() or left.done()):
        answered = nursery.start(agent.peer.idle(), "last answers")
        await asyncio.wait((answered, stopping, deaf), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
    patience_s = 0 if deaf.done() or left.done() else min(grace_s, PATIENCE_S)
    await nursery.close(grace_s)
    await agent.close(grace_s)
    await house.host.close()
    await sink.close(patience_s)
    if reading in done:
        reading.result()
