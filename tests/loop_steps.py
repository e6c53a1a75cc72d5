"""How long one step of the event loop takes, in its own CPU time: a busy machine makes a test slower, not red."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import thread_time

MOST_S = 0.1
"""What issue 17 promises of one step."""


class LoopSteps:
    """The longest step so far."""

    longest_s = 0.0


@asynccontextmanager
async def loop_steps() -> AsyncIterator[LoopSteps]:
    """Watch every step of the loop in this block."""
    steps = LoopSteps()
    watching = asyncio.get_running_loop().create_task(_watch(steps))
    try:
        # Two rounds: what came before this block is no part of it.
        await asyncio.sleep(0)
        yield steps
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


async def _watch(steps: LoopSteps) -> None:
    before = thread_time()
    while True:
        await asyncio.sleep(0)
        now = thread_time()
        steps.longest_s = max(steps.longest_s, now - before)
        before = now
