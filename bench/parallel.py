"""Conversations side by side: how close a hundred targets come to what the slots allow, and what scheduling costs.

The CPU of a task with one slot is the floor, measured in the same run; the memory is that of branches that wait.
"""

from __future__ import annotations

import asyncio
import math
import time
import tracemalloc

import tertulia
from tertulia.events.journal import NoJournal
from tertulia.testing import ScriptedModel, ScriptedReply, ScriptedRequest, call, say

TARGETS = 100
SLOTS = 16
SECONDS = 1.0
TASKS = 400
BRANCHES = 1_000
UNLIMITED = {"max_task_interrupts": None, "max_chain_conversations": None, "max_conversations": None}

Row = tuple[str, float, str, str]


def run() -> list[Row]:
    """Measure; each row is (name, value, unit, target)."""
    least = math.ceil(TARGETS / SLOTS) * SECONDS
    took = asyncio.run(_fan_out())
    serial, parallel = (min(asyncio.run(_cpu_of_a_task(slots)) for _ in range(3)) for slots in (1, SLOTS))
    return [
        (f"{TARGETS} targets of {SECONDS:g} s, {SLOTS} slots", took, "s", f"<= {1.15 * least:.2f}"),
        ("the same against the least possible", took / least, "x", "<= 1.15"),
        ("CPU of a task, one slot", serial * 1e3, "ms", ""),
        (f"CPU of a task, {SLOTS} slots", parallel * 1e3, "ms", ""),
        ("added by slots", (parallel - serial) * 1e3, "ms", "<= 0.1"),
        (f"memory of a branch, {BRANCHES:,} at once", asyncio.run(_memory_of_a_branch()) / 1024, "KB", "<= 20"),
    ]


def _asking(request: ScriptedRequest) -> ScriptedReply:
    if request.last_input == "go":
        return say("", *(call("conv_create", {"user_instruction": "work"}) for _ in range(TARGETS)))
    if request.last_input == "work":
        return ScriptedReply(text="done", delay_ms=SECONDS * 1e3)
    done = sum('"status":"completed"' in item.text for item in request.items if isinstance(item, tertulia.ToolOutput))
    return say(f"{done} are done")


def _session(model: ScriptedModel, slots: int) -> tertulia.Session:
    settings = tertulia.Settings(model=model, slots=slots, limits=UNLIMITED)
    return tertulia.Session.start(settings, journal=NoJournal())


async def _fan_out() -> float:
    async with _session(ScriptedModel([_asking], repeat=True), SLOTS) as session:
        begin = time.perf_counter()
        reply = await session.root.message("go")
        took = time.perf_counter() - begin
    if reply.text != f"{TARGETS} are done":
        raise AssertionError(f"the chain ended with {reply.status}: {reply.text}")
    return took


async def _cpu_of_a_task(slots: int) -> float:
    async with _session(ScriptedModel(["ok"], repeat=True), slots) as session:
        opened = [await session.open() for _ in range(slots)]
        for conversation in opened:
            await conversation.message("warm")
        begin = time.process_time()
        for _ in range(TASKS // slots):
            await asyncio.gather(*(conversation.message("go") for conversation in opened))
        return (time.process_time() - begin) / (TASKS // slots * slots)


async def _memory_of_a_branch() -> float:
    """What the scheduler holds for each of many branches of existing conversations that wait for their turn."""
    gate, all_taken = asyncio.Event(), asyncio.Event()

    def answer(request: ScriptedRequest) -> ScriptedReply:
        if request.last_input == "go":
            return say("", *(call("conv_send", {"conversation_id": id, "text": "work"}) for id in ids))
        if request.last_input != "work":
            return say("all done")
        if sum(task.status == "running" for task in session.activity.tasks) == SLOTS:
            all_taken.set()
        return say("done", gate=gate)

    async with _session(ScriptedModel([answer], repeat=True), SLOTS) as session:
        ids = [(await session.open()).id for _ in range(BRANCHES)]
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(session.root.message("go"))
            await all_taken.wait()
            used = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            gate.set()
    return used / BRANCHES
