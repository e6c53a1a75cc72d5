"""Many clients, sessions and conversations in one process: what each costs, and that no figure grows with their number.

`serve` is measured against the commit before its writers were shared: both serve 64 clients, in turns, in one run. The
rest are ratios within one process: of a turn among a thousand sessions to one alone, of the last conversations to the
first, of listing a session to reading its file. Seconds are printed, and none of them is a target.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.crowd.served import Client, Served
from tertulia.events.clock import SystemClock
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import Full
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.rollout.store import Row

Result = tuple[Any, ...]
ROOT = Path(__file__).parents[1]
BEFORE = "b5636a8c"
"""The commit before sessions shared their writers."""
_DAY_S = 86_400


@dataclass(frozen=True)
class Sizes:
    """How much is done; `run` takes these."""

    clients: int = 64
    rounds: int = 5
    round_s: float = 3
    sessions: int = 1_000
    conversations: int = 10_000
    limited: int = 2_000
    listed: int = 10_000
    idle_s: float = 5


def run(sizes: Sizes | None = None) -> list[Result]:
    """Measure; each result is (name, value, unit, target)."""
    sizes = sizes or Sizes()
    steps = (_serving, _sessions, _conversations, _limited, _listing)
    rows: list[Result] = []
    for number, step in enumerate(steps):
        _show_progress(number, len(steps), step.__name__.strip("_"))
        rows += step(sizes)
    _show_progress(len(steps), len(steps), "")
    return rows


def _show_progress(done: int, whole: int, what: str) -> None:
    """A bar on the terminal; nothing where there is none."""
    if sys.stderr.isatty():
        bar = "#" * (done * 20 // whole)
        sys.stderr.write(f"\r\x1b[K  [{bar:20}] {done} of {whole} {what}" if what else "\r\x1b[K")
        sys.stderr.flush()


# ── serve ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _serving(sizes: Sizes) -> list[Result]:
    with ExitStack() as stack:
        sources = {"now": ROOT / "src"}
        if (former := stack.enter_context(_former_source())) is not None:
            sources["before"] = former
        servers = {name: stack.enter_context(closing(Served(source))) for name, source in sources.items()}
        rounds = asyncio.run(_serve(servers, sizes))
    now = rounds["now"]
    rows: list[Result] = [
        (f"serve, {sizes.clients} clients: turns", statistics.median(one.per_s for one in now), "turns/s"),
        ("serve: half of the turns take", _percentile(now, 0.5), "ms"),
        ("serve: 99 of 100 turns take", _percentile(now, 0.99), "ms"),
        ("serve: a turn", statistics.median(one.cpu_ms for one in now), "ms CPU"),
    ]
    if "before" in rounds:
        pairs = list(zip(now, rounds["before"], strict=True))
        rows += [
            ("serve: turns/s, to those before", statistics.median(a.per_s / b.per_s for a, b in pairs), "x", ">= 2.2"),
            ("serve: CPU of a turn, to that before", statistics.median(map(_cpu_ratio, pairs)), "x"),
        ]
    return rows


def _cpu_ratio(pair: tuple[_Round, _Round]) -> float:
    """The first to the second; what is less than the kernel counts is as much as it does."""
    first, second = (max(one.cpu_ms, 1e3 / os.sysconf("SC_CLK_TCK") / len(one.taken)) for one in pair)
    return first / second


@dataclass(frozen=True)
class _Round:
    per_s: float
    cpu_ms: float
    taken: Sequence[float]


async def _serve(servers: dict[str, Served], sizes: Sizes) -> dict[str, list[_Round]]:
    clients = {name: [await Client.connect(server) for _ in range(sizes.clients)] for name, server in servers.items()}
    rounds: dict[str, list[_Round]] = {name: [] for name in servers}
    for number in range(sizes.rounds + 1):
        for name, server in servers.items():
            measured = await _round(server, clients[name], sizes.round_s)
            # The first one only warms them up.
            rounds[name] += [measured] if number else []
    for client in (client for some in clients.values() for client in some):
        client.close()
    return rounds


async def _round(server: Served, clients: Sequence[Client], seconds: float) -> _Round:
    begin, spent, taken = time.monotonic(), server.cpu_s(), list[float]()

    async def send_turns(client: Client) -> None:
        while time.monotonic() < begin + seconds:
            taken.append(await client.turn())

    await asyncio.gather(*(send_turns(client) for client in clients))
    passed, spent = time.monotonic() - begin, server.cpu_s() - spent
    return _Round(len(taken) / passed, spent / len(taken) * 1e3, taken)


def _percentile(rounds: Sequence[_Round], part: float) -> float:
    taken = sorted(one for measured in rounds for one in measured.taken)
    return taken[int(len(taken) * part)] * 1e3


@contextmanager
def _former_source() -> Iterator[Path | None]:
    """The source of the commit before, in a folder of its own; None, and said why, where git does not have it."""
    archive = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        print(f"  not compared with the commit {BEFORE}: {archive.stderr.decode().strip()}", flush=True)
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bench-many-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as content:
            content.extractall(folder, filter="data")
        yield Path(folder) / "src"


# ── in one process ───────────────────────────────────────────────────────────────────────────────────────────────────


def _program(work: str, number: int, idle_s: float = 0) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-many-") as home:
        command = [sys.executable, "-m", "bench.crowd.program", work, str(number), str(idle_s)]
        variables = {**os.environ, "TERTULIA_HOME": str(Path(home) / "home")}
        ran = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def _sessions(sizes: Sizes) -> list[Result]:
    figures, what = _program("sessions", sizes.sessions, sizes.idle_s), f"{sizes.sessions:,} sessions"
    return [
        (f"{what}: memory of one", figures["kb_each"], "KB"),
        (f"{what}, idle for {sizes.idle_s:g} s: wake-ups", figures["idle_wakes"], "", "<= 5"),
        (f"{what}, idle for {sizes.idle_s:g} s", figures["idle_cpu_ms"], "ms CPU"),
        (f"{what}, idle: descriptors of the process", figures["open_files"], "", "<= 300"),
        (f"{what}, all at work on one processor", figures["turns_per_s"], "turns/s"),
        ("CPU of a turn, to that of a session alone", figures["all_cpu_ms"] / figures["alone_cpu_ms"], "x", "<= 1.5"),
        (f"99 of 100 turns beside {what}, idle", figures["p99_beside_idle_ms"], "ms"),
        ("that, to those without", figures["p99_beside_idle_ms"] / figures["p99_alone_ms"], "x"),
        ("all at work at once: 99 of 100 turns take", figures["p99_all_s"], "s"),
        (f"{what}: all closed after", figures["close_s"], "s"),
        ("journals left behind", figures["left"], "", "<= 0"),
    ]


def _conversations(sizes: Sizes) -> list[Result]:
    what = f"{sizes.conversations:,} conversations"
    figures = _program("conversations", sizes.conversations, sizes.idle_s)
    return [
        (f"{what}: memory of one", figures["kb_each"], "KB"),
        (f"{what}: CPU of one with its turn", figures["last_cpu_ms"], "ms CPU"),
        ("that, to the first tenth of them", figures["last_cpu_ms"] / figures["first_cpu_ms"], "x", "<= 1.5"),
        (f"{what}, idle for {sizes.idle_s:g} s: wake-ups", figures["idle_wakes"], "", "<= 5"),
    ]


def _limited(sizes: Sizes) -> list[Result]:
    figures = _program("limited", sizes.limited)
    return [
        ("sessions that ran under 1,024 descriptors", figures["completed"], "", f">= {sizes.limited:,}"),
        ("descriptors that they took", figures["descriptors"], "", "<= 1,024"),
        ("journals left behind by them", figures["left"], "", "<= 0"),
    ]


# ── listing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _listing(sizes: Sizes) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-many-") as folder:
        home = Path(folder) / "home"
        paths = _stored(home, sizes.listed)
        floor = _cpu_of(lambda: [path.read_bytes() for path in paths])
        begin = time.perf_counter()
        spent = _cpu_of(lambda: list_sessions(home, 20))
        passed = time.perf_counter() - begin
    what = f"first list of {sizes.listed:,} sessions"
    return [
        (what, passed, "s"),
        (f"{what}: CPU", spent, "s", "<= 1"),
        ("that, to reading the files", spent / floor, "x"),
    ]


def _stored(home: Path, number: int) -> list[Path]:
    template = session_files(home, new_session_id())
    file = OwnedFile(template, SystemClock())
    body = b'{"text":"' + b"x" * 1000 + b'"}'
    file.commit([Row(n, "said", "user", 1.7e9 + n, None, 3, 0, b"{}", body, Full()) for n in range(1, 11)])
    file.close()
    yesterday = SystemClock().now() - _DAY_S
    paths = [template.db]
    for place in range(1, number):
        paths.append(session_files(home, new_session_id()).db)
        shutil.copyfile(template.db, paths[-1])
        os.utime(paths[-1], (yesterday - place, yesterday - place))
    os.utime(template.db, (yesterday, yesterday))
    return paths


def _cpu_of(act: Any) -> float:
    spent = time.process_time()
    act()
    return time.process_time() - spent
