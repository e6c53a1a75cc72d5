"""What it costs to look at stored sessions: the list, and one session of 10,000 items in parts; then the page itself.

Of the server CPU of all threads, the best of several rounds. Compared with a scan of the record's small columns by
SQLite alone. The page is measured in a browser where there is one, see `page/figures.py`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import tertulia
from bench.page.figures import Busy, browser_rows, weight_rows
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.session.operations import call
from tertulia.testing import ScriptedModel, say
from tertulia.testing import call as tool_call

Row = tuple[str, float, str, str]
TURNS, SESSIONS, ROUNDS = 2_500, 1_000, 5
BUSY = Busy()
QUESTION = "What is said at this table? " * 34
ANSWER = "A tertulia is one table. " * 38
_SCAN = "SELECT count(*) FROM record WHERE kind = 'session' OR type = 'conversation_opened'"


def look(place: str) -> str:
    """Look at a place."""
    return place * 100


def run(turns: int = TURNS, sessions: int = SESSIONS, busy: Busy | None = BUSY) -> list[Row]:
    """Measure; each row is (name, value, unit, target). Without `busy` no browser is used."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["TERTULIA_HOME"] = folder
        return asyncio.run(_measure_all(Path(folder), turns, sessions, busy))


async def _measure_all(home: Path, turns: int, sessions: int, busy: Busy | None) -> list[Row]:
    id = await _make_session(turns)
    # The page first: it is to find a session that was not looked at before, and few of them.
    page = [] if busy is None else await browser_rows(id, busy)
    return [*await _measure(home, id, turns, sessions), *weight_rows(), *page]


async def _measure(home: Path, id: str, turns: int, sessions: int) -> list[Row]:
    host = tertulia.Host(tertulia.Settings())

    async def ask(name: str, **params: Any) -> Any:
        return (await call(host, None, f"record/{name}", {"session_id": id, **params})).answer

    outline = await ask("outline")
    last, requests = outline.last_n, outline.requests
    request = requests[min(len(requests) - 1, 500)].n
    scan = _scan_cost(session_files(home, id).db)
    begin = time.process_time()
    await ask("board", at_n=last)
    first_board = time.process_time() - begin
    places = iter(range(last // 2, last, max(1, last // 50)))
    costs = {
        "outline": await _cost(lambda: ask("outline")),
        "last page": await _cost(lambda: ask("page")),
        "step to another board": await _cost(lambda: ask("board", at_n=next(places))),
        "prompt of 1,000 items": await _cost(lambda: ask("prompt", n=request)),
    }
    seen = costs["outline"] + costs["last page"]
    targets = {"step to another board": "<= 50", "prompt of 1,000 items": "<= 300"}
    rows = [
        (f"{name}, {turns * 4:,} items", cost * 1e3, "ms CPU", targets.get(name, "")) for name, cost in costs.items()
    ]
    rows += [(f"{name}, of a scan by SQLite", cost / scan, "x", "") for name, cost in costs.items()]
    return [
        *rows,
        (f"seen: outline and last page, {turns * 4:,} items", seen * 1e3, "ms CPU", "<= 500"),
        (f"first board, {turns * 4:,} items", first_board * 1e3, "ms CPU", "<= 500"),
        *await _list_rows(host, sessions),
    ]


async def _list_rows(host: tertulia.Host, sessions: int) -> list[Row]:
    for _ in range(sessions):
        async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["Yes."]))) as session:
            await session.root.message("Well?")
    await call(host, None, "record/list", {})
    cost = await _cost(lambda: call(host, None, "record/list", {}))
    return [(f"list, 50 of {sessions:,} sessions", cost * 1e3, "ms CPU", "")]


async def _make_session(turns: int) -> str:
    replies = [reply for _ in range(turns) for reply in (say("", tool_call("look", {"place": "a table"})), say(ANSWER))]
    limits = {"max_history_items": None, "max_history_tokens": None}
    settings = tertulia.Settings(model=ScriptedModel(replies), limits=limits, tools=[look])
    async with tertulia.Session.start(settings) as session:
        for _ in range(turns):
            await session.root.message(QUESTION)
        return session.id


async def _cost(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds of CPU, the best of several rounds."""
    taken: list[float] = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        await work()
        taken.append(time.process_time() - begin)
    return min(taken)


def _scan_cost(file: Path) -> float:
    taken: list[float] = []
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        for _ in range(ROUNDS):
            begin = time.process_time()
            connection.execute(_SCAN).fetchone()
            taken.append(time.process_time() - begin)
    return max(min(taken), 1e-6)
