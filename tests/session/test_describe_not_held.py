"""What `session/info` says that cannot be held."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import SandboxUnavailableError
from tertulia.protocol.events import WarningEvent
from tertulia.sandbox import availability
from tertulia.sandbox.availability import install_command
from tertulia.sandbox.launcher import landlock
from tertulia.sandbox.launcher.landlock_tier import NOT_COVERED
from tertulia.sandbox.tier import may_remain
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.session.staging import Stage, stage

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
        assert any("may write whatever lies in the workspace" in gap for gap in acting.session.info.not_held)


async def test_full_access_is_named() -> None:
    async with stage(sandbox="danger-full-access", sandbox_tier="bubblewrap") as acting:
        assert any("danger-full-access is not confined" in gap for gap in acting.session.info.not_held)


async def test_s6_the_lesser_tier_is_named() -> None:
    """S6: what Landlock cannot hold stands in the session's info too."""
    async with stage(sandbox_tier="landlock") as acting:
        assert acting.session.info.not_held[: len(NOT_COVERED)] == [*NOT_COVERED]


async def next_warning(acting: Stage) -> WarningEvent:
    """The first one of the session, from its first event on."""
    async with asyncio.timeout(HANG_S):
        async for event in acting.session.events(after=0):
            if isinstance(event.data, WarningEvent):
                return event.data
    raise AssertionError("the session ended without a warning")


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "BWRAP", "/no/such/bwrap")


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_session_that_comes_to_the_lesser_tier_says_so_once_and_at_its_start() -> None:
    """Issue 19, 9: before any command, in a warning and in its info; and the first command does not say it again."""
    need("landlock")
    async with stage() as acting:
        warning = await next_warning(acting)
        assert warning.code == "sandbox_tier"
        assert "/no/such/bwrap is missing" in warning.message
        info = acting.session.info
        assert info.sandbox_tier == "landlock"
        assert info.not_held[: len(NOT_COVERED)] == [*NOT_COVERED]
        runner = acting.parts.command_services.sandbox
        for _ in range(2):
            assert (await runner.check()).tier == "landlock"
        assert acting.session.info.not_held == [*NOT_COVERED, *may_remain(runner._tier._launcher.namespace)]
        assert acting.session.info.sandbox_tier == "landlock"
        assert "warning" not in [event.data.type for event in acting.events.drain()]


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_session_in_which_nothing_can_be_confined_says_so_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 19, 9: with the command that installs it."""
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    async with stage() as acting:
        warning = await next_warning(acting)
        assert warning.code == "sandbox_unavailable"
        assert warning.message.startswith("commands will be refused")
        assert install_command() in warning.message
        assert acting.session.info.sandbox_tier is None
        with pytest.raises(SandboxUnavailableError, match="has no Landlock"):
            await acting.parts.command_services.sandbox.check()


@pytest.mark.usefixtures("no_bubblewrap")
@pytest.mark.parametrize(
    "settings",
    [{"sandbox": "danger-full-access"}, {"shell_mode": "none", "include_apply_patch_tool": False}],
)
async def test_a_session_that_confines_no_command_says_nothing_of_it(settings: dict[str, Any]) -> None:
    async with stage(**settings) as acting:
        acting.parts.bus.publish(WarningEvent("the end", "end"))
        assert (await next_warning(acting)).code == "end"


async def test_a_bubblewrap_that_may_not_make_namespaces_is_found_out_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Issue 19, 9: it is tried once, beside the session."""
    need("landlock")
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(availability, "BWRAP", str(program))
    monkeypatch.setattr(availability, "_check_owner", lambda path: None)
    async with stage() as acting:
        warning = await next_warning(acting)
        assert "cannot make namespaces here (bwrap: setting up uid map: Permission denied)" in warning.message
        assert acting.session.info.sandbox_tier == "landlock"


async def test_the_tier_is_named_where_nothing_is_amiss() -> None:
    need("bubblewrap")
    async with stage() as acting:
        assert acting.session.info.sandbox_tier == "bubblewrap"
    async with stage(sandbox="danger-full-access") as acting:
        assert acting.session.info.sandbox_tier == "none"
