"""An ACP client over standard input and output, one JSON text a line. Standard error is for logs."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, aclosing

from tertulia.errors import InvalidRequest
from tertulia.scheduler.nursery import Nursery
from tertulia.server.as_acp import Agent
from tertulia.server.as_acp_house import House
from tertulia.server.framing import MAX_LINE_BYTES, Lines
from tertulia.server.peer import Peer
from tertulia.server.pipes import chunks, open_sink
from tertulia.server.stdio import claimed

_log = logging.getLogger(__name__)


async def serve_acp(house: Callable[[], House]) -> int:
    """Serve until the input ends, the client is gone, or a SIGTERM or SIGINT comes. The exit code, which is 0."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        _log.error("standard input and output must be open")
        return 0
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with ExitStack() as cleanup:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
            cleanup.callback(loop.remove_signal_handler, number)
        source, target = cleanup.enter_context(claimed())
        await serve(house(), source, target, stop)
    return 0


async def serve(house: House, source: int, target: int, stop: asyncio.Event) -> None:
    """Serve one client on a pair of descriptors, which stay open, until its input ends or `stop` is set.

    When the input ends every prompt is cancelled, since nobody could do that any more, and what was asked has the
    settings' close timeout to be answered. In the end every session is closed, and every server that was started.
    """
    grace_s = house.host.settings.close_timeout_s
    sink = await open_sink(target, stop.set)
    agent, nursery = Agent(house, sink), Nursery()
    reading = nursery.start(_read(source, agent.peer), "reader")
    stopping = nursery.start(stop.wait(), "stop")
    done, _ = await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
    agent.leave()
    if not stop.is_set():
        answered = nursery.start(agent.peer.idle(), "last answers")
        await asyncio.wait((answered, stopping), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
    await nursery.close(grace_s)
    await agent.close(grace_s)
    await house.host.close()
    await sink.close(grace_s)
    if reading in done:
        reading.result()


async def _read(source: int, peer: Peer) -> None:
    lines = Lines()
    async with aclosing(chunks(source)) as incoming:
        async for chunk in incoming:
            for line in lines.feed(chunk):
                await _receive(peer, line)
    for line in lines.end():
        await _receive(peer, line)


async def _receive(peer: Peer, line: object) -> None:
    if isinstance(line, bytes):
        await peer.receive(line)
    else:
        await peer.refuse(InvalidRequest(f"a line has at most {MAX_LINE_BYTES:,} bytes; this one was skipped"))
