"""What `session/info` says that cannot be held."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tertulia.sandbox import sandbox
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.launcher.landlock_tier import NOT_COVERED
from tertulia.sandbox.launcher.launched_process import may_remain
from tests.sandbox.confined import need
from tests.session.staging import stage

AGENT = {"command": [sys.executable, "-c", "print('hi')"], "sandbox": {"workspace-write": []}}


async def test_with_bubblewrap_and_our_own_loop_nothing_is_left_open() -> None:
    need("bubblewrap")
    async with stage(sandbox_tier="bubblewrap") as acting:
        assert acting.session.info.not_held == []


async def test_s1_another_agents_own_sandbox_is_named() -> None:
    """S1, S9: an agent keeps its own home, and what we cannot keep from it is told."""
    need("bubblewrap")
    async with stage(sandbox_tier="bubblewrap", executors={"other": AGENT}) as acting:
        other = await acting.session.open(backend="command:other")
        (sentence,) = acting.session.info.not_held
        assert sentence.startswith("command:other runs in its own sandbox")
        await other.close()
        assert acting.session.info.not_held == []


async def test_s1_a_home_that_an_agent_may_write_is_named(tmp_path: Path) -> None:
    """S1"""
    settings = {"cwd": str(tmp_path), "allow_home_workspace": True, "executors": {"other": AGENT}}
    async with stage(sandbox_tier="bubblewrap", **settings) as acting:
        await acting.session.open(backend="command:other")
        assert any("may write whatever lies in the workspace" in each for each in acting.session.info.not_held)


async def test_full_access_is_named() -> None:
    async with stage(sandbox="danger-full-access", sandbox_tier="bubblewrap") as acting:
        assert any("danger-full-access is not confined" in each for each in acting.session.info.not_held)


async def test_s6_the_lesser_tier_is_named() -> None:
    """S6: what Landlock cannot hold stands in the session's info too."""
    async with stage(sandbox_tier="landlock") as acting:
        assert acting.session.info.not_held[: len(NOT_COVERED)] == [*NOT_COVERED]


async def test_a_session_that_comes_to_the_lesser_tier_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN, changed since: one warning."""
    need("landlock")
    monkeypatch.setitem(sandbox._TIERS, "auto", lambda: BubblewrapTier("/no/such/bwrap"))
    async with stage() as acting:
        runner = acting.parts.command_services.sandbox
        for _ in range(2):
            assert (await runner.check()).tier == "landlock"
        assert acting.session.info.not_held == [*NOT_COVERED, *may_remain(runner._tier._launcher.namespace)]
        warning = await acting.until("warning")
        assert warning.data.code == "sandbox_tier"
        assert "/no/such/bwrap is missing" in warning.data.message
        assert [event.data.type for event in acting.events.drain()].count("warning") == 1
