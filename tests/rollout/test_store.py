"""The contract of a store: every member runs through all of this."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import BusyError, ClosedError, StorageError, StoragePolicyViolationError
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.rollout.store import Row, SweepResult, allows_body
from tests.rollout.stages import NOW, AnyStore, MemoryStage, SqliteStage, Stage, answer_from, begun, read, row, same


@pytest.fixture(params=["memory", "sqlite"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return MemoryStage() if request.param == "memory" else SqliteStage(tmp_path / "home", monkeypatch)


@pytest.fixture
async def store(stage: Stage) -> AsyncIterator[AnyStore]:
    store = stage.store()
    yield store
    with contextlib.suppress(ClosedError):  # the test may have done it
        await answer_from(store.close)


# ── appending and reading ────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_acknowledged_is_read_back_in_order(stage: Stage, store: AnyStore) -> None:
    """S002-15: records come back as they were, gaps in n and all."""
    rows = [
        row(1, kind="conversation", type="", seq=None, conversation=0),
        row(2, None, HeadersOnly()),
        row(5, b"\x00\xff not even text \xe2\x80\xa8 ", Ttl(9), task=2, source=1, header=b'{"a":"\xc3\xa9"}'),
        row(2**62, ts=NOW + 0.123456789),
    ]
    assert await answer_from(store.append, rows[:3], 0) is None
    assert await answer_from(store.append, rows[3:], 0) is None
    assert read(stage) == [same(row) for row in rows]
    assert [found.n for found in read(stage, after=2)] == [5, 2**62]
    assert read(stage, after=2**62) == []


async def test_done_is_never_called_before_append_returns_and_comes_in_order(stage: Stage, store: AnyStore) -> None:
    answers: list[object] = []
    for n in range(1, 200):
        store.append([row(n)], 0, lambda error, n=n: answers.append((n, error)))
        assert len(answers) < n
    store.enforce(1, HeadersOnly(), (), 0, lambda error: answers.append(("enforce", error)))
    store.sweep(NOW, "headers_only", lambda swept: answers.append(("sweep", swept)))
    assert await answer_from(store.close) is None
    assert answers == [*((n, None) for n in range(1, 200)), ("enforce", None), ("sweep", SweepResult())]


async def test_a_reader_beside_the_owner_sees_what_is_committed_and_goes_on_from_there(
    stage: Stage, store: AnyStore
) -> None:
    """Issue 5, 6: a second process follows."""
    await answer_from(store.append, [row(1)], 0)
    reader = stage.reader()
    assert [found.n for found in reader.rows()] == [1]
    await answer_from(store.append, [row(2), row(3)], 0)
    assert [found.n for found in reader.rows(1)] == [2, 3]
    assert list(reader.rows(3)) == []
    reader.close()


async def test_a_whole_append_is_refused_for_one_record_that_breaks_its_policy(stage: Stage, store: AnyStore) -> None:
    """A write that would break a policy is a StoragePolicyViolation, and nothing of it is kept."""
    await answer_from(store.append, [row(1)], 0)
    for policy in (HeadersOnly(), NoStorage()):
        with pytest.raises(StoragePolicyViolationError):
            store.append([row(2), row(3, b"canary", policy)], 0, lambda error: pytest.fail("called"))
    await answer_from(store.append, [row(4)], 0)
    assert [found.n for found in read(stage)] == [1, 4]


def test_which_policies_allow_a_body() -> None:
    policies: list[StoragePolicy] = [Full(), Ttl(1), HeadersOnly(), NoStorage()]
    assert [allows_body(policy) for policy in policies] == [True, True, False, False]


def test_a_record_knows_when_it_expires() -> None:
    assert row(1, policy=Ttl(60)).expires == NOW + 60
    assert row(1).expires is None


async def test_a_number_that_is_taken_fails_the_append_and_changes_nothing(stage: Stage, store: AnyStore) -> None:
    await answer_from(store.append, [row(1)], 0)
    error = await answer_from(store.append, [row(2), row(1, b"other")], 1)
    assert isinstance(error, StorageError)
    assert read(stage) == [same(row(1))]
    assert await answer_from(store.append, [row(2)], 2) is None


# ── failing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["full", "io"])
async def test_everything_of_a_failed_attempt_fails_and_a_higher_one_goes_on(
    stage: Stage, store: AnyStore, kind: str
) -> None:
    """F5, F6: one clear error, no acknowledgement, nothing half there; it goes on when the disk does."""
    await answer_from(store.append, [row(1)], 0)
    stage.fail(kind)
    waiting = [begun(store.append, [row(2)], 1), begun(store.append, [row(3)], 1)]
    errors = [await approval for approval in waiting]
    assert all(isinstance(error, StorageError) for error in errors)
    assert errors[0].detail["kind"] == kind
    stage.fail(None)
    late = await answer_from(store.append, [row(4)], 1)
    assert late is errors[-1]
    assert await answer_from(store.append, [row(5)], 0) is late
    assert await answer_from(store.enforce, 1, HeadersOnly(), (), 1) is late
    assert read(stage) == [same(row(1))]
    assert await answer_from(store.append, [row(2)], 2) is None
    assert read(stage) == [same(row(1)), same(row(2))]


async def test_a_failed_enforce_fails_its_attempt_too(stage: Stage, store: AnyStore) -> None:
    await answer_from(store.append, [row(1)], 0)
    stage.fail("flush")
    await answer_from(store.append, [row(2)], 1)
    error = await answer_from(store.enforce, 1, HeadersOnly(), (), 2)
    assert isinstance(error, StorageError)
    assert await answer_from(store.append, [row(3)], 2) is error
    assert read(stage) == [same(row(1))]


async def test_nothing_is_acknowledged_after_a_flush_has_failed(stage: Stage, store: AnyStore) -> None:
    """F6: what the kernel could not write it may have forgotten."""
    await answer_from(store.append, [row(1)], 0)
    stage.fail("flush")
    await answer_from(store.append, [row(2)], 0)
    stage.fail(None)
    for attempt in (1, 2, 3):
        error = await answer_from(store.append, [row(9 + attempt)], attempt)
        assert error.detail["kind"] == "flush"
    assert (await answer_from(store.sweep, NOW, "delete")).detail["kind"] == "flush"
    await answer_from(store.close)
    after = stage.store()
    assert await answer_from(after.append, [row(20)], 0) is None
    assert [found.n for found in read(stage)] == [1, 20]
    await answer_from(after.close)


async def test_a_sweep_that_fails_fails_alone(stage: Stage, store: AnyStore) -> None:
    await answer_from(store.append, [row(1)], 0)
    if isinstance(stage, MemoryStage):
        stage.fail("full")
        assert isinstance(await answer_from(store.sweep, NOW, "delete"), StorageError)
        stage.fail(None)
    assert await answer_from(store.append, [row(2)], 0) is None


# ── policies that become stricter ────────────────────────────────────────────────────────────────────────────────────


def two_conversations() -> list[Row]:
    return [
        row(1, b'"named"', kind="conversation", type="", conversation=0),
        row(2, b'"named too"', kind="conversation", type="", conversation=0),
        row(3, type="task_started"),
        row(4, type="agent_message"),
        row(5, type="agent_message", conversation=2),
        row(6, None, HeadersOnly(), type="agent_message"),
    ]


async def test_headers_only_takes_every_body_of_that_conversation_and_no_other(stage: Stage, store: AnyStore) -> None:
    """E5, S002-16: switching Full to HeadersOnly removes old bodies."""
    rows = two_conversations()
    await answer_from(store.append, rows, 0)
    assert await answer_from(store.enforce, 1, HeadersOnly(), (), 0) is None
    assert read(stage) == [
        same(replace(row, body=None) if row.conversation == 1 or row.n == 1 else row) for row in rows
    ]


async def test_none_leaves_the_skeleton_without_bodies(stage: Stage, store: AnyStore) -> None:
    """S002-17: only that something started, ended or failed."""
    rows = two_conversations()
    await answer_from(store.append, rows, 0)
    assert await answer_from(store.enforce, 1, NoStorage(), ("task_started", "task_complete"), 0) is None
    assert [(found.n, found.body) for found in read(stage)] == [
        (1, None),
        (2, b'"named too"'),
        (3, None),
        (5, b'"said"'),
    ]
    assert await answer_from(store.enforce, 1, NoStorage(), (), 0) is None
    assert [found.n for found in read(stage)] == [1, 2, 5]


async def test_a_ttl_takes_what_is_older_now_and_the_rest_when_its_time_comes(stage: Stage, store: AnyStore) -> None:
    """S002-18: no body older than that, now or later; a shorter life of its own stays shorter."""
    rows = [
        row(1, ts=NOW - 100),
        row(2, ts=NOW - 5),
        row(3, policy=Ttl(2), ts=NOW - 1),
        row(4, conversation=2, ts=NOW - 100),
    ]
    await answer_from(store.append, rows, 0)
    assert await answer_from(store.enforce, 1, Ttl(60), (), 0) is None
    assert [found.body is None for found in read(stage)] == [True, False, False, False]
    assert await answer_from(store.sweep, NOW, "headers_only") == SweepResult(next_due=NOW + 1)
    assert await answer_from(store.sweep, NOW + 1, "headers_only") == SweepResult(bodies=1, next_due=NOW + 55)
    assert await answer_from(store.sweep, NOW + 55, "headers_only") == SweepResult(bodies=1)
    assert [found.body is None for found in read(stage)] == [True, True, True, False]


async def test_full_asks_for_nothing(stage: Stage, store: AnyStore) -> None:
    await answer_from(store.append, [row(1)], 0)
    assert await answer_from(store.enforce, 1, Full(), (), 0) is None
    assert read(stage) == [same(row(1))]


# ── sweeping ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_sweep_takes_what_has_expired_by_then(stage: Stage, store: AnyStore) -> None:
    rows = [row(1), row(2, policy=Ttl(10)), row(3, None, Ttl(10)), row(4, policy=Ttl(20))]
    await answer_from(store.append, rows, 0)
    assert await answer_from(store.sweep, NOW + 9, "headers_only") == SweepResult(next_due=NOW + 10)
    assert await answer_from(store.sweep, NOW + 10, "headers_only") == SweepResult(bodies=1, next_due=NOW + 20)
    assert [found.body is None for found in read(stage)] == [False, True, True, False]
    assert not any(found.damaged for found in read(stage))
    assert await answer_from(store.sweep, NOW + 10, "delete") == SweepResult(rows=2, next_due=NOW + 20)
    assert await answer_from(store.sweep, NOW + 99, "delete") == SweepResult(rows=1)
    assert [found.n for found in read(stage)] == [1]


async def test_how_it_began_is_never_deleted_whole(stage: Stage, store: AnyStore) -> None:
    """S002-18: without those headers nobody could go on with what is younger."""
    began = [row(1, policy=Ttl(10), type="session_configured"), row(2, None, Ttl(10), type="conversation_opened")]
    rows = [*began, row(3, policy=Ttl(10), kind="agreed"), row(4, policy=Ttl(10)), row(5)]
    await answer_from(store.append, rows, 0)
    assert await answer_from(store.sweep, NOW + 10, "delete") == SweepResult(bodies=2, rows=1)
    assert [(found.n, found.body is None) for found in read(stage)] == [(1, True), (2, True), (3, True), (5, False)]
    assert not any(found.damaged for found in read(stage))
    assert await answer_from(store.sweep, NOW + 99, "delete") == SweepResult()


async def test_a_clock_that_went_back_does_not_lengthen_a_life(stage: Stage, store: AnyStore) -> None:
    """E4: the newest record's time counts where it is later than now."""
    await answer_from(store.append, [row(1, policy=Ttl(10)), row(2, ts=NOW + 30)], 0)
    assert await answer_from(store.sweep, NOW - 1e6, "headers_only") == SweepResult(bodies=1)
    await answer_from(store.append, [row(3, policy=Full())], 0)
    stage.clock.set_wall(NOW - 1e6)
    assert await answer_from(store.enforce, 1, Ttl(30), (), 0) is None
    assert [found.body is None for found in read(stage)] == [True, False, True]


