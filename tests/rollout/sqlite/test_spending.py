"""What a stored session has spent on models, for the budget of its next life."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import tertulia
from tertulia.events.clock import SystemClock
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.testing import ScriptedModel, fail

PRICES = {"scripted/inline": {"input": 2.0, "output": 4.0}, "scripted/other": {"input": 2.0, "output": 4.0}}


async def test_the_tokens_and_dollars_of_all_requests_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Issue 24 (3): a budget counts over resumes. What a failed request would have used is not known."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    settings = tertulia.Settings(model=ScriptedModel(["one", fail("gone"), "two"]), model_prices=PRICES)
    async with tertulia.Session.start(settings) as session:
        replies = [await session.root.message("go") for _ in range(3)]
        cost = (await session.metrics()).session.cost_usd
    tokens = sum(reply.usage.total_tokens for reply in replies)
    with closing(SqliteReader(find_files(tmp_path, session.id).db, SystemClock())) as reader:
        assert reader.spending() == (tokens, pytest.approx(cost or 0.0))
        counts = reader.token_counts()
    assert len(counts) == 2


async def test_a_header_that_cannot_be_read_counts_as_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["one"]))) as session:
        await session.root.message("go")
    with closing(SqliteReader(find_files(tmp_path, session.id).db, SystemClock())) as reader:
        monkeypatch.setattr(reader, "token_counts", lambda: ['{"usage": "many", "cost_usd": "much"}', "{"])
        assert reader.spending() == (0, 0.0)
