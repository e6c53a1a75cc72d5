"""A recorder over the stores there are: what it relies on, they do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tertulia.policy.redaction import Redactor
from tertulia.protocol.events import BackgroundEvent, ErrorEvent, Event
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.recorder import Recorder
from tertulia.rollout.store import TtlAction
from tests.rollout import stages
from tests.rollout.canary import CANARY, sightings
from tests.rollout.recording import TASK, A, agreed, assistant, call, event, model_request, output, user
from tests.rollout.stages import MemoryStage, SqliteStage, Stage


@pytest.fixture(params=["memory", "sqlite"])
def stage(request: pytest.FixtureRequest, room: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return MemoryStage() if request.param == "memory" else SqliteStage(room, monkeypatch)


def recorder(stage: Stage, **options: Any) -> Recorder:
    return Recorder(stage.store(), stage.clock, Redactor().json, **options)


def lines(stage: Stage) -> list[RecordLine]:
    return list(RowReader().lines(stages.read(stage)))


def items_record(text: str) -> ItemsRecord:
    return ItemsRecord(A, (call(), output(text), user(text, id="u"), assistant(text)))


async def test_what_was_recorded_is_read_back(stage: Stage) -> None:
    """S002-15"""
    originals = [
        agreed(Full(), title="a title"),
        items_record("hello"),
        event(BackgroundEvent("hello")),
        model_request(),
    ]
    journal = recorder(stage)
    for what in originals:
        if isinstance(what, Event):
            journal.write(what)
        else:
            journal.keep(what)
    await journal.close()

    assert [line.what for line in lines(stage)] == originals


@pytest.mark.parametrize("policy", [HeadersOnly(), NoStorage()])
async def test_a_stricter_policy_leaves_nothing_of_the_texts(stage: Stage, room: Path, policy: StoragePolicy) -> None:
    """HARDENING E5, E1: in no file; what comes later is read as ever."""
    journal = recorder(stage)
    journal.keep(agreed(Full(), title=CANARY))
    journal.keep(model_request())
    journal.keep(items_record(CANARY))
    journal.write(event(ErrorEvent("limit", CANARY)))
    await journal.settle()
    journal.keep(agreed(policy, title=CANARY))
    journal.keep(items_record(CANARY))
    await journal.settle()
    journal.keep(agreed(Full(), title="later"))
    journal.keep(ItemsRecord(A, (user("later"),)))
    last = journal.write(event(BackgroundEvent("later"), seq=2))
    await journal.close()

    assert last is not None
    assert last.exception() is None
    assert [name for path in room.rglob("*") if path.is_file() for name in sightings(path.read_bytes())] == []
    found = lines(stage)
    assert not any(line.damaged for line in found)
    assert [line.what for line in found[-3:]] == [
        agreed(Full(), title="later"),
        ItemsRecord(A, (user("later"),)),
        event(BackgroundEvent("later"), seq=2),
    ]


@pytest.mark.parametrize("action", ["headers_only", "delete"])
@pytest.mark.parametrize("narrowed", [True, False])
async def test_what_has_expired_is_gone_and_the_rest_can_be_read(
    stage: Stage, action: TtlAction, narrowed: bool
) -> None:
    """S002-18, X-31: both ways of sweeping, for a policy that was so from the start or became so."""
    now = stages.NOW
    ts = "2023-11-14T22:13:20.000Z"
    journal = recorder(stage)
    journal.keep(agreed(Full() if narrowed else Ttl(60.0), title="early"))
    journal.keep(model_request())
    journal.keep(items_record("early"))
    journal.write(event(BackgroundEvent("early"), ts=ts))
    await journal.settle()
    journal.keep(agreed(Ttl(60.0), title="early"))
    await journal.settle()
    stage.clock.advance(100.0)
    swept: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    journal.store.sweep(now + 100.0, action, swept.set_result)
    await swept
    journal.keep(ItemsRecord(A, (user("later"),)))
    journal.keep(model_request())
    journal.write(event(BackgroundEvent("later"), seq=2, ts="2023-11-14T22:15:00.000Z"))
    await journal.close()

    found = lines(stage)
    assert b"early" not in b"".join(row.body or b"" for row in stages.read(stage))
    assert not any(line.damaged for line in found)
    assert found[-3].what == ItemsRecord(A, (user("later"),))
    assert found[-1].what.data == BackgroundEvent("later")
    assert found[-1].what.task_id == TASK
    assert any(line.what == agreed(Ttl(60.0)) for line in found), "what was agreed stays"


async def test_after_a_failure_of_the_store_records_come_first(stage: Stage) -> None:
    """HARDENING F5"""
    journal = recorder(stage)
    journal.keep(agreed(Full()))
    await journal.settle()
    stage.fail("full")
    journal.keep(items_record("one"))
    lost = journal.write(event(BackgroundEvent("lost")))
    assert lost is not None
    await asyncio.wait([lost])
    assert lost.exception() is not None

    stage.fail(None)
    again = journal.write(event(BackgroundEvent("two")))
    assert again is not None
    await again
    await journal.close()

    assert [line.what for line in lines(stage)][1:] == [items_record("one"), event(BackgroundEvent("two"))]
