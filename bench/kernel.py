"""The kernel: what a request, a turn, a conversation and a cancellation cost.

CPU is measured with `process_time`, the best of several runs; ratios are taken within one run.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable

import tertulia
from tertulia.events.journal import Journal, NoJournal
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.prompt.request import RequestInputs, build_request
from tertulia.prompt.tool_list import assemble_tools
from tertulia.protocol.ids import new_conversation_id, new_item_id
from tertulia.protocol.items import AssistantMessage, TextPart, UserMessage
from tertulia.protocol.storage import Full
from tertulia.testing import ScriptedModel, ScriptedReply
from tertulia.tools.update_plan import UpdatePlan

Row = tuple[str, float, str, str]
CONVERSATIONS = 10_000
TURNS = 400
CANCELS = 200


def run() -> list[Row]:
    """All rows: name, value, unit, target."""
    rows = [_import_cost(), *_request_cost()]
    with tempfile.TemporaryDirectory() as home:
        # What is measured is stored as is usual, but not among the sessions of the user.
        os.environ["TERTULIA_HOME"] = home
        for measure in (_conversations, _turns, _cancels):
            rows += asyncio.run(measure())
    return rows


def _import_cost() -> Row:
    def best(code: str) -> float:
        def once() -> float:
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            return time.perf_counter() - begun

        return min(once() for _ in range(7))

    used = "import tertulia; tertulia.Session, tertulia.Settings, tertulia.tool"
    return ("import tertulia and its API, over bare Python", (best(used) - best("pass")) * 1000, "ms", "<= 150")


def _request_cost() -> list[Row]:
    model = ScriptedModel()
    asking = RequestInputs(new_conversation_id(), model, None, assemble_tools([UpdatePlan().spec]), Full())
    text = "x" * 300

    def grown(turns: int) -> HistoryStore:
        store = HistoryStore(HistoryLimits())
        for _ in range(turns):
            store.append([UserMessage(new_item_id(), (TextPart(text),))])
            store.append([AssistantMessage(new_item_id(), (TextPart(text),))])
            build_request(asking, store)
        return store

    def next_turn(store: HistoryStore) -> Callable[[], None]:
        def turn() -> None:
            store.append([UserMessage(new_item_id(), (TextPart(text),))])
            for chunk in build_request(asking, store).chunks:
                len(chunk)
            store.append([AssistantMessage(new_item_id(), (TextPart(text),))])

        return turn

    def median(turns: int) -> float:
        costs: list[float] = []
        for _ in range(15):
            turn = next_turn(grown(turns))
            gc.collect()
            begun = time.process_time_ns()
            for _ in range(8):
                turn()
            costs.append((time.process_time_ns() - begun) / 8_000)
        return statistics.median(costs)

    early, late = median(10), median(1_000)
    return [
        ("request of turn 10", early, "us CPU", ""),
        ("request of turn 1,000 : request of turn 10", late / early, "x", "<= 1.2"),
    ]


async def _conversations() -> list[Row]:
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel())) as session:
        await session.open()
        gc.collect()
        tracemalloc.start()
        before, begun = tracemalloc.get_traced_memory()[0], time.process_time()
        held = [await session.open() for _ in range(CONVERSATIONS - 2)]
        spent = time.process_time() - begun
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return [
            ("an open conversation", grown / len(held) / 1024, "KB", "<= 4"),
            ("opening one (memory traced)", spent / len(held) * 1e6, "us CPU", ""),
        ]


async def _turns() -> list[Row]:
    # What writing a turn down costs is `bench rollout`'s: here it stands beside, without a target of its own.
    kernel, stored = await _turn(NoJournal()), await _turn(None)
    return [
        ("a scripted turn with one subscriber", kernel, "ms CPU", "<= 0.3"),
        ("the same, written down as is usual", stored, "ms CPU", ""),
    ]


async def _turn(journal: Journal | None) -> float:
    model = ScriptedModel(["A short answer of a few words."], repeat=True)
    async with tertulia.Session.start(tertulia.Settings(model=model), journal=journal) as session:
        seen = 0

        async def listen() -> None:
            nonlocal seen
            async for _ in session.events():
                seen += 1

        async with asyncio.TaskGroup() as group:
            listener = group.create_task(listen())
            await session.root.message("warm up")
            begun = time.process_time()
            for _ in range(TURNS):
                await session.root.message("a question")
            spent = time.process_time() - begun
            await session.close()
            await listener
        return spent / TURNS * 1000


async def _cancels() -> list[Row]:
    model = ScriptedModel([lambda _: ScriptedReply(text="never", gate=asyncio.Event())], repeat=True)
    took: list[float] = []
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        news = session.parts.bus.subscribe()
        for _ in range(CANCELS):
            async with asyncio.TaskGroup() as group:
                group.create_task(session.root.message("wait"))
                while (await anext(news)).type != "task_started":
                    pass
                begun = time.perf_counter()
                await session.root.interrupt()
                while (await anext(news)).type != "turn_aborted":
                    pass
                took.append(time.perf_counter() - begun)
    return [("cancel to terminal event, p99", statistics.quantiles(took, n=100)[98] * 1000, "ms", "<= 20")]
