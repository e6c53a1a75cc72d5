"""The store of this machine: thousands of them leave nothing; files of every version are read; see test_store.py."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError, StorageError
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import HeadersOnly, Ttl
from tertulia.rollout.sqlite.head import Proof
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.sqlite_store import SqliteStore
from tertulia.rollout.store import Row, SweepResult
from tests.deadlines import HANG_S
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import NOW, answer_from, row, same
from tests.rollout.still_clock import FakeClock

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def few_files() -> Iterator[int]:
    """So many files may be open as are now, and a few more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("wrong", ["../x", "a\0b", "x" * 4096])
def test_an_id_that_is_no_uuid_is_refused(tmp_path: Path, wrong: str) -> None:
    """E9."""
    with pytest.raises(InvalidParamsError):
        SqliteStore(tmp_path, wrong, FakeClock())
    assert list(tmp_path.iterdir()) == []


async def test_too_many_open_files_is_an_error_and_later_it_goes_on(tmp_path: Path, few_files: int) -> None:
    """F8: EMFILE, at every one of the files that a store opens."""
    for spare in range(1, 9):
        store = SqliteStore(tmp_path, new_session_id(), FakeClock())
        _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (few_files + spare, hard))
        first = await answer_from(store.append, [row(1)], 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert first is None or (isinstance(first, StorageError) and store.place in first.message)
        if first is not None:
            assert await answer_from(store.append, [row(1)], 1) is None
        assert await answer_from(store.close) is None
        with closing(SqliteReader(Path(store.place))) as reader:
            assert list(reader.rows()) == [same(row(1))]
    assert first is None, "in the end there were enough"


CYCLES = """
import asyncio, gc, os, pathlib, sys, threading
from tertulia.protocol.storage import Ttl
from tests.rollout.stages import NOW, SqliteStore, answer_from, row
from tests.rollout.still_clock import FakeClock

async def cycle():
    store = SqliteStore(pathlib.Path(sys.argv[1]), sys.argv[2], FakeClock())
    await answer_from(store.append, [row(1, b"x" * 2000, Ttl(1))], 0)
    await answer_from(store.sweep, NOW + 5, "delete")
    await answer_from(store.close)

async def measured(cycles):
    for _ in range(cycles):
        await cycle()
    gc.collect()
    for thread in threading.enumerate()[1:]:
        thread.join(5)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), threading.active_count(), pages * os.sysconf("SC_PAGESIZE")

async def main():
    print(*await measured(200))
    print(*await measured(1000))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_thousand_open_and_close_cycles_leave_nothing(room: Path) -> None:
    """Target 8: 0 extra fds, 0 threads, at most 1 MiB after warm-up. In a process that does nothing else."""
    command = [sys.executable, "-c", CYCLES, str(room), SESSION_ID]
    root = Path(__file__).parents[3]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ran.returncode == 0, ran.stderr
    (files, threads, memory), after = (map(int, line.split()) for line in ran.stdout.splitlines())
    files_after, threads_after, memory_after = after
    assert (files_after, threads_after) == (files, threads)
    assert memory_after - memory <= 1024 * 1024


# ── a file of this version (F12) ────────────────────────────────────────────────────────────────────────────

STORED: list[Row] = [
    row(
        1,
        None,
        HeadersOnly(),
        kind="session",
        type="session",
        seq=None,
        conversation=0,
        header=b'{"id":"00000000-1111-4222-8333-444444444444","epoch":0}',
    ),
    row(2, b'{"policy":{}}', type="session_configured", conversation=0, header=b'{"model":"scripted/tour"}'),
    row(
        3,
        None,
        HeadersOnly(),
        kind="conversation",
        type="conversation",
        seq=None,
        conversation=3,
        header=b'{"id":"0b6f5a3e-1111-4222-8333-444455556666"}',
    ),
    row(
        4,
        '{"text":"¿Qué tal? \u2028 ok"}'.encode(),
        kind="said",
        type="user",
        seq=None,
        conversation=3,
        header=b'{"chars":12}',
    ),
    row(5, b'{"text":"soon gone"}', Ttl(60), kind="said", type="assistant", seq=None, conversation=3, ts=NOW + 0.25),
    row(
        9,
        None,
        HeadersOnly(),
        type="task_complete",
        conversation=3,
        task=3,
        source=5,
        ts=NOW + 1.5,
        header=b'{"status":"completed"}',
    ),
]


def test_a_file_that_was_stored_is_read_written_and_swept(tmp_path: Path) -> None:
    """F12: it was made when the format was, and is never made again."""
    files = session_files(tmp_path / "home", SESSION_ID)
    files.db.parent.mkdir(0o700, parents=True)
    files.home.chmod(0o700)
    shutil.copy(FIXTURES / "version_3.db", files.db)
    with closing(SqliteReader(files.db)) as reader:
        assert reader.proof() == Proof()
        assert list(reader.rows()) == [same(row) for row in STORED]
    owner = OwnedFile(files, FakeClock(NOW))
    assert owner.sweep(NOW + 60.25, "headers_only") == SweepResult(bodies=1)
    owner.commit([row(10)])
    owner.close()
    with closing(SqliteReader(files.db)) as reader:
        assert reader.proof() == Proof()
        assert [(found.n, found.body is None, found.damaged) for found in reader.rows()] == [
            (1, True, False), (2, False, False), (3, True, False), (4, False, False), (5, True, False),
            (9, True, False), (10, False, False),
        ]  # fmt: skip


def make_fixture() -> None:
    """How `version_3.db` was made: run it in `python -c` from the root of the project."""
    files = session_files(FIXTURES / "home", SESSION_ID)
    owner = OwnedFile(files, FakeClock(NOW))
    owner.commit(STORED)
    owner.close()
    files.db.rename(FIXTURES / "version_3.db")
    shutil.rmtree(FIXTURES / "home")


async def test_two_stores_in_one_loop_do_not_wait_for_each_other(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path, new_session_id(), FakeClock()) for _ in range(5)]
    answers = await asyncio.gather(*(answer_from(store.append, [row(1)], 0) for store in stores))
    assert answers == [None] * 5
    await asyncio.gather(*(answer_from(store.close) for store in stores))
    assert len(list((tmp_path / "sessions").iterdir())) == 5
