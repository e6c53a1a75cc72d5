"""Stored sessions are looked at side by side with whatever else happens: other processes, other clients, damage."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from tertulia import Session, Settings, errors
from tertulia.scheduler.nursery import Nursery
from tertulia.session.records import turns
from tertulia.session.records.turns import ReadingTurns
from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S
from tests.session.records.looking import Looker, files_in_home, home, recorded


def start_writer() -> tuple[subprocess.Popen[str], str]:
    from tests.session.records import writer

    process = subprocess.Popen(
        [sys.executable, writer.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def answer(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


async def test_a_session_that_another_process_writes_is_read_as_far_as_it_has_come() -> None:
    """S001-49, D1: read-only; the owner goes on, and nothing is left beside its file."""
    process, id = start_writer()
    look = Looker()
    try:
        seen = 0
        for _ in range(4):
            last = answer(process)
            page = await look("page", session_id=id, after_n=seen)
            assert page["events"][-1]["seq"] == last
            seen = page["last_n"]
            board = await look("board", session_id=id, at_n=10**6)
            outline = await look("outline", session_id=id)
            assert board["seq"] == last
            assert outline["last_n"] >= seen
            (entry,) = (await look("list"))["records"]
            assert (entry["session_id"], entry["state"], entry["storage"]) == (id, "elsewhere", "full")
    finally:
        process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    names = {path.name for path in (home() / "sessions").iterdir()}
    assert names == {f"{id}.db", "index.db"}, "neither a journal nor a lock of ours"
    (entry,) = (await look("list"))["records"]
    assert entry["state"] == "stored"


async def test_the_list_tells_what_runs_here_what_it_cost_and_what_is_stored() -> None:
    """S004-26: newest first, in pages that a new session does not move."""
    first, _ = await recorded("hi", messages=1)
    silent, _ = await recorded("hi", storage_policy="headers_only")
    partly, _ = await recorded("hi", storage_policy={"ttl": 3600})
    look = Looker()
    session = await look.host.start(Settings(model=ScriptedModel(["yes"])))
    await session.root.message("Where is the key?")
    listed = await look("list", limit=2)
    assert [entry["session_id"] for entry in listed["records"]] == [session.id, partly.id]
    top = listed["records"][0]
    assert (top["state"], top["preview"], top["conversations"], top["storage"]) == (
        "here",
        "Where is the key?",
        1,
        "full",
    )
    assert top["tokens"] > 0
    await recorded("newer")
    rest = await look("list", limit=2, before=listed["next"])
    assert [entry["session_id"] for entry in rest["records"]] == [silent.id, first.id]
    assert rest["next"] is None
    assert [entry["storage"] for entry in (*listed["records"], *rest["records"])] == ["full", "partly", "none", "full"]
    await look.host.close()


async def test_a_session_that_was_closed_is_no_more_among_those_that_run_here() -> None:
    """Also where the program closed it itself, and the host still knows it."""
    look = Looker()
    session = await look.host.start(Settings(model=ScriptedModel(["yes"])))
    await session.root.message("Well?")
    states = [(await look("list"))["records"][0]["state"]]
    await session.close()
    states.append((await look("list"))["records"][0]["state"])
    await look.host.close()
    assert states == ["here", "stored"]


async def test_a_list_can_be_asked_for_a_text_or_the_beginning_of_an_id() -> None:
    one, _ = await recorded("hi", messages=1)
    look = Looker()
    session = await look.host.start(Settings(model=ScriptedModel(["yes"])))
    await session.root.message("Where is the KEY?")
    await look.host.close()
    for query, found in (("key", [session.id]), (one.id[:8], [one.id]), ("QUESTION 0", [one.id]), ("nothing", [])):
        assert [entry["session_id"] for entry in (await look("list", query=query))["records"]] == found
    assert len((await look("list", query=" "))["records"]) == 2
    for wrong in ({"limit": 0}, {"limit": 501}, {"before": "x"}, {"query": 7}, {"query": "x" * 1_001}):
        with pytest.raises(errors.InvalidParamsError):
            await look("list", **wrong)


async def test_an_observer_looks_without_a_session_of_its_own() -> None:
    """UI.md 7.4: three looks made three stored sessions once."""
    session, _ = await recorded("hi")
    before, look = files_in_home(), Looker()
    await look("list")
    await look("page", session_id=session.id)
    assert files_in_home() == before
    assert len(look.host) == 0


# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_few_read_at_a_time_and_each_gets_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A6: many clients that look at once take few threads, and none is forgotten."""
    now = most = 0

    async def run(function: Any, *args: Any) -> Any:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0)
        now -= 1
        return function(*args)

    monkeypatch.setattr(turns, "run_in_thread", run)
    reading = ReadingTurns(Nursery())
    assert await asyncio.gather(*(reading.run(abs, -number) for number in range(20))) == list(range(20))
    assert (most, now) == (turns.MAX_AT_ONCE, 0)


async def test_a_caller_that_leaves_gives_its_turn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()

    async def run(function: Any, *args: Any) -> Any:
        await gate.wait()
        return function(*args)

    monkeypatch.setattr(turns, "run_in_thread", run)
    monkeypatch.setattr(turns, "MAX_WAITING", 2)
    nursery = Nursery()
    reading = ReadingTurns(nursery)
    callers = [asyncio.ensure_future(reading.run(abs, -number)) for number in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(errors.BusyError):
        await reading.run(abs, 5)
    callers[0].cancel()
    callers[2].cancel()
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert [result for result in results if isinstance(result, int)] == [1, 3]
    assert await reading.run(abs, -9) == 9
    assert len(nursery) == 0


async def test_a_refusal_reaches_the_caller_and_the_next_one_reads() -> None:
    reading = ReadingTurns(Nursery())

    def refuse() -> None:
        raise errors.NotFoundError("nothing here")

    for _ in range(turns.MAX_AT_ONCE + 1):
        with pytest.raises(errors.NotFoundError):
            await reading.run(refuse)
    assert await reading.run(abs, -1) == 1


async def test_a_session_is_used_while_its_record_is_read() -> None:
    async with Session.start(Settings(model=ScriptedModel(["a", "b"]))) as session:
        look = Looker()
        await session.root.message("one")
        _, page = await asyncio.gather(session.root.message("two"), look("page", session_id=session.id))
        assert page["events"]


async def test_a_session_is_deleted_for_good_but_not_one_that_is_open() -> None:
    """S004-26, issue 23: of one that runs, here or in another process, all stays."""
    gone, _ = await recorded("hi", messages=1)
    look = Looker()
    here = await look.host.start(Settings(model=ScriptedModel(["yes"])))
    await here.root.message("Well?")
    process, elsewhere = start_writer()
    try:
        for id in (here.id, elsewhere):
            with pytest.raises(errors.BusyError):
                await look("delete", session_id=id)
    finally:
        process.communicate(timeout=HANG_S)
    for id in ("../config", "00000000-0000-4000-8000-000000000000", ""):
        with pytest.raises(errors.NotFoundError):
            await look("delete", session_id=id)
    assert await look("delete", session_id=gone.id) == {"session_id": gone.id}
    assert {entry["session_id"] for entry in (await look("list"))["records"]} == {here.id, elsewhere}
    assert not list((home() / "sessions").glob(f"{gone.id}*"))
    with pytest.raises(errors.NotFoundError):
        await look("delete", session_id=gone.id)
    await look.host.close()
