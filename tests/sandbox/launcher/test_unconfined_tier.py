"""Tier none: only for `danger_full_access`, and that in nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.launcher.unconfined_tier import UnconfinedTier
from tertulia.sandbox.runner import Output
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import ProcessEnd
from tests.sandbox.confined import DEADLINE_S, Place


async def test_only_full_access_leaves_the_sandbox_and_needs_none(place: Place, tmp_path: Path) -> None:
    """A20: the same sandbox that refuses everything else."""
    sandbox = Sandbox(tier=BubblewrapTier("/no/such/bwrap"), clock=SystemClock())
    command = place.command("touch", str(tmp_path / "outside"))
    for mode in ("read_only", "workspace_write"):
        with pytest.raises(SandboxUnavailableError):
            await sandbox.run(replace(command, confinement=replace(command.confinement, mode=mode)))
        assert not (tmp_path / "outside").exists()
    danger = replace(command, confinement=replace(command.confinement, mode="danger_full_access"))
    running = await sandbox.start(danger)
    assert running.tier == "none"
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert finished.exit_code == 0
    assert (tmp_path / "outside").exists()
    await sandbox.close()


async def test_a_directory_of_the_commands_own_goes_with_it(place: Place, tmp_path: Path) -> None:
    """S003-24: by the keeper, which is there when we are not."""
    sandbox = Sandbox(tier=BubblewrapTier("/no/such/bwrap"), clock=SystemClock())
    own = tmp_path / "own"
    own.mkdir()
    (own / "said").write_text("secret")
    command = place.command("true")
    danger = replace(command.confinement, mode="danger_full_access")
    finished = await sandbox.run(replace(command, confinement=danger, temporary=str(own)), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0
    assert not own.exists()
    await sandbox.close()


def test_it_finds_nothing_and_adds_nothing() -> None:
    tier = UnconfinedTier()
    assert tier.find() == ""
    assert tier.conclude(ProcessEnd(1), Output(b"MemoryError", b"", 11)) == ProcessEnd(1)
    assert tier.not_covered
    tier.close()