async def test_a_sweep_of_nothing(stage: Stage, store: AnyStore) -> None:
    assert await answer_from(store.sweep, NOW, "headers_only") == SweepResult()
    assert await answer_from(store.sweep, NOW, "delete") == SweepResult()


# ── owning ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_there_is_one_owner_at_a_time(stage: Stage, store: AnyStore) -> None:
    """F9: the second is refused, with the way to look on, and disturbs nothing."""
    assert await answer_from(store.claim) is None
    assert await answer_from(store.claim) is None
    await answer_from(store.append, [row(1)], 0)
    second = stage.store()
    refused = await answer_from(second.claim)
    assert isinstance(refused, BusyError)
    assert "--follow" in refused.message
    rows = await answer_from(second.append, [row(2)], 0)
    assert isinstance(rows, StorageError)
    assert rows.message == refused.message
    await answer_from(second.close)
    assert await answer_from(store.append, [row(3)], 0) is None
    assert [found.n for found in read(stage)] == [1, 3]
    await answer_from(store.close)
    third = stage.store()
    assert await answer_from(third.claim) is None
    assert await answer_from(third.append, [row(4)], 0) is None
    await answer_from(third.close)
    assert [found.n for found in read(stage)] == [1, 3, 4]


async def test_after_close_nothing_is_taken(stage: Stage, store: AnyStore) -> None:
    waiting = begun(store.append, [row(1)], 0)
    assert await answer_from(store.close) is None
    assert waiting.done()
    assert waiting.result() is None
    for act in (
        lambda: store.append([row(2)], 0, pytest.fail),
        lambda: store.close(pytest.fail),
        lambda: store.claim(pytest.fail),
    ):
        with pytest.raises(ClosedError):
            act()
    assert read(stage) == [same(row(1))]


async def test_a_store_that_was_never_used_closes_and_leaves_nothing(stage: Stage) -> None:
    answers: list[object] = []
    store = stage.store()
    store.close(answers.append)
    assert answers == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert answers == [None]
    assert store.place
    if isinstance(stage, SqliteStage):
        assert not stage.home.exists()


async def test_a_done_that_raises_does_not_keep_the_others_from_being_told(stage: Stage, store: AnyStore) -> None:
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context["exception"]))

    def bad(error: object) -> None:
        raise ValueError("mine")

    await answer_from(store.claim)
    store.append([row(1)], 0, bad)
    assert await answer_from(store.append, [row(2)], 0) is None
    assert [type(error) for error in raised] == [ValueError]
