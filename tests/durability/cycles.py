"""Opens and closes sessions again and again, and says what that has cost. Run as a program: WARM_UP CYCLES.

What is taken from the system is told by a program of its own, `untraced`: tracing takes some itself, and more and more.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import tertulia
from tertulia.testing import ScriptedModel, call, say


@tertulia.tool
def act(what: str) -> str:
    """Do something in a thread."""
    return what


async def once(number: int) -> None:
    """A session with a child and a tool; every other one is resumed, every fifth is killed off while it runs."""
    replies = [say("", call("act", {"what": "x"})), "done", call("conv_create", {"user_instruction": "you"}), "I", "ok"]
    settings = tertulia.Settings(model=ScriptedModel(replies), tools=[act])
    async with tertulia.Session.start(settings) as session:
        await session.root.message("go")
        await session.root.message("delegate")
        async with session.events(after=0) as news:
            await anext(news)
        if number % 5 == 0:
            arrived = asyncio.Event()

            async def hang(_: Any) -> str:
                arrived.set()
                return await asyncio.get_running_loop().create_future()

            await session.root.set_context(model=ScriptedModel([hang]))
            running = asyncio.ensure_future(session.root.message("hang"))
            await arrived.wait()
            await session.close()
            await running
    if number % 2:
        async with tertulia.Session.resume(
            session.id, tertulia.Settings(model=ScriptedModel(["again"]), tools=[act])
        ) as back:
            await back.root.message("more")
    # Not a growing folder, nor a pattern for each of them, is what is measured.
    os.unlink(f"{os.environ['TERTULIA_HOME']}/sessions/{session.id}.db")


def costs() -> dict[str, Any]:
    """What there is of everything now, when all that can be let go of is. The loop's own pool of threads is bounded."""
    for _ in range(3):
        gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    return {
        "fds": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in _open_fds()),
        "threads": [thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")],
        "others": len(os.listdir("/proc/self/task")) - threading.active_count(),
        "children": children.read_text().split() if children.exists() else [],
        "kib": next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")),
        "objects": len(gc.get_objects()),
        "traced": _traced() if tracemalloc.is_tracing() else 0,
    }


def _traced() -> int:
    # Paths are interned: now and then the interpreter's own table is made anew, and whoever comes along pays for it.
    others = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, "*/pathlib*")])
    return sum(trace.size for trace in others.traces)


def _open_fds() -> list[str]:
    # The one with which the folder is read is gone by now.
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]


async def main(warm_up: int, cycles: int, *, traced: bool) -> None:
    if traced:
        tracemalloc.start(1)
    for number in range(warm_up):
        await once(number)
    before = costs()
    for number in range(cycles):
        await once(number)
    os.write(1, json.dumps([before, costs()]).encode())


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), traced="untraced" not in sys.argv))
