"""Changes that are committed before anybody is told. Their refusal is in tests/durability/test_refused_changes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.testing import ScriptedModel
from tests.session.lives import Lives
from tests.session.staging import stage


async def test_a_changed_model_is_let_go_once_the_change_is_committed() -> None:
    """S000-34"""
    async with stage("one") as on:
        other = ScriptedModel(["two"])
        await on.root.set_context(model=other)
        assert (await on.root.message("hi")).text == "two"
        assert len(on.parts.wires) == 0


async def test_what_was_opened_forked_and_changed_is_there_after_a_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """F1: acknowledged is committed."""
    lives = Lives(monkeypatch, tmp_path)
    async with lives.start("one") as session:
        await session.root.message("hi")
        opened, fork = await session.open(title="opened"), await session.root.fork()
        await opened.set_context(title="changed")
        lives.die()
    async with lives.resumed(session.id) as again:
        assert [c.id for c in again.conversations()] == [session.root.id, opened.id, fork.id]
        assert again.conversation(opened.id).info.title == "changed"
