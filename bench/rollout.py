"""What it costs to write things down, and to find them again.

Turns of a scripted model with items of 1 KB, recorded as always; then the store alone, with records of the size of
a short message. CPU is that of all threads, over the same turns without a record.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

import tertulia
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.items import UserMessage
from tertulia.protocol.storage import Full
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.rollout.sqlite.sqlite_store import SqliteStore
from tertulia.rollout.store import Row
from tertulia.testing import ScriptedModel, say

Result = tuple[str, float, str] | tuple[str, float, str, str]

HEADER = b'{"chars":640,"name":"shell","call":12345}'
BODY = b'{"id":"0123456789abcdef","text":"%s"}' % (b"A tertulia is one table. " * 26)
QUESTION = "What is said at this table? " * 34
ANSWER = "A tertulia is one table. " * 38
TURNS = 300
ROUNDS = 5
ITEMS = 10_000
RECORDS = 60_000
TOGETHER = 10
UNDER_WAY = 200
COMMITS = 500
SESSIONS = 10_000
DAY_S = 86_400


def run() -> list[Result]:
    """Measure; each result is (name, value, unit, target)."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        turns = asyncio.run(_turns(home / "turns"))
        resume = asyncio.run(_resume(home / "resume"))
        return [*turns, *resume, *_writing(home / "writing"), *_listing(home / "listing")]


# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────


async def _turns(home: Path) -> list[Result]:
    async with _session(home, None) as bare, _session(home, "normal") as normal, _session(home, "full") as full:
        scope, *costs = await _cpu_of_turns(bare, normal, full)
    return [
        ("CPU a turn, durability normal", costs[0] - scope, "ms", "<= 0.5"),
        ("CPU a turn, durability full", costs[1] - scope, "ms", "<= 1"),
    ]


async def _cpu_of_turns(*sessions: tertulia.Session) -> list[float]:
    """Milliseconds of CPU for one turn of each, the best of several rounds.

    They take turns: whatever else happens on the machine happens to all of them.
    """
    for session in sessions:
        await _speak(session, 50)
    rounds = [[await _round(session) for session in sessions] for _ in range(ROUNDS)]
    return [min(taken) / TURNS * 1e3 for taken in zip(*rounds, strict=True)]


async def _round(session: tertulia.Session) -> float:
    begin = time.process_time()
    await _speak(session, TURNS)
    return time.process_time() - begin


async def _resume(home: Path) -> list[Result]:
    async with _session(home, "normal") as session:
        await _speak(session, ITEMS // 4)
    file = session_files(home, session.id).db
    _, half = await _cost_of_resume(home, session.id, ITEMS // 2)
    async with _resumed(home, session.id) as again:
        await _speak(again, ITEMS // 4)
        items = [item for item in again.parts.conversations.root.history.snapshot() if not _is_seed(item)]
        item_bytes = sum(len(msgspec.json.encode(item)) for item in items)
    taken, whole = await _cost_of_resume(home, session.id, ITEMS)
    with closing(SqliteReader(file)) as reader:
        records, _ = reader.ends()
    size = file.stat().st_size
    return [
        (f"resume a session of {len(items):,} items", taken * 1e3, "ms", "<= 250"),
        ("CPU of that", whole * 1e3, "ms"),
        ("CPU of that, of two with half the items", whole / half / 2, "x", "<= 1.1"),
        ("size on disk, of the JSON of its items (1 KB each)", size / item_bytes, "x", "<= 1.35"),
        ("records of a turn", records / (ITEMS // 2), "records"),
        ("bytes of a turn, without the JSON of its items", (size - item_bytes) / (ITEMS // 2), "B"),
    ]


async def _cost_of_resume(home: Path, session_id: str, count: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU, that it takes until a session with so many items can be used."""
    file = session_files(home, session_id).db
    shutil.copyfile(file, copy := file.with_suffix(".copy"))
    taken: list[float] = []
    spent: list[float] = []
    for _ in range(5):
        begin, cpu = time.perf_counter(), time.process_time()
        async with _resumed(home, session_id) as again:
            taken.append(time.perf_counter() - begin)
            spent.append(time.process_time() - cpu)
            assert again.root.info.message_count == count
        shutil.copyfile(copy, file)
    return statistics.median(taken), min(spent)


def _is_seed(item: object) -> bool:
    return isinstance(item, UserMessage) and item.injected


async def _speak(session: tertulia.Session, times: int) -> None:
    for _ in range(times):
        await session.root.message(QUESTION)


def _settings(durability: Literal["normal", "full"] | None) -> tertulia.Settings:
    limits = {"max_history_items": None, "max_history_tokens": None, "compact_at": None}
    model = ScriptedModel([say(ANSWER, repeat=True)])
    return tertulia.Settings(model=model, limits=limits, durability=durability or "normal")


def _session(home: Path, durability: Literal["normal", "full"] | None) -> tertulia.Session:
    os.environ["TERTULIA_HOME"] = str(home)
    journal = NoJournal() if durability is None else None
    return tertulia.Session.start(_settings(durability), journal=journal)


def _resumed(home: Path, session_id: str) -> tertulia.Session:
    os.environ["TERTULIA_HOME"] = str(home)
    return tertulia.Session.resume(session_id, _settings("normal"))


# ── the store alone ──────────────────────────────────────────────────────────────────────────────────────────


def _row(n: int) -> Row:
    return Row(n, "said", "user", 1_700_000_000.0 + n / 1000, None, 3, 0, HEADER, BODY, Full())


def _writing(home: Path) -> list[Result]:
    results: list[Result] = []
    for durability in ("normal", "full"):
        per_second, single, file = asyncio.run(_write(home / durability, durability))
        target = (">= 100,000",) if durability == "normal" else ()
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
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    act(*args, answer.set_result)
    return answer


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
        (f"list {SESSIONS:,} sessions for the first time", cold, "ms", "<= 1,000"),
        (f"list {SESSIONS:,} sessions", _milliseconds(lambda: list_sessions(home, 20), 5), "ms", "<= 200"),
    ]


def _milliseconds(act: Callable[[], object], times: int) -> float:
    taken: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e3
