"""A program with many sessions or conversations, in a process of its own: what each costs, as one line of JSON.

`python -m bench.crowd.program WORK NUMBER IDLE_SECONDS`, with TERTULIA_HOME set to an empty folder.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import tertulia
from tertulia.testing import ScriptedModel

Figures = dict[str, float]
PROBES = 100
DESCRIPTORS = 1024


def _settings() -> tertulia.Settings:
    return tertulia.Settings(model=ScriptedModel(["yes"], repeat=True))


async def sessions(number: int) -> Figures:
    """So many sessions on one processor: alone, idle, and all at work at once."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    host = tertulia.Host(_settings())
    alone = await host.start()
    before, _ = await _probe(alone)
    memory = _resident_kb()
    others = [await host.start() for _ in range(number)]
    await _turns(others)
    figures = {"kb_each": (_resident_kb() - memory) / number, **await _idle()}
    figures["open_files"] = len(os.listdir("/proc/self/fd"))
    beside, cpu_alone = await _probe(alone)
    figures["p99_alone_ms"], figures["p99_beside_idle_ms"] = before * 1e3, beside * 1e3
    figures["alone_cpu_ms"] = cpu_alone * 1e3
    # With the first one they open their files again.
    await _turns(others)
    begin, spent = time.monotonic(), time.process_time()
    taken = await _turns(others)
    spent, passed = time.process_time() - spent, time.monotonic() - begin
    figures |= {"all_cpu_ms": spent / number * 1e3, "turns_per_s": number / passed, "p99_all_s": _p99(taken)}
    begin = time.monotonic()
    await host.close()
    return {**figures, "close_s": time.monotonic() - begin, "left": _left_open()}


async def conversations(number: int) -> Figures:
    """So many conversations of one session, each with a turn."""
    async with tertulia.Session.start(_settings()) as session:
        await session.root.message("hello")
        figures: Figures = {}
        memory, opened = _resident_kb(), 0
        for part, count in (("first", number // 10), ("last", number - number // 10)):
            spent = time.process_time()
            for _ in range(count):
                await (await session.open()).message("hello")
                opened += 1
            figures[f"{part}_cpu_ms"] = (time.process_time() - spent) / count * 1e3
        return {**figures, "kb_each": (_resident_kb() - memory) / opened, **await _idle()}


async def limited(number: int) -> Figures:
    """So many sessions under a hard limit of descriptors, each with two turns."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    host = tertulia.Host(_settings())
    all_sessions = [await host.start() for _ in range(number)]
    completed = 0
    for _ in range(2):
        replies = await asyncio.gather(*(session.root.message("hello") for session in all_sessions))
        completed += sum(reply.status == "completed" for reply in replies)
    figures: Figures = {"completed": completed / 2, "descriptors": len(os.listdir("/proc/self/fd"))}
    await host.close()
    return {**figures, "left": _left_open()}


async def _probe(session: tertulia.Session) -> tuple[float, float]:
    """The 99th percentile of a turn in seconds, and the CPU of the median one."""
    taken, spent = [], []
    for _ in range(PROBES):
        begin, used = time.monotonic(), time.process_time()
        await session.root.message("hello")
        taken.append(time.monotonic() - begin)
        spent.append(time.process_time() - used)
    return _p99(taken), statistics.median(spent)


async def _turns(some: list[tertulia.Session]) -> list[float]:
    async def turn(session: tertulia.Session) -> float:
        begin = time.monotonic()
        reply = await session.root.message("hello")
        assert reply.status == "completed", reply
        return time.monotonic() - begin

    return await asyncio.gather(*(turn(session) for session in some))


async def _idle() -> Figures:
    """How often the process was woken, and what it used, while nothing was asked of it."""
    gc.collect()
    seconds = float(sys.argv[3])
    # Files that were just used are let go after five seconds, at most ten.
    await asyncio.sleep(2.2 * seconds)
    woken, spent = _switches(), time.process_time()
    await asyncio.sleep(seconds)
    used = time.process_time() - spent
    # The end of the sleep is one.
    return {"idle_wakes": max(0, _switches() - woken - 1), "idle_cpu_ms": used * 1e3}


def _switches() -> int:
    """How often a thread of this process has gone to sleep of its own accord."""
    lines = [
        line
        for task in Path("/proc/self/task").iterdir()
        for line in (task / "status").read_text(encoding="ascii").splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def _p99(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.99)]


def _resident_kb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1024


def _left_open() -> int:
    """Journals that are left when all sessions are closed."""
    return len(list((Path(os.environ["TERTULIA_HOME"]) / "sessions").glob("*-wal")))


WORKS: dict[str, Callable[[int], Awaitable[Figures]]] = {
    "sessions": sessions,
    "conversations": conversations,
    "limited": limited,
}

if __name__ == "__main__":

    async def _main() -> Figures:
        return await WORKS[sys.argv[1]](int(sys.argv[2]))

    print(json.dumps(asyncio.run(_main())))
