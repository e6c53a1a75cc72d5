"""What it costs to write things down, and to find them again.

At the level of the store: records of the size of a short message. What a turn costs in CPU, what resuming takes and
how large a session becomes is measured where turns are recorded.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tertulia.events.clock import SystemClock
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import Full
from tertulia.rollout.files import session_files
from tertulia.rollout.index import list_sessions
from tertulia.rollout.owned_file import OwnedFile
from tertulia.rollout.reader import SqliteReader
from tertulia.rollout.sqlite import SqliteStore
from tertulia.rollout.store import Row

Result = tuple[str, float, str] | tuple[str, float, str, str]

HEADER = b'{"chars":640,"name":"shell","call":12345}'
BODY = b'{"id":"0123456789abcdef","text":"%s"}' % (b"A tertulia is one table. " * 26)
RECORDS = 60_000
TOGETHER = 10
UNDER_WAY = 200
COMMITS = 500
SESSIONS = 10_000
DAY_S = 86_400


def run() -> list[Result]:
    """Measure; each result is (name, value, unit, target)."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_writing(Path(folder) / "writing"), *_listing(Path(folder) / "listing")]


# ── a turn: CPU at most 0.5 ms with durability normal, 1 ms with full ───────────────────────────────────────────────
# ── a resume of 10,000 items: at most 300 ms ────────────────────────────────────────────────────────────────────────
# ── the size on disk: at most 1.4x the bytes of items of 1 KB ───────────────────────────────────────────────────────


def _row(n: int) -> Row:
    return Row(n, "said", "user", 1_700_000_000.0 + n / 1000, None, 3, 0, HEADER, BODY, Full())


def _writing(home: Path) -> list[Result]:
    results: list[Result] = []
    for durability in ("normal", "full"):
        per_second, single, file = asyncio.run(_write(home / durability, durability))
        target = (">= 20,000",) if durability == "normal" else ()
        results.append((f"records written a second, {durability}", per_second, "records/s", *target))
        results.append((f"one commit acknowledged, {durability}", single, "us"))
    begin = time.perf_counter()
    reader = SqliteReader(file)
    count = sum(1 for _ in reader.rows())
    reader.close()
    results.append(("records read a second", count / (time.perf_counter() - begin), "records/s"))
    return results


async def _write(home: Path, durability: Literal["normal", "full"]) -> tuple[float, float, Path]:
    """Records a second with many appends under way, and the time of one alone in microseconds."""
    store = SqliteStore(home, new_session_id(), SystemClock(), durability)
    await _asked(store.claim)
    n, begin = 0, time.perf_counter()
    waiting: list[asyncio.Future[Any]] = []
    while n < RECORDS:
        waiting.append(_asked(store.append, [_row(n + place) for place in range(1, TOGETHER + 1)], 0))
        n += TOGETHER
        if len(waiting) == UNDER_WAY:
            await waiting[0]
            waiting = [answer for answer in waiting if not answer.done()]
    assert set(await asyncio.gather(*waiting)) <= {None}
    per_second = RECORDS / (time.perf_counter() - begin)
    singles: list[float] = []
    for _ in range(COMMITS):
        n += 1
        begin = time.perf_counter()
        await _asked(store.append, [_row(n)], 0)
        singles.append(time.perf_counter() - begin)
    await _asked(store.close)
    return per_second, statistics.median(singles) * 1e6, Path(store.place)


def _asked(act: Callable[..., None], *args: Any) -> asyncio.Future[Any]:
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    act(*args, told.set_result)
    return told


def _listing(home: Path) -> list[Result]:
    template = session_files(home, new_session_id())
    file = OwnedFile(template, SystemClock())
    file.commit([_row(n) for n in range(1, 11)])
    file.close()
    yesterday = SystemClock().now() - DAY_S
    for number in range(SESSIONS - 1):
        copy = session_files(home, new_session_id()).db
        shutil.copyfile(template.db, copy)
        os.utime(copy, (yesterday - number, yesterday - number))
    os.utime(template.db, (yesterday, yesterday))
    cold = _milliseconds(lambda: list_sessions(home, 20), 1)
    return [
        (f"list {SESSIONS:,} sessions for the first time", cold, "ms"),
        (f"list {SESSIONS:,} sessions", _milliseconds(lambda: list_sessions(home, 20), 5), "ms", "<= 200"),
    ]


def _milliseconds(act: Callable[[], object], times: int) -> float:
    taken: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e3
