"""The work for one patch is bounded, can be stopped, and holds nobody up."""

from __future__ import annotations

import asyncio
import threading
from time import monotonic, thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import LimitError
from tertulia.tools.patch import match as work_budget
from tertulia.tools.patch.engine import _planned
from tertulia.tools.patch.match import WorkBudget
from tertulia.tools.patch.plan import make_plan
from tertulia.tools.patch.text import Hunk, parse_patch
from tertulia.tools.threads import abandoned_threads
from tests.deadlines import HANG_S
from tests.tools.patching import patch

DEADLINE_S = HANG_S
NAMED = "tertulia tool"


@given(st.text(alphabet="a\n\r", max_size=60), st.text(alphabet="a\n", min_size=1, max_size=4), st.integers(0, 20))
def test_in_slices_it_comes_to_the_same(content: str, wanted: str, begin: int) -> None:
    """L6."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(work_budget, "AT_ONCE", 3)
        patched.setattr(work_budget, "CHARACTERS_AT_ONCE", 5)
        effort = WorkBudget()
        lines = effort.lines(content)
        assert lines == content.split("\n")
        assert effort.joined(lines, between="\n") == content
        assert [line for some in effort.some(lines) for line in some] == lines
        assert effort.find(content, wanted, begin) == content.find(wanted, begin)
        effort.free(lines)
        assert lines == []


def test_the_time_counts_from_the_first_check_and_has_an_end() -> None:
    """L6."""
    effort = WorkBudget(limit_s=0.02)
    began = thread_time()
    while thread_time() - began < 0.05:
        pass
    effort.check()
    with pytest.raises(LimitError, match=r"takes more than 0\.02 s"):
        while thread_time() - began < DEADLINE_S:
            effort.check()


def slow_patch(count: int = 40) -> tuple[tuple[Hunk, ...], bytes]:
    """Many updates of one large file, none of which is found at first sight."""
    changes = [line for n in range(count) for line in ("*** Update File: f", f"-value_{n * 1000} = {n}", "+new")]
    content = "".join(f"    value_{n} = {n // 1000}\n" for n in range(count * 1000)).encode()
    return parse_patch(patch(*changes)), content


def test_a_patch_of_many_updates_ends_at_its_limit() -> None:
    """L6: 40 hunks against a file of 11.8 MB took minutes of a core."""
    hunks, content = slow_patch()
    began = thread_time()
    with pytest.raises(LimitError, match="takes more than"):
        make_plan(hunks, {"f": content}.get, WorkBudget(limit_s=0.1))
    assert thread_time() - began < 1


async def test_a_patch_that_is_not_wanted_any_more_takes_its_thread_with_it() -> None:
    """L6: the thread went on burning a core."""
    hunks, content = slow_patch(400)
    begun = threading.Event()

    def read(path: str) -> bytes:
        begun.set()
        return content

    with abandoned_threads() as left:
        planning = asyncio.create_task(_planned(hunks, read))
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.to_thread(begun.wait)
            planning.cancel()
            await asyncio.wait((planning,))
            await asyncio.wait(left)
    assert planning.cancelled()
    assert str(left[0].exception()) == "the work on this patch was stopped; nothing was changed"


def _is_running() -> bool:
    return any(thread.name == NAMED for thread in threading.enumerate())


@pytest.mark.torture
async def test_a_large_file_and_many_hunks_hold_up_nobody() -> None:
    """L6: the loop lagged 436 ms, and the thread went on after the limit."""
    content = "".join(f"    value_{n} = compute({n})\n" for n in range(360_000)).encode()
    changes = [line for n in range(40) for line in ("*** Update File: f", f"-value_{n * 9000} = compute({n * 9000})")]
    hunks = parse_patch(patch(*changes))
    planning = asyncio.create_task(_planned(hunks, {"f": content}.get))
    longest = 0.0
    async with asyncio.timeout(120):
        while not planning.done():
            before = monotonic()
            await asyncio.wait((planning,), timeout=0.005)
            longest = max(longest, monotonic() - before)
    with pytest.raises(LimitError):
        await planning
    assert not _is_running()
    assert longest < 1, "on a quiet machine it is under 0.1"


def test_no_step_of_the_work_is_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """L6, in short: each call into C gets a slice, and between two of them others run."""
    effort, checks = WorkBudget(), list[None]()
    monkeypatch.setattr(WorkBudget, "check", lambda _: checks.append(None))
    assert [len(some) for some in effort.some(range(50_000))] == [20_000, 20_000, 10_000]
    content = "x\n" * 2_000_000
    for work in (lambda: effort.lines(content), lambda: effort.find(content, "y", 0)):
        checks.clear()
        work()
        assert len(checks) >= 4
