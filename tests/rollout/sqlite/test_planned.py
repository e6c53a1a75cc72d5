"""The steps of chains that go on after a crash: stored with their texts or without, counted, and read with all else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import tertulia
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.records import PlanRecord
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_session
from tertulia.rollout.store import StoredRow
from tertulia.testing import ScriptedModel

STEP = PlanRecord(ConversationId("c"), "target", TaskId("t"), "trace", {"index": 1})


def read_back(record: PlanRecord, policy: StoragePolicy) -> tuple[object, bool]:
    """(the record as it is read, whether its text is missing)."""
    rows = [
        StoredRow(
            *(getattr(row, name) for name in ("n", "kind", "type", "ts", "seq", "conversation", "task", "header")),
            row.stored_body,
        )
        for row in Codec(lambda body: body).record(record, policy, 1.0)
    ]
    (line,) = RowReader().lines(rows)
    return line.what, bool(line.missing)


def test_a_step_comes_back_as_it_was_and_without_its_text_says_so() -> None:
    """Issue 26, 2: a policy that keeps no texts keeps no plan."""
    assert read_back(STEP, Full()) == (STEP, False)
    assert read_back(STEP, HeadersOnly()) == (PlanRecord(STEP.conversation_id, "target", STEP.task_id, "trace"), True)
    mark = PlanRecord(STEP.conversation_id, "answered", STEP.task_id, "trace")
    assert read_back(mark, Full()) == (mark, False)


async def test_a_chain_is_counted_until_it_is_answered_and_its_session_is_read_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Issue 26, 2: a server finds what was cut without reading every session."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    counts: list[int] = []

    async def respond(request: object) -> str:
        await session.activity.flush()
        counts.append(find_session(tmp_path, session.id).cut_chains)
        return "hello"

    settings = tertulia.Settings(model=ScriptedModel([respond], repeat=True), on_restart="continue")
    async with tertulia.Session.start(settings) as session:
        await session.root.message("hi")
    counts.append(find_session(tmp_path, session.id).cut_chains)
    assert counts == [1, 0]
    with closing(SqliteReader(tmp_path / "sessions" / f"{session.id}.db")) as reader:
        types = [row.type for row in reader.rows(brief=True)]
    assert {"agent_message", "token_count", "chain", "answered"} <= set(types)
