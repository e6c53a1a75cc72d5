"""The store in memory. Its contract is in test_store.py; here is what only it can do."""

from __future__ import annotations

from tertulia.errors import StorageError
from tests.rollout.memory_store import MemoryReader, MemoryRecords, MemoryStore
from tests.rollout.stages import NOW, answer_from, row
from tests.rollout.still_clock import FakeClock


async def test_records_outlive_their_store_and_errors_are_what_a_test_says() -> None:
    records = MemoryRecords()
    store = MemoryStore(records, FakeClock(NOW))
    await answer_from(store.append, [row(1)], 0)
    records.trouble = StorageError("memory: the disk is on fire", kind="io")
    assert await answer_from(store.append, [row(2)], 1) is records.trouble
    assert await answer_from(store.enforce, 1, row(1).policy, (), 2) is records.trouble
    records.trouble = None
    assert await answer_from(store.append, [row(2)], 3) is None
    await answer_from(store.close)
    reader = MemoryReader(records)
    assert [found.n for found in reader.rows()] == [1, 2]
    assert reader.ends() == (2, 2)
    reader.close()
