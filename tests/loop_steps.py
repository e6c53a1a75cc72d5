"""How long one step of the event loop takes, in its own CPU time: a busy machine makes a test slower, not red."""

from __future__ import annotations

import asyncio
import threading
from asyncio import Handle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import thread_time

MOST_S = 0.1
"""What issue 17 promises of one step."""
TRIES = 6


class LoopSteps:
    """The longest step so far."""

    longest_s = 0.0


@asynccontextmanager
async def loop_steps() -> AsyncIterator[LoopSteps]:
    """Watch every step that the loop of this thread makes in this block.

    A step is one callback. Two of them in one round of the loop are two steps: whether they meet there depends on when
    a thread or a process answers, which is a matter of the machine's other work.
    """
    steps, watched, run = LoopSteps(), threading.get_ident(), Handle._run

    def timed(handle: Handle) -> None:
        began = thread_time()
        run(handle)
        if threading.get_ident() == watched:
            steps.longest_s = max(steps.longest_s, thread_time() - began)

    Handle._run = timed  # type: ignore[method-assign]
    try:
        # The block begins with a step of its own, and its last one has ended when it is left.
        await asyncio.sleep(0)
        yield steps
        await asyncio.sleep(0)
    finally:
        Handle._run = run  # type: ignore[method-assign]


async def longest_step(act: Callable[[], Awaitable[object]]) -> float:
    """How long the longest step of `act` takes, in the best of a few tries.

    What a step needs it needs every time. What it once took more went to the caches and the memory that other programs
    use, which the kernel counts as its time.
    """
    best = float("inf")
    for _ in range(TRIES):
        async with loop_steps() as steps:
            await act()
        best = min(best, steps.longest_s)
        if best < MOST_S:
            break
    return best
